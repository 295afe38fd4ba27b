package suite

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// refusal is a cluster that the API server must not accept, and the error that it must return.
type refusal struct {
	name     string
	manifest string
	messages []string
}

var isInvalid = regexp.MustCompile(`^RAMCloudCluster\.ramcloud\.dev "(.*)" is invalid: (.*)$`)

// refusals reads the golden file of the operator's own test (api/v1alpha1): "# name", the spec as YAML and
// the API server's error, which kubectl must print.
func refusals() (out []refusal) {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(top(), "operator/api/v1alpha1/testdata/refusals.golden"))
	Expect(err).NotTo(HaveOccurred())
	for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		lines := strings.Split(block, "\n")
		Expect(len(lines)).To(BeNumerically(">=", 3), block)
		said := isInvalid.FindStringSubmatch(lines[len(lines)-1])
		Expect(said).NotTo(BeNil(), block)
		r := refusal{name: strings.TrimPrefix(lines[0], "# "), manifest: fmt.Sprintf(
			"apiVersion: ramcloud.dev/v1alpha1\nkind: RAMCloudCluster\nmetadata: {name: %q, namespace: default}\nspec:\n  %s\n",
			said[1], strings.Join(lines[1:len(lines)-1], "\n  "))}
		// Several are in brackets; kubectl shows them as a list. The text of each follows its last "field: kind: ".
		for message := range strings.SplitSeq(strings.Trim(said[2], "[]"), ", spec.") {
			message, _, _ = strings.Cut(message, ", <nil>: ")
			if at := strings.Index(message, "Invalid value: "); at >= 0 {
				message = message[at:]
			}
			r.messages = append(r.messages, message)
		}
		out = append(out, r)
	}
	Expect(len(out)).To(BeNumerically(">", 30))
	return out
}
