package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ramcloud.dev/client/internal/wire"
	"ramcloud.dev/client/testing/freeport"
)

func itoa(n int) string { return strconv.Itoa(n) }

func connect(t *testing.T, addresses string) *Client {
	t.Helper()
	c, err := Connect(addresses)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func setUp(t *testing.T, servers int, span uint32) (*fakeStore, *Client, uint64, context.Context) {
	f := startFake(t, servers)
	c := connect(t, f.coordinator.Addr().String())
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	table, err := c.CreateTable(ctx, "t", span)
	if err != nil {
		t.Fatal(err)
	}
	return f, c, table.ID, ctx
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func want(t *testing.T, err error, code Code) {
	t.Helper()
	if CodeOf(err) != code || (err != nil && !errors.Is(err, code)) {
		t.Fatalf("got %v, want %s", err, code)
	}
}

func TestOperations(t *testing.T) {
	f, c, table, ctx := setUp(t, 3, 3)
	const n = 50
	for i := range n {
		if _, err := c.Write(ctx, table, []byte("key"+itoa(i)), []byte("value"+itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	value, version, err := c.Read(ctx, table, []byte("key7"))
	want(t, err, OK)
	if string(value) != "value7" || version == 0 {
		t.Errorf("read %q version %d", value, version)
	}
	_, err = c.Write(ctx, table, []byte("key7"), nil, Conditions{Flags: IfVersionNotEqual, Version: version + 1})
	want(t, err, WrongVersion)
	newer, err := c.Write(ctx, table, []byte("key7"), []byte{}, Conditions{Flags: IfVersionNotEqual, Version: version})
	want(t, err, OK)
	if newer <= version {
		t.Errorf("version went from %d to %d", version, newer)
	}
	seen := map[string]bool{}
	want(t, c.Enumerate(ctx, table, func(o Object) error {
		if seen[string(o.Key)] {
			t.Errorf("%s twice", o.Key)
		}
		seen[string(o.Key)] = true
		return nil
	}), OK)
	if len(seen) != n {
		t.Errorf("enumerated %d of %d", len(seen), n)
	}
	deleted, err := c.Delete(ctx, table, []byte("key7"))
	want(t, err, OK)
	if deleted != newer {
		t.Errorf("deleted version %d, want %d", deleted, newer)
	}
	_, _, err = c.Read(ctx, table, []byte("key7"))
	want(t, err, NotFound)
	info, err := c.Info(ctx)
	want(t, err, OK)
	if info.ClusterName != "fake" {
		t.Errorf("%+v", info)
	}
	tables, err := c.ListTables(ctx)
	want(t, err, OK)
	if len(tables) != 1 || len(tables[0].Tablets) != 3 {
		t.Errorf("%+v", tables)
	}
	want(t, c.DropTable(ctx, "t"), OK)
	_, err = c.GetTable(ctx, "t")
	want(t, err, NotFound)
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.accepted != 4 {
		t.Errorf("%d connections to a coordinator and 3 servers", f.accepted)
	}
}

func TestArgumentsAreChecked(t *testing.T) {
	_, c, table, ctx := setUp(t, 1, 1)
	_, _, err := c.Read(ctx, table, nil)
	want(t, err, InvalidArgument)
	_, err = c.Write(ctx, table, make([]byte, wire.MaxKeyBytes+1), nil)
	want(t, err, InvalidArgument)
	for _, name := range []string{"", strings.Repeat("n", 256), "a\nb", "café"} {
		_, err = c.CreateTable(ctx, name, 1)
		want(t, err, InvalidArgument)
		want(t, c.DropTable(ctx, name), InvalidArgument)
	}
	_, err = c.Write(ctx, table, []byte("k"), make([]byte, wire.MaxValueBytes+1))
	want(t, err, InvalidArgument)
	_, err = c.Write(ctx, table, make([]byte, wire.MaxKeyBytes), make([]byte, wire.MaxValueBytes))
	want(t, err, OK)
	_, err = c.CreateTable(ctx, strings.Repeat("x", 256), 1)
	want(t, err, InvalidArgument)
	for _, conditions := range [][]Conditions{
		{{Flags: IfVersionNotEqual, Version: 3}, {Flags: IfVersionAtMost, Version: 5}},
		{{Flags: IfVersionNotEqual, Version: 3}, {Flags: IfVersionNotEqual, Version: 3}},
	} {
		_, err = c.Write(ctx, table, []byte("k"), nil, conditions...)
		want(t, err, InvalidArgument)
		_, _, err = c.Read(ctx, table, []byte("k"), conditions...)
		want(t, err, InvalidArgument)
		_, err = c.Delete(ctx, table, []byte("k"), conditions...)
		want(t, err, InvalidArgument)
		_, _, err = c.Increment(ctx, table, []byte("k"), 1, conditions...)
		want(t, err, InvalidArgument)
	}
	_, err = c.Write(ctx, table, []byte("k"), nil, Conditions{Flags: IfAbsent}, Conditions{Flags: IfVersionNotEqual, Version: 0})
	want(t, err, OK)
	for _, address := range []string{"[::1]:11100", "a:1, b:2"} {
		if _, err := Connect(address); err != nil {
			t.Errorf("%q: %v", address, err)
		}
	}
	for _, address := range []string{"", "host", ":1", "a:1,,b:2", "a:b", "a:0", "a:65536", "::1:11100"} {
		if _, err := Connect(address); CodeOf(err) != InvalidArgument {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// TestRepliesInAnyOrder holds the first request until the second was answered, on the same connection.
func TestRepliesInAnyOrder(t *testing.T) {
	f, c, table, ctx := setUp(t, 1, 1)
	for _, key := range []string{"first", "second"} {
		_, err := c.Write(ctx, table, []byte(key), []byte(key))
		want(t, err, OK)
	}
	arrived, answered := make(chan struct{}), make(chan struct{})
	f.set(func(server int, h wire.Header, body []byte, conn *fakeConn) bool {
		if server < 0 || h.Opcode != wire.OpRead || !strings.HasSuffix(string(body), "first") {
			return false
		}
		close(arrived)
		go func() {
			<-answered
			f.handle(server, h, body, conn)
		}()
		return true
	})
	var running sync.WaitGroup
	running.Go(func() {
		if value, _, err := c.Read(ctx, table, []byte("first")); err != nil || string(value) != "first" {
			t.Errorf("%q, %v", value, err)
		}
	})
	<-arrived
	value, _, err := c.Read(ctx, table, []byte("second"))
	if err != nil || string(value) != "second" {
		t.Errorf("%q, %v", value, err)
	}
	close(answered)
	running.Wait()
}

func TestManyGoroutinesShareConnections(t *testing.T) {
	f, c, table, ctx := setUp(t, 2, 2)
	var running sync.WaitGroup
	for g := range 16 {
		running.Go(func() {
			for i := range 50 {
				key := fmt.Appendf(nil, "%d/%d", g, i)
				if _, err := c.Write(ctx, table, key, key); err != nil {
					t.Error(err)
					return
				}
				if value, _, err := c.Read(ctx, table, key); err != nil || string(value) != string(key) {
					t.Errorf("%q, %v", value, err)
					return
				}
			}
		})
	}
	running.Wait()
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.accepted != 3 {
		t.Errorf("%d connections", f.accepted)
	}
}

// TestAMovedTabletIsFound: the client asks for the map again after UNKNOWN_TABLET.
func TestAMovedTabletIsFound(t *testing.T) {
	f, c, table, ctx := setUp(t, 2, 1)
	_, err := c.Write(ctx, table, []byte("k"), []byte("v"))
	want(t, err, OK)
	f.mutex.Lock()
	f.tables[0].Tablets = []wire.Tablet{{StartHash: 0, EndHash: ^uint64(0), ServerID: 2, State: wire.TabletNormal, Locator: f.locator(1)}}
	f.mutex.Unlock()
	_, _, err = c.Read(ctx, table, []byte("k"))
	want(t, err, OK)
	if n := f.count(wire.OpGetTable); n != 1 {
		t.Errorf("asked %d times where the tablet is", n)
	}
}

func TestRetryIsObeyed(t *testing.T) {
	f, c, table, ctx := setUp(t, 1, 1)
	left := 3
	f.set(func(server int, h wire.Header, _ []byte, conn *fakeConn) bool {
		if h.Opcode != wire.OpWrite || left == 0 {
			return false
		}
		left--
		conn.fail(h, Retry, "later")
		return true
	})
	_, err := c.Write(ctx, table, []byte("k"), nil)
	want(t, err, OK)
	if n := f.count(wire.OpWrite); n != 4 {
		t.Errorf("%d attempts", n)
	}
}

// TestALostReply: reads are sent again, writes are not.
func TestALostReply(t *testing.T) {
	f, c, table, ctx := setUp(t, 1, 1)
	_, err := c.Write(ctx, table, []byte("k"), []byte("v"))
	want(t, err, OK)
	lose := func(op wire.Opcode) {
		var lost atomic.Bool
		f.set(func(_ int, h wire.Header, _ []byte, conn *fakeConn) bool {
			if h.Opcode != op || lost.Swap(true) {
				return false
			}
			_ = conn.Close()
			return true
		})
	}
	lose(wire.OpRead)
	_, _, err = c.Read(ctx, table, []byte("k"))
	want(t, err, OK)
	lose(wire.OpWrite)
	before := f.count(wire.OpWrite)
	_, err = c.Write(ctx, table, []byte("k"), []byte("w"))
	want(t, err, Indeterminate)
	if f.count(wire.OpWrite) != before+1 {
		t.Error("a write whose reply was lost was sent again")
	}
	lose(wire.OpDelete)
	_, err = c.Delete(ctx, table, []byte("k"))
	want(t, err, Indeterminate)
	lose(wire.OpEnumerate)
	want(t, c.Enumerate(ctx, table, func(Object) error { return nil }), OK)
}

func TestDeadlines(t *testing.T) {
	f, c, table, _ := setUp(t, 1, 1)
	f.set(func(server int, _ wire.Header, _ []byte, _ *fakeConn) bool { return server >= 0 }) // silence
	_, _, err := c.Read(soon(t), table, []byte("k"))
	want(t, err, Unavailable)
	_, err = c.Write(soon(t), table, []byte("k"), nil)
	want(t, err, Indeterminate)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, _, err = c.Read(ctx, table, []byte("k"))
	want(t, err, Cancelled)
}

func TestADeadServerIsNamedAtTheDeadline(t *testing.T) {
	f, c, table, _ := setUp(t, 1, 1)
	f.mutex.Lock()
	f.tables[0].Tablets[0].State, f.tables[0].Tablets[0].Locator = wire.TabletUnavailable, ""
	f.mutex.Unlock()
	c.tables = map[uint64]*Table{}
	_, err := c.Write(soon(t), table, []byte("k"), nil)
	want(t, err, Unavailable)
	for _, part := range []string{"table 't'", "server 1 is dead"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("no %q in %v", part, err)
		}
	}
}

func TestAnAbsentCoordinator(t *testing.T) {
	f := startFake(t, 1)
	free, err := freeport.One()
	if err != nil {
		t.Fatal(err)
	}
	absent := fmt.Sprintf("127.0.0.1:%d", free)
	_, err = connect(t, absent).Info(soon(t))
	want(t, err, Unavailable)
	// The second of the list answers.
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, err = connect(t, absent+","+f.coordinator.Addr().String()).Info(ctx)
	want(t, err, OK)
}

// TestAServerReplacedAtItsAddress: a new incarnation at the same address is not taken for the old one.
func TestAServerReplacedAtItsAddress(t *testing.T) {
	f, c, table, ctx := setUp(t, 2, 1)
	f.mutex.Lock()
	right := f.tables[0].Tablets[0]
	f.tables[0].Tablets[0].Locator = f.locator(1) // of another server
	f.mutex.Unlock()
	c.tables = map[uint64]*Table{}
	_, err := c.Write(soon(t), table, []byte("k"), nil)
	want(t, err, Unavailable)
	f.mutex.Lock()
	f.tables[0].Tablets[0] = right
	f.mutex.Unlock()
	_, err = c.Write(ctx, table, []byte("k"), nil)
	want(t, err, OK)
}

func TestNonsenseFromAServer(t *testing.T) {
	for name, answer := range map[string][]byte{
		"an endless body": (&wire.Header{Kind: wire.KindReply, BodyLength: wire.MaxBodyBytes + 1}).Encode(nil),
		"a request":       (&wire.Header{Kind: wire.KindRequest}).Encode(nil),
		"garbage":         []byte(strings.Repeat("garbage!", 20)),
	} {
		t.Run(name, func(t *testing.T) {
			f, c, table, _ := setUp(t, 1, 1)
			f.set(func(server int, _ wire.Header, _ []byte, conn *fakeConn) bool {
				if server >= 0 {
					_, _ = conn.Write(answer)
				}
				return server >= 0
			})
			_, err := c.Write(soon(t), table, []byte("k"), nil)
			want(t, err, Indeterminate)
		})
	}
}

func TestLocators(t *testing.T) {
	for locator, address := range map[string]string{
		"tcp:host=a.b.c,port=1": "a.b.c:1", "tcp:host=10.0.0.1,port=65535": "10.0.0.1:65535", "tcp:host=[fe80::1],port=7": "[fe80::1]:7",
		"tcp:host=a,port=0": "", "tcp:host=a": "", "rdma:host=a,port=1": "", "tcp:port=1": "", "tcp:host=a,port=65536": "",
	} {
		got, err := parseLocator(locator)
		if got != address || (err == nil) != (address != "") {
			t.Errorf("%s: %q, %v", locator, got, err)
		}
	}
}

func TestClosedClient(t *testing.T) {
	_, c, table, ctx := setUp(t, 1, 1)
	c.Close()
	_, _, err := c.Read(ctx, table, []byte("k"))
	want(t, err, Cancelled)
}

func TestCodesHaveTheNamesOfTheProtocol(t *testing.T) {
	if Crashed.String() != "CRASHED" || IOError.String() != "IO_ERROR" || Code(99).String() != "UNKNOWN_99" {
		t.Errorf("%s %s %s", Crashed, IOError, Code(99))
	}
}

func TestLeaderInAMessage(t *testing.T) {
	for message, address := range map[string]string{
		"this coordinator is a standby; the leader is tcp:host=a,port=1": "a:1",
		"the leader is tcp:host=10.0.0.1,port=11100, ask there":          "10.0.0.1:11100",
		"this coordinator is not the leader, and knows of no leader":     "",
		"": "",
	} {
		if got := leaderIn(message); got != address {
			t.Errorf("%q: %q, want %q", message, got, address)
		}
	}
}

// mapOf encodes a table of two tablets.
func mapOf(table, firstStart, firstEnd, secondStart, secondEnd uint64) []byte {
	return (&wire.Table{ID: table, Tablets: []wire.Tablet{{StartHash: firstStart, EndHash: firstEnd, ServerID: 1},
		{StartHash: secondStart, EndHash: secondEnd, ServerID: 1}}}).EncodeIn(wire.VersionMax, nil)
}

// TestALookupThatFailsIsNotTheOperation: nothing was sent to a server, so a write is not Indeterminate.
func TestALookupThatFailsIsNotTheOperation(t *testing.T) {
	f, c, table, ctx := setUp(t, 1, 1)
	for name, answer := range map[string][]byte{
		"nonsense":                      []byte("xyz"),
		"a table without tablets":       (&wire.Table{ID: table, Name: "t"}).EncodeIn(wire.VersionMax, nil),
		"a map without the key's place": (&wire.Table{ID: table, Tablets: []wire.Tablet{{StartHash: 1, EndHash: 2}}}).EncodeIn(wire.VersionMax, nil),
		"a map with a gap":              mapOf(table, 0, 5, 7, math.MaxUint64),
		"a map of tablets that overlap": mapOf(table, 0, 5, 5, math.MaxUint64),
		"a map that ends early":         mapOf(table, 0, 5, 6, math.MaxUint64-1),
		"a map that begins again":       mapOf(table, 0, math.MaxUint64, 0, math.MaxUint64),
	} {
		t.Run(name, func(t *testing.T) {
			f.set(func(server int, h wire.Header, _ []byte, conn *fakeConn) bool {
				if h.Opcode == wire.OpGetTable {
					conn.reply(h, OK, answer)
				}
				return h.Opcode == wire.OpGetTable
			})
			c.tables = map[uint64]*Table{}
			_, err := c.Write(ctx, table, []byte("k"), nil)
			want(t, err, ProtocolError)
		})
	}
	if n := f.count(wire.OpWrite); n != 0 {
		t.Errorf("%d writes were sent", n)
	}
}

// TestGoesOnWithAKnownMapWhileTheCoordinatorIsAway: first it is silent, then it is stopped, and a server's connection
// breaks twice each time.
func TestGoesOnWithAKnownMapWhileTheCoordinatorIsAway(t *testing.T) {
	f, c, table, ctx := setUp(t, 1, 1)
	_, err := c.Write(ctx, table, []byte("key0"), []byte("v"))
	want(t, err, OK)
	var losses atomic.Int32
	f.set(func(server int, _ wire.Header, _ []byte, conn *fakeConn) bool {
		if server >= 0 && losses.Add(1) <= 2 {
			_ = conn.Close()
			return true
		}
		return server < 0
	})
	_, _, err = c.Read(ctx, table, []byte("key0"))
	want(t, err, OK)
	_ = f.coordinator.Close()
	f.hangUp()
	losses.Store(0)
	want(t, c.MultiRead(ctx, multiKeys(table, 1))[0].Err, OK)
	if losses.Load() < 3 {
		t.Error("no connection broke")
	}
}

// TestATableThatIsGoneIsForgotten: the coordinator's answer counts more than the cached map.
func TestATableThatIsGoneIsForgotten(t *testing.T) {
	f, c, table, ctx := setUp(t, 1, 1)
	f.mutex.Lock()
	f.tables = nil
	f.mutex.Unlock()
	for range 2 {
		_, _, err := c.Read(ctx, table, []byte("k"))
		want(t, err, NotFound)
	}
	if n := f.count(wire.OpRead); n != 1 {
		t.Errorf("a server was asked %d times", n)
	}
}

// TestAnotherClusterIsNotTouched: the other cluster was created at the same addresses, and has a table with
// the same id.
func TestAnotherClusterIsNotTouched(t *testing.T) {
	f, c, table, ctx := setUp(t, 1, 1)
	_, err := c.Write(ctx, table, []byte("k"), []byte("v"))
	want(t, err, OK)
	if n := f.count(wire.OpGetClusterInfo); n != 1 {
		t.Errorf("asked %d times which cluster it is", n)
	}
	for _, believing := range []bool{false, true} {
		f.mutex.Lock()
		f.cluster, f.believing = uuid{8}, believing
		f.mutex.Unlock()
		f.hangUp()
		eventually(t, "the end of the connections", func() bool { return len(sessionsOf(c)) == 0 })
		_, err = c.Write(ctx, table, []byte("k"), []byte("w"))
		want(t, err, WrongCluster)
		_, _, err = c.Read(ctx, table, []byte("k"))
		want(t, err, WrongCluster)
		want(t, c.MultiWrite(ctx, multiObjects(table, 1, "w"))[0].Err, WrongCluster)
		_, err = c.CreateTable(ctx, "u", 1)
		want(t, err, WrongCluster)
	}
	f.mutex.Lock()
	if len(f.tables) != 1 || f.version != 1 {
		t.Errorf("the other cluster has %d tables and version %d", len(f.tables), f.version)
	}
	f.mutex.Unlock()
	_, err = connect(t, f.coordinator.Addr().String()).Write(ctx, table, []byte("k"), []byte("w"))
	want(t, err, OK)
}

// TestACoordinatorThatDidNotKnowItsCluster is asked again who it is, over another connection.
func TestACoordinatorThatDidNotKnowItsCluster(t *testing.T) {
	f := startFake(t, 1)
	c := connect(t, f.coordinator.Addr().String())
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	f.mutex.Lock()
	f.loading = true
	f.mutex.Unlock()
	_, err := c.Info(ctx)
	want(t, err, OK)
	former := sessionsOf(c)[0]
	f.mutex.Lock()
	f.loading = false
	f.mutex.Unlock()
	_, err = c.CreateTable(ctx, "t", 1)
	want(t, err, OK)
	eventually(t, "the end of the former connection", former.over)
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.accepted != 2 {
		t.Errorf("%d connections", f.accepted)
	}
}

// TestAScanGoesOnWithTheServerThatHasTheTablet: it moves between two pages, and is split.
func TestAScanGoesOnWithTheServerThatHasTheTablet(t *testing.T) {
	f, c, table, ctx := setUp(t, 2, 1)
	f.cursorIsPlace = true
	const n = 40
	for i := range n {
		_, err := c.Write(ctx, table, []byte("key"+itoa(i)), nil)
		want(t, err, OK)
	}
	visited := 0
	seen := map[string]int{}
	want(t, c.Enumerate(ctx, table, func(o Object) error {
		seen[string(o.Key)]++
		f.mutex.Lock()
		defer f.mutex.Unlock()
		switch visited++; visited {
		case 6: // to the other server
			f.tables[0].Tablets[0].ServerID, f.tables[0].Tablets[0].Locator = 2, f.locator(1)
		case 14: // its second half comes back
			whole := f.tables[0].Tablets[0]
			half := whole
			whole.EndHash = 1<<63 - 1
			half.StartHash, half.ServerID, half.Locator = 1<<63, 1, f.locator(0)
			f.tables[0].Tablets = []wire.Tablet{whole, half}
		}
		return nil
	}), OK)
	if len(seen) != n || visited != n {
		t.Errorf("visited %d, %d different ones, of %d", visited, len(seen), n)
	}
}

// TestAScanStaysWithTheServerOfItsCursor: if the cursor is from a server of an earlier version and the tablet
// moves between two pages, the scan must be started again.
func TestAScanStaysWithTheServerOfItsCursor(t *testing.T) {
	f, c, table, ctx := setUp(t, 2, 1)
	for i := range 5 {
		_, err := c.Write(ctx, table, []byte("key"+itoa(i)), nil)
		want(t, err, OK)
	}
	want(t, c.Enumerate(ctx, table, func(Object) error {
		f.mutex.Lock()
		defer f.mutex.Unlock()
		f.tables[0].Tablets[0].ServerID, f.tables[0].Tablets[0].Locator = 2, f.locator(1)
		return nil
	}), Unavailable)
	if n := f.count(wire.OpEnumerate); n != 2 {
		t.Errorf("%d pages were asked for", n)
	}
	seen := 0
	want(t, c.Enumerate(ctx, table, func(Object) error { seen++; return nil }), OK)
	if seen != 5 {
		t.Errorf("started again it gave %d of 5", seen)
	}
}

// TestAScanGoesOnAmongObjectsOfOneHash: a page may end between two of them.
func TestAScanGoesOnAmongObjectsOfOneHash(t *testing.T) {
	f, c, table, ctx := setUp(t, 1, 1)
	keys := []string{"a", "b", "c", "d", "e"}
	f.set(func(_ int, h wire.Header, body []byte, conn *fakeConn) bool {
		if h.Opcode != wire.OpEnumerate {
			return false
		}
		var e wire.Enumerate
		f.decode(e.Decode(body))
		page := wire.Page{TabletEnd: ^uint64(0), CursorIsPlace: true, Done: true}
		for _, key := range keys {
			if e.Cursor > 5 || e.Cursor == 5 && key <= string(e.AfterKey) {
				continue
			}
			if len(page.Objects) == 2 {
				page.Done, page.WithinHash, page.NextCursor = false, true, 5
				break
			}
			page.Objects = append(page.Objects, wire.Object{Version: 1, Key: []byte(key)})
		}
		conn.reply(h, OK, page.Encode(nil))
		return true
	})
	seen := ""
	want(t, c.Enumerate(ctx, table, func(o Object) error {
		if seen += string(o.Key); len(seen) > len(keys) {
			return errors.New("the scan does not move on")
		}
		return nil
	}), OK)
	if seen != strings.Join(keys, "") {
		t.Errorf("visited %q", seen)
	}
}

func TestAScanThatDoesNotMoveOn(t *testing.T) {
	f, c, table, ctx := setUp(t, 1, 1)
	f.set(func(_ int, h wire.Header, _ []byte, conn *fakeConn) bool {
		if h.Opcode == wire.OpEnumerate {
			conn.reply(h, OK, (&wire.Page{}).Encode(nil))
		}
		return h.Opcode == wire.OpEnumerate
	})
	want(t, c.Enumerate(ctx, table, func(Object) error { return nil }), ProtocolError)
}
