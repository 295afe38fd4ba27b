package suite

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const operatorNamespace = "ramcloud-system"

// declare makes a RAMCloudCluster from its spec, and deletes it and everything that it left at the end of the
// case.
func declare(name string, spec map[string]any) {
	GinkgoHelper()
	text, err := json.Marshal(map[string]any{"apiVersion": "ramcloud.dev/v1alpha1", "kind": "RAMCloudCluster",
		"metadata": map[string]any{"name": name, "namespace": "default"}, "spec": spec})
	Expect(err).NotTo(HaveOccurred())
	must(run(text, "kubectl", "apply", "-f", "-"))
	DeferCleanup(func() {
		must(kubectl("delete", "rcc", name, "--ignore-not-found", "--wait"))
		must(kubectl("delete", "pods,pvc", "-l", "ramcloud.dev/cluster="+name, "--ignore-not-found", "--wait"))
	})
}

func status(name string) clusterObject {
	GinkgoHelper()
	return decode[clusterObject](must(kubectl("get", "ramcloudcluster", name, "-o", "json")))
}

func waitReady(name string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		c := status(name)
		g.Expect(c.condition("Ready").Status).To(Equal("True"), c.condition("Ready").Message)
		g.Expect(c.condition("Ready").ObservedGeneration).To(Equal(c.Metadata.Generation))
	}, podDeadline, time.Second).Should(Succeed())
}

// podUIDs are the UIDs of a cluster's pods with their restarts: if the text is the same before and after,
// nothing was restarted.
func podUIDs(name, component string) []string {
	GinkgoHelper()
	selector := "ramcloud.dev/cluster=" + name
	if component != "" {
		selector += ",app.kubernetes.io/component=" + component
	}
	text := string(must(kubectl("get", "pods", "-l", selector, "-o",
		"jsonpath={range .items[*]}{.metadata.name}/{.metadata.uid}/{.status.containerStatuses[0].restartCount}{\"\\n\"}{end}")))
	out := strings.Fields(text)
	slices.Sort(out)
	return out
}

// killPod deletes a pod and waits until another of its name is Ready. It compares UIDs, because the API
// server returns the old pod for some seconds.
func killPod(name string) {
	GinkgoHelper()
	before := string(must(kubectl("get", "pod", name, "-o", "jsonpath={.metadata.uid}")))
	must(kubectl("delete", "pod", name, "--wait"))
	waitForNewPod(name, before)
}

func waitForNewPod(name, before string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		now, err := kubectl("get", "pod", name, "-o", "jsonpath={.metadata.uid} {.status.conditions[?(@.type==\"Ready\")].status}")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(now)).To(And(HaveSuffix(" True"), Not(HavePrefix(before))))
	}, podDeadline, time.Second).Should(Succeed())
}

// outsideOf is the coordinators' address of a cluster for clients outside Kubernetes.
func outsideOf(name string) string {
	GinkgoHelper()
	var address string
	Eventually(func(g Gomega) {
		address = string(must(kubectl("get", "configmap", name+"-connection", "-o", "jsonpath={.data.cluster-outside}")))
		g.Expect(address).NotTo(BeEmpty())
	}, time.Minute, time.Second).Should(Succeed())
	return address
}

// scaleOperator sets the number of operators and waits until so many run.
func scaleOperator(replicas int) {
	GinkgoHelper()
	must(kubectl("-n", operatorNamespace, "scale", "deployment/ramcloud-operator", fmt.Sprintf("--replicas=%d", replicas)))
	must(kubectl("-n", operatorNamespace, "rollout", "status", "deployment/ramcloud-operator", "--timeout=120s"))
	Eventually(func() int {
		return len(strings.Fields(string(must(kubectl("-n", operatorNamespace, "get", "pods", "-l", "app.kubernetes.io/name=ramcloud-operator", "-o", "name")))))
	}, 2*time.Minute, time.Second).Should(Equal(replicas))
}

func operators() int {
	GinkgoHelper()
	var replicas int
	_, err := fmt.Sscan(string(must(kubectl("-n", operatorNamespace, "get", "deployment", "ramcloud-operator", "-o", "jsonpath={.spec.replicas}"))), &replicas)
	Expect(err).NotTo(HaveOccurred())
	return replicas
}

// operatorValues are the values that the operator was installed with.
func operatorValues() []byte {
	GinkgoHelper()
	return must(run(nil, "helm", "get", "values", "ramcloud-operator", "--namespace", operatorNamespace, "-o", "yaml"))
}

// installOperator installs a chart, or upgrades to it, and waits until all operators run its version.
func installOperator(chart string, values []byte, settings ...string) {
	GinkgoHelper()
	must(run(values, "helm", append([]string{"upgrade", "--install", "ramcloud-operator", chart, "--namespace", operatorNamespace,
		"--create-namespace", "--values", "-", "--wait", "--timeout", "180s"}, settings...)...))
	must(kubectl("-n", operatorNamespace, "rollout", "status", "deployment/ramcloud-operator", "--timeout=180s"))
}

// waitForLeader waits until one of the present operators acts: a deleted one may still hold the lease.
func waitForLeader() string {
	GinkgoHelper()
	var leader string
	Eventually(func(g Gomega) {
		holder := string(must(kubectl("-n", operatorNamespace, "get", "lease", "ramcloud-operator", "-o", "jsonpath={.spec.holderIdentity}")))
		leader, _, _ = strings.Cut(holder, "_")
		pods := string(must(kubectl("-n", operatorNamespace, "get", "pods", "-l", "app.kubernetes.io/name=ramcloud-operator",
			"--field-selector=status.phase=Running", "-o", "jsonpath={.items[*].metadata.name}")))
		g.Expect(strings.Fields(pods)).To(ContainElement(leader), "the lease's holder is %q", holder)
	}, 2*time.Minute, time.Second).Should(Succeed())
	return leader
}

func patchReplicas(n int) string { return fmt.Sprintf(`{"spec":{"servers":{"replicas":%d}}}`, n) }
