package suite

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// silentNode is how long a node does not answer. After five minutes and 40 s Kubernetes deletes its pods that
// do not tolerate this.
const silentNode = 7 * time.Minute

// inNode runs a command in a node of the test cluster: the node is a container of that name.
func inNode(node string, command ...string) []byte {
	GinkgoHelper()
	return must(run(nil, "docker", append([]string{"exec", node}, command...)...))
}

// bystander is a pod on the node with the default tolerations.
func bystander(node string) {
	GinkgoHelper()
	var image string
	for name := range strings.FieldsSeq(string(must(kubectl("get", "node", node, "-o", "jsonpath={.status.images[*].names[*]}")))) {
		if strings.Contains(name, "/pause:") {
			image = name
		}
	}
	Expect(image).NotTo(BeEmpty(), "a pause image on %s", node)
	must(run([]byte(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bystander", "namespace": "default"}, "spec": {
		"nodeName": "`+node+`", "containers": [{"name": "pause", "image": "`+image+`", "imagePullPolicy": "Never"}]}}`), "kubectl", "create", "-f", "-"))
	DeferCleanup(func() {
		must(kubectl("delete", "pod", "bystander", "--ignore-not-found", "--force", "--grace-period=0"))
	})
	must(kubectl("wait", "--for=condition=Ready", "pod/bystander", "--timeout=120s"))
}

var _ = Describe("a node whose kubelet is silent", Ordered, Label("node"), func() {
	It("keeps its pods, which go on", func() {
		waitReady(cluster)
		node := string(must(kubectl("get", "ramcloudserver", cluster+"-server-0", "-o", "jsonpath={.status.placement.node}")))
		bystander(node)
		before, pods := podUIDs(cluster, ""), string(must(kubectl("get", "pods", "-l", "ramcloud.dev/cluster="+cluster,
			"--field-selector=spec.nodeName="+node, "-o", "jsonpath={.items[*].metadata.name}")))
		work := startChecker(outside())
		began := time.Now()
		inNode(node, "systemctl", "stop", "kubelet")
		DeferCleanup(func() {
			inNode(node, "systemctl", "start", "kubelet")
			must(kubectl("wait", "--for=condition=Ready", "node/"+node, "--timeout=180s"))
			waitReady(cluster)
		})
		deleted := func(pod string) string {
			return string(must(kubectl("get", "pod", pod, "-o", "jsonpath={.metadata.deletionTimestamp}")))
		}
		Eventually(func() string { return deleted("bystander") }, silentNode, 5*time.Second).ShouldNot(BeEmpty())
		check("after %s Kubernetes deletes an ordinary pod on %s", time.Since(began).Round(time.Second), node)
		Consistently(func(g Gomega) {
			g.Expect(podUIDs(cluster, "")).To(Equal(before))
			for pod := range strings.FieldsSeq(pods) {
				g.Expect(deleted(pod)).To(BeEmpty(), pod)
			}
			g.Expect(status(cluster).condition("Ready").Status).To(Equal("True"))
		}, max(30*time.Second, silentNode-time.Since(began)), 5*time.Second).Should(Succeed())
		inNode(node, "systemctl", "start", "kubelet")
		must(kubectl("wait", "--for=condition=Ready", "node/"+node, "--timeout=180s"))
		waitReady(cluster)
		work.finish()
		Expect(podUIDs(cluster, "")).To(Equal(before))
		check("for %s no kubelet answered on %s: %s stayed, and went on", time.Since(began).Round(time.Second), node, pods)
	})
})
