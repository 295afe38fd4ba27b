package client

import (
	"bytes"
	"context"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"ramcloud.dev/client/internal/wire"
)

func multiObjects(table uint64, n int, value string) (objects []MultiObject) {
	for i := range n {
		objects = append(objects, MultiObject{TableID: table, Key: []byte("key" + itoa(i)), Value: []byte(value)})
	}
	return objects
}

func multiKeys(table uint64, n int) (keys []MultiKey) {
	for i := range n {
		keys = append(keys, MultiKey{TableID: table, Key: []byte("key" + itoa(i))})
	}
	return keys
}

func TestIncrement(t *testing.T) {
	f, c, table, ctx := setUp(t, 1, 1)
	sum, _, err := c.Increment(ctx, table, []byte("n"), 5)
	want(t, err, OK)
	again, version, err := c.Increment(ctx, table, []byte("n"), -7)
	want(t, err, OK)
	if sum != 5 || again != -2 || version == 0 {
		t.Errorf("sums are %d and %d, version %d", sum, again, version)
	}
	_, _, err = c.Increment(ctx, table, []byte("w"), math.MaxInt64)
	want(t, err, OK)
	if wrapped, _, err := c.Increment(ctx, table, []byte("w"), 1); err != nil || wrapped != math.MinInt64 {
		t.Errorf("wrapped to %d, %v", wrapped, err)
	}
	_, _, err = c.IncrementDouble(ctx, table, []byte("d"), 1.5)
	want(t, err, OK)
	if double, _, err := c.IncrementDouble(ctx, table, []byte("d"), -0.25); err != nil || double != 1.25 {
		t.Errorf("the double is %g, %v", double, err)
	}
	_, err = c.Write(ctx, table, []byte("text"), []byte("five!"))
	want(t, err, OK)
	_, _, err = c.Increment(ctx, table, []byte("text"), 1)
	want(t, err, InvalidArgument)
	_, _, err = c.Increment(ctx, table, nil, 1)
	want(t, err, InvalidArgument)
	f.set(func(_ int, h wire.Header, _ []byte, c *fakeConn) bool {
		if h.Opcode == wire.OpIncrement {
			_ = c.Close()
		}
		return h.Opcode == wire.OpIncrement
	})
	before := f.count(wire.OpIncrement)
	_, _, err = c.Increment(ctx, table, []byte("n"), 1)
	want(t, err, Indeterminate)
	if n := f.count(wire.OpIncrement) - before; n != 1 {
		t.Errorf("an increment was sent %d times", n)
	}
}

func TestMultiOperations(t *testing.T) {
	f, c, table, ctx := setUp(t, 3, 3)
	const n = 1000
	for i, r := range c.MultiWrite(ctx, multiObjects(table, n, "v")) {
		if want(t, r.Err, OK); r.Version == 0 {
			t.Fatalf("object %d has version 0", i)
		}
	}
	if messages := f.count(wire.OpMultiWrite); messages < 3 || messages > 14 { // 100 are answered at once
		t.Errorf("%d messages", messages)
	}
	found := c.MultiRead(ctx, multiKeys(table, n+1))
	for i, r := range found[:n] {
		if want(t, r.Err, OK); string(r.Value) != "v" || r.Version == 0 {
			t.Fatalf("object %d is %q, version %d", i, r.Value, r.Version)
		}
	}
	want(t, found[n].Err, NotFound)
	keys := append(multiKeys(table, n), MultiKey{TableID: table, Key: []byte("key0")})
	removed := c.MultiDelete(ctx, keys)
	want(t, removed[n].Err, OK)
	if removed[0].Version != found[0].Version || removed[n].Version != 0 {
		t.Errorf("removed versions %d and %d; there was %d", removed[0].Version, removed[n].Version, found[0].Version)
	}
	if got := c.MultiRead(ctx, nil); len(got) != 0 {
		t.Errorf("nothing gave %d results", len(got))
	}
}

func TestMultiOperationsFailAlone(t *testing.T) {
	_, c, table, ctx := setUp(t, 2, 2)
	objects := multiObjects(table, 4, "v")
	objects[0].Key = nil
	objects[1].Value = make([]byte, wire.MaxValueBytes+1)
	objects[2].TableID = 77
	objects[3].Conditions = Conditions{Flags: IfVersionNotEqual, Version: 99}
	objects = append(objects, MultiObject{TableID: table, Key: []byte("k"), Value: []byte("1")},
		MultiObject{TableID: table, Key: []byte("k"), Value: bytes.Repeat([]byte("2"), wire.MaxValueBytes)})
	got := c.MultiWrite(ctx, objects)
	for i, code := range []Code{InvalidArgument, InvalidArgument, NotFound, WrongVersion, OK, OK} {
		want(t, got[i].Err, code)
	}
	value, _, err := c.Read(ctx, table, []byte("k"))
	want(t, err, OK)
	if len(value) != wire.MaxValueBytes || value[0] != '2' {
		t.Errorf("of two writes the first is there: %d bytes", len(value))
	}
}

func TestMultiOperationsFollowATablet(t *testing.T) {
	f, c, table, ctx := setUp(t, 2, 1)
	for _, r := range c.MultiWrite(ctx, multiObjects(table, 10, "v")) {
		want(t, r.Err, OK)
	}
	f.mutex.Lock()
	f.tables[0].Tablets[0].ServerID, f.tables[0].Tablets[0].Locator = 2, f.locator(1)
	f.mutex.Unlock()
	for _, r := range c.MultiRead(ctx, multiKeys(table, 10)) {
		want(t, r.Err, OK)
	}
}

func TestLostRepliesOfMultiOperations(t *testing.T) {
	f, c, table, ctx := setUp(t, 1, 1)
	var lose atomic.Bool // connections follow each other, in goroutines of their own
	lose.Store(true)
	f.set(func(_ int, h wire.Header, _ []byte, c *fakeConn) bool {
		if (h.Opcode == wire.OpMultiWrite || h.Opcode == wire.OpMultiRead) && lose.Load() {
			lose.Store(h.Opcode == wire.OpMultiWrite) // a read's is lost once
			_ = c.Close()
			return true
		}
		return false
	})
	for _, r := range c.MultiWrite(ctx, multiObjects(table, 5, "v")) {
		want(t, r.Err, Indeterminate)
	}
	if n := f.count(wire.OpMultiWrite); n != 1 {
		t.Errorf("a multi-write was sent %d times", n)
	}
	for _, r := range c.MultiRead(ctx, multiKeys(table, 5)) {
		want(t, r.Err, NotFound)
	}
	if n := f.count(wire.OpMultiRead); n != 2 {
		t.Errorf("a multi-read was sent %d times", n)
	}
}

func TestMultiOperationsAtTheDeadline(t *testing.T) {
	f, c, table, _ := setUp(t, 1, 1)
	f.set(func(_ int, h wire.Header, _ []byte, c *fakeConn) bool {
		if h.Opcode == wire.OpMultiRead {
			c.fail(h, Retry, "not now")
			return true
		}
		return h.Opcode == wire.OpMultiWrite // never answered
	})
	for _, r := range c.MultiRead(soon(t), multiKeys(table, 5)) {
		want(t, r.Err, DeadlineExceeded)
	}
	for _, r := range c.MultiWrite(soon(t), multiObjects(table, 5, "v")) {
		want(t, r.Err, Indeterminate)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	cancel()
	for _, r := range c.MultiRead(ctx, multiKeys(table, 5)) {
		want(t, r.Err, Cancelled)
	}
}

func TestNonsenseInMultiReplies(t *testing.T) {
	f, c, table, ctx := setUp(t, 1, 1)
	for _, answer := range []*wire.MultiReply{{}, {Results: make([]wire.MultiResult, 2)}} {
		f.set(func(_ int, h wire.Header, _ []byte, c *fakeConn) bool {
			if h.Opcode != wire.OpMultiRead && h.Opcode != wire.OpMultiWrite {
				return false
			}
			c.reply(h, OK, answer.Encode(nil))
			return true
		})
		want(t, c.MultiRead(ctx, multiKeys(table, 1))[0].Err, ProtocolError)
		want(t, c.MultiWrite(ctx, multiObjects(table, 1, "v"))[0].Err, Indeterminate)
	}
}

// TestTheLastOfOneKeyTakesEffectLast although the first is refused and the second, in a later message, would not be.
func TestTheLastOfOneKeyTakesEffectLast(t *testing.T) {
	f, c, table, ctx := setUp(t, 1, 1)
	var refuse atomic.Bool
	refuse.Store(true)
	f.set(func(_ int, h wire.Header, body []byte, conn *fakeConn) bool {
		if h.Opcode != wire.OpMultiWrite || !refuse.Swap(false) {
			return false
		}
		var m wire.MultiWrite
		f.decode(m.Decode(body))
		var answer wire.MultiReply
		for range m.Operations {
			answer.Results = append(answer.Results, wire.MultiResult{Status: uint16(UnknownTablet)})
		}
		conn.reply(h, OK, answer.Encode(nil))
		return true
	})
	big := bytes.Repeat([]byte("1"), wire.MaxValueBytes) // the second is in a message of its own
	for _, r := range c.MultiWrite(ctx, []MultiObject{{TableID: table, Key: []byte("k"), Value: big},
		{TableID: table, Key: []byte("k"), Value: []byte("2")}, {TableID: table, Key: []byte("other"), Value: []byte("3")}}) {
		want(t, r.Err, OK)
	}
	value, _, err := c.Read(ctx, table, []byte("k"))
	want(t, err, OK)
	if string(value) != "2" {
		t.Errorf("of two writes the first took effect last: %d bytes", len(value))
	}
}
