package suite

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// previous is what hack/previous_operator.sh left: the tag of the former operator's image, or why there is none.
func previous() (tag, why string) {
	GinkgoHelper()
	folder := filepath.Join(top(), "build/previous")
	text, err := os.ReadFile(filepath.Join(folder, "tag"))
	if err == nil {
		return strings.TrimSpace(string(text)), ""
	}
	text, err = os.ReadFile(filepath.Join(folder, "why-not"))
	Expect(err).NotTo(HaveOccurred(), "hack/previous_operator.sh was not run (hack/e2e.sh runs it)")
	return "", strings.TrimSpace(string(text))
}

var _ = Describe("an upgrade of the operator", Ordered, Label("upgrade"), func() {
	const name = "aged"

	It("from the version before to this one restarts no pod, and no operation fails", func() {
		tag, why := previous()
		if tag == "" {
			Skip(why)
		}
		values, image := operatorValues(), operatorImage()
		toThis := func() { installOperator("charts/ramcloud-operator", values) }
		DeferCleanup(func() {
			toThis()
			waitReady(cluster)
		})
		installOperator("build/previous/charts/ramcloud-operator", values, "--set", "image.tag="+tag)
		Expect(operatorImage()).To(HaveSuffix(":" + tag))
		waitForLeader()
		declare(name, withEtcd(5))
		waitReady(name)
		waitReady(cluster)
		put(name)

		before := append(podUIDs(name, ""), podUIDs(cluster, "")...)
		load := startCheckerOver(outsideOf(name), 5)
		toThis()
		Expect(operatorImage()).To(Equal(image))
		leader := waitForLeader()
		// It has adopted what runs: only what is changed from then on is a change to it.
		Eventually(func() string {
			return string(must(kubectl("get", "rcc", name, "-o", "jsonpath={.status.revisions[*].current}")))
		}, time.Minute, time.Second).ShouldNot(BeEmpty())
		// The new one is at work: a changed spec is followed.
		must(kubectl("patch", "rcc", name, "--type=merge", "-p", `{"spec":{"servers":{"template":{"metadata":{"annotations":{"e2e":"upgraded"}}}}}}`))
		Eventually(func() string {
			return string(must(kubectl("get", "rcc", name, "-o", "jsonpath={.status.pendingRestart}")))
		}, time.Minute, time.Second).Should(ContainSubstring("annotation e2e"))
		expectDiff(name, "server ", "e2e: upgraded")
		waitReady(name)
		waitReady(cluster)
		Consistently(func() []string { return append(podUIDs(name, ""), podUIDs(cluster, "")...) }, 20*time.Second, 2*time.Second).
			Should(Equal(before))
		load.finish()
		expectPut(name)
		check("from %s to %s (%s leads): 0 restarts, none of %d pods re-created\n%s", tag, image, leader, len(before), strings.Join(before, "\n"))

		By("asking for what the upgrade left to be restarted")
		roll(name, 5)
		left := expectDiff(name, "server ", "e2e: upgraded") // servers are not restarted
		Expect(left).NotTo(Or(ContainSubstring("--- etcd "), ContainSubstring("--- coordinator "), ContainSubstring("A roll also")))
	})
})

// expectDiff says what a roll would change of a cluster, which has to be something: exit code 1.
func expectDiff(name string, parts ...string) string {
	GinkgoHelper()
	out, err := run(nil, filepath.Join(top(), "build/bin/kubectl-ramcloud"), "diff", name)
	var ended *exec.ExitError
	Expect(errors.As(err, &ended)).To(BeTrue(), "%v", err)
	Expect(ended.ExitCode()).To(Equal(1), "%v", err)
	for _, part := range parts {
		Expect(string(out)).To(ContainSubstring(part))
	}
	check("kubectl ramcloud diff ends with 1 and prints\n%s", out)
	return string(out)
}

func operatorImage() string {
	GinkgoHelper()
	return string(must(kubectl("-n", operatorNamespace, "get", "deployment", "ramcloud-operator", "-o",
		"jsonpath={.spec.template.spec.containers[0].image}")))
}
