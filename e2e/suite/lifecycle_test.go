package suite

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// everything lists the kinds of objects that belong to a cluster.
const everything = "pods,pvc,services,configmaps,secrets,poddisruptionbudgets,ramcloudservers,ramcloudrecoveries"

func small(retention string) map[string]any {
	return map[string]any{"servers": map[string]any{"replicas": 2, "memory": map[string]any{"log": "64Mi"}}, "replicationFactor": 1,
		"expose": map[string]any{"type": "NodePort"}, "pvcRetention": retention}
}

func claims(name string) []string {
	GinkgoHelper()
	return strings.Fields(string(must(kubectl("get", "pvc", "-l", "ramcloud.dev/cluster="+name, "-o", "name"))))
}

func remains(name string) []string {
	GinkgoHelper()
	return strings.Fields(string(must(kubectl("get", everything, "-l", "ramcloud.dev/cluster="+name, "-o", "name"))))
}

func uuidOf(name string) string {
	GinkgoHelper()
	return string(must(kubectl("get", "rcc", name, "-o", "jsonpath={.status.coordinator.clusterUUID}")))
}

// onCluster runs the command line against a cluster from outside.
func onCluster(name string, arguments ...string) ([]byte, error) {
	return run(nil, top()+"/build/bin/ramcloud", append([]string{"--cluster", outsideOf(name)}, arguments...)...)
}

func put(name string) {
	GinkgoHelper()
	must(onCluster(name, "table", "create", "t"))
	must(onCluster(name, "put", "t", "key", name))
	expectPut(name)
}

func expectPut(name string) {
	GinkgoHelper()
	Expect(strings.TrimSpace(string(must(onCluster(name, "get", "t", "key"))))).To(Equal(name))
}

func deleteCluster(name string) {
	GinkgoHelper()
	must(kubectl("delete", "rcc", name, "--wait"))
	Eventually(func() []string { return podUIDs(name, "") }, podDeadline, time.Second).Should(BeEmpty())
}

var _ = Describe("lives of clusters", Ordered, ContinueOnFailure, Label("lifecycle"), func() {
	It("keeps two clusters side by side apart", func() {
		declare("left", small("Delete"))
		declare("right", small("Delete"))
		waitReady("left")
		waitReady("right")
		put("left")
		put("right")
		expectPut("left")
		Expect(uuidOf("left")).NotTo(Equal(uuidOf("right")))
		before := podUIDs("right", "")
		deleteCluster("left")
		expectPut("right")
		Expect(podUIDs("right", "")).To(Equal(before))
		check("two clusters with the same table, each with its own data; one was deleted, and the other did not notice")
	})

	// Data is not recovered from volumes here, so the test checks only the cluster, its tables and its replicas.
	It("keeps volumes of a deleted cluster, and gives them to the next of its name", func() {
		declare("kept", small("Retain"))
		waitReady("kept")
		put("kept")
		uuid := uuidOf("kept")
		deleteCluster("kept")
		Expect(claims("kept")).To(HaveLen(3))
		declare("kept", small("Retain"))
		Eventually(func(g Gomega) {
			c := status("kept")
			g.Expect(c.Status.Servers.Ready).To(Equal(2), c.condition("Ready").Message)
			g.Expect(uuidOf("kept")).To(Equal(uuid))
		}, podDeadline, time.Second).Should(Succeed())
		Expect(string(must(onCluster("kept", "table", "list")))).To(ContainSubstring("t"))
		must(onCluster("kept", "table", "drop", "t"))
		waitReady("kept")
		put("kept")
		check("the new cluster is the old one, %s: it knew its table, and after dropping that it was Ready", uuid)
	})

	It("deletes volumes with the cluster when asked", func() {
		declare("gone", small("Delete"))
		waitReady("gone")
		put("gone")
		uuid := uuidOf("gone")
		deleteCluster("gone")
		Eventually(func() []string { return remains("gone") }, podDeadline, time.Second).Should(BeEmpty())
		declare("gone", small("Delete"))
		waitReady("gone")
		Expect(uuidOf("gone")).NotTo(Equal(uuid))
		Expect(string(must(onCluster("gone", "status")))).NotTo(ContainSubstring(uuid))
		check("nothing of the cluster was left, and the next of its name is another")
	})

	It("leaves clusters alone when the operator is uninstalled first, and takes them over again", func() {
		declare("orphan", small("Delete"))
		declare("second", small("Delete"))
		waitReady("orphan")
		waitReady("second")
		put("orphan")
		put("second")
		before := podUIDs("orphan", "")
		values := operatorValues()
		install := func() { installOperator("charts/ramcloud-operator", values) }
		DeferCleanup(install)
		must(run(nil, "helm", "uninstall", "ramcloud-operator", "--namespace", operatorNamespace, "--wait"))
		expectPut("orphan")
		Expect(podUIDs("orphan", "")).To(Equal(before))
		deleteCluster("second") // the deletion must not wait for an operator, because none runs
		Eventually(func() []string { return remains("second") }, podDeadline, time.Second).Should(BeEmpty())
		install()
		waitForLeader()
		waitReady("orphan")
		waitReady(cluster)
		must(kubectl("scale", "rcc/orphan", "--replicas=3")) // the operator acts on it again
		Eventually(func() int { return status("orphan").Status.Servers.Ready }, podDeadline, time.Second).Should(Equal(3))
		Expect(podUIDs("orphan", "")).To(ContainElements(before))
		expectPut("orphan")
		check("without an operator a cluster served, another could be deleted whole; a new operator took over and restarted none of %d pods", len(before))
	})

	It("leaves nothing behind when the cluster goes first and the operator then", func() {
		declare("first", small("Delete"))
		waitReady("first")
		put("first")
		before := podUIDs(cluster, "")
		deleteCluster("first")
		Eventually(func() []string { return remains("first") }, podDeadline, time.Second).Should(BeEmpty())
		values := operatorValues()
		DeferCleanup(func() {
			installOperator("charts/ramcloud-operator", values)
			waitReady(cluster)
			Expect(podUIDs(cluster, "")).To(Equal(before))
		})
		must(run(nil, "helm", "uninstall", "ramcloud-operator", "--namespace", operatorNamespace, "--wait"))
		left := strings.Fields(string(must(kubectl("get", "deployments,services,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,poddisruptionbudgets",
			"-A", "-l", "app.kubernetes.io/name=ramcloud-operator", "-o", "name"))))
		Expect(left).To(BeEmpty())
		kept := strings.Fields(string(must(kubectl("get", "crds", "-o", "name"))))
		Expect(kept).To(ContainElement(ContainSubstring("ramcloudclusters.ramcloud.dev")), "crds.keep")
		check("nothing of the cluster nor of the operator was left but the CRDs, which are kept with the clusters that there are")
	})
})
