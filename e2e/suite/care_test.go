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
		}, time.Minute, time.Second).Should(And(ContainSubstring("annotation e2e"), ContainSubstring("no restart was asked for")))
		Consistently(func() []string { return podUIDs(cluster, "") }, 10*time.Second, time.Second).Should(Equal(before))
		check("status.pendingRestart names the annotation; none of %d pods was restarted", len(before))
	})

	It("restarts nothing when the operator is upgraded with other values", func() {
		before := podUIDs(cluster, "")
		values := operatorValues()
		DeferCleanup(func() { installOperator("charts/ramcloud-operator", values) })
		installOperator("charts/ramcloud-operator", values, "--set", "workers=3")
		waitForLeader()
		waitReady(cluster)
		Expect(podUIDs(cluster, "")).To(Equal(before))
		check("helm upgrade of the operator restarted none of %d pods", len(before))
	})

	It("leaves a paused cluster alone", func() {
		must(kubectl("patch", "rcc", cluster, "--type=merge", "-p", `{"spec":{"paused":true}}`))
		DeferCleanup(func() { waitReady(cluster) })
		DeferCleanup(func() { must(kubectl("patch", "rcc", cluster, "--type=merge", "-p", `{"spec":{"paused":false}}`)) })
		Eventually(func() string { return status(cluster).condition("Paused").Status }, time.Minute, time.Second).Should(Equal("True"))
		must(kubectl("delete", "service", cluster))
		Consistently(func() error { _, err := kubectl("get", "service", cluster); return err }, 10*time.Second, time.Second).ShouldNot(Succeed())
		check("a Service that was deleted stays away while spec.paused is set")

		// Nobody would create the pod of a server again that is evicted now.
		node := nodeOf(cluster + "-server-0")
		DeferCleanup(func() { must(kubectl("uncordon", node)) })
		before := podUIDs(cluster, "server")
		Expect(drain(node, cluster, "10s")).To(MatchError(ContainSubstring("disruption budget")))
		Expect(podUIDs(cluster, "server")).To(Equal(before))
		Expect(evictionsHeld(cluster)).To(ContainSubstring("spec.paused"))
		check("no server is evicted meanwhile: %s", evictionsHeld(cluster))
	})

	It("refuses bad clusters with messages that name field, value and what is accepted", func() {
		for _, bad := range refusals() {
			_, err := run([]byte(bad.manifest), "kubectl", "create", "--dry-run=server", "--validate=false", "-f", "-")
			Expect(err).To(HaveOccurred(), bad.name)
			for _, message := range bad.messages {
				Expect(err.Error()).To(ContainSubstring(message), bad.name)
			}
			check("%s: %s", bad.name, strings.Join(bad.messages, "; "))
		}
	})

	It("leaves what runs on a cordoned node alone, and puts nothing new there", func() {
		before := podUIDs(cluster, "")
		node := string(must(kubectl("get", "ramcloudserver", cluster+"-server-0", "-o", "jsonpath={.status.placement.node}")))
		must(kubectl("cordon", node))
		DeferCleanup(func() { must(kubectl("uncordon", node)) })
		load := startChecker(outside())
		declare("elsewhere", small("Delete"))
		waitReady("elsewhere")
		nodes := strings.Fields(string(must(kubectl("get", "pods", "-l", "ramcloud.dev/cluster=elsewhere", "-o", "jsonpath={.items[*].spec.nodeName}"))))
		Expect(nodes).NotTo(ContainElement(node))
		waitReady(cluster)
		load.finish()
		Expect(podUIDs(cluster, "")).To(Equal(before))
		check("%s is cordoned: its pods stay, %d new ones are on %v", node, len(nodes), nodes)
	})

	It("asks for huge pages where nodes have them", func() {
		page := ""
		for _, size := range []string{"2Mi", "1Gi"} {
			for _, amount := range strings.Fields(string(must(kubectl("get", "nodes", "-o", "jsonpath={.items[*].status.allocatable.hugepages-"+size+"}")))) {
				if amount != "0" {
					page = size
				}
			}
		}
		if page == "" {
			Skip("no node has huge pages (allocatable hugepages-2Mi and hugepages-1Gi are 0)")
		}
		spec := small("Delete")
		spec["servers"] = map[string]any{"replicas": 2, "hugePages": page, "memory": map[string]any{"log": "1Gi"}}
		declare("huge", spec)
		waitReady("huge")
		put("huge")
		asked := string(must(kubectl("get", "pod", "huge-server-0", "-o", `jsonpath={.spec.containers[0].resources.limits.hugepages-`+page+`}`)))
		Expect(asked).To(Equal("1Gi"))
		check("servers run with 1Gi of pages of %s", page)
	})

	It("tells its story by the plugin, and collects a report without secrets", func() {
		plugin := filepath.Join(top(), "build/bin/kubectl-ramcloud")
		text := string(must(run(nil, plugin, "status", cluster)))
		Expect(text).To(ContainSubstring("default/" + cluster))
		check("kubectl ramcloud status prints\n%s", text)
		Expect(string(must(run(nil, plugin, "cli", cluster, "--", "status")))).To(ContainSubstring("servers"))
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
