package suite

import (
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"ramcloud.dev/e2e/load"
)

// withEtcd has three coordinators and an etcd that the operator runs.
func withEtcd(servers int) map[string]any {
	return map[string]any{
		"coordinator": map[string]any{"replicas": 3}, "metadata": map[string]any{"managedEtcd": map[string]any{"replicas": 3, "storage": map[string]any{"size": "512Mi"}}},
		"servers": map[string]any{"replicas": servers, "memory": map[string]any{"log": "64Mi"}}, "replicationFactor": 1,
		"expose": map[string]any{"type": "NodePort"}, "pvcRetention": "Delete",
	}
}

var _ = Describe("three coordinators with an etcd of the operator's", Ordered, Label("etcd"), func() {
	const name = "trio"

	It("comes up, is rolled on request and loses members under load", func() {
		declare(name, withEtcd(3))
		waitReady(name)
		Expect(string(must(kubectl("get", "rcc", name, "-o", "jsonpath={.status.etcd.tls}")))).To(Equal("Required"), "a new etcd takes nothing but TLS")
		Expect(strings.Count(outsideOf(name), ",")).To(Equal(2), "three coordinators are told to clients outside")
		check("three coordinators, three members of etcd, %s", outsideOf(name))

		for i := range 3 {
			By(fmt.Sprintf("killing coordinator %d under load", i))
			work := startChecker(outsideOf(name))
			killPod(fmt.Sprintf("%s-coordinator-%d", name, i))
			waitReady(name)
			work.finish()
		}
		for i := range 3 {
			By(fmt.Sprintf("killing etcd member %d under load", i))
			work := startChecker(outsideOf(name))
			pod := fmt.Sprintf("%s-etcd-%d", name, i)
			before := string(must(kubectl("get", "pod", pod, "-o", "jsonpath={.metadata.uid}")))
			must(kubectl("delete", "pod", pod, "--wait=false"))
			making, dropping := work.changeMetadata(5)
			waitForNewPod(pod, before)
			// The next member must not restart before this one is back: one of three is no majority.
			Eventually(func() string {
				return string(must(kubectl("get", "rcc", name, "-o", "jsonpath={.status.etcd.ready}")))
			}, podDeadline, time.Second).Should(Equal("3"))
			waitReady(name)
			work.finish()
			check("while member %d was away, the slowest of 5 tables took %s to make and %s to drop", i,
				making.Round(time.Millisecond), dropping.Round(time.Millisecond))
		}

		By("taking the volume of an etcd member away under load")
		lost, claim := name+"-etcd-1", "data-"+name+"-etcd-1"
		uid := func(kind, object string) string {
			return string(must(kubectl("get", kind, object, "-o", "jsonpath={.metadata.uid}")))
		}
		oldPod, oldClaim := uid("pod", lost), uid("pvc", claim)
		work := startChecker(outsideOf(name))
		must(kubectl("delete", "pvc", claim, "--wait=false"))
		must(kubectl("delete", "pod", lost, "--wait=false"))
		waitForNewPod(lost, oldPod)
		Eventually(func() string {
			return string(must(kubectl("get", "rcc", name, "-o", "jsonpath={.status.etcd.ready}")))
		}, podDeadline, time.Second).Should(Equal("3"))
		waitReady(name)
		work.finish()
		Expect(uid("pvc", claim)).NotTo(Equal(oldClaim))
		check("member 1 lost its volume and came back with an empty one, as another member")

		By("asking for a rolling restart")
		roll(name, 3)
	})
})

// roll asks for a restart of all members while a load works on the servers. Servers come last, one at a time,
// and no data is lost.
func roll(name string, servers uint32) {
	GinkgoHelper()
	members := func() []string { return podUIDs(name, "") }
	kept, before := volumes(name), members()
	work := startCheckerOver(outsideOf(name), servers)
	must(kubectl("patch", "rcc", name, "--type=merge", "-p", `{"spec":{"update":{"restartRequest":"e2e"}}}`))
	Eventually(func(g Gomega) {
		now := members()
		g.Expect(now).To(HaveLen(len(before)))
		g.Expect(now).NotTo(ContainElement(BeElementOf(before)))
		g.Expect(status(name).condition("Progressing").Status).To(Equal("False"))
	}, time.Duration(2+servers)*podDeadline, 2*time.Second).Should(Succeed())
	waitReady(name)
	work.finishWithin(load.Limits{Gap: recoveredServerGap})
	Expect(volumes(name)).To(Equal(kept))
	check("%d pods were restarted one at a time, %d servers among them, and nothing was lost", len(before), servers)
}
