package suite

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// previous is the output of hack/previous_operator.sh: the image tag of the previous operator, or the reason
// why there is none.
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
		// The operator has adopted the running pods' templates: only later changes of the spec are changes.
		Eventually(func() string {
			return string(must(kubectl("get", "rcc", name, "-o", "jsonpath={.status.revisions[*].current}")))
		}, time.Minute, time.Second).ShouldNot(BeEmpty())
		// The new operator works: it applies a changed spec.
		must(kubectl("patch", "rcc", name, "--type=merge", "-p", `{"spec":{"servers":{"template":{"metadata":{"annotations":{"e2e":"upgraded"}}}}}}`))
		Eventually(func() string {
			return string(must(kubectl("get", "rcc", name, "-o", "jsonpath={.status.pendingRestart}")))
		}, time.Minute, time.Second).Should(ContainSubstring("annotation e2e"))
		waitReady(name)
		waitReady(cluster)
		Consistently(func() []string { return append(podUIDs(name, ""), podUIDs(cluster, "")...) }, 20*time.Second, 2*time.Second).
			Should(Equal(before))
		load.finish()
		expectPut(name)
		check("from %s to %s (%s leads): 0 restarts, none of %d pods re-created\n%s", tag, image, leader, len(before), strings.Join(before, "\n"))

		By("asking what a roll would change")
		text, pending := diff(name)
		Expect(pending).To(BeTrue(), "servers differ by an annotation")
		Expect(text).To(And(ContainSubstring("--- server ("), MatchRegexp(`(?m)^\+ +e2e: upgraded$`)))

		By("asking for what the upgrade left to be restarted")
		stages := watchStages(name)
		roll(name, 5)
		Eventually(func() string { return stageOf(name) }, 2*podDeadline, time.Second).Should(Equal("Required"))
		seen := stages()
		Expect(slices.IsSortedFunc(seen, func(a, b string) int { return slices.Index(tlsStages, a) - slices.Index(tlsStages, b) })).To(BeTrue(),
			"the etcd went back from TLS: %v", seen)
		waitReady(name)
		text, pending = diff(name)
		Expect(text).NotTo(Or(ContainSubstring("--- coordinator ("), ContainSubstring("--- etcd ("), ContainSubstring("to TLS")))
		check("after the roll etcd's stages of TLS were %v, and this differs still (%t):\n%s", seen, pending, text)

		Eventually(func() string {
			text, pending := diff(name)
			if !pending {
				return ""
			}
			return text
		}, podDeadline, 2*time.Second).Should(BeEmpty())
		check("nothing is pending any more")
	})
})

// diff returns the output of kubectl ramcloud diff, and whether something is pending.
func diff(name string) (text string, pending bool) {
	GinkgoHelper()
	command := exec.Command(filepath.Join(top(), "build/bin/kubectl-ramcloud"), "diff", name)
	var said bytes.Buffer
	command.Stderr = &said
	output, err := command.Output()
	var ended *exec.ExitError
	if err != nil && (!errors.As(err, &ended) || ended.ExitCode() != 1) {
		Expect(err).NotTo(HaveOccurred(), said.String())
	}
	return string(output), err != nil
}

// tlsStages are the stages of an etcd's move to TLS; the first stands for an operator without TLS.
var tlsStages = []string{"", "Off", "Offered", "Used", "Required"}

func stageOf(name string) string {
	GinkgoHelper()
	return string(must(kubectl("get", "rcc", name, "-o", "jsonpath={.status.etcd.tls}")))
}

// watchStages records the stages until the caller asks for them: each once, in order.
func watchStages(name string) (seen func() []string) {
	done, list := make(chan struct{}), make(chan []string)
	go func() {
		defer GinkgoRecover()
		var stages []string
		note := func() {
			out, err := kubectl("get", "rcc", name, "-o", "jsonpath={.status.etcd.tls}")
			if stage := string(out); err == nil && (len(stages) == 0 || stages[len(stages)-1] != stage) {
				stages = append(stages, stage)
			}
		}
		for {
			note()
			select {
			case <-done:
				note()
				list <- stages
				return
			case <-time.After(time.Second):
			}
		}
	}()
	return func() []string { close(done); return <-list }
}

func operatorImage() string {
	GinkgoHelper()
	return string(must(kubectl("-n", operatorNamespace, "get", "deployment", "ramcloud-operator", "-o",
		"jsonpath={.spec.template.spec.containers[0].image}")))
}
