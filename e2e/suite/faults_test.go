package suite

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"ramcloud.dev/client"
	"ramcloud.dev/e2e/load"
)

// lostServerGap is how long a client of another server may wait, as a multiple of its longest quiet gap, when
// a server with replicas is lost: until the coordinator has detected it, and other servers have the replicas.
const lostServerGap = 100

// recoveredServerGap is the same for a client of the server that is lost: until others have read its data from replicas, and
// its lease is over.
const recoveredServerGap = 2 * lostServerGap

// serverSilence is --server-silence: for so long a server that neither answers nor refuses is not given up.
const serverSilence = 5 * time.Second

// lostReplies are writes to a server that crashed before it answered: it is unknown whether they were
// executed. (The history is judged with both possibilities.) Nothing else may fail.
func lostReplies(o load.Operation) bool {
	return o.Write && client.CodeOf(o.Err) == client.Indeterminate
}

// backupView is the part of `ramcloud servers -o json` about a server's backup.
type backupView struct {
	Name, State string
	Used        int `json:"backup_frames_used"`
	Quarantined int `json:"backup_frames_quarantined"`
}

// backups returns the backups of the servers that are up, by name.
func backups(name string) map[string]backupView {
	GinkgoHelper()
	out := map[string]backupView{}
	for _, one := range decode[[]backupView](must(onCluster(name, "servers", "-o", "json"))) {
		if one.State == "UP" {
			out[one.Name] = one
		}
	}
	return out
}

// volumes are the cluster's claims with the volumes behind them.
func volumes(name string) []string {
	GinkgoHelper()
	text := string(must(kubectl("get", "pvc", "-l", "ramcloud.dev/cluster="+name, "-o",
		`jsonpath={range .items[*]}{.metadata.name}/{.metadata.uid}/{.spec.volumeName}/{.status.phase}{"\n"}{end}`)))
	out := strings.Fields(text)
	slices.Sort(out)
	return out
}

// ofServers is a cluster with R = 2: each of the three servers holds a replica of every segment of the
// others.
func ofServers(n int) map[string]any {
	spec := small("Delete")
	spec["servers"] = map[string]any{"replicas": n, "memory": map[string]any{"log": "64Mi"}}
	spec["replicationFactor"] = 2
	return spec
}

// onTwoServers returns two checkers, each with a table on one server, not the same.
func onTwoServers(name string) (*checker, *checker) {
	GinkgoHelper()
	one, other := startCheckerOver(outsideOf(name), 1), startCheckerOver(outsideOf(name), 1)
	for slices.Equal(one.servers(), other.servers()) {
		other.finish()
		other = startCheckerOver(outsideOf(name), 1)
	}
	return one, other
}

// podOf is the pod of the server that has the checker's table.
func podOf(name string, c *checker) string {
	GinkgoHelper()
	pod := string(must(kubectl("get", "rcs", "-l", "ramcloud.dev/cluster="+name, "-o", fmt.Sprintf(
		`jsonpath={.items[?(@.status.incarnation=="%d")].metadata.name}`, c.servers()[0]))))
	Expect(pod).To(HavePrefix(name + "-server-"))
	return pod
}

// claimOfPod is the volume claim that a pod has now.
func claimOfPod(pod string) string {
	GinkgoHelper()
	return string(must(kubectl("get", "pod", pod, "-o", "jsonpath={.spec.volumes[*].persistentVolumeClaim.claimName}")))
}

// incarnationOf is the present server id of a pod.
func incarnationOf(pod string) string {
	GinkgoHelper()
	return string(must(kubectl("get", "rcs", pod, "-o", "jsonpath={.status.incarnation}")))
}

// eventually waits until a condition has the given status and reason, and these parts in its message.
func eventually(name, kind, value, reason string, parts ...string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		c := status(name).condition(kind)
		g.Expect([]string{c.Status, c.Reason}).To(Equal([]string{value, reason}), c.Message)
		for _, part := range parts {
			g.Expect(c.Message).To(ContainSubstring(part))
		}
	}, podDeadline, time.Second).Should(Succeed())
	c := status(name).condition(kind)
	check("%s: %s=%s, %s: %s", name, kind, c.Status, c.Reason, c.Message)
}

// warned checks that the operator wrote a Warning event about it.
func warned(name, reason string) {
	GinkgoHelper()
	Eventually(func() string {
		return string(must(kubectl("get", "events.events.k8s.io", "-o", fmt.Sprintf(
			`jsonpath={range .items[?(@.reason==%q)]}{.type} {.regarding.kind}/{.regarding.name}{"\n"}{end}`, reason))))
	}, time.Minute, time.Second).Should(ContainSubstring("Warning RAMCloudCluster/" + name + "\n"))
}

var _ = Describe("what nobody should do", Ordered, ContinueOnFailure, Label("faults"), func() {
	It("is refused when it is another etcd prefix", Label("short"), func() {
		declare("pinned", map[string]any{"paused": true, "metadata": map[string]any{"etcd": map[string]any{
			"endpoints": []string{"etcd.example:2379"}, "prefix": "/one"}}})
		_, err := kubectl("patch", "rcc", "pinned", "--type=merge", "-p", `{"spec":{"metadata":{"etcd":{"prefix":"/two"}}}}`)
		Expect(err).To(MatchError(ContainSubstring("spec.metadata.etcd.prefix is /two and was /one")))
		Expect(string(must(kubectl("get", "rcc", "pinned", "-o", "jsonpath={.spec.metadata.etcd.prefix}")))).To(Equal("/one"))
		check("%v", err)
	})

	It("does no harm when it is to delete the volume claim of a server that runs", func() {
		const name, claim = "dear", "data-dear-server-1"
		declare(name, small("Delete"))
		waitReady(name)
		put(name)
		pods, before := podUIDs(name, ""), volumes(name)
		work := startChecker(outsideOf(name))
		must(kubectl("delete", "pvc", claim, "--wait=false"))
		eventually(name, "Degraded", "True", "VolumeTerminating", "server 1")
		warned(name, "VolumeTerminating")
		Consistently(func() []string { return podUIDs(name, "") }, 10*time.Second, time.Second).Should(Equal(pods))
		Expect(volumes(name)).To(Equal(before))
		work.finish()
		expectPut(name)
		Expect(status(name).condition("Ready").Status).To(Equal("True"))
		check("%s is kept, the server goes on with all its data", claim)
		deleteCluster(name) // the deletion must not hang
		Eventually(func() []string { return remains(name) }, podDeadline, time.Second).Should(BeEmpty())
	})

	It("loses nothing when it is to delete the pod of a server by force", func() {
		const name = "struck"
		declare(name, ofServers(4)) // without the lost one, each segment still finds two other servers
		waitReady(name)
		struck, other := onTwoServers(name)
		pod := podOf(name, struck)
		pods, before, was := podUIDs(name, ""), volumes(name), struck.servers()
		uid := string(must(kubectl("get", "pod", pod, "-o", "jsonpath={.metadata.uid}")))

		must(kubectl("delete", "pod", pod, "--force", "--grace-period=0"))
		waitForNewPod(pod, uid)
		Eventually(struck.servers, podDeadline, time.Second).ShouldNot(Equal(was), "the server of the table that was recovered")
		waitReady(name) // without a command of the test
		eventually(name, "Recovering", "False", "NoRecovery")
		Expect(volumes(name)).To(Equal(before))
		survivors := slices.DeleteFunc(pods, func(one string) bool { return strings.HasPrefix(one, pod+"/") })
		Expect(podUIDs(name, "")).To(ContainElements(survivors))

		struck.finishWithin(load.Limits{Gap: recoveredServerGap, Expected: lostReplies})
		other.finishWithin(load.Limits{Gap: recoveredServerGap, Expected: lostReplies}) // the table may have been recovered to the pod that came back
		check("what %s had in memory is served again, and nothing of it is lost", pod)
	})

	It("loses nothing when it is to delete the volume claim of a server and its pod by force", func() {
		const name = "bereft"
		declare(name, ofServers(4))
		waitReady(name)
		struck, other := onTwoServers(name)
		pod := podOf(name, struck)
		uid := string(must(kubectl("get", "pod", pod, "-o", "jsonpath={.metadata.uid}")))
		claim := claimOfPod(pod)

		must(kubectl("delete", "pvc", claim, "--wait=false"))
		must(kubectl("delete", "pod", pod, "--force", "--grace-period=0"))
		waitForNewPod(pod, uid)
		Expect(claimOfPod(pod)).NotTo(Equal(claim), "the server has an empty volume")
		waitWhole(name, 2) // its table and all replicas that were on the volume: from the other servers
		struck.finishWithin(load.Limits{Gap: recoveredServerGap, Expected: lostReplies})
		other.finishWithin(load.Limits{Gap: recoveredServerGap, Expected: lostReplies})
		check("%s was on %s, and has %s now; nothing is lost", pod, claim, claimOfPod(pod))
	})

	It("stops nobody's writes when it is to delete the pod of one of three servers", func() {
		const name = "tight"
		declare(name, ofServers(3)) // without the lost one, a segment finds only one other server: writes go on with one replica less
		waitReady(name)
		work := startCheckerOver(outsideOf(name), 1)
		master, before := podOf(name, work), volumes(name)
		var struck []string
		for _, pod := range slices.Sorted(maps.Keys(backups(name))) {
			if pod == master {
				continue
			}
			Expect(backups(name)[pod].Used).To(BeNumerically(">", 0), "replicas on the volume of %s", pod)
			was := incarnationOf(pod)
			killPod(pod)
			// Wait until it takes replicas again: until then its name may resolve to the previous pod's address.
			Eventually(func(g Gomega) {
				now := backups(name)
				g.Expect(now).To(HaveKey(pod))
				g.Expect(incarnationOf(pod)).NotTo(BeElementOf("", was))
				g.Expect(now[pod].Used).To(BeNumerically(">", 0), "replicas that %s took since", pod)
				r := decode[clusterStatus](must(onCluster(name, "status", "-o", "json"))).Replication
				g.Expect(r.UnderReplicated).To(BeZero())
				g.Expect(r.FullyReplicated).To(Equal(r.Segments))
			}, podDeadline, time.Second).Should(Succeed())
			waitReady(name)
			struck = append(struck, pod)
		}
		Expect(struck).To(HaveLen(2))
		work.finishWithin(load.Limits{Gap: lostServerGap})
		Expect(volumes(name)).To(Equal(before))
		check("%v were re-created one after the other and hold replicas again; no write to %s stopped for long", struck, master)
	})

	It("loses nothing when it is to delete all pods at once", func() {
		const name = "razed"
		declare(name, ofServers(3))
		waitReady(name)
		put(name)
		must(onCluster(name, "table", "create", "wide", "--span", "3"))
		for i := range 16 {
			must(onCluster(name, "put", "wide", fmt.Sprint(i), name))
		}
		addresses := func() []string {
			return strings.Fields(string(must(kubectl("get", "pods", "-l", "ramcloud.dev/cluster="+name, "-o", "jsonpath={.items[*].status.podIP}"))))
		}
		uuid, pods, before, frames, old := uuidOf(name), podUIDs(name, ""), volumes(name), backups(name), addresses()
		Expect(frames).To(HaveLen(3))
		for _, one := range frames {
			Expect(one.Used).To(BeNumerically(">", 0), one.Name)
		}
		must(kubectl("delete", "pods", "-l", "ramcloud.dev/cluster="+name, "--wait"))
		Eventually(func(g Gomega) {
			now := podUIDs(name, "")
			g.Expect(now).To(HaveLen(len(pods)))
			g.Expect(now).NotTo(ContainElement(BeElementOf(pods)))
			c := status(name)
			g.Expect(c.Status.Servers.Ready).To(Equal(3), c.condition("Ready").Message)
		}, podDeadline, time.Second).Should(Succeed())
		Expect(volumes(name)).To(Equal(before))
		Expect(uuidOf(name)).To(Equal(uuid))
		Expect(status(name).condition("ConsistentIdentity").Status).To(Equal("True"))
		Expect(addresses()).NotTo(ContainElement(BeElementOf(old)))
		check("%s is the same cluster with the same volumes at other addresses (%v, now %v)", uuid, old, addresses())

		// Everything is served again without a command.
		waitReady(name)
		eventually(name, "Recovering", "False", "NoRecovery")
		expectPut(name)
		for i := range 16 {
			Expect(strings.TrimSpace(string(must(onCluster(name, "get", "wide", fmt.Sprint(i)))))).To(Equal(name), "object %d", i)
		}
		must(onCluster(name, "put", "t", "later", name))
		check("everything that was put before is read")
	})

	It("heals when a quota that was too small is raised", func() {
		const name = "poor"
		declare(name, map[string]any{"paused": true, "servers": small("Delete")["servers"], "replicationFactor": 1, "pvcRetention": "Delete"})
		quota := func(claims int) {
			must(run([]byte(fmt.Sprintf(`{"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few-claims", "namespace": "default"},
				"spec": {"hard": {"persistentvolumeclaims": "%d"}}}`, claims)), "kubectl", "apply", "-f", "-"))
			Eventually(func() string {
				return string(must(kubectl("get", "resourcequota", "few-claims", "-o", "jsonpath={.status.hard.persistentvolumeclaims}")))
			}, time.Minute, time.Second).Should(Equal(fmt.Sprint(claims)))
		}
		there := len(strings.Fields(string(must(kubectl("get", "pvc", "-o", "name")))))
		DeferCleanup(func() { must(kubectl("delete", "resourcequota", "few-claims", "--ignore-not-found")) })
		quota(there + 1)
		must(kubectl("patch", "rcc", name, "--type=merge", "-p", `{"spec":{"paused":false}}`))
		eventually(name, "Degraded", "True", "ReconcileFailed", "exceeded quota: few-claims", "data-"+name+"-server-1")
		warned(name, "ReconcileFailed")
		Expect(claims(name)).To(HaveLen(1), "what fits is created")
		quota(there + 3)
		waitReady(name)
		eventually(name, "Degraded", "False", "AsExpected")
		Expect(claims(name)).To(HaveLen(3))
		check("with a quota of %d claims one of 3 was created; when it was raised by 2 the cluster was Ready by itself", there+1)
	})
})
