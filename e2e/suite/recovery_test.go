package suite

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"ramcloud.dev/e2e/load"
)

// recoveryObject is a RAMCloudRecovery, with the fields that the cases check.
type recoveryObject struct {
	Metadata struct{ Name string }
	Status   struct {
		ServerID   string `json:"serverId"`
		ServerName string
		State      string
		Outcome    string
		TimelineMs struct{ Verdict, Served *int64 }
	}
}

// recoveries returns the recoveries of a cluster that the operator has recorded, by the id of the server that
// crashed.
func recoveries(name string) map[string]recoveryObject {
	GinkgoHelper()
	out := map[string]recoveryObject{}
	for _, one := range decode[struct{ Items []recoveryObject }](must(kubectl("get", "rcr", "-l", "ramcloud.dev/cluster="+name, "-o", "json"))).Items {
		out[one.Status.ServerID] = one
	}
	return out
}

// recorded waits until the recovery of a crashed or deleted server is recorded as done, with its timeline.
func recorded(name, server, incarnation string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		all := recoveries(name)
		g.Expect(all).To(HaveKey(incarnation))
		s := all[incarnation].Status
		g.Expect([]string{s.ServerName, s.State, s.Outcome}).To(Equal([]string{server, "DONE", "COMPLETE"}))
		g.Expect(s.TimelineMs.Verdict).NotTo(BeNil())
		g.Expect(s.TimelineMs.Served).NotTo(BeNil())
		g.Expect(*s.TimelineMs.Served).To(BeNumerically(">=", *s.TimelineMs.Verdict))
	}, podDeadline, time.Second).Should(Succeed())
	check("kubectl get rcr prints\n%s", must(kubectl("get", "rcr", "-l", "ramcloud.dev/cluster="+name)))
}

// waitWhole waits until a cluster is Ready, nothing is recovered any more and every segment has all its replicas.
func waitWhole(name string, replicas int) {
	GinkgoHelper()
	waitReady(name)
	eventually(name, "Recovering", "False", "NoRecovery")
	Eventually(func(g Gomega) {
		r := decode[clusterStatus](must(onCluster(name, "status", "-o", "json"))).Replication
		g.Expect(r.Wanted).To(Equal(replicas))
		g.Expect(r.Segments).To(BeNumerically(">", 0))
		g.Expect(r.UnderReplicated).To(BeZero())
		g.Expect(r.FullyReplicated).To(Equal(r.Segments))
	}, podDeadline, time.Second).Should(Succeed())
}

func nodeOf(server string) string {
	GinkgoHelper()
	return string(must(kubectl("get", "rcs", server, "-o", "jsonpath={.status.placement.node}")))
}

func evictionsHeld(name string) string {
	GinkgoHelper()
	return string(must(kubectl("get", "rcc", name, "-o", "jsonpath={.status.servers.evictionsHeld}")))
}

// drain drains a node of the servers of a cluster.
func drain(node, name, within string) error {
	_, err := kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout="+within,
		"--pod-selector=ramcloud.dev/cluster="+name+",app.kubernetes.io/component=server")
	return err
}

// lonelyServers are the servers that are the only pod of their cluster on their node: the node can be taken
// away without the coordinator or another server.
func lonelyServers(name string) []string {
	GinkgoHelper()
	pods := map[string][]string{}
	for line := range strings.FieldsSeq(string(must(kubectl("get", "pods", "-l", "ramcloud.dev/cluster="+name, "-o",
		`jsonpath={range .items[*]}{.spec.nodeName}/{.metadata.name}{"\n"}{end}`)))) {
		node, pod, _ := strings.Cut(line, "/")
		pods[node] = append(pods[node], pod)
	}
	var out []string
	for _, node := range slices.Sorted(maps.Keys(pods)) {
		if there := pods[node]; len(there) == 1 && strings.HasPrefix(there[0], name+"-server-") {
			out = append(out, there[0])
		}
	}
	return out
}

// notServed is how many tablets the coordinator lists as not served, and recoveries as not done.
func notServed(name string) int {
	GinkgoHelper()
	s := decode[struct {
		Unavailable int `json:"tablets_unavailable"`
	}](must(onCluster(name, "status", "-o", "json")))
	return s.Unavailable
}

var _ = Describe("five servers of which some crash", Ordered, ContinueOnFailure, Label("recovery"), func() {
	const name, replicas = "five", 3

	BeforeAll(func() {
		spec := small("Delete")
		spec["servers"] = map[string]any{"replicas": 5, "memory": map[string]any{"log": "64Mi"},
			"template": map[string]any{"topologySpread": []any{map[string]any{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}}}}
		spec["replicationFactor"] = replicas
		declare(name, spec)
		waitReady(name)
	})

	It("serve everything again when a pod is deleted by force, and tell how it went", Label("short"), func() {
		work, before := startCheckerOver(outsideOf(name), 5), volumes(name)
		pod := name + "-server-1"
		was := incarnationOf(pod)
		uid := string(must(kubectl("get", "pod", pod, "-o", "jsonpath={.metadata.uid}")))
		must(kubectl("delete", "pod", pod, "--force", "--grace-period=0"))
		waitForNewPod(pod, uid)
		waitWhole(name, replicas)
		recorded(name, pod, was)
		work.finishWithin(load.Limits{Gap: recoveredServerGap, Expected: lostReplies})
		Expect(volumes(name)).To(Equal(before))
	})

	It("serve everything again without an operator, which tells of it later", func() {
		present := operators()
		scaleOperator(0)
		DeferCleanup(func() { scaleOperator(present) })
		work := startCheckerOver(outsideOf(name), 5)
		pod := name + "-server-2"
		was := incarnationOf(pod)
		must(kubectl("delete", "pod", pod, "--force", "--grace-period=0"))
		Eventually(func(g Gomega) {
			g.Expect(notServed(name)).To(BeZero())
			g.Expect(string(must(onCluster(name, "servers")))).NotTo(MatchRegexp(`(?m)\b%s\b.*\bUP\b`, pod))
		}, podDeadline, time.Second).Should(Succeed())
		work.finishWithin(load.Limits{Gap: recoveredServerGap, Expected: lostReplies})
		Expect(podUIDs(name, "server")).To(HaveLen(4), "nobody creates the pod again")
		check("what %s had is served by the other four, while there is no operator", pod)
		scaleOperator(present)
		waitForLeader()
		waitWhole(name, replicas)
		recorded(name, pod, was)
	})

	It("lose none of their data when all their pods are deleted by force at once", func() {
		must(onCluster(name, "table", "create", "wide", "--span", "5"))
		DeferCleanup(func() { must(onCluster(name, "table", "drop", "wide")) })
		for i := range 64 {
			must(onCluster(name, "put", "wide", fmt.Sprint(i), fmt.Sprint("value ", i)))
		}
		was, pods, before := map[string]string{}, podUIDs(name, "server"), volumes(name)
		for i := range 5 {
			pod := fmt.Sprintf("%s-server-%d", name, i)
			was[pod] = incarnationOf(pod)
		}
		must(kubectl("delete", "pods", "-l", "ramcloud.dev/cluster="+name+",app.kubernetes.io/component=server", "--force", "--grace-period=0"))
		Eventually(func() []string { return podUIDs(name, "server") }, podDeadline, time.Second).Should(
			And(HaveLen(5), Not(ContainElement(BeElementOf(pods)))))
		waitWhole(name, replicas)
		for i := range 64 {
			Expect(strings.TrimSpace(string(must(onCluster(name, "get", "wide", fmt.Sprint(i)))))).To(Equal(fmt.Sprint("value ", i)))
		}
		Expect(volumes(name)).To(Equal(before))
		for _, pod := range slices.Sorted(maps.Keys(was)) {
			recorded(name, pod, was[pod])
		}
		check("64 of 64 objects are read again, without a command")
	})

	It("let the server of a drained node go, and no second one before the cluster is whole", func() {
		lonely := lonelyServers(name)
		Expect(len(lonely)).To(BeNumerically(">=", 2), "servers that are alone on their nodes: %v", lonely)
		pod, other := lonely[0], lonely[1]
		node, otherNode, was, pods := nodeOf(pod), nodeOf(other), incarnationOf(pod), podUIDs(name, "")
		uncordon := func() {
			must(kubectl("uncordon", node))
			must(kubectl("uncordon", otherNode))
		}
		DeferCleanup(uncordon)
		Eventually(func() string { return evictionsHeld(name) }, podDeadline, time.Second).Should(BeEmpty())
		work := startCheckerOver(outsideOf(name), 5)
		Expect(drain(node, name, "180s")).To(Succeed())
		recorded(name, pod, was)
		survivors := slices.DeleteFunc(slices.Clone(pods), func(one string) bool { return strings.HasPrefix(one, pod+"/") })
		Expect(podUIDs(name, "")).To(ContainElements(survivors), "no other was restarted")
		// Its volume is on that node, so its pod waits. Four servers are what R = 3 needs.
		Eventually(func() string { return evictionsHeld(name) }, podDeadline, time.Second).Should(ContainSubstring("find no node"))
		Expect(drain(otherNode, name, "10s")).To(MatchError(ContainSubstring("disruption budget")))
		check("the next one stays: %s", evictionsHeld(name))
		uncordon()
		waitWhole(name, replicas)
		work.finishWithin(load.Limits{Gap: recoveredServerGap})
	})

	It("are restarted one at a time when that is asked for, and no operation fails", func() {
		replaced := watchReplacements(name, 5)
		roll(name, 5)
		waitWhole(name, replicas)
		replaced.onlyAdopted()
	})
})

var _ = Describe("a worker that stops", Ordered, Label("recovery"), func() {
	It("takes its servers with it, and what they had is served by others", func() {
		const name, replicas = "apart", 2
		spec := small("Delete")
		spec["servers"] = map[string]any{"replicas": 4, "memory": map[string]any{"log": "64Mi"},
			"template": map[string]any{"topologySpread": []any{map[string]any{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}}}}
		spec["replicationFactor"], spec["topologyKey"] = replicas, "kubernetes.io/hostname"
		declare(name, spec)
		waitReady(name)
		lonely := lonelyServers(name)
		Expect(lonely).NotTo(BeEmpty(), "a worker with a server and nothing else of the cluster: there are four, and one coordinator")
		pod := lonely[0]
		node, was, pods := nodeOf(pod), incarnationOf(pod), podUIDs(name, "")
		work := startCheckerOver(outsideOf(name), 4)
		// All processes of the node are stopped, so it neither answers nor refuses connections.
		must(run(nil, "docker", "pause", node))
		resume := func() { _, _ = run(nil, "docker", "unpause", node) }
		DeferCleanup(resume)
		Eventually(func(g Gomega) {
			g.Expect(status(name).condition("Recovering").Reason).To(Equal("NoRecovery"))
			g.Expect(recoveries(name)).To(HaveKey(was))
			g.Expect(notServed(name)).To(BeZero())
		}, podDeadline, time.Second).Should(Succeed())
		recorded(name, pod, was)
		work.finishWithin(load.Limits{Gap: recoveredServerGap, Silence: serverSilence, Expected: lostReplies})
		check("while %s stood still, three servers served everything", node)
		// The server goes on, but it was condemned: it starts again as a new server in the same pod.
		resume()
		must(kubectl("wait", "--for=condition=Ready", "node/"+node, "--timeout=180s"))
		waitWhole(name, replicas)
		Expect(incarnationOf(pod)).NotTo(BeElementOf("", was))
		Expect(podUIDs(name, "")).To(Equal(pods), "no pod was restarted")
		waitReady(cluster)
	})
})
