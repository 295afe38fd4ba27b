// Package client is a client of RAMCloud in pure Go: tables, reads, writes, deletes, increments, many of
// them at once, and enumeration over TCP. A Client is safe for concurrent use; calls of many goroutines
// share one connection to each server.
//
// Every call ends at its context's deadline (DefaultTimeout if it has none) or when the context is cancelled.
// A write, delete or increment whose reply was lost returns Indeterminate: it may have been executed. Other
// calls are retried until the deadline if that is safe. If a server answered only Retry until then, the error
// is DeadlineExceeded, otherwise Unavailable; both mean that nothing was changed.
//
// A Client belongs to the first cluster that it connected to: if coordinators of another cluster answer at
// its addresses later, calls end with WrongCluster, and a new Client is needed.
package client

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"ramcloud.dev/client/internal/wire"
)

// DefaultTimeout is the timeout of a call whose context has no deadline.
const DefaultTimeout = 30 * time.Second

// Conditions under which an operation fails instead of taking effect.
type Conditions = wire.RejectRules

// Flags of Conditions.
const (
	IfAbsent          = wire.RejectIfAbsent
	IfExists          = wire.RejectIfExists
	IfVersionNotEqual = wire.RejectIfVersionNotEqual
	IfVersionAtMost   = wire.RejectIfVersionAtMost
)

// Table is a table with its tablets and their servers.
type Table = wire.Table

// Object is an object that Enumerate visits.
type Object = wire.Object

// ClusterInfo describes the coordinator's cluster.
type ClusterInfo = wire.ClusterInfo

// Client is a connection to a cluster.
type Client struct {
	coordinators []string
	alive        context.Context // until Close; every connection ends with it
	close        context.CancelFunc

	mutex      sync.Mutex
	cluster    uuid               // the cluster's UUID; zero: not known yet
	leader     int                // index into coordinators that answered last
	redirected string             // the leader that a standby named, if it is not in our list
	sessions   map[place]*pending // finished ones are removed
	tables     map[uint64]*Table

	names           lookUp
	refreshing      singleflight.Group // requests for a table's tablets, by its id
	ownerCheckAfter time.Duration      // how long a server may be silent before its tablets are looked up again
}

// pending is a session that exists or is being established, shared by all callers.
type pending struct {
	ready   chan struct{}
	session *session
	err     error
}

// Connect creates a client of the cluster with these data addresses of coordinators, host:port[,host:port…].
// It connects at the first call.
func Connect(addresses string) (*Client, error) {
	c := &Client{sessions: map[place]*pending{}, tables: map[uint64]*Table{}, names: net.DefaultResolver.LookupHost, ownerCheckAfter: firstOwnerCheck}
	c.alive, c.close = context.WithCancel(context.Background())
	for address := range strings.SplitSeq(addresses, ",") {
		address = strings.TrimSpace(address)
		host, port, err := net.SplitHostPort(address)
		if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 || host == "" {
			return nil, failure(InvalidArgument, "cluster address is '%s'; accepted: host:port[,host:port…]", addresses)
		}
		c.coordinators = append(c.coordinators, address)
	}
	return c, nil
}

// Close ends all connections; outstanding calls fail.
func (c *Client) Close() { c.close() }

// session returns the connection to a server, and establishes it if there is none.
func (c *Client) session(ctx context.Context, at place) (*session, error) {
	if c.alive.Err() != nil {
		return nil, &Error{Code: Cancelled, Message: "the client is closed", notSent: true}
	}
	c.mutex.Lock()
	p := c.sessions[at]
	if p == nil || p.finished(c.cluster) {
		p = &pending{ready: make(chan struct{})}
		c.sessions[at] = p
		cluster := c.cluster
		go func() {
			// Not the caller's context: others may be waiting for the same session.
			p.session, p.err = open(c.alive, c.names, at, cluster)
			close(p.ready)
			if p.err == nil {
				<-p.session.done
			}
			c.takeOff(at, p)
		}()
	}
	c.mutex.Unlock()
	select {
	case <-p.ready:
		return p.session, p.err
	case <-ctx.Done():
		code := contextCode(ctx)
		if code == DeadlineExceeded {
			code = Unavailable // it was never sent: no server answers there
		}
		return nil, &Error{Code: code, Message: "not connected to " + at.address + " in time", notSent: true}
	}
}

// takeOff removes a finished session, unless another has replaced it already. New server ids and addresses
// keep appearing while a process runs, so old ones must be removed.
func (c *Client) takeOff(at place, over *pending) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.sessions[at] == over {
		delete(c.sessions, at)
	}
}

// finished: it failed, or its connection has ended or must be replaced.
func (p *pending) finished(cluster uuid) bool {
	select {
	case <-p.ready:
	default:
		return false
	}
	if p.err != nil {
		return true
	}
	if cluster != (uuid{}) && p.session.hello.ClusterUUID != cluster {
		// It was established before we knew the cluster, to a coordinator that did not know it or belongs to
		// another.
		p.session.retire(errors.New("it was not made to the cluster " + formatUUID(cluster)))
	}
	return !p.session.usable()
}

type encoder interface{ Encode([]byte) []byte }
type decoder interface{ Decode([]byte) error }

// decode reads the body of a reply on a connection of this version of the protocol.
type decode func(version uint16, body []byte) error

// inAnyVersion decodes a body whose bytes do not depend on the version.
func inAnyVersion(answer decoder) decode {
	return func(_ uint16, body []byte) error { return answer.Decode(body) }
}

// request is a request, and whether it may be repeated when its reply was lost.
type request struct {
	op         wire.Opcode
	body       []byte
	control    wire.Control // instead of the body, where that depends on the version of the protocol
	repeatable bool
}

func (r *request) encodeIn(version uint16) []byte {
	if r.control != nil {
		return r.control.EncodeIn(version, nil)
	}
	return r.body
}

// attempt sends a request once. If it may be repeated, it has a shorter timeout, so that a silent server does
// not use up the time for servers that would answer.
func (c *Client) attempt(ctx context.Context, number int, at place, r request, decode decode) error {
	if r.repeatable {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience(number))
		defer cancel()
	}
	s, err := c.session(ctx, at)
	if err != nil {
		return err
	}
	reply, err := s.call(ctx, r.op, r.encodeIn(s.version()))
	if err != nil {
		return err
	}
	if err := decode(s.version(), reply); err != nil {
		s.end(err)
		return failure(ProtocolError, "%v", err)
	}
	return nil
}

// Info asks the coordinator for the cluster's identity and the address of its admin API.
func (c *Client) Info(ctx context.Context) (*ClusterInfo, error) {
	answer := &ClusterInfo{}
	return answer, c.ask(ctx, wire.OpGetClusterInfo, wire.Empty{}, answer, safe)
}

// CreateTable creates a table over span servers; an existing table with this span is returned. Indeterminate:
// it was sent, and no answer came in time; call it again, or check whether the table exists.
func (c *Client) CreateTable(ctx context.Context, name string, span uint32) (*Table, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	answer := &Table{}
	if err := c.control(ctx, wire.OpCreateTable, &wire.CreateTable{Name: name, Span: span}, answer, idempotent); err != nil {
		return nil, err
	}
	if err := c.remember(answer); err != nil {
		return nil, err
	}
	return answer, nil
}

// DropTable drops a table and all its objects.
func (c *Client) DropTable(ctx context.Context, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	return c.control(ctx, wire.OpDropTable, &wire.DropTable{Name: name}, wire.Empty{}, unsafe)
}

// GetTable looks a table up by its name.
func (c *Client) GetTable(ctx context.Context, name string) (*Table, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	answer := &Table{}
	if err := c.control(ctx, wire.OpGetTable, &wire.GetTable{Name: name}, answer, safe); err != nil {
		return nil, err
	}
	if err := c.remember(answer); err != nil {
		return nil, err
	}
	return answer, nil
}

// ListTables returns all tables, ordered by id.
func (c *Client) ListTables(ctx context.Context) ([]Table, error) {
	ctx, cancel := bounded(ctx) // of all pages together
	defer cancel()
	var tables []Table
	for page := (wire.ListTables{MaxBytes: 1 << 20}); ; {
		answer := &wire.Tables{}
		if err := c.control(ctx, wire.OpListTables, &page, answer, safe); err != nil {
			return nil, err
		}
		tables = append(tables, answer.Tables...)
		if answer.NextID == 0 {
			return tables, nil
		}
		if answer.NextID <= page.FirstID {
			return nil, failure(ProtocolError, "the list of tables does not move on from %d", page.FirstID)
		}
		page.FirstID = answer.NextID
	}
}

func checkName(name string) error {
	if name == "" || len(name) > wire.MaxTableNameBytes {
		return failure(InvalidArgument, "table name has %d bytes; accepted: 1 to %d", len(name), wire.MaxTableNameBytes)
	}
	for i := range len(name) {
		if name[i] < 0x20 || name[i] > 0x7e {
			return failure(InvalidArgument, "table name: byte %d is 0x%02x; accepted: printable ASCII bytes", i, name[i])
		}
	}
	return nil
}

func checkValue(value []byte) error {
	if len(value) > wire.MaxValueBytes {
		return failure(InvalidArgument, "value has %d bytes; accepted: at most %d", len(value), wire.MaxValueBytes)
	}
	return nil
}

func checkKey(key []byte) error {
	if len(key) == 0 || len(key) > wire.MaxKeyBytes {
		return failure(InvalidArgument, "key has %d bytes; accepted: 1 to %d", len(key), wire.MaxKeyBytes)
	}
	return nil
}

// Read returns an object's value and version; NotFound if there is none.
func (c *Client) Read(ctx context.Context, tableID uint64, key []byte, conditions ...Conditions) (value []byte, version uint64, err error) {
	rules, err := checked(key, conditions)
	if err != nil {
		return nil, 0, err
	}
	var answer wire.ReadReply
	request := &wire.Keyed{TableID: tableID, Reject: rules, Key: key}
	err = c.data(ctx, tableID, wire.KeyHash(tableID, key), wire.OpRead, request, &answer, true)
	return answer.Value, answer.Version, err
}

// Write stores an object and returns its new version. With conditions that do not hold, nothing changes.
func (c *Client) Write(ctx context.Context, tableID uint64, key, value []byte, conditions ...Conditions) (uint64, error) {
	rules, err := checked(key, conditions)
	if err != nil {
		return 0, err
	}
	if err := checkValue(value); err != nil {
		return 0, err
	}
	request := &wire.Write{TableID: tableID, Reject: rules, Key: key, Value: value}
	var answer wire.VersionReply
	err = c.data(ctx, tableID, wire.KeyHash(tableID, key), wire.OpWrite, request, &answer, false)
	return answer.Version, err
}

// Delete removes an object and returns the version it had, 0 when there was none.
func (c *Client) Delete(ctx context.Context, tableID uint64, key []byte, conditions ...Conditions) (uint64, error) {
	rules, err := checked(key, conditions)
	if err != nil {
		return 0, err
	}
	request := &wire.Keyed{TableID: tableID, Reject: rules, Key: key}
	var answer wire.VersionReply
	err = c.data(ctx, tableID, wire.KeyHash(tableID, key), wire.OpDelete, request, &answer, false)
	return answer.Version, err
}

// Increment adds to the integer in an object (8 bytes, little-endian, which wraps around), and returns the
// sum and the new version. An absent object counts as 0. InvalidArgument if the value has another length.
func (c *Client) Increment(ctx context.Context, tableID uint64, key []byte, delta int64, conditions ...Conditions) (int64, uint64, error) {
	sum, version, err := c.increment(ctx, tableID, key, wire.Int64, uint64(delta), conditions)
	return int64(sum), version, err
}

// IncrementDouble is Increment with a double.
func (c *Client) IncrementDouble(ctx context.Context, tableID uint64, key []byte, delta float64, conditions ...Conditions) (float64, uint64, error) {
	sum, version, err := c.increment(ctx, tableID, key, wire.Double, math.Float64bits(delta), conditions)
	return math.Float64frombits(sum), version, err
}

func (c *Client) increment(ctx context.Context, tableID uint64, key []byte, as wire.NumberType, delta uint64, conditions []Conditions) (uint64, uint64, error) {
	rules, err := checked(key, conditions)
	if err != nil {
		return 0, 0, err
	}
	request := &wire.Increment{TableID: tableID, Reject: rules, Delta: delta, Type: as, Key: key}
	var answer wire.IncrementReply
	err = c.data(ctx, tableID, wire.KeyHash(tableID, key), wire.OpIncrement, request, &answer, false)
	return answer.Value, answer.Version, err
}

// checked validates the common arguments of operations on an object, and merges the conditions.
func checked(key []byte, conditions []Conditions) (Conditions, error) {
	if err := checkKey(key); err != nil {
		return Conditions{}, err
	}
	return merge(conditions)
}

// merge combines several conditions, of which only one may name a version, because a request has only one
// version.
func merge(conditions []Conditions) (Conditions, error) {
	const onVersion = IfVersionNotEqual | IfVersionAtMost
	var out Conditions
	for _, c := range conditions {
		if c.Flags&onVersion != 0 {
			if out.Flags&onVersion != 0 {
				return Conditions{}, failure(InvalidArgument, "conditions name two versions, %d and %d; accepted is one", out.Version, c.Version)
			}
			out.Version = c.Version
		}
		out.Flags |= c.Flags
	}
	return out, nil
}

// Enumerate calls visit for every object of a table until visit returns an error, which it returns. An object
// that exists during the whole enumeration is visited exactly once, even if its tablet moves to another
// server or is split. Each page has the remaining time of ctx, or DefaultTimeout.
func (c *Client) Enumerate(ctx context.Context, tableID uint64, visit func(Object) error) error {
	ranges := []hashRange{{end: ^uint64(0)}}
	for len(ranges) > 0 {
		r := ranges[len(ranges)-1]
		ranges = ranges[:len(ranges)-1]
		later, err := c.enumerateRange(ctx, tableID, r, visit)
		if err != nil {
			return err
		}
		ranges = append(ranges, later...)
	}
	return nil
}

// hashRange is a range of hashes, inclusive; its objects before cursor were visited, and at the cursor those
// with keys up to afterKey. A cursor is a place in an order that depends only on the hashes, so it is valid for
// every owner of a part of the range.
type hashRange struct {
	start, end, cursor uint64
	afterKey           []byte
}

// enumerateRange visits the part of a range that is in its first tablet, and returns the rest of the range.
func (c *Client) enumerateRange(ctx context.Context, tableID uint64, r hashRange, visit func(Object) error) (later []hashRange, err error) {
	const pageBytes = 1 << 20
	call := tabletCall{request: request{op: wire.OpEnumerate, repeatable: true}, tableID: tableID, hash: r.start}
	for {
		body := &wire.Enumerate{TableID: tableID, StartHash: r.start, Cursor: r.cursor, MaxBytes: pageBytes,
			SplitsHashes: true, AfterKey: r.afterKey}
		call.body = body.Encode(nil)
		var page wire.Page
		server, err := c.callTablet(ctx, call, &page)
		if err != nil {
			return nil, err
		}
		if page.TabletEnd < r.start {
			return nil, failure(ProtocolError, "enumeration of table %d went back from %d to %d", tableID, r.start, page.TabletEnd)
		}
		for _, object := range page.Objects {
			if err := visit(object); err != nil {
				return nil, err
			}
		}
		if page.TabletEnd < r.end {
			later = append(later, hashRange{page.TabletEnd + 1, r.end, r.cursor, r.afterKey})
			r.end = page.TabletEnd
		}
		if page.Done {
			return later, nil
		}
		if len(page.Objects) == 0 && (page.NextCursor == r.cursor || page.WithinHash) {
			return nil, failure(ProtocolError, "enumeration of table %d does not move on", tableID)
		}
		r.cursor, r.afterKey = page.NextCursor, nil
		if page.WithinHash {
			r.afterKey = bytes.Clone(page.Objects[len(page.Objects)-1].Key)
		}
		if call.only = server; page.CursorIsPlace { // the cursor of a server of an earlier version is valid only
			// there
			call.only = 0
		}
	}
}
