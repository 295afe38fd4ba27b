package client

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/bits"
	"net"
	"slices"
	"sync"
	"testing"

	"ramcloud.dev/client/internal/wire"
)

// fakeStore is a coordinator and servers in this process that speak the protocol, with a plain map as
// the store. A test can take one request over with intercept.
type fakeStore struct {
	t           *testing.T
	coordinator net.Listener
	servers     []net.Listener
	running     sync.WaitGroup

	mutex    sync.Mutex
	closed   bool
	conns    map[net.Conn]bool
	accepted int
	cluster  uuid
	loading  bool // the cluster is not known yet
	// Its cursors mean the same on every server, as those of former servers do not.
	cursorIsPlace bool
	believing     bool     // accepts hellos for other servers
	nonsense      [][]byte // so many first hellos are answered with these
	speaks        uint16   // the highest version of the protocol
	version       uint64
	tables        []wire.Table
	objects       map[string]wire.ReadReply // by table id and key
	requests      map[wire.Opcode]int
	intercept     func(server int, h wire.Header, body []byte, c *fakeConn) bool // true: it was handled
}

type fakeConn struct {
	net.Conn
	mutex   sync.Mutex
	version uint16 // of the protocol
}

// control answers with a body that depends on the version.
func (c *fakeConn) control(h wire.Header, body wire.Control) {
	c.reply(h, OK, body.EncodeIn(c.version, nil))
}

func (c *fakeConn) reply(h wire.Header, code Code, body []byte) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	_, _ = c.Write(wire.Message(nil, wire.Header{Kind: wire.KindReply, Opcode: h.Opcode, Status: uint16(code), CallID: h.CallID}, body))
}

func (c *fakeConn) fail(h wire.Header, code Code, message string) {
	c.failWith(h, code, message, wire.ErrorDetails{})
}

func (c *fakeConn) failWith(h wire.Header, code Code, message string, details wire.ErrorDetails) {
	if c.version < wire.Extensible {
		details = wire.ErrorDetails{}
	}
	c.reply(h, code, (&wire.ErrorBody{Message: message, RetryAfterUS: 1000, Details: details}).Encode(nil))
}

const coordinatorIndex = -1

func startFake(t *testing.T, servers int) *fakeStore {
	f := &fakeStore{t: t, cluster: uuid{7}, speaks: wire.VersionMax, conns: map[net.Conn]bool{}, objects: map[string]wire.ReadReply{}, requests: map[wire.Opcode]int{}}
	listen := func(index int) net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		f.running.Go(func() { f.accept(l, index) })
		return l
	}
	f.coordinator = listen(coordinatorIndex)
	for i := range servers {
		f.servers = append(f.servers, listen(i))
	}
	t.Cleanup(f.stop)
	return f
}

func (f *fakeStore) stop() {
	f.mutex.Lock()
	f.closed = true
	for c := range f.conns {
		_ = c.Close()
	}
	f.mutex.Unlock()
	for _, l := range append(f.servers, f.coordinator) {
		_ = l.Close()
	}
	f.running.Wait()
}

func (f *fakeStore) accept(l net.Listener, index int) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_ = conn.(*net.TCPConn).SetReadBuffer(64 << 10) // so that a sender blocks soon if its requests are not read
		f.mutex.Lock()
		f.accepted++
		f.conns[conn] = true
		closed := f.closed
		f.mutex.Unlock()
		if closed {
			_ = conn.Close()
			return
		}
		f.running.Go(func() { f.serve(&fakeConn{Conn: conn}, index) })
	}
}

func (f *fakeStore) serve(c *fakeConn, index int) {
	defer func() { _ = c.Close() }()
	hello := make([]byte, wire.HelloBytes)
	var asked wire.Hello
	if _, err := io.ReadFull(c, hello); err != nil || asked.Decode(hello) != nil {
		return
	}
	if answer := f.nextNonsense(); answer != nil {
		_, _ = c.Write(answer)
		return
	}
	answer := f.hello(&asked, uint64(index+1))
	c.version = answer.VersionMax
	_, _ = c.Write(answer.Encode(nil))
	head := make([]byte, wire.HeaderBytes)
	for {
		var h wire.Header
		if _, err := io.ReadFull(c, head); err != nil || h.Decode(head) != nil {
			return
		}
		body := make([]byte, h.BodyLength)
		if _, err := io.ReadFull(c, body); err != nil {
			return
		}
		f.mutex.Lock()
		f.requests[h.Opcode]++
		intercept := f.intercept
		f.mutex.Unlock()
		if intercept != nil && intercept(index, h, body, c) {
			continue
		}
		f.handle(index, h, body, c)
	}
}

func (f *fakeStore) nextNonsense() []byte {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if len(f.nonsense) == 0 {
		return nil
	}
	answer := f.nonsense[0]
	f.nonsense = f.nonsense[1:]
	return answer
}

// hello answers like node/src/wire/hello.cc.
func (f *fakeStore) hello(asked *wire.Hello, id uint64) *wire.Hello {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	version := min(f.speaks, asked.VersionMax)
	answer := &wire.Hello{VersionMin: version, VersionMax: version, MaxBodyBytes: wire.MaxBodyBytes, ClusterUUID: f.cluster, ServerID: id}
	if f.loading {
		answer.ClusterUUID = uuid{}
	}
	switch {
	case f.believing:
	case f.loading && asked.ClusterUUID != (uuid{}):
		answer.Status = uint16(Unavailable)
	case asked.ClusterUUID != (uuid{}) && asked.ClusterUUID != f.cluster:
		answer.Status = uint16(WrongCluster)
	case asked.ServerID != 0 && asked.ServerID != id:
		answer.Status = uint16(WrongServer)
	}
	return answer
}

func (f *fakeStore) locator(server int) string {
	address := f.servers[server].Addr().(*net.TCPAddr)
	return "tcp:host=127.0.0.1,port=" + itoa(address.Port)
}

func (f *fakeStore) handle(index int, h wire.Header, body []byte, c *fakeConn) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if index == coordinatorIndex {
		f.control(h, body, c)
		return
	}
	switch h.Opcode {
	case wire.OpWrite:
		var w wire.Write
		f.decode(w.Decode(body))
		if !f.owns(index, w.TableID, w.Key, h, c) {
			return
		}
		version, code := f.write(&w)
		if code != OK {
			c.fail(h, code, "refused")
			return
		}
		c.reply(h, OK, (&wire.VersionReply{Version: version}).Encode(nil))
	case wire.OpRead, wire.OpDelete:
		var k wire.Keyed
		f.decode(k.Decode(body))
		if !f.owns(index, k.TableID, k.Key, h, c) {
			return
		}
		object, exists := f.objects[f.id(k.TableID, k.Key)]
		if h.Opcode == wire.OpDelete {
			delete(f.objects, f.id(k.TableID, k.Key))
			c.reply(h, OK, (&wire.VersionReply{Version: object.Version}).Encode(nil))
			return
		}
		if !exists {
			c.fail(h, NotFound, "no such object")
			return
		}
		c.reply(h, OK, object.Encode(nil))
	case wire.OpIncrement:
		var i wire.Increment
		f.decode(i.Decode(body))
		if !f.owns(index, i.TableID, i.Key, h, c) {
			return
		}
		object := f.objects[f.id(i.TableID, i.Key)]
		bits, ok := add(object.Value, i.Type, i.Delta)
		if !ok {
			c.fail(h, InvalidArgument, "the object's value does not have 8 bytes")
			return
		}
		f.version++
		f.objects[f.id(i.TableID, i.Key)] = wire.ReadReply{Version: f.version, Value: binary.LittleEndian.AppendUint64(nil, bits)}
		c.reply(h, OK, (&wire.IncrementReply{Version: f.version, Value: bits}).Encode(nil))
	case wire.OpMultiRead, wire.OpMultiWrite, wire.OpMultiDelete:
		f.multi(index, h, body, c)
	case wire.OpEnumerate:
		f.enumerate(index, h, body, c)
	default:
		c.fail(h, Unsupported, "unknown opcode")
	}
}

func (f *fakeStore) write(w *wire.Write) (uint64, Code) {
	old := f.objects[f.id(w.TableID, w.Key)]
	if w.Reject.Flags&wire.RejectIfVersionNotEqual != 0 && old.Version != w.Reject.Version {
		return 0, WrongVersion
	}
	f.version++
	f.objects[f.id(w.TableID, w.Key)] = wire.ReadReply{Version: f.version, Value: bytes.Clone(w.Value)}
	return f.version, OK
}

func add(value []byte, as wire.NumberType, delta uint64) (uint64, bool) {
	var bits uint64
	if value != nil {
		if len(value) != 8 {
			return 0, false
		}
		bits = binary.LittleEndian.Uint64(value)
	}
	if as == wire.Double {
		return math.Float64bits(math.Float64frombits(bits) + math.Float64frombits(delta)), true
	}
	return bits + delta, true
}

// multi answers at most multiLimit operations at once.
func (f *fakeStore) multi(index int, h wire.Header, body []byte, c *fakeConn) {
	var operations []wire.Write
	if h.Opcode == wire.OpMultiWrite {
		var m wire.MultiWrite
		f.decode(m.Decode(body))
		operations = m.Operations
	} else {
		var m wire.MultiKeyed
		f.decode(m.Decode(body))
		for _, k := range m.Operations {
			operations = append(operations, wire.Write{TableID: k.TableID, Key: k.Key, Reject: k.Reject})
		}
	}
	var answer wire.MultiReply
	for _, o := range operations[:min(len(operations), multiLimit)] {
		answer.Results = append(answer.Results, f.one(index, h.Opcode, &o))
	}
	c.reply(h, OK, answer.Encode(nil))
}

const multiLimit = 100

func (f *fakeStore) one(index int, op wire.Opcode, o *wire.Write) wire.MultiResult {
	if !f.has(index, o.TableID, o.Key) {
		return wire.MultiResult{Status: uint16(UnknownTablet)}
	}
	id := f.id(o.TableID, o.Key)
	object, exists := f.objects[id]
	switch {
	case op == wire.OpMultiWrite:
		version, code := f.write(o)
		return wire.MultiResult{Status: uint16(code), Version: version}
	case op == wire.OpMultiDelete:
		delete(f.objects, id)
		return wire.MultiResult{Version: object.Version}
	case !exists:
		return wire.MultiResult{Status: uint16(NotFound)}
	}
	return wire.MultiResult{Version: object.Version, Value: object.Value}
}

func (f *fakeStore) owns(index int, table uint64, key []byte, h wire.Header, c *fakeConn) bool {
	if f.has(index, table, key) {
		return true
	}
	c.fail(h, UnknownTablet, "not here")
	return false
}

func (f *fakeStore) has(index int, table uint64, key []byte) bool {
	hash := wire.KeyHash(table, key)
	for _, t := range f.tables {
		for _, a := range t.Tablets {
			if t.ID == table && a.ServerID == uint64(index+1) && a.StartHash <= hash && hash <= a.EndHash {
				return true
			}
		}
	}
	return false
}

// enumeratePlaces gives pages of two objects by their place.
func (f *fakeStore) enumeratePlaces(h wire.Header, e wire.Enumerate, tablet wire.Tablet, ids []string, c *fakeConn) {
	place := func(id string) uint64 { return bits.Reverse64(wire.KeyHash(e.TableID, []byte(id[8:]))) }
	slices.SortFunc(ids, func(a, b string) int { return cmp.Compare(place(a), place(b)) })
	page := wire.Page{TabletEnd: tablet.EndHash, CursorIsPlace: true, Done: true}
	for _, id := range ids {
		switch {
		case place(id) < e.Cursor:
		case len(page.Objects) == 2:
			page.Done, page.NextCursor = false, place(id)
			c.reply(h, OK, page.Encode(nil))
			return
		default:
			page.Objects = append(page.Objects, wire.Object{Version: f.objects[id].Version, Key: []byte(id[8:]), Value: f.objects[id].Value})
		}
	}
	c.reply(h, OK, page.Encode(nil))
}

// enumerate gives pages of two objects.
func (f *fakeStore) enumerate(index int, h wire.Header, body []byte, c *fakeConn) {
	var e wire.Enumerate
	f.decode(e.Decode(body))
	var tablet wire.Tablet
	for _, t := range f.tables {
		for _, a := range t.Tablets {
			if t.ID == e.TableID && a.StartHash <= e.StartHash && e.StartHash <= a.EndHash {
				tablet = a
			}
		}
	}
	if tablet.ServerID != uint64(index+1) {
		c.fail(h, UnknownTablet, "not here")
		return
	}
	var ids []string
	for id := range f.objects {
		key := []byte(id[8:])
		if hash := wire.KeyHash(e.TableID, key); id == f.id(e.TableID, key) && tablet.StartHash <= hash && hash <= tablet.EndHash {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	if f.cursorIsPlace {
		f.enumeratePlaces(h, e, tablet, ids, c)
		return
	}
	page := wire.Page{TabletEnd: tablet.EndHash, NextCursor: min(e.Cursor+2, uint64(len(ids)))}
	page.Done = page.NextCursor == uint64(len(ids))
	for _, id := range ids[e.Cursor:page.NextCursor] {
		page.Objects = append(page.Objects, wire.Object{Version: f.objects[id].Version, Key: []byte(id[8:]), Value: f.objects[id].Value})
	}
	c.reply(h, OK, page.Encode(nil))
}

// listTables gives pages of one table.
func (f *fakeStore) listTables(h wire.Header, body []byte, c *fakeConn) {
	var r wire.ListTables
	f.decode(r.DecodeIn(c.version, body))
	if r.MaxBytes == 0 {
		c.control(h, &wire.Tables{Tables: f.tables})
		return
	}
	page := &wire.Tables{}
	for _, t := range f.tables {
		switch {
		case t.ID < r.FirstID:
		case len(page.Tables) > 0:
			page.NextID = t.ID
			c.control(h, page)
			return
		default:
			page.Tables = append(page.Tables, t)
		}
	}
	c.control(h, page)
}

func (f *fakeStore) control(h wire.Header, body []byte, c *fakeConn) {
	switch h.Opcode {
	case wire.OpGetClusterInfo:
		c.control(h, &wire.ClusterInfo{ClusterUUID: f.cluster, ClusterName: "fake", AdminAddress: "127.0.0.1:1", Term: 1})
	case wire.OpCreateTable:
		var r wire.CreateTable
		f.decode(r.DecodeIn(c.version, body))
		table := wire.Table{ID: uint64(len(f.tables) + 1), Name: r.Name}
		for i := range uint64(r.Span) {
			share := ^uint64(0) / uint64(r.Span)
			tablet := wire.Tablet{StartHash: i * share, EndHash: (i+1)*share - 1, ServerID: i%uint64(len(f.servers)) + 1,
				State: wire.TabletNormal, Locator: f.locator(int(i) % len(f.servers))}
			if i == uint64(r.Span)-1 {
				tablet.EndHash = ^uint64(0)
			}
			table.Tablets = append(table.Tablets, tablet)
		}
		f.tables = append(f.tables, table)
		c.control(h, &table)
	case wire.OpGetTable:
		var r wire.GetTable
		f.decode(r.DecodeIn(c.version, body))
		for _, t := range f.tables {
			if (r.Name != "" && t.Name == r.Name) || (r.Name == "" && t.ID == r.ID) {
				c.control(h, &t)
				return
			}
		}
		c.fail(h, NotFound, "no such table")
	case wire.OpListTables:
		f.listTables(h, body, c)
	case wire.OpDropTable:
		var r wire.DropTable
		f.decode(r.DecodeIn(c.version, body))
		f.tables = slices.DeleteFunc(f.tables, func(t wire.Table) bool { return t.Name == r.Name })
		c.control(h, wire.Empty{})
	default:
		c.fail(h, Unsupported, "unknown opcode")
	}
}

func (f *fakeStore) id(table uint64, key []byte) string {
	return string(append([]byte{byte(table), 0, 0, 0, 0, 0, 0, 0}, key...))
}

func (f *fakeStore) decode(err error) {
	if err != nil && !errors.Is(err, net.ErrClosed) {
		f.t.Errorf("the client sent what the format does not know: %v", err)
	}
}

func (f *fakeStore) set(intercept func(server int, h wire.Header, body []byte, c *fakeConn) bool) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.intercept = intercept
}

// hangUp closes every connection.
func (f *fakeStore) hangUp() {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for c := range f.conns {
		_ = c.Close()
	}
}

func (f *fakeStore) count(op wire.Opcode) int {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.requests[op]
}
