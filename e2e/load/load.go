// Package load works on a table from outside a cluster while something is done to the cluster, records every
// operation, and judges the history: gaps, failures and linearizability.
package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
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
	// allAtOnce clients write every key before the load begins, and read every key after it.
	allAtOnce = 32
)

// Shape is what a load does. Zero values are those of Start.
type Shape struct {
	Span  uint32 // servers of the table
	Keys  int
	Bytes int // of a value; 0: what its name takes
	Rate  int // operations a second of each client
	// Timeout is how long an operation may take before it counts as failed.
	Timeout time.Duration
	// All keys are written before the load begins, and read when it has ended.
	All bool
}

func (s Shape) complete() Shape {
	if s.Keys == 0 {
		s.Keys = keys
	}
	if s.Rate == 0 {
		s.Rate = rate
	}
	if s.Timeout == 0 {
		s.Timeout = callTimeout
	}
	return s
}

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

	shape     Shape
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
	return StartShaped(ctx, addresses, table, Shape{Span: span}, seed)
}

// StartShaped does so with a load of this shape.
func StartShaped(ctx context.Context, addresses, table string, shape Shape, seed uint64) (*Load, error) {
	c, err := client.Connect(addresses)
	if err != nil {
		return nil, err
	}
	created, err := c.CreateTable(ctx, table, shape.Span)
	if err != nil {
		c.Close()
		return nil, err
	}
	l := &Load{Client: c, Table: *created, shape: shape.complete(), began: time.Now()}
	if shape.All {
		if err := l.fill(ctx); err != nil {
			c.Close()
			return nil, err
		}
	}
	working, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	for n := range clients {
		l.ended.Go(func() { l.work(working, n, rand.New(rand.NewPCG(uint64(n), seed))) })
	}
	return l, nil
}

// fill writes every key once. All of these writes have to succeed.
func (l *Load) fill(ctx context.Context) error {
	l.all(ctx, true)
	for _, o := range l.operations {
		if o.Err != nil {
			return fmt.Errorf("key %d of %d: %w", o.Key, l.shape.Keys, o.Err)
		}
	}
	return ctx.Err()
}

// all writes or reads every key once, by clients that do nothing else.
func (l *Load) all(ctx context.Context, write bool) {
	var asking sync.WaitGroup
	for n := range allAtOnce {
		asking.Go(func() {
			number := clients + n
			if !write {
				number += allAtOnce
			}
			for key := n; key < l.shape.Keys && ctx.Err() == nil; key += allAtOnce {
				l.one(Operation{Client: number, Key: key, Write: write, Value: fmt.Sprintf("first-%d", key)})
			}
		})
	}
	asking.Wait()
}

func (l *Load) work(ctx context.Context, number int, rng *rand.Rand) {
	ticker := time.NewTicker(time.Second / time.Duration(l.shape.Rate))
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		l.one(Operation{Client: number, Key: rng.IntN(l.shape.Keys), Write: rng.IntN(2) == 0, Value: fmt.Sprintf("%d-%d", number, n)})
	}
}

// padded is what is written for a value: its name again and again.
func (l *Load) padded(name string) string {
	if l.shape.Bytes == 0 {
		return name
	}
	unit := name + " "
	return strings.Repeat(unit, l.shape.Bytes/len(unit)+1)[:l.shape.Bytes]
}

// named is the name of the value that was read. What nobody wrote keeps all its bytes, so it is no value of the history.
func (l *Load) named(value string) string {
	name, _, _ := strings.Cut(value, " ")
	if value != l.padded(name) {
		return value
	}
	return name
}

// one does an operation and records it. It is not cut short when the load ends: its outcome would not be known.
func (l *Load) one(o Operation) {
	ctx, cancel := context.WithTimeout(context.Background(), l.shape.Timeout)
	defer cancel()
	key := []byte(strconv.Itoa(o.Key))
	padded := []byte(l.padded(o.Value))
	o.Call = time.Since(l.began)
	if o.Write {
		_, o.Err = l.Client.Write(ctx, l.Table.ID, key, padded)
	} else {
		var value []byte
		value, _, o.Err = l.Client.Read(ctx, l.Table.ID, key)
		if errors.Is(o.Err, client.NotFound) {
			o.Err = nil
		}
		o.Value = l.named(string(value))
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
	if err := l.More(ctx, quietOperations); err != nil {
		return err
	}
	l.disturbed = time.Since(l.began)
	return nil
}

// More waits until so many further operations have succeeded.
func (l *Load) More(ctx context.Context, count int) error {
	first, began := l.done(), time.Now()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		done := l.done() - first
		if done >= count {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("only %d operations succeeded in %s: %w", done, time.Since(began).Round(time.Millisecond), ctx.Err())
		case <-ticker.C:
		}
	}
}

// done is how many operations have succeeded.
func (l *Load) done() int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.succeeded
}

// Stop ends the load, and judges its history. The client is still connected, until Close.
func (l *Load) Stop(limits Limits) Verdict {
	l.stopped = time.Since(l.began)
	l.cancel()
	l.ended.Wait()
	if l.shape.All {
		l.all(context.Background(), false)
	}
	return judge(l.operations, l.disturbed, l.stopped, limits)
}

// Close ends the load, stopped before or not, and its connections.
func (l *Load) Close() {
	l.cancel()
	l.Client.Close()
	l.ended.Wait()
}
