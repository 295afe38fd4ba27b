package local

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ramcloud.dev/client"
)

// counted is a value of the counter that was acknowledged, and its version.
type counted struct{ n, version uint64 }

// counter is a key that one writer increments, while others ask for everything that a master answers from
// memory. None of them may see a value below the one that was acknowledged before it asked.
type counter struct {
	t       *testing.T
	table   *client.Table
	ctx     context.Context
	last    atomic.Pointer[counted]
	workers sync.WaitGroup
	stop    chan struct{}
}

var counterKey = []byte("n")

// soon is a short timeout: a call to the suspended server ends, and is made again.
func (k *counter) soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(k.ctx, 2*time.Second)
}

func (k *counter) stopped() bool {
	select {
	case <-k.stop:
		return true
	default:
		return k.ctx.Err() != nil
	}
}

func (k *counter) count(of *client.Client) {
	defer k.workers.Done()
	for n := uint64(1); !k.stopped(); n++ {
		for {
			call, end := k.soon()
			version, err := of.Write(call, k.table.ID, counterKey, fmt.Appendf(nil, "%d", n))
			end()
			if err == nil {
				k.last.Store(&counted{n, version})
				break
			}
			if k.ctx.Err() != nil {
				k.t.Errorf("write: %v", err)
				return
			}
		}
	}
}

// ask repeats a request until the end; `question` returns the value that it found.
func (k *counter) ask(answers *atomic.Int64, question func(call context.Context, before counted) (uint64, error)) {
	defer k.workers.Done()
	for !k.stopped() {
		before := *k.last.Load()
		call, end := k.soon()
		seen, err := question(call, before)
		end()
		switch {
		case errors.Is(err, errStale):
			k.t.Errorf("%v; %d, version %d, was acknowledged before", err, before.n, before.version)
			return
		case err != nil: // no answer; the loop ends when the limit is reached
		case seen < before.n:
			k.t.Errorf("%d was found, and %d was acknowledged before", seen, before.n)
			return
		default:
			answers.Add(1)
		}
	}
}

var errStale = errors.New("a stale answer")

func parsed(text []byte) (n uint64, err error) {
	if _, err = fmt.Sscan(string(text), &n); err != nil {
		err = fmt.Errorf("%w: the value is %q", errStale, text)
	}
	return n, err
}

func (k *counter) read(of *client.Client) func(context.Context, counted) (uint64, error) {
	return func(call context.Context, _ counted) (uint64, error) {
		value, _, err := of.Read(call, k.table.ID, counterKey)
		if errors.Is(err, client.NotFound) {
			return 0, fmt.Errorf("%w: %w", errStale, err)
		}
		if err != nil {
			return 0, err
		}
		return parsed(value)
	}
}

// condition requires a version newer than the one before the acknowledged version: it must not fail.
func (k *counter) condition(of *client.Client) func(context.Context, counted) (uint64, error) {
	return func(call context.Context, before counted) (uint64, error) {
		later := client.Conditions{Flags: client.IfVersionAtMost, Version: before.version - 1}
		value, _, err := of.Read(call, k.table.ID, counterKey, later)
		if errors.Is(err, client.WrongVersion) || errors.Is(err, client.NotFound) {
			return 0, fmt.Errorf("%w: %w", errStale, err)
		}
		if err != nil {
			return 0, err
		}
		return parsed(value)
	}
}

func (k *counter) scan(of *client.Client) func(context.Context, counted) (uint64, error) {
	return func(call context.Context, _ counted) (uint64, error) {
		var seen uint64
		err := of.Enumerate(call, k.table.ID, func(o client.Object) (err error) {
			seen, err = parsed(o.Value)
			return err
		})
		return seen, err
	}
}

// A master is suspended while others take its tablets over; when it goes on, it answers no read, condition or
// scan with stale data.
func TestASuspendedMasterAnswersNothingStale(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 4, "--replicas", "3")
	of := c.client()
	ctx, cancel := context.WithTimeout(context.Background(), 2*limit)
	defer cancel()
	k := &counter{t: t, table: c.table(of, "counter", 1), ctx: ctx, stop: make(chan struct{})}
	version, err := of.Write(ctx, k.table.ID, counterKey, []byte("0"))
	if err != nil {
		t.Fatal(err)
	}
	k.last.Store(&counted{0, version})
	before := c.serverViews()
	k.workers.Add(1)
	go k.count(of)
	answers := make([]atomic.Int64, 9)
	for i := range answers {
		asker := c.client()
		kinds := []func(*client.Client) func(context.Context, counted) (uint64, error){k.read, k.condition, k.scan}
		k.workers.Add(1)
		go k.ask(&answers[i], kinds[i%len(kinds)](asker))
	}
	further := func(what string, count uint64) {
		t.Helper()
		from := k.last.Load().n
		c.eventually(what, func() bool { return k.last.Load().n > from+count })
	}
	answered := func(what string) {
		t.Helper()
		from := make([]int64, len(answers))
		for i := range answers {
			from[i] = answers[i].Load()
		}
		c.eventually("answers of each kind "+what, func() bool {
			for i := range answers {
				if answers[i].Load() < from[i]+3 {
					return false
				}
			}
			return true
		})
	}
	further("the first writes", 100)
	answered("before")
	master := c.anOwner("counter")
	if err := syscall.Kill(master.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	c.eventually("another owner", func() bool {
		s := c.status()
		return s.ServersCrashed >= 1 && s.TabletsUnavailable == 0
	})
	further("writes at the new owner", 100)
	c.resume(master)
	further("further writes", 500)
	answered("after")
	c.eventually("the suspended server as a new one", func() bool {
		return c.status().ServersUp == 4 && c.serverViews()[master.Name].ID > before[master.Name].ID
	})
	close(k.stop)
	k.workers.Wait()
}
