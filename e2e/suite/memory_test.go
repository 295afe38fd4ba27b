package suite

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"ramcloud.dev/e2e/load"
)

const (
	fullServers = 4
	fullMemory  = 384 << 20 // of each server's log
	fullPercent = 85        // of all of it, by live objects
	fullValue   = 20_000
	// Headers and key of an object, and its part of the group (docs/formats.md).
	besideValue  = 64
	fillDeadline = 15 * time.Minute
)

// overwriteTime is how long a table that fills the memory is overwritten: RAMCLOUD_MEMORY_TIME, or five minutes.
func overwriteTime() time.Duration {
	GinkgoHelper()
	text := os.Getenv("RAMCLOUD_MEMORY_TIME")
	if text == "" {
		return 5 * time.Minute
	}
	length, err := time.ParseDuration(text)
	Expect(err).NotTo(HaveOccurred(), "RAMCLOUD_MEMORY_TIME")
	return length
}

// cleanedServer is what `ramcloud servers -o json` prints of a server's memory.
type cleanedServer struct {
	Name, State string
	Total       uint64 `json:"log_bytes_total"`
	Memory      struct {
		Live uint64 `json:"live_bytes"`
	}
	Cleaner struct{ Mode, Why string }
}

// memories are those of the servers that are up.
func memories(name string) []cleanedServer {
	GinkgoHelper()
	all := decode[[]cleanedServer](must(onCluster(name, "servers", "-o", "json")))
	return slices.DeleteFunc(all, func(one cleanedServer) bool { return one.State != "UP" })
}

// livePercent is how much of the memory of all servers has live objects.
func livePercent(name string) uint64 {
	GinkgoHelper()
	live, total := uint64(0), uint64(0)
	for _, one := range memories(name) {
		live, total = live+one.Memory.Live, total+one.Total
		check("%s: %d of %d MB are live; cleaner %s: %s", one.Name, one.Memory.Live>>20, one.Total>>20, one.Cleaner.Mode, one.Cleaner.Why)
	}
	Expect(total).NotTo(BeZero())
	return 100 * live / total
}

// cleaningRuns are how many passes of cleaning each server has ended, by pod.
func cleaningRuns(name string) map[string]float64 {
	GinkgoHelper()
	out := map[string]float64{}
	for _, one := range memories(name) {
		page := string(must(kubectl("get", "--raw", "/api/v1/namespaces/default/pods/"+one.Name+":11202/proxy/metrics")))
		found := sums(page)
		Expect(found).To(HaveKey("ramcloud_cleaner_runs_total"))
		out[one.Name] = found["ramcloud_cleaner_runs_total"]
	}
	return out
}

var _ = Describe("servers whose memory is full", Ordered, ContinueOnFailure, Label("memory"), func() {
	const name, replicas = "full", 2

	BeforeAll(func() {
		spec := small("Delete")
		spec["servers"] = map[string]any{"replicas": fullServers, "memory": map[string]any{"log": fmt.Sprint(fullMemory>>20, "Mi")},
			"template": map[string]any{"topologySpread": []any{map[string]any{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}}}}
		// Replicas of what the pod held are made again, and what it has is needed until then: disks are no part of this.
		spec["servers"].(map[string]any)["backupStorage"] = map[string]any{"size": "4Gi"}
		spec["replicationFactor"] = replicas
		declare(name, spec)
		waitReady(name)
	})

	It("lose nothing of a table that is overwritten, when a pod is deleted by force", func() {
		length := overwriteTime()
		work := startCheckerOf(outsideOf(name), load.Shape{Span: fullServers, Bytes: fullValue, All: true,
			Keys: fullServers * fullMemory / 100 * fullPercent / (fullValue + besideValue), Rate: 100, Timeout: podDeadline}, fillDeadline)
		Expect(livePercent(name)).To(BeNumerically(">=", fullPercent-1))
		began, before, claimed := time.Now(), cleaningRuns(name), volumes(name)
		time.Sleep(length / 3) // the load goes on: nothing is waited for

		pod := name + "-server-1"
		was := incarnationOf(pod)
		uid := string(must(kubectl("get", "pod", pod, "-o", "jsonpath={.metadata.uid}")))
		survivors := slices.DeleteFunc(podUIDs(name, ""), func(one string) bool { return strings.HasPrefix(one, pod+"/") })
		must(kubectl("delete", "pod", pod, "--force", "--grace-period=0"))
		waitForNewPod(pod, uid)
		waitWhole(name, replicas)
		recorded(name, pod, was)

		time.Sleep(length - min(length, time.Since(began)))
		Expect(livePercent(name)).To(BeNumerically(">=", fullPercent-1), "all of the table is there")
		for server, runs := range cleaningRuns(name) {
			if server != pod {
				Expect(runs).To(BeNumerically(">", before[server]), "passes of cleaning of %s", server)
			}
		}
		// Each key is read once more. The time without an operation is not judged: part of the data waits for the pod.
		work.finishWithin(load.Limits{Expected: lostReplies})
		waitWhole(name, replicas)
		Expect(volumes(name)).To(Equal(claimed))
		Expect(podUIDs(name, "")).To(ContainElements(survivors), "no other was restarted")
		check("a table of %d %% of the memory was overwritten for %s, and %s was re-created meanwhile", fullPercent, time.Since(began).Round(time.Second), pod)
	})
})
