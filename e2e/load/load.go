// Package load works on a table from outside a cluster while something is done to the cluster, records every
// operation, and judges the history: gaps, failures and linearizability.
package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"ramcloud.dev/client"
)

const (
	clients = 8
	keys    = 24
	rate    = 50 // operations a second of each client
	// callTimeout is how long an operation may take before it counts as failed.
	callTimeout = 20 * time.Second
	// quietOperations have to succeed before something is done to the cluster: about five seconds.
	quietOperations = 2000
)

// Operation is a read or a write of a key, each of which is a register.
type Operation struct {
	Client       int
	Key          int
	Write        bool
	Value        string        // the value written or read
	Call, Return time.Duration // since the load began
	Err          error
}

// Load is a number of clients that work on a table of their own.
type Load struct {
	Client *client.Client
	// Table has the tablets as they were when it was created.
	Table client.Table

	began     time.Time
	cancel    context.CancelFunc
	ended     sync.WaitGroup
	disturbed time.Duration // the cluster was quiet until then
	stopped   time.Duration

	mutex      sync.Mutex
	operations []Operation
	succeeded  int
}

// Start creates a table over span servers and begins to work on it.
func Start(ctx context.Context, addresses, table string, span uint32, seed uint64) (*Load, error) {
	c, err := client.Connect(addresses)
	if err != nil {
		return nil, err
	}
	created, err := c.CreateTable(ctx, table, span)
	if err != nil {
		c.Close()
		return nil, err
	}
	l := &Load{Client: c, Table: *created, began: time.Now()}
	working, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	for n := range clients {
		l.ended.Go(func() { l.work(working, n, rand.New(rand.NewPCG(uint64(n), seed))) })
	}
	return l, nil
}

func (l *Load) work(ctx context.Context, number int, rng *rand.Rand) {
	ticker := time.NewTicker(time.Second / rate)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		l.one(Operation{Client: number, Key: rng.IntN(keys), Write: rng.IntN(2) == 0, Value: fmt.Sprintf("%d-%d", number, n)})
	}
}

// one does an operation and records it. It is not cut short when the load ends: its outcome would not be known.
func (l *Load) one(o Operation) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	key := []byte(strconv.Itoa(o.Key))
	o.Call = time.Since(l.began)
	if o.Write {
		_, o.Err = l.Client.Write(ctx, l.Table.ID, key, []byte(o.Value))
	} else {
		var value []byte
		value, _, o.Err = l.Client.Read(ctx, l.Table.ID, key)
		if errors.Is(o.Err, client.NotFound) {
			o.Err = nil
		}
		o.Value = string(value)
	}
	o.Return = time.Since(l.began)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.operations = append(l.operations, o)
	if o.Err == nil {
		l.succeeded++
	}
}

// Quiet waits until enough operations were done to know the length of gaps in a quiet cluster.
func (l *Load) Quiet(ctx context.Context) error {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		l.mutex.Lock()
		done := l.succeeded
		l.mutex.Unlock()
		if done >= quietOperations {
			l.disturbed = time.Since(l.began)
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("only %d operations succeeded in %s: %w", done, time.Since(l.began).Round(time.Millisecond), ctx.Err())
		case <-ticker.C:
		}
	}
}

// Stop ends the load, and judges its history. The client is still connected, until Close.
func (l *Load) Stop(limits Limits) Verdict {
	l.stopped = time.Since(l.began)
	l.cancel()
	l.ended.Wait()
	return judge(l.operations, l.disturbed, l.stopped, limits)
}

// Close ends the load, stopped before or not, and its connections.
func (l *Load) Close() {
	l.cancel()
	l.Client.Close()
	l.ended.Wait()
}
