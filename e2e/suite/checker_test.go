package suite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"ramcloud.dev/client"
	"ramcloud.dev/e2e/load"
)

// checker works on a table from outside the cluster while a case does something to the cluster (package load).
type checker struct {
	*load.Load
	name string
}

const (
	checkerSpan = 2 // servers of a table: the smallest cluster here has no more
	// dataPathGap is how long a client may go without an operation that succeeds, as a multiple of its longest
	// quiet gap, while a component that is not on the path of reads and writes is disturbed.
	dataPathGap = 20
)

// startChecker makes a table of its own, works on it, and returns once it knows how long gaps are in a quiet cluster.
func startChecker(addresses string) *checker {
	GinkgoHelper()
	return startCheckerOver(addresses, checkerSpan)
}

func startCheckerOver(addresses string, span uint32) *checker {
	GinkgoHelper()
	return startCheckerOf(addresses, load.Shape{Span: span}, podDeadline)
}

// startCheckerOf has so long for all keys, if the load writes them first.
func startCheckerOf(addresses string, shape load.Shape, within time.Duration) *checker {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	c := &checker{name: fmt.Sprintf("checked-%d", time.Now().UnixNano())}
	var err error
	c.Load, err = load.StartShaped(ctx, addresses, c.name, shape, uint64(GinkgoRandomSeed()))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(c.Close)
	Expect(c.Quiet(ctx)).To(Succeed())
	return c
}

// changeMetadata makes and drops tables beside the load, and returns the longest time that one of these took.
func (c *checker) changeMetadata(times int) (making, dropping time.Duration) {
	GinkgoHelper()
	for i := range times {
		name := fmt.Sprintf("%s-%d", c.name, i)
		began := time.Now()
		Eventually(func() error {
			_, err := c.Client.CreateTable(context.Background(), name, checkerSpan)
			return err
		}, podDeadline, 100*time.Millisecond).Should(Succeed())
		made := time.Now()
		c.dropTable(name)
		making, dropping = max(making, made.Sub(began)), max(dropping, time.Since(made))
	}
	return making, dropping
}

// dropTable drops a table although coordinators may fail meanwhile.
func (c *checker) dropTable(name string) {
	GinkgoHelper()
	Eventually(func() error {
		err := c.Client.DropTable(context.Background(), name)
		if errors.Is(err, client.NotFound) {
			return nil // an earlier try with an unknown outcome has dropped it
		}
		return err
	}, podDeadline, 100*time.Millisecond).Should(Succeed())
}

// servers are the ids of the servers that have the table's tablets now.
func (c *checker) servers() (out []uint64) {
	GinkgoHelper()
	table, err := c.Client.GetTable(context.Background(), c.name)
	Expect(err).NotTo(HaveOccurred())
	for _, tablet := range table.Tablets {
		out = append(out, tablet.ServerID)
	}
	return out
}

// finish ends the load. No operation may have failed, and no client may have waited too long for one.
func (c *checker) finish() {
	GinkgoHelper()
	c.finishWithin(load.Limits{Gap: dataPathGap})
}

func (c *checker) finishWithin(limits load.Limits) {
	GinkgoHelper()
	verdict := c.Stop(limits)
	c.dropTable(c.name)
	check("%s", verdict)
	if verdict.Wrong() != "" {
		path := filepath.Join(top(), "build/logs", c.name+".html")
		Expect(verdict.Draw(path)).To(Succeed())
		Fail(strings.Join(verdict.Problems, "\n") + "\nthe history: " + path)
	}
}
