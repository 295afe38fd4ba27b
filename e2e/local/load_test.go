package local

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ramcloud.dev/client"
)

const (
	loadWriters   = 4
	keysPerWriter = 400
	absent        = ""                   // no value of a load is empty
	pace          = 2 * time.Millisecond // pause of each writer after an operation, to leave time for the rest of the test
	most          = 2000                 // bytes of a value
	deadline      = 2 * time.Second      // of an operation
)

// history is the possible values of one key: the value after the last acknowledged operation, and the values
// after later operations with unknown outcomes.
type history struct {
	value   string
	version uint64
	maybe   []string
}

func (h *history) allows(value string) bool {
	return value == h.value || slices.Contains(h.maybe, value)
}

// load writes and deletes without pause and remembers what was acknowledged. Each key has one writer.
type load struct {
	t       *testing.T
	client  *client.Client
	table   *client.Table
	pause   time.Duration // of each writer, after an operation
	most    int           // bytes of a value
	within  time.Duration // deadline of an operation
	stop    context.CancelFunc
	writers sync.WaitGroup
	acked   atomic.Int64
	lost    atomic.Int64              // outcome unknown
	failed  atomic.Int64              // with any error, those among them
	failure atomic.Value              // the last of those errors
	longest atomic.Int64              // nanoseconds that an operation took, also one that failed
	began   [loadWriters]atomic.Int64 // Unix nanoseconds; of each writer's present operation, 0: none
	keys    [loadWriters]map[string]*history
}

func startLoad(t *testing.T, of *client.Client, table *client.Table) *load {
	return startLoadAt(t, of, table, pace)
}

func startLoadAt(t *testing.T, of *client.Client, table *client.Table, pause time.Duration) *load {
	return startLoadOf(t, of, table, pause, most, deadline)
}

func startLoadOf(t *testing.T, of *client.Client, table *client.Table, pause time.Duration, most int, within time.Duration) *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{t: t, client: of, table: table, pause: pause, most: most, within: within, stop: cancel}
	for w := range loadWriters {
		l.keys[w] = map[string]*history{}
		l.writers.Add(1)
		go func() {
			defer l.writers.Done()
			random := rand.New(rand.NewPCG(1, uint64(w)))
			for n := 0; ctx.Err() == nil; n++ {
				l.operation(ctx, w, n, random)
				time.Sleep(l.pause)
			}
		}()
	}
	t.Cleanup(l.finish)
	return l
}

// operation writes or deletes one key. Values are unique, so that finding one says which write it was.
func (l *load) operation(ctx context.Context, writer, n int, random *rand.Rand) {
	key := fmt.Sprintf("writer %d key %d", writer, random.IntN(keysPerWriter))
	known := l.keys[writer][key]
	if known == nil {
		known = &history{value: absent}
		l.keys[writer][key] = known
	}
	value := absent
	var version uint64
	var err error
	begin, whole := time.Now(), ctx
	l.began[writer].Store(begin.UnixNano())
	defer l.began[writer].Store(0)
	ctx, cancel := context.WithTimeout(whole, l.within)
	defer cancel()
	if random.IntN(10) == 0 {
		version, err = l.client.Delete(ctx, l.table.ID, []byte(key))
	} else {
		value = fmt.Sprintf("%d %d ", writer, n) + strings.Repeat("x", random.IntN(l.most))
		version, err = l.client.Write(ctx, l.table.ID, []byte(key), []byte(value))
	}
	if whole.Err() == nil { // it was not ended with the load
		l.took(time.Since(begin), err)
	}
	switch {
	case err == nil && value != absent && version <= known.version:
		l.t.Errorf("key %q: version %d after %d", key, version, known.version)
	case err == nil:
		known.value, known.version, known.maybe = value, max(version, known.version), nil
		l.acked.Add(1)
	case errors.Is(err, client.Indeterminate):
		known.maybe = append(known.maybe, value)
		l.lost.Add(1)
	}
	// Any other error means that the operation was not executed.
}

func (l *load) took(length time.Duration, err error) {
	for {
		longest := l.longest.Load()
		if int64(length) <= longest || l.longest.CompareAndSwap(longest, int64(length)) {
			break
		}
	}
	if err != nil {
		l.failure.Store(fmt.Sprintf("after %s: %v", length, err))
		l.failed.Add(1)
	}
}

// longestSoFar is the longest time that an operation took, or takes.
func (l *load) longestSoFar() time.Duration {
	longest := time.Duration(l.longest.Load())
	for w := range l.began {
		if began := l.began[w].Load(); began != 0 {
			longest = max(longest, time.Since(time.Unix(0, began)))
		}
	}
	return longest
}

// more waits until so many further operations were acknowledged.
func (l *load) more(count int64) {
	l.t.Helper()
	target := l.acked.Load() + count
	for end := time.Now().Add(limit); l.acked.Load() < target; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			l.t.Fatalf("%d of %d operations acknowledged within %s", count-(target-l.acked.Load()), count, limit)
		}
	}
}

// finish ends the load; afterwards the keys' histories may be read.
func (l *load) finish() {
	l.stop()
	l.writers.Wait()
}

// all visits every key.
func (l *load) all(visit func(key string, known *history)) {
	for _, keys := range l.keys {
		for key, known := range keys {
			visit(key, known)
		}
	}
}

// verify reads every key back and compares.
func (l *load) verify() {
	l.t.Helper()
	present := 0
	l.all(func(key string, known *history) {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		value, version, err := l.client.Read(ctx, l.table.ID, []byte(key))
		if err != nil && !errors.Is(err, client.NotFound) {
			l.t.Fatalf("read %q: %v", key, err)
		}
		if !known.allows(string(value)) {
			l.t.Errorf("key %q is %.20q, acknowledged was %.20q", key, value, known.value)
		}
		if err == nil && version < known.version && len(known.maybe) == 0 {
			l.t.Errorf("key %q has version %d, acknowledged was %d", key, version, known.version)
		}
		if err == nil {
			present++
		}
	})
	if present < loadWriters*keysPerWriter/4 {
		l.t.Errorf("only %d keys were found: the load was too small to say anything", present)
	}
}
