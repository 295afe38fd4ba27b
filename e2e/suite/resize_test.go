package suite

import (
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// podMemory is the memory of a server's pod in its status, and the generation that the status is about.
type podMemory struct {
	Metadata struct{ Name string }
	Status   struct {
		ObservedGeneration int64
		ContainerStatuses  []struct {
			Name         string
			RestartCount int
			Resources    struct{ Limits struct{ Memory string } }
		}
	}
}

func podMemories(name string) []podMemory {
	GinkgoHelper()
	return decode[struct{ Items []podMemory }](must(kubectl("get", "pods", "-l", "ramcloud.dev/cluster="+name+",app.kubernetes.io/component=server", "-o", "json"))).Items
}

// limits are the effective limits of a cluster's servers. None of their containers was restarted.
func limits(g Gomega, name string) (out []string) {
	for _, pod := range podMemories(name) {
		g.Expect(pod.Status.ContainerStatuses).To(HaveLen(1))
		g.Expect(pod.Status.ContainerStatuses[0].RestartCount).To(BeZero(), pod.Metadata.Name)
		out = append(out, pod.Status.ContainerStatuses[0].Resources.Limits.Memory)
	}
	return out
}

// needResize skips the case if the API server or the kubelets cannot change the memory of a running pod.
func needResize(name string) {
	GinkgoHelper()
	if resources := string(must(kubectl("get", "--raw", "/api/v1"))); !strings.Contains(resources, `"pods/resize"`) {
		Skip("this API server has no subresource pods/resize (Kubernetes 1.33 and later have it)")
	}
	for _, pod := range podMemories(name) {
		if pod.Status.ObservedGeneration == 0 || pod.Status.ContainerStatuses[0].Resources.Limits.Memory == "" {
			Skip("the kubelet of pod " + pod.Metadata.Name + " does not tell of which generation its status is, or which limit of memory holds (Kubernetes 1.34 and later do)")
		}
	}
}

// sizeLogs changes the log of a cluster's servers and waits until they have it. It skips the case if a kubelet refuses.
func sizeLogs(name, log string) {
	GinkgoHelper()
	must(kubectl("patch", "rcc", name, "--type=merge", "-p", fmt.Sprintf(`{"spec":{"servers":{"memory":{"log":%q}}}}`, log)))
	refused := ""
	Eventually(func(g Gomega) {
		c := status(name)
		resizing := c.condition("Resizing")
		g.Expect(resizing.ObservedGeneration).To(Equal(c.Metadata.Generation))
		if resizing.Reason == "ResizeInfeasible" && strings.Contains(resizing.Message, "the kubelet says Infeasible") {
			refused = resizing.Message
			return
		}
		g.Expect([]string{resizing.Status, resizing.Reason}).To(Equal([]string{"False", "MemoryAsWanted"}), resizing.Message)
	}, podDeadline, time.Second).Should(Succeed())
	if refused != "" {
		Skip("the kubelet cannot: " + refused)
	}
}

// logsOf are the sizes of the servers' logs in the coordinator's list. No resize is in progress.
func logsOf(g Gomega, name string) (out []uint64) {
	type row struct {
		State  string
		Total  uint64 `json:"log_bytes_total"`
		Target uint64 `json:"log_bytes_target"`
		Held   uint64 `json:"log_bytes_held"`
	}
	text, err := onCluster(name, "server", "list", "-o", "json")
	g.Expect(err).NotTo(HaveOccurred())
	for _, one := range decode[[]row](text) {
		if one.State == "UP" {
			g.Expect([]uint64{one.Target, one.Held}).To(Equal([]uint64{one.Total, one.Total}))
			out = append(out, one.Total)
		}
	}
	return out
}

var _ = Describe("the memory of running servers", Ordered, Label("memory"), func() {
	const name, mib = "sized", 1 << 20

	BeforeAll(func() {
		declare(name, small("Delete"))
		waitReady(name)
		needResize(name)
		put(name)
	})

	// sized waits for the size of all logs and limits, and checks that nothing was restarted.
	sized := func(log, limit string, bytes uint64, before []string) {
		GinkgoHelper()
		Eventually(func(g Gomega) {
			g.Expect(logsOf(g, name)).To(Equal([]uint64{bytes, bytes}))
			g.Expect(limits(g, name)).To(Equal([]string{limit, limit}))
		}, podDeadline, time.Second).Should(Succeed())
		Expect(podUIDs(name, "")).To(Equal(before), "pods or containers were restarted")
		expectPut(name)
		check("every server has a log of %s and a pod of %s, with 0 restarts", log, limit)
	}

	It("grows and shrinks under load, and nothing is restarted or lost", func() {
		before := podUIDs(name, "")
		was := limits(NewGomega(Fail), name)
		work := startChecker(outsideOf(name))
		sizeLogs(name, "128Mi")
		sized("128Mi", "344Mi", 128*mib, before)
		sizeLogs(name, "64Mi")
		sized("64Mi", was[0], 64*mib, before)
		work.finish()
	})

	It("is the memory of new servers, too", func() {
		sizeLogs(name, "128Mi")
		must(kubectl("patch", "rcc", name, "--type=merge", "-p", patchReplicas(3)))
		waitReady(name)
		args := string(must(kubectl("get", "pod", name+"-server-2", "-o", "jsonpath={.spec.containers[0].args}")))
		Expect(args).To(ContainSubstring("--log-memory=128MiB"))
		check("a third server was created with a log of 128 MiB")
	})
})
