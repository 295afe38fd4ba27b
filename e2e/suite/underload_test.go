package suite

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// Each case does something to the cluster "demo" while a checker works on it from outside.
var _ = Describe("under load", Ordered, ContinueOnFailure, Label("load"), func() {
	BeforeAll(func() { waitReady(cluster) })

	It("goes on while the coordinator is re-created", Label("short"), func() {
		load := startChecker(outside())
		before := podUIDs(cluster, "server")
		killPod(cluster + "-coordinator-0")
		waitReady(cluster)
		load.finish()
		Expect(podUIDs(cluster, "server")).To(Equal(before), "servers were restarted")
		check("the coordinator was re-created, no server was")
	})

	It("does not notice that the operator is replaced", func() {
		load := startChecker(outside())
		before := podUIDs(cluster, "")
		seen := watch()
		must(kubectl("-n", operatorNamespace, "rollout", "restart", "deployment/ramcloud-operator"))
		must(kubectl("-n", operatorNamespace, "rollout", "status", "deployment/ramcloud-operator", "--timeout=180s"))
		expectCare(waitForLeader())
		seen.nothingChanged()
		load.finish()
		Expect(podUIDs(cluster, "")).To(Equal(before))
		check("a new operator restarted none of %d pods", len(before))
	})

	It("does not notice that all operators are killed at once", func() {
		load := startChecker(outside())
		before := podUIDs(cluster, "")
		seen := watch()
		must(kubectl("-n", operatorNamespace, "delete", "pods", "-l", "app.kubernetes.io/name=ramcloud-operator", "--force", "--grace-period=0"))
		must(kubectl("-n", operatorNamespace, "rollout", "status", "deployment/ramcloud-operator", "--timeout=180s"))
		expectCare(waitForLeader())
		seen.nothingChanged()
		load.finish()
		Expect(podUIDs(cluster, "")).To(Equal(before))
		check("operators that did not end in good order restarted none of %d pods", len(before))
	})

	It("goes on while there is no operator for two minutes", func() {
		replicas := operators()
		before := podUIDs(cluster, "")
		load := startChecker(outside())
		scaleOperator(0)
		DeferCleanup(func() { scaleOperator(replicas) })
		Consistently(func() []string { return podUIDs(cluster, "") }, 2*time.Minute, 10*time.Second).Should(Equal(before))
		scaleOperator(replicas)
		waitReady(cluster)
		load.finish()
		Expect(podUIDs(cluster, "")).To(Equal(before))
		check("without an operator for 2 minutes nothing changed")
	})

	It("grows by a server", func() {
		replicas := status(cluster).Spec.Servers.Replicas
		load := startChecker(outside())
		before := podUIDs(cluster, "")
		must(kubectl("patch", "rcc", cluster, "--type=merge", "-p", patchReplicas(replicas+1)))
		waitReady(cluster)
		load.finish()
		Expect(podUIDs(cluster, "")).To(ContainElements(before))
		check("from %d to %d servers under load", replicas, replicas+1)
	})
})

// expectCare waits until a new operator acts on the cluster: it restores a field that it manages.
func expectCare(leader string) {
	GinkgoHelper()
	service := cluster + "-server-0-outside"
	before := string(must(kubectl("get", "service", service, "-o", "jsonpath={.metadata.labels.app\\.kubernetes\\.io/component}")))
	Expect(before).NotTo(BeEmpty())
	must(kubectl("label", "service", service, "--overwrite", "app.kubernetes.io/component=e2e"))
	Eventually(func() string {
		return string(must(kubectl("get", "service", service, "-o", "jsonpath={.metadata.labels.app\\.kubernetes\\.io/component}")))
	}, podDeadline, time.Second).Should(Equal(before))
	check("%s leads and looks after %s", leader, cluster)
}
