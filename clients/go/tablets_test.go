package client

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ramcloud.dev/client/internal/wire"
)

// TestManyCallsShareOneQuestionForTheMap: the coordinator answers only when all of them wait.
func TestManyCallsShareOneQuestionForTheMap(t *testing.T) {
	f, c, table, ctx := setUp(t, 2, 1)
	_, err := c.Write(ctx, table, []byte("k"), nil)
	want(t, err, OK)
	f.mutex.Lock() // the tablet moves
	f.tables[0].Tablets[0].ServerID, f.tables[0].Tablets[0].Locator = 2, f.locator(1)
	f.mutex.Unlock()
	const n = 32
	release := make(chan struct{})
	var refused atomic.Int32
	f.set(func(server int, h wire.Header, _ []byte, conn *fakeConn) bool {
		switch {
		case server == 0 && h.Opcode == wire.OpWrite:
			if refused.Add(1) == n {
				close(release)
			}
		case server < 0 && h.Opcode == wire.OpGetTable:
			<-release
		}
		return false
	})
	before := f.count(wire.OpGetTable)
	var calls sync.WaitGroup
	for i := range n {
		calls.Go(func() {
			if _, err := c.Write(ctx, table, []byte("k"+itoa(i)), nil); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	// Those that were refused before the answer share it; one that was refused after it finds the newer map.
	if asked := f.count(wire.OpGetTable) - before; asked != 1 {
		t.Errorf("the coordinator was asked %d times", asked)
	}
}

// TestWhoHasMoreTimeAsksAgain: when the call that sent the request times out, a call with more time repeats
// it.
func TestWhoHasMoreTimeAsksAgain(t *testing.T) {
	f, c, table, ctx := setUp(t, 1, 1)
	c.mutex.Lock()
	c.tables = map[uint64]*Table{}
	c.mutex.Unlock()
	var ignored atomic.Int32
	impatientAsked := make(chan struct{})
	f.set(func(server int, h wire.Header, _ []byte, _ *fakeConn) bool {
		if h.Opcode == wire.OpGetTable && ignored.Add(1) == 1 {
			close(impatientAsked)
			return true // never answered
		}
		return false
	})
	var calls sync.WaitGroup
	calls.Go(func() {
		_, _, err := c.Read(soon(t), table, []byte("k"))
		if CodeOf(err) != Unavailable {
			t.Errorf("the impatient call got %v", err)
		}
	})
	<-impatientAsked
	_, err := c.Write(ctx, table, []byte("k"), nil)
	want(t, err, OK)
	calls.Wait()
}

// TestACallThatIsCancelledLeavesTheQuestionToOthers.
func TestACallThatIsCancelledLeavesTheQuestionToOthers(t *testing.T) {
	f, c, table, ctx := setUp(t, 1, 1)
	c.mutex.Lock()
	c.tables = map[uint64]*Table{}
	c.mutex.Unlock()
	asked, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	f.set(func(_ int, h wire.Header, _ []byte, _ *fakeConn) bool {
		if h.Opcode == wire.OpGetTable {
			once.Do(func() { close(asked) })
			<-release
		}
		return false
	})
	first, cancel := context.WithTimeout(ctx, time.Hour)
	var calls sync.WaitGroup
	calls.Go(func() {
		_, _, err := c.Read(first, table, []byte("k"))
		if CodeOf(err) != Cancelled {
			t.Errorf("the cancelled call got %v", err)
		}
		close(release)
	})
	<-asked
	calls.Go(func() {
		if _, err := c.Write(ctx, table, []byte("k"), nil); err != nil {
			t.Error(err)
		}
	})
	cancel()
	calls.Wait()
	if n := f.count(wire.OpGetTable); n != 1 {
		t.Errorf("the coordinator was asked %d times", n)
	}
}

// TestAServerOfAnotherClusterAtTheAddressIsNotTheEnd: the next map has our server's new address.
func TestAServerOfAnotherClusterAtTheAddressIsNotTheEnd(t *testing.T) {
	f, c, table, ctx := setUp(t, 1, 1)
	other := startFake(t, 1)
	other.mutex.Lock()
	other.cluster = uuid{8}
	other.mutex.Unlock()
	f.mutex.Lock()
	right := f.tables[0].Tablets[0].Locator
	f.tables[0].Tablets[0].Locator = other.locator(0)
	f.mutex.Unlock()
	c.mutex.Lock()
	c.tables = map[uint64]*Table{}
	c.mutex.Unlock()
	var asked atomic.Int32
	f.set(func(server int, h wire.Header, _ []byte, _ *fakeConn) bool {
		if h.Opcode == wire.OpGetTable && asked.Add(1)%3 == 0 {
			f.mutex.Lock()
			defer f.mutex.Unlock()
			f.tables[0].Tablets[0].Locator = right
		}
		return false
	})
	_, err := c.Write(ctx, table, []byte("k"), []byte("v"))
	want(t, err, OK)
	f.mutex.Lock()
	f.tables[0].Tablets[0].Locator = other.locator(0)
	f.mutex.Unlock()
	c.mutex.Lock()
	c.tables = map[uint64]*Table{}
	c.mutex.Unlock()
	for _, r := range c.MultiWrite(ctx, multiObjects(table, 3, "v")) {
		want(t, r.Err, OK)
	}
	other.mutex.Lock()
	defer other.mutex.Unlock()
	if other.version != 0 {
		t.Error("the other cluster was written to")
	}
}

// TestACoordinatorAddressThatWasGivenAway: the other coordinators are asked; when all say it, it is another cluster.
func TestACoordinatorAddressThatWasGivenAway(t *testing.T) {
	f, other := startFake(t, 1), startFake(t, 1)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c := connect(t, f.coordinator.Addr().String()+","+other.coordinator.Addr().String())
	_, err := c.CreateTable(ctx, "t", 1)
	want(t, err, OK)
	other.mutex.Lock()
	other.cluster = uuid{8}
	other.mutex.Unlock()
	c.mutex.Lock()
	c.leader = 1
	c.mutex.Unlock()
	_, err = c.GetTable(ctx, "t")
	want(t, err, OK)
	f.mutex.Lock()
	f.cluster = uuid{8}
	f.mutex.Unlock()
	f.hangUp()
	eventually(t, "the end of the connections", func() bool { return len(sessionsOf(c)) == 0 })
	_, err = c.GetTable(ctx, "t")
	want(t, err, WrongCluster)
}

// TestWaitsAreJittered between one half and the whole.
func TestWaitsAreJittered(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 100 {
		wait := jittered(lastWait)
		if wait < lastWait/2 || wait > lastWait {
			t.Fatalf("%s of %s", wait, lastWait)
		}
		seen[wait] = true
	}
	if len(seen) < 50 {
		t.Errorf("%d different waits of 100", len(seen))
	}
}

// TestSessionsThatAreOverAreForgotten: servers come under new ids for as long as a client lives.
func TestSessionsThatAreOverAreForgotten(t *testing.T) {
	f, c, table, ctx := setUp(t, 1, 1)
	_, err := c.Write(ctx, table, []byte("k"), nil)
	want(t, err, OK)
	for id := range uint64(5) {
		_, err := c.session(ctx, place{f.servers[0].Addr().String(), id + 7})
		want(t, err, WrongServer)
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	_, err = c.session(ctx, place{closed.Addr().String(), 1})
	want(t, err, Unavailable)
	f.hangUp()
	eventually(t, "the end of all sessions", func() bool {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		return len(c.sessions) == 0
	})
	_, err = c.Write(ctx, table, []byte("k"), nil)
	want(t, err, OK)
}
