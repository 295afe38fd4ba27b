package client

import (
	"context"
	"slices"
	"strconv"
	"sync"

	"ramcloud.dev/client/internal/wire"
)

// MultiKey names an object of a multi-read or multi-delete.
type MultiKey struct {
	TableID    uint64
	Key        []byte
	Conditions Conditions
}

// MultiObject is an object of a multi-write.
type MultiObject struct {
	TableID    uint64
	Key, Value []byte
	Conditions Conditions
}

// Result is the outcome of one operation of a multi-operation. Value is that of a read.
type Result struct {
	Value   []byte
	Version uint64
	Err     error
}

// MultiRead reads many objects of any tables in few messages. Each result is at its key's place.
func (c *Client) MultiRead(ctx context.Context, keys []MultiKey) []Result {
	return c.multi(ctx, wire.OpMultiRead, keyed(keys))
}

// MultiWrite writes many objects. Each has its own outcome; they are not atomic together. Several with one
// key take effect in order.
func (c *Client) MultiWrite(ctx context.Context, objects []MultiObject) []Result {
	operations := make([]wire.Write, len(objects))
	for i, o := range objects {
		operations[i] = wire.Write{TableID: o.TableID, Reject: o.Conditions, Key: o.Key, Value: o.Value}
	}
	return c.multi(ctx, wire.OpMultiWrite, operations)
}

// MultiDelete removes many objects; a result's version is that of the removed object, 0 if there was none.
func (c *Client) MultiDelete(ctx context.Context, keys []MultiKey) []Result {
	return c.multi(ctx, wire.OpMultiDelete, keyed(keys))
}

func keyed(keys []MultiKey) []wire.Write {
	operations := make([]wire.Write, len(keys))
	for i, k := range keys {
		operations[i] = wire.Write{TableID: k.TableID, Reject: k.Conditions, Key: k.Key}
	}
	return operations
}

// Limits of one message, except that one operation always fits.
const (
	batchBytes = 1 << 20
	replyBytes = 1 << 20
)

// multiCall is a multi-operation in flight. Groups of different servers work on different results.
type multiCall struct {
	op         wire.Opcode
	repeatable bool
	operations []wire.Write // of reads and deletes without a value
	results    []Result
	done       []bool
	round      int
	inVain     map[place]int     // rounds in a row in which the server did nothing
	stale      map[uint64]*Table // maps that were wrong, by table
	used       map[uint64]*Table // maps used in this round
}

// multi runs in rounds: the remaining operations are grouped by server. The groups run in parallel, a group's
// messages one after the other. Operations that a server did not execute are left for the next round, until
// the deadline.
func (c *Client) multi(ctx context.Context, op wire.Opcode, operations []wire.Write) []Result {
	ctx, cancel := bounded(ctx)
	defer cancel()
	m := &multiCall{op: op, repeatable: op == wire.OpMultiRead, operations: operations,
		results: make([]Result, len(operations)), done: make([]bool, len(operations)),
		inVain: map[place]int{}, stale: map[uint64]*Table{}}
	for i, o := range operations {
		err := checkKey(o.Key)
		if err == nil {
			err = checkValue(o.Value)
		}
		if err != nil {
			m.finish(i, err)
		}
	}
	left := m.left()
	for wait := firstWait; len(left) > 0; m.round, wait = m.round+1, min(2*wait, lastWait) {
		last := c.multiRound(ctx, m, left)
		before := len(left)
		if left = m.left(); len(left) == 0 {
			break
		}
		if len(left) < before {
			wait = firstWait // there was progress
		}
		if !pause(ctx, wait, last) {
			for _, i := range left {
				m.finish(i, outOfTime(ctx, last, "multi-operation"))
			}
			break
		}
	}
	return m.results
}

func (m *multiCall) left() (left []int) {
	for i, done := range m.done {
		if !done {
			left = append(left, i)
		}
	}
	return left
}

func (m *multiCall) finish(i int, err error) {
	m.results[i].Err, m.done[i] = err, true
}

// multiRound sends the remaining operations once, and returns why some still remain.
func (c *Client) multiRound(ctx context.Context, m *multiCall, left []int) error {
	groups, last := c.multiGroups(ctx, m, left)
	var mutex sync.Mutex
	var running sync.WaitGroup
	for at, indices := range groups {
		running.Go(func() {
			err := c.multiGroup(ctx, m, at, indices)
			if err == nil {
				return
			}
			mutex.Lock()
			defer mutex.Unlock()
			last = err
			inVain := 0
			if m.didSome(indices) {
				m.inVain[at] = 0
			} else {
				inVain = m.inVain[at]
				m.inVain[at]++
			}
			if wantsNewMap(err, m.round, inVain) {
				for _, i := range indices {
					m.unserved(m.operations[i].TableID)
				}
			}
		})
	}
	running.Wait()
	return last
}

// didSome: at least one of these operations is done.
func (m *multiCall) didSome(indices []int) bool {
	return slices.ContainsFunc(indices, func(i int) bool { return m.done[i] })
}

// unserved: the map of this round was wrong.
func (m *multiCall) unserved(tableID uint64) { m.stale[tableID] = m.used[tableID] }

// multiGroups finds the servers of the remaining operations. Operations without a table are finished.
// Operations without a reachable server are left for the next round, and the reason is returned.
func (c *Client) multiGroups(ctx context.Context, m *multiCall, left []int) (groups map[place][]int, last error) {
	type lookup struct {
		table *Table
		err   error
	}
	tables := map[uint64]lookup{} // each table is looked up once
	m.used = map[uint64]*Table{}
	groups = map[place][]int{}
	for _, i := range left {
		o := &m.operations[i]
		found, known := tables[o.TableID]
		if !known {
			found.table, found.err = c.table(ctx, o.TableID, m.stale[o.TableID])
			tables[o.TableID], m.used[o.TableID] = found, found.table
			delete(m.stale, o.TableID)
		}
		if found.err != nil {
			m.finish(i, found.err)
			continue
		}
		tablet := tabletOf(found.table, wire.KeyHash(o.TableID, o.Key))
		at, err := reach(tablet)
		if err != nil {
			last = failure(Unavailable, "%s: %v", where(found.table, tablet), err)
			m.unserved(o.TableID) // the coordinator may know more next time
			continue
		}
		groups[at] = append(groups[at], i)
	}
	return groups, last
}

// multiGroup sends one server's operations, message by message, and returns why some were not done.
func (c *Client) multiGroup(ctx context.Context, m *multiCall, at place, indices []int) (last error) {
	for len(indices) > 0 {
		if ctx.Err() != nil {
			return failure(Retry, "no time was left to send it")
		}
		count := m.batch(indices)
		batch := indices[:count]
		var answer wire.MultiReply
		r := request{op: m.op, body: m.encode(batch), repeatable: m.repeatable}
		err := notThere(c.askOwner(ctx, m.round, at, r, inAnyVersion(&answer), m.tablets(batch)))
		if err == nil && (len(answer.Results) == 0 || len(answer.Results) > count) {
			err = failure(ProtocolError, "%d results for %d operations", len(answer.Results), count)
		}
		if err != nil {
			again, result := retry(err, m.repeatable)
			if again {
				return err
			}
			for _, i := range batch {
				m.finish(i, result)
			}
			return last
		}
		var refused map[string]bool // keys with an operation that is left for the next round
		for k, result := range answer.Results {
			if err := m.take(batch[k], result); err != nil {
				last = err
				if refused == nil {
					refused = map[string]bool{}
				}
				refused[m.name(batch[k])] = true
			}
		}
		indices = indices[len(answer.Results):]
		if refused != nil {
			// Later operations on the same keys wait, too, to keep their order.
			indices = slices.DeleteFunc(slices.Clone(indices), func(i int) bool { return refused[m.name(i)] })
		}
		if answer.RetryAfterUS > 0 && len(indices) > 0 {
			return &Error{Code: Retry, Message: "the server was not ready", retryAfterUS: answer.RetryAfterUS}
		}
	}
	return last
}

// name is the same for operations on the same object.
func (m *multiCall) name(i int) string {
	return strconv.FormatUint(m.operations[i].TableID, 16) + "/" + string(m.operations[i].Key)
}

// tablets of operations.
func (m *multiCall) tablets(indices []int) []tabletKey {
	keys := make([]tabletKey, len(indices))
	for n, i := range indices {
		o := &m.operations[i]
		keys[n] = tabletKey{o.TableID, wire.KeyHash(o.TableID, o.Key)}
	}
	return keys
}

// take stores one result; the error of an operation that must be retried is returned.
func (m *multiCall) take(i int, result wire.MultiResult) error {
	if Code(result.Status) == OK {
		m.results[i] = Result{Value: result.Value, Version: result.Version}
		m.done[i] = true
		return nil
	}
	err := &Error{Code: Code(result.Status)}
	again, final := retry(err, m.repeatable)
	if again {
		return err
	}
	m.finish(i, final)
	return nil
}

// batch is how many of the operations fit into one message.
func (m *multiCall) batch(indices []int) int {
	const fixedBytes = 32
	size := 0
	for n, i := range indices {
		o := &m.operations[i]
		size += fixedBytes + len(o.Key) + len(o.Value)
		if n > 0 && (size > batchBytes || n == wire.MaxMultiCount) {
			return n
		}
	}
	return len(indices)
}

func (m *multiCall) encode(indices []int) []byte {
	if m.op == wire.OpMultiWrite {
		body := wire.MultiWrite{MaxBytes: replyBytes}
		for _, i := range indices {
			body.Operations = append(body.Operations, m.operations[i])
		}
		return body.Encode(nil)
	}
	body := wire.MultiKeyed{MaxBytes: replyBytes}
	for _, i := range indices {
		o := &m.operations[i]
		body.Operations = append(body.Operations, wire.Keyed{TableID: o.TableID, Reject: o.Reject, Key: o.Key})
	}
	return body.Encode(nil)
}
