package client

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ramcloud.dev/client/internal/wire"
)

// suspended is a store of two servers whose first one, which has all of the table, is silent after its first
// write; its connections stay open.
type suspended struct {
	*fakeStore
	t         *testing.T
	c         *Client
	table     uint64
	ctx       context.Context // its deadline is longer than any test
	atOwner   atomic.Int32    // requests to it since then
	questions atomic.Int32
	mutex     sync.Mutex
	withheld  []func()
	question  func(number int32) bool // sees each question; true: it gets no answer
}

func suspend(t *testing.T, span uint32) *suspended {
	f, c, table, ctx := setUp(t, 2, 1)
	if span > 1 {
		created, err := c.CreateTable(ctx, "wide", span)
		want(t, err, OK)
		table = created.ID
	}
	s := &suspended{fakeStore: f, t: t, c: c, table: table, ctx: ctx, question: func(int32) bool { return false }}
	for _, r := range c.MultiWrite(ctx, multiObjects(table, 20, "v")) {
		want(t, r.Err, OK)
	}
	c.ownerCheckAfter = 10 * time.Millisecond
	f.set(func(server int, h wire.Header, body []byte, conn *fakeConn) bool {
		switch {
		case server < 0 && h.Opcode == wire.OpGetTable:
			return s.question(s.questions.Add(1))
		case server == 0:
			s.atOwner.Add(1)
			s.mutex.Lock()
			defer s.mutex.Unlock()
			s.withheld = append(s.withheld, func() { f.handle(server, h, body, conn) })
			return true
		}
		return false
	})
	return s
}

// resume answers the requests that came meanwhile.
func (s *suspended) resume() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, answer := range s.withheld {
		answer()
	}
	s.withheld = nil
}

// change does something to the tablets of the table.
func (s *suspended) change(how func(tablet *wire.Tablet)) {
	s.fakeStore.mutex.Lock()
	defer s.fakeStore.mutex.Unlock()
	tablets := s.tables[s.table-1].Tablets
	for i := range tablets {
		how(&tablets[i])
	}
}

func (s *suspended) move(tablet *wire.Tablet) { tablet.ServerID, tablet.Locator = 2, s.locator(1) }

func (s *suspended) wantGivenUp(err error) {
	s.t.Helper()
	want(s.t, err, Indeterminate)
	if !strings.Contains(err.Error(), "the reply was lost: server 1 was given up") {
		s.t.Errorf("it says %v", err)
	}
}

func TestAReadGoesOnAtTheNewOwner(t *testing.T) {
	s := suspend(t, 1)
	s.change(s.move)
	value, _, err := s.c.Read(s.ctx, s.table, []byte("key0"))
	want(t, err, OK)
	if string(value) != "v" || s.atOwner.Load() != 1 {
		t.Errorf("read %q, after %d requests to the silent server", value, s.atOwner.Load())
	}
	for _, r := range s.c.MultiRead(s.ctx, multiKeys(s.table, 20)) {
		want(t, r.Err, OK)
	}
}

func TestAMultiReadGoesOnAtTheNewOwner(t *testing.T) {
	s := suspend(t, 1)
	s.change(s.move)
	for _, r := range s.c.MultiRead(s.ctx, multiKeys(s.table, 20)) {
		want(t, r.Err, OK)
	}
	if n := s.atOwner.Load(); n != 1 {
		t.Errorf("%d requests to the silent server", n)
	}
}

func TestAnEnumerationGoesOnAtTheNewOwner(t *testing.T) {
	s := suspend(t, 1)
	s.change(s.move)
	visited := 0
	want(t, s.c.Enumerate(s.ctx, s.table, func(Object) error { visited++; return nil }), OK)
	if visited != 20 {
		t.Errorf("visited %d objects", visited)
	}
}

// TestAReadThatWaitedInVainOnceIsNotSentThereAgain: an attempt that ends by its own timeout also makes the
// client ask for the owner.
func TestAReadThatWaitedInVainOnceIsNotSentThereAgain(t *testing.T) {
	s := suspend(t, 1)
	s.c.ownerCheckAfter = time.Hour
	s.change(s.move)
	_, _, err := s.c.Read(s.ctx, s.table, []byte("key0"))
	want(t, err, OK)
	if n := s.atOwner.Load(); n != 1 {
		t.Errorf("%d requests to the silent server", n)
	}
}

func TestAReadWaitsForAnOwnerWhereThereIsNone(t *testing.T) {
	s := suspend(t, 1)
	s.change(func(tablet *wire.Tablet) { tablet.State = wire.TabletUnavailable })
	s.question = func(number int32) bool {
		if number == 4 {
			s.change(func(tablet *wire.Tablet) { s.move(tablet); tablet.State = wire.TabletNormal })
		}
		return false
	}
	_, _, err := s.c.Read(s.ctx, s.table, []byte("key0"))
	want(t, err, OK)
	if n := s.atOwner.Load(); n != 1 {
		t.Errorf("%d requests to the silent server", n)
	}
}

func TestAChangeAtASilentOwnerIsIndeterminateAtOnce(t *testing.T) {
	s := suspend(t, 1)
	s.change(s.move)
	_, err := s.c.Write(s.ctx, s.table, []byte("key0"), []byte("w"))
	s.wantGivenUp(err)
	value, _, err := s.c.Read(s.ctx, s.table, []byte("key0")) // finds the new owner
	want(t, err, OK)
	if string(value) != "v" {
		t.Errorf("the write was repeated: %q", value)
	}
}

func TestADeadServersTabletsAreEnough(t *testing.T) {
	s := suspend(t, 1)
	s.change(func(tablet *wire.Tablet) { tablet.State = wire.TabletUnavailable })
	_, err := s.c.Delete(s.ctx, s.table, []byte("key0"))
	s.wantGivenUp(err)
}

func TestAnOwnerThatIsOnlySlowIsWaitedFor(t *testing.T) {
	s := suspend(t, 1)
	s.question = func(number int32) bool {
		if number == 3 {
			s.resume()
		}
		return false
	}
	_, err := s.c.Write(s.ctx, s.table, []byte("key0"), []byte("w"))
	want(t, err, OK)
	if n := s.atOwner.Load(); n != 1 {
		t.Errorf("the write was sent %d times", n)
	}
}

// TestWhatTheCoordinatorDoesNotSayChangesNothing: a question has a deadline, and is repeated.
func TestWhatTheCoordinatorDoesNotSayChangesNothing(t *testing.T) {
	s := suspend(t, 1)
	s.question = func(number int32) bool {
		if number == 2 {
			s.resume()
		}
		return true
	}
	_, err := s.c.Write(s.ctx, s.table, []byte("key0"), []byte("w"))
	want(t, err, OK)
}

// TestManyOwnerChecksShareOneQuestion: the coordinator answers only when all calls have come to the silent server.
func TestManyOwnerChecksShareOneQuestion(t *testing.T) {
	const n = 32
	s := suspend(t, 1)
	s.change(s.move)
	s.question = func(int32) bool {
		eventually(t, "all calls", func() bool { return s.atOwner.Load() == n })
		return false
	}
	var calls sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		calls.Go(func() { _, errs[i] = s.c.Write(s.ctx, s.table, []byte("key"+itoa(i)), nil) })
	}
	calls.Wait()
	for _, err := range errs {
		s.wantGivenUp(err)
	}
	if asked := s.questions.Load(); asked != 1 {
		t.Errorf("the coordinator was asked %d times", asked)
	}
}

func TestAMultiWriteIsIndeterminateAtTheSilentOwnerOnly(t *testing.T) {
	s := suspend(t, 2)
	s.change(s.move)
	lost := 0
	for i, r := range s.c.MultiWrite(s.ctx, multiObjects(s.table, 20, "w")) {
		if wire.KeyHash(s.table, []byte("key"+itoa(i))) < 1<<63-1 {
			s.wantGivenUp(r.Err)
			lost++
			continue
		}
		want(t, r.Err, OK)
	}
	if lost == 0 || lost == 20 {
		t.Errorf("%d were lost", lost)
	}
}

// TestAMessageWaitsWhileItsServerHasOneOfItsTablets although it lost the tablet of the first operation.
func TestAMessageWaitsWhileItsServerHasOneOfItsTablets(t *testing.T) {
	s := suspend(t, 1)
	hash := wire.KeyHash(s.table, []byte("key0"))
	s.fakeStore.mutex.Lock()
	whole := s.tables[0].Tablets[0]
	low, high := whole, whole
	low.EndHash, high.StartHash = 1<<63-1, 1<<63
	s.tables[0].Tablets = []wire.Tablet{low, high}
	s.fakeStore.mutex.Unlock()
	s.question = func(number int32) bool {
		switch number {
		case 1:
			s.change(func(tablet *wire.Tablet) {
				if tablet.StartHash <= hash && hash <= tablet.EndHash {
					s.move(tablet)
				}
			})
		case 3:
			s.resume()
		}
		return false
	}
	for _, r := range s.c.MultiWrite(s.ctx, multiObjects(s.table, 20, "w")) {
		want(t, r.Err, OK)
	}
	if n := s.atOwner.Load(); n != 1 {
		t.Errorf("%d messages to the silent server", n)
	}
}
