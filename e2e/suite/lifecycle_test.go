package suite

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func small(retention string) map[string]any {
	return map[string]any{"servers": map[string]any{"replicas": 2, "memory": map[string]any{"log": "64Mi"}}, "replicationFactor": 1,
		"expose": map[string]any{"type": "NodePort"}, "pvcRetention": retention}
}

func claims(name string) []string {
	GinkgoHelper()
	return strings.Fields(string(must(kubectl("get", "pvc", "-l", "ramcloud.dev/cluster="+name, "-o", "name"))))
}

func putAndGet(name string) {
	GinkgoHelper()
	program := top() + "/build/bin/ramcloud"
	must(run(nil, program, "--cluster", outsideOf(name), "table", "create", "t"))
	must(run(nil, program, "--cluster", outsideOf(name), "put", "t", "key", name))
	Expect(strings.TrimSpace(string(must(run(nil, program, "--cluster", outsideOf(name), "get", "t", "key"))))).To(Equal(name))
}

var _ = Describe("lives of clusters", Ordered, ContinueOnFailure, Label("lifecycle"), func() {
	It("keeps two clusters side by side apart", func() {
		declare("left", small("Delete"))
		declare("right", small("Delete"))
		waitReady("left")
		waitReady("right")
		putAndGet("left")
		putAndGet("right")
		check("two clusters, each with its own data")
	})

	It("keeps volumes of a deleted cluster, and gives them to the next of its name", func() {
		declare("kept", small("Retain"))
		waitReady("kept")
		putAndGet("kept")
		uuid := string(must(kubectl("get", "rcc", "kept", "-o", "jsonpath={.status.coordinator.clusterUUID}")))
		must(kubectl("delete", "rcc", "kept", "--wait"))
		must(kubectl("wait", "--for=delete", "pod", "-l", "ramcloud.dev/cluster=kept", "--timeout=120s"))
		Expect(claims("kept")).To(HaveLen(3))
		declare("kept", small("Retain"))
		waitReady("kept")
		Expect(string(must(kubectl("get", "rcc", "kept", "-o", "jsonpath={.status.coordinator.clusterUUID}")))).To(Equal(uuid))
		check("the new cluster is the old one: %s", uuid)
	})

	It("deletes volumes with the cluster when asked", func() {
		declare("gone", small("Delete"))
		waitReady("gone")
		must(kubectl("delete", "rcc", "gone", "--wait"))
		Eventually(func() []string { return claims("gone") }, podDeadline).Should(BeEmpty())
		check("no volume is left")
	})

	It("leaves clusters alone when the operator is uninstalled first, and takes them over again", func() {
		declare("orphan", small("Delete"))
		waitReady("orphan")
		putAndGet("orphan")
		before := podUIDs("orphan", "")
		values := must(run(nil, "helm", "get", "values", "ramcloud-operator", "--namespace", operatorNamespace, "-o", "yaml"))
		must(run(nil, "helm", "uninstall", "ramcloud-operator", "--namespace", operatorNamespace, "--wait"))
		install := func() {
			must(run(values, "helm", "upgrade", "--install", "ramcloud-operator", "charts/ramcloud-operator", "--namespace", operatorNamespace,
				"--values", "-", "--wait", "--timeout", "180s"))
		}
		DeferCleanup(install)
		Expect(podUIDs("orphan", "")).To(Equal(before))
		must(kubectl("delete", "rcc", "orphan", "--wait")) // nothing waits for an operator that is not there
		Eventually(func() []string { return podUIDs("orphan", "") }, podDeadline).Should(BeEmpty())
		install()
		waitReady(cluster)
		check("uninstalled and installed again: %s is still Ready, and a cluster could be deleted meanwhile (%s)", cluster,
			fmt.Sprint(len(before), " pods"))
	})
})
