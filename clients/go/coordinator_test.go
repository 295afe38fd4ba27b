package client

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ramcloud.dev/client/internal/wire"
)

// TestSpeaksTheHighestVersionThatBothDo: coordinators and servers of former builds speak version 1 only.
func TestSpeaksTheHighestVersionThatBothDo(t *testing.T) {
	for version := uint16(wire.VersionMin); version <= wire.VersionMax; version++ {
		f := startFake(t, 2)
		f.mutex.Lock()
		f.speaks = version
		f.mutex.Unlock()
		c := connect(t, f.coordinator.Addr().String())
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		var spoken atomic.Uint32
		f.set(func(_ int, _ wire.Header, _ []byte, conn *fakeConn) bool {
			spoken.Store(uint32(conn.version))
			return false
		})
		table, err := c.CreateTable(ctx, "t", 2)
		want(t, err, OK)
		_, err = c.Write(ctx, table.ID, []byte("k"), []byte("v"))
		want(t, err, OK)
		found, err := c.GetTable(ctx, "t")
		want(t, err, OK)
		if len(found.Tablets) != 2 || found.Tablets[1].Locator != f.locator(1) {
			t.Errorf("version %d: the table is %+v", version, found)
		}
		_, err = c.CreateTable(ctx, "u", 1)
		want(t, err, OK)
		all, err := c.ListTables(ctx)
		want(t, err, OK)
		if len(all) != 2 || all[1].Name != "u" {
			t.Errorf("version %d: the tables are %+v", version, all)
		}
		want(t, c.DropTable(ctx, "t"), OK)
		if got := spoken.Load(); got != uint32(version) {
			t.Errorf("version %d was spoken, want %d", got, version)
		}
	}
}

// TestACreateWhoseReplyNeverComesIsIndeterminate: the table may exist.
func TestACreateWhoseReplyNeverComesIsIndeterminate(t *testing.T) {
	f, c, _, _ := setUp(t, 1, 1)
	silent := func(_ int, h wire.Header, _ []byte, _ *fakeConn) bool { return h.Opcode == wire.OpCreateTable }
	f.set(silent)
	_, err := c.CreateTable(soon(t), "u", 1)
	want(t, err, Indeterminate)
	// A later refusal does not prove that the first try was not executed.
	var tries atomic.Int32
	f.set(func(server int, h wire.Header, body []byte, conn *fakeConn) bool {
		if h.Opcode != wire.OpCreateTable {
			return false
		}
		if tries.Add(1) == 1 {
			_ = conn.Close()
		} else {
			conn.fail(h, Retry, "not now")
		}
		return true
	})
	_, err = c.CreateTable(soon(t), "u", 1)
	want(t, err, Indeterminate)
	f.set(func(_ int, h wire.Header, _ []byte, conn *fakeConn) bool {
		if h.Opcode == wire.OpCreateTable {
			conn.fail(h, Retry, "not now")
		}
		return h.Opcode == wire.OpCreateTable
	})
	_, err = c.CreateTable(soon(t), "u", 1)
	want(t, err, Unavailable)
}

// TestFollowsTheLeaderThatTheDetailsName, and not an address in the error's text.
func TestFollowsTheLeaderThatTheDetailsName(t *testing.T) {
	leader, standby := startFake(t, 1), startFake(t, 1)
	address := leader.coordinator.Addr().(*net.TCPAddr)
	standby.set(func(server int, h wire.Header, _ []byte, conn *fakeConn) bool {
		if server == coordinatorIndex {
			conn.failWith(h, NotLeader, "not tcp:host=127.0.0.1,port=1 but another leads", wire.ErrorDetails{
				LeaderOutside: "tcp:host=127.0.0.1,port=" + itoa(address.Port), Term: 9})
		}
		return server == coordinatorIndex
	})
	c := connect(t, standby.coordinator.Addr().String())
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, err := c.CreateTable(ctx, "t", 1)
	want(t, err, OK)
	if n := standby.count(wire.OpCreateTable); n > 1 {
		t.Errorf("the standby was asked %d times to create it", n)
	}
}

// TestWaitsAsLongAsTheDetailsSay, whatever the status.
func TestWaitsAsLongAsTheDetailsSay(t *testing.T) {
	e := &Error{Code: NotLeader, details: wire.ErrorDetails{RetryAfterUS: 30_000, Term: 7}}
	if e.retryAfter() != 30*time.Millisecond || e.Term() != 7 {
		t.Errorf("%s, term %d", e.retryAfter(), e.Term())
	}
	former := &Error{Code: Retry, retryAfterUS: 20_000}
	if former.retryAfter() != 20*time.Millisecond || (&Error{Code: NotFound, retryAfterUS: 5}).retryAfter() != 0 {
		t.Error("the delay of a peer of version 1 counts with Retry only")
	}
	begun := time.Now()
	if !pause(context.Background(), time.Millisecond, e) || time.Since(begun) < 30*time.Millisecond {
		t.Errorf("waited %s", time.Since(begun))
	}
	if !strings.Contains(e.Error(), "NOT_LEADER") {
		t.Error(e)
	}
}
