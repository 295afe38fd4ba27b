package client

import (
	"context"
	"sync"
	"testing"
	"time"

	"ramcloud.dev/client/internal/wire"
)

// TestRetryFollowsTheTable of docs/reference/errors.md.
func TestRetryFollowsTheTable(t *testing.T) {
	retried := []Code{UnknownTablet, Retry, Unavailable, NotLeader, StaleTerm, WrongServer, Crashed}
	perhaps := []Code{DeadlineExceeded, ConnectionLost}
	final := []Code{NotFound, Exists, WrongVersion, InvalidArgument, OutOfMemory, Indeterminate, WrongCluster,
		Unsupported, Corrupt, NoSpace, IOError, Internal}
	for _, repeatable := range []bool{true, false} {
		for _, code := range retried {
			if again, _ := retry(failure(code, "x"), repeatable); !again {
				t.Errorf("%s is final, repeatable %t", code, repeatable)
			}
		}
		for _, code := range perhaps {
			again, err := retry(failure(code, "x"), repeatable)
			if again != repeatable || (!again && CodeOf(err) != Indeterminate) {
				t.Errorf("%s, repeatable %t: again %t, %v", code, repeatable, again, err)
			}
			if again, _ := retry(&Error{Code: code, notSent: true}, repeatable); !again {
				t.Errorf("%s of what was never sent is final, repeatable %t", code, repeatable)
			}
		}
		for _, code := range final {
			if again, err := retry(failure(code, "x"), repeatable); again || CodeOf(err) != code {
				t.Errorf("%s, repeatable %t: again %t, %v", code, repeatable, again, err)
			}
		}
	}
}

// TestCodesAtTheDeadline: only a server that says RETRY until then is DEADLINE_EXCEEDED.
func TestCodesAtTheDeadline(t *testing.T) {
	for said, code := range map[Code]Code{Retry: DeadlineExceeded, UnknownTablet: Unavailable, WrongServer: Unavailable,
		Crashed: Unavailable, StaleTerm: Unavailable} {
		t.Run(said.String(), func(t *testing.T) {
			f, c, table, _ := setUp(t, 1, 1)
			f.set(func(server int, h wire.Header, _ []byte, conn *fakeConn) bool {
				if server >= 0 {
					conn.fail(h, said, "always")
				}
				return server >= 0
			})
			_, _, err := c.Read(soon(t), table, []byte("k"))
			want(t, err, code)
			_, err = c.Write(soon(t), table, []byte("k"), nil)
			want(t, err, code)
			for _, r := range c.MultiWrite(soon(t), multiObjects(table, 3, "v")) {
				want(t, r.Err, code)
			}
		})
	}
}

func TestATabletIsAwaited(t *testing.T) {
	f, c, table, _ := setUp(t, 1, 1)
	f.mutex.Lock()
	f.tables[0].Tablets[0].State = wire.TabletCreating
	f.mutex.Unlock()
	c.tables = map[uint64]*Table{}
	_, err := c.Write(soon(t), table, []byte("k"), nil)
	want(t, err, Unavailable)
}

// TestACoordinatorThatIsNeverReady: no coordinator led in time, whatever the answers were.
func TestACoordinatorThatIsNeverReady(t *testing.T) {
	f, c, _, _ := setUp(t, 1, 1)
	f.set(func(server int, h wire.Header, _ []byte, conn *fakeConn) bool {
		if server < 0 {
			conn.fail(h, Retry, "not now")
		}
		return server < 0
	})
	_, err := c.ListTables(soon(t))
	want(t, err, Unavailable)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = c.ListTables(ctx)
	want(t, err, Cancelled)
}

// TestAZombiesRefusalIsNotTheEnd: a server that is listed as crashed refuses everything until it has stopped.
func TestAZombiesRefusalIsNotTheEnd(t *testing.T) {
	for _, code := range []Code{Crashed, StaleTerm} {
		f, c, table, ctx := setUp(t, 1, 1)
		refused := false
		f.set(func(_ int, h wire.Header, _ []byte, conn *fakeConn) bool {
			if h.Opcode != wire.OpWrite || refused {
				return false
			}
			refused = true
			conn.fail(h, code, "refused")
			return true
		})
		_, err := c.Write(ctx, table, []byte("k"), []byte("v"))
		want(t, err, OK)
	}
}

// TestASilentServerIsLeftForTheOneThatHasTheTablet: attempts have a time of their own, and after the second one the
// coordinator is asked.
func TestASilentServerIsLeftForTheOneThatHasTheTablet(t *testing.T) {
	f, c, table, ctx := setUp(t, 2, 1)
	_, err := c.Write(ctx, table, []byte("key0"), []byte("v"))
	want(t, err, OK)
	f.set(func(server int, _ wire.Header, _ []byte, _ *fakeConn) bool { return server == 0 })
	f.mutex.Lock()
	f.tables[0].Tablets[0].ServerID, f.tables[0].Tablets[0].Locator = 2, f.locator(1)
	f.mutex.Unlock()
	var running sync.WaitGroup
	running.Go(func() {
		if _, _, err := c.Read(ctx, table, []byte("key0")); err != nil {
			t.Error(err)
		}
	})
	running.Go(func() {
		if r := c.MultiRead(ctx, multiKeys(table, 1)); r[0].Err != nil {
			t.Error(r[0].Err)
		}
	})
	running.Wait()
}

func TestWhenANewMapMayHelp(t *testing.T) {
	for code, from := range map[Code]int{ConnectionLost: 1, DeadlineExceeded: 0, UnknownTablet: 0, WrongServer: 0, Unavailable: 0, Crashed: 0} {
		for number := range 4 {
			if got := wantsNewMap(failure(code, "x"), number, number); got != (number >= from) {
				t.Errorf("%s at attempt %d: %t", code, number, got)
			}
		}
	}
	if wantsNewMap(nil, 15, 15) {
		t.Error("a new map is wanted without reason")
	}
}

// TestRefusalsAskForANewMapNowAndThen: most of them say that the server is busy, but it may be cut off, too.
func TestRefusalsAskForANewMapNowAndThen(t *testing.T) {
	for inVain := range 64 {
		if got := wantsNewMap(failure(Retry, "x"), 100, inVain); got != (inVain%16 == 15) {
			t.Errorf("RETRY after %d attempts in vain: %t", inVain, got)
		}
	}
}

// refuseChanges makes the first server answer RETRY to all changes, as one that reaches none of its backups. The
// coordinator has given its tablet to the second one.
func refuseChanges(f *fakeStore) {
	f.set(func(server int, h wire.Header, _ []byte, conn *fakeConn) bool {
		if server == 0 {
			conn.fail(h, Retry, "its log waits for replicas")
		}
		return server == 0
	})
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.tables[0].Tablets[0].ServerID, f.tables[0].Tablets[0].Locator = 2, f.locator(1)
}

func TestAChangeThatIsOnlyRefusedFindsTheNewOwner(t *testing.T) {
	f, c, table, ctx := setUp(t, 2, 1)
	refuseChanges(f)
	_, err := c.Write(ctx, table, []byte("key0"), []byte("v"))
	want(t, err, OK)
	if asked := f.count(wire.OpGetTable); asked != 1 {
		t.Errorf("the map was asked for %d times", asked)
	}
}

func TestAMultiWriteThatIsOnlyRefusedFindsTheNewOwner(t *testing.T) {
	f, c, table, ctx := setUp(t, 2, 1)
	refuseChanges(f)
	for _, r := range c.MultiWrite(ctx, multiObjects(table, 3, "v")) {
		want(t, r.Err, OK)
	}
	if asked := f.count(wire.OpGetTable); asked != 1 {
		t.Errorf("the map was asked for %d times", asked)
	}
}

// TestTheOwnerOfAServerThatGoesOnIsNotChecked: it carries out one operation, and asks to wait, again and again.
func TestTheOwnerOfAServerThatGoesOnIsNotChecked(t *testing.T) {
	f, c, table, ctx := setUp(t, 1, 1)
	f.set(func(server int, h wire.Header, _ []byte, conn *fakeConn) bool {
		if server == 0 {
			answer := wire.MultiReply{RetryAfterUS: 1, Results: []wire.MultiResult{{Version: 1}}}
			conn.reply(h, OK, answer.Encode(nil))
		}
		return server == 0
	})
	for _, r := range c.MultiWrite(ctx, multiObjects(table, 40, "v")) {
		want(t, r.Err, OK)
	}
	if asked := f.count(wire.OpGetTable); asked != 0 {
		t.Errorf("the map was asked for %d times", asked)
	}
}

func TestPatienceRisesToABound(t *testing.T) {
	for number, wanted := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 8 * time.Second} {
		if got := patience(number); got != wanted {
			t.Errorf("attempt %d waits %s, want %s", number, got, wanted)
		}
	}
}
