package suite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"ramcloud.dev/client"
)

// checker works on a table from outside the cluster while a case does something to the cluster, records every
// operation, and decides at the end whether what was seen is linearizable: every key is a register.
type checker struct {
	client *client.Client
	table  uint64
	name   string
	cancel context.CancelFunc
	ended  sync.WaitGroup
	began  time.Time

	mutex  sync.Mutex
	events []porcupine.Operation
	done   []time.Time // when operations ended well
	failed map[string]int
}

const (
	checkerWorkers = 8
	checkerKeys    = 24
	checkerRate    = 50 // operations a second of each worker
	checkerSpan    = 2  // servers of a table: the smallest cluster here has no more
)

// call is an operation on a register. A write whose outcome is not known may have happened at any time.
type call struct {
	key   int
	write bool
	value string
}

var registers = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		parts := make([][]porcupine.Operation, checkerKeys)
		for _, operation := range history {
			key := operation.Input.(call).key
			parts[key] = append(parts[key], operation)
		}
		return parts
	},
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		if c := input.(call); c.write {
			return true, c.value
		}
		return output == state, state
	},
	DescribeOperation: func(input, output any) string {
		if c := input.(call); c.write {
			return fmt.Sprintf("put(%d, %s)", c.key, c.value)
		}
		return fmt.Sprintf("get(%d) = %v", input.(call).key, output)
	},
}

// startChecker makes a table of its own and begins to work on it.
func startChecker(addresses string) *checker {
	GinkgoHelper()
	c := &checker{name: fmt.Sprintf("checked-%d", time.Now().UnixNano()), failed: map[string]int{}}
	var err error
	c.client, err = client.Connect(addresses)
	Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	table, err := c.client.CreateTable(ctx, c.name, checkerSpan)
	Expect(err).NotTo(HaveOccurred())
	c.table, c.began = table.ID, time.Now()
	for worker := range checkerWorkers {
		c.ended.Go(func() { c.work(ctx, worker) })
	}
	return c
}

func (c *checker) work(ctx context.Context, worker int) {
	defer GinkgoRecover()
	rng := rand.New(rand.NewPCG(uint64(worker), uint64(GinkgoRandomSeed())))
	ticker := time.NewTicker(time.Second / checkerRate)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		c.one(worker, n, rng)
	}
}

// one does an operation and records it. It is not cut short when the case ends: its outcome would not be known.
func (c *checker) one(worker, n int, rng *rand.Rand) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	input := call{key: rng.IntN(checkerKeys), write: rng.IntN(2) == 0}
	key := []byte(strconv.Itoa(input.key))
	var (
		output string
		err    error
	)
	start := time.Since(c.began).Nanoseconds()
	if input.write {
		input.value = fmt.Sprintf("%d-%d", worker, n)
		_, err = c.client.Write(ctx, c.table, key, []byte(input.value))
	} else {
		var value []byte
		value, _, err = c.client.Read(ctx, c.table, key)
		if errors.Is(err, client.NotFound) {
			err = nil
		}
		output = string(value)
	}
	end := time.Since(c.began).Nanoseconds()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if err != nil {
		c.failed[fmt.Sprintf("write=%t: %.60s", input.write, err.Error())]++
		if !input.write {
			return // a read that saw nothing says nothing
		}
		end = int64(1) << 62 // it may take effect any time from now on
	} else {
		c.done = append(c.done, time.Now())
	}
	c.events = append(c.events, porcupine.Operation{ClientId: worker, Input: input, Output: output, Call: start, Return: end})
}

// changeMetadata makes and drops tables beside the load, and gives the longest that either took.
func (c *checker) changeMetadata(times int) (making, dropping time.Duration) {
	GinkgoHelper()
	for i := range times {
		name := fmt.Sprintf("%s-%d", c.name, i)
		began := time.Now()
		Eventually(func() error {
			_, err := c.client.CreateTable(context.Background(), name, checkerSpan)
			return err
		}, podDeadline, 100*time.Millisecond).Should(Succeed())
		made := time.Now()
		c.dropTable(name)
		making, dropping = max(making, made.Sub(began)), max(dropping, time.Since(made))
	}
	return making, dropping
}

// dropTable drops a table whatever becomes of the coordinator meanwhile.
func (c *checker) dropTable(name string) {
	GinkgoHelper()
	Eventually(func() error {
		err := c.client.DropTable(context.Background(), name)
		if errors.Is(err, client.NotFound) {
			return nil // a try whose outcome was not told has done it
		}
		return err
	}, podDeadline, 100*time.Millisecond).Should(Succeed())
}

// finish ends the load and judges it: how much was done, the longest time without any success, and whether the
// history is linearizable.
func (c *checker) finish(atLeastPerSecond float64) (longest time.Duration) {
	GinkgoHelper()
	c.cancel()
	c.ended.Wait()
	took := time.Since(c.began) // of the load only: dropping the table waits for whoever leads
	DeferCleanup(func() { c.client.Close() })
	c.dropTable(c.name)
	slices.SortFunc(c.done, time.Time.Compare)
	for i := 1; i < len(c.done); i++ {
		longest = max(longest, c.done[i].Sub(c.done[i-1]))
	}
	result, info := porcupine.CheckOperationsVerbose(registers, c.events, 2*time.Minute)
	if result != porcupine.Ok {
		path := filepath.Join(top(), "build/logs", c.name+".html")
		if file, err := os.Create(path); err == nil {
			_ = porcupine.Visualize(registers, info, file)
			_ = file.Close()
		}
		Expect(result).To(Equal(porcupine.Ok), "the history is not linearizable: %s", path)
	}
	rate := float64(len(c.done)) / took.Seconds()
	check("%d operations in %s (%.0f a second), all linearizable; longest time without one: %s; failed: %v",
		len(c.done), took.Round(time.Second), rate, longest.Round(time.Millisecond), c.failed)
	Expect(rate).To(BeNumerically(">=", atLeastPerSecond), "operations a second")
	return longest
}
