package suite

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("care", Ordered, ContinueOnFailure, Label("care"), func() {
	BeforeAll(func() { waitReady(cluster) })

	It("restarts nothing for a changed spec, and says what differs", func() {
		before := podUIDs(cluster, "")
		must(kubectl("patch", "rcc", cluster, "--type=merge", "-p", `{"spec":{"servers":{"template":{"metadata":{"annotations":{"e2e":"x"}}}}}}`))
		DeferCleanup(func() {
			must(kubectl("patch", "rcc", cluster, "--type=json", "-p", `[{"op":"remove","path":"/spec/servers/template/metadata"}]`))
		})
		Eventually(func() string {
			return string(must(kubectl("get", "rcc", cluster, "-o", "jsonpath={.status.pendingRestart}")))
		}, time.Minute, time.Second).Should(And(ContainSubstring("annotation e2e"), ContainSubstring("loses what it holds in memory")))
		Consistently(func() []string { return podUIDs(cluster, "") }, 10*time.Second, time.Second).Should(Equal(before))
		check("status.pendingRestart names the annotation; none of %d pods was restarted", len(before))
	})

	It("restarts nothing when the operator is upgraded with other values", func() {
		before := podUIDs(cluster, "")
		must(run(nil, "helm", "upgrade", "ramcloud-operator", "charts/ramcloud-operator", "--namespace", operatorNamespace,
			"--reuse-values", "--set", "workers=3", "--wait", "--timeout", "180s"))
		waitReady(cluster)
		Expect(podUIDs(cluster, "")).To(Equal(before))
		check("helm upgrade of the operator restarted none of %d pods", len(before))
	})

	It("refuses the eviction of a server while its node is drained, with the reason", func() {
		node := string(must(kubectl("get", "ramcloudserver", cluster+"-server-0", "-o", "jsonpath={.status.placement.node}")))
		must(kubectl("cordon", node))
		DeferCleanup(func() { must(kubectl("uncordon", node)) })
		before := podUIDs(cluster, "server")
		_, err := kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=10s",
			"--pod-selector=ramcloud.dev/cluster="+cluster+",app.kubernetes.io/component=server")
		Expect(err).To(MatchError(ContainSubstring("disruption budget")))
		Expect(podUIDs(cluster, "server")).To(Equal(before))
		check("%v", err)
	})

	It("leaves a paused cluster alone", func() {
		must(kubectl("patch", "rcc", cluster, "--type=merge", "-p", `{"spec":{"pause":true}}`))
		DeferCleanup(func() { waitReady(cluster) })
		DeferCleanup(func() { must(kubectl("patch", "rcc", cluster, "--type=merge", "-p", `{"spec":{"pause":false}}`)) })
		Eventually(func() string { return status(cluster).condition("Paused").Status }, time.Minute, time.Second).Should(Equal("True"))
		must(kubectl("delete", "service", cluster))
		Consistently(func() error { _, err := kubectl("get", "service", cluster); return err }, 10*time.Second, time.Second).ShouldNot(Succeed())
		check("a Service that was deleted stays away while spec.pause is set")
	})

	It("refuses bad clusters with messages that name field, value and what is accepted", func() {
		for spec, want := range map[string]string{
			`{"coordinator":{"replicas":3}}`:                 "accepted: 1, or 3 with spec.metadata.managedEtcd",
			`{"servers":{"hugePages":"2Mi"}}`:                "spec.servers.hugePages is 2Mi: huge pages are not supported yet; accepted: none",
			`{"network":{"transport":"rdma"}}`:               "spec.network.transport is rdma, which is not supported yet; accepted: tcp",
			`{"servers":{"memory":{"log":"32Mi"}}}`:          "spec.servers.memory.log is 32Mi; accepted",
			`{"servers":{"backupStorage":{"size":"100Mi"}}}`: "spec.servers.backupStorage.size is 100Mi",
		} {
			_, err := run([]byte(`{"apiVersion":"ramcloud.dev/v1alpha1","kind":"RAMCloudCluster","metadata":{"name":"bad","namespace":"default"},"spec":`+spec+`}`),
				"kubectl", "apply", "--dry-run=server", "-f", "-")
			Expect(err).To(MatchError(ContainSubstring(want)))
			check("%s: %v", spec, err)
		}
	})

	It("tells its story by the plugin, and collects a report without secrets", func() {
		plugin := filepath.Join(top(), "build/bin/kubectl-ramcloud")
		text := string(must(run(nil, plugin, "status", cluster)))
		Expect(text).To(ContainSubstring("default/" + cluster))
		check("kubectl ramcloud status prints\n%s", text)
		Expect(string(must(run(nil, plugin, "cli", "--cluster", cluster, "--", "status")))).To(ContainSubstring("servers"))
		file := filepath.Join(GinkgoT().TempDir(), "report.tar.gz")
		must(run(nil, plugin, "report", cluster, "-o", file))
		names := string(must(run(nil, "tar", "-tzf", file)))
		for _, part := range []string{"status.txt", "resources/pods.yaml", "pods/" + cluster + "-server-0/log", "pods/" + cluster + "-server-0/metrics"} {
			Expect(names).To(ContainSubstring(part))
		}
		info, err := os.Stat(file)
		Expect(err).NotTo(HaveOccurred())
		check("a report of %d files, %d bytes", strings.Count(names, "\n"), info.Size())
	})
})
