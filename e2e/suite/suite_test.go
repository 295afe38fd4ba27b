// Package suite checks the product on a Kubernetes cluster, from outside: with kubectl, the ramcloud command
// line and sha256 sums, as a user would. It runs where the cluster can be reached (hack/e2e.sh sees to that)
// and expects the operator installed and the sample cluster "demo" applied.
package suite

import (
	"fmt"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/format"
)

func TestSuite(t *testing.T) {
	format.MaxLength = 8000
	RegisterFailHandler(Fail)
	suite, reporter := GinkgoConfiguration()
	// The cases depend on one another: a case may check the data that an earlier one imported.
	suite.RandomizeAllSpecs = false
	RunSpecs(t, "RAMCloud on Kubernetes", suite, reporter)
}

// hack/count.py reads the last line to count the tests.
var _ = ReportAfterSuite("count", func(report Report) {
	passed, failed := 0, 0
	for _, spec := range report.SpecReports.WithLeafNodeType(types.NodeTypeIt) {
		switch {
		case spec.Failed():
			failed++
		case spec.State == types.SpecStatePassed:
			passed++
		}
	}
	fmt.Printf("\n%d passed, %d failed\n", passed, failed)
})
