package client

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"ramcloud.dev/client/internal/wire"
)

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("in vain waited for %s", what)
		}
	}
}

func (s *session) outstanding() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return len(s.calls)
}

func (s *session) over() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// TestWhatTheSocketDidNotTakeWasNotSent: of three calls the peer reads one, and a part of the next.
func TestWhatTheSocketDidNotTakeWasNotSent(t *testing.T) {
	near, far := net.Pipe()
	s := newSession(near)
	go s.write()
	go s.read()
	body := make([]byte, 100)
	codes := [3]chan error{}
	for i := range codes {
		codes[i] = make(chan error, 1)
		go func() {
			_, err := s.call(context.Background(), wire.OpWrite, body)
			codes[i] <- err
		}()
		if i < 2 {
			read := []int{wire.HeaderBytes + len(body), wire.HeaderBytes}[i]
			if _, err := io.ReadFull(far, make([]byte, read)); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "the call", func() bool { return s.outstanding() == i+1 })
	}
	_ = far.Close()
	for i, code := range []Code{ConnectionLost, Unavailable, Unavailable} {
		want(t, <-codes[i], code)
	}
	_, err := s.call(context.Background(), wire.OpWrite, body)
	want(t, err, Unavailable)
}

// TestAWriteThatWasNotSentIsSentAgain: a server reads one request and no more, until the sockets are full.
func TestAWriteThatWasNotSentIsSentAgain(t *testing.T) {
	f, c, table, ctx := setUp(t, 1, 1)
	const n = 24
	release := make(chan struct{})
	var stuck atomic.Bool
	f.set(func(_ int, h wire.Header, _ []byte, conn *fakeConn) bool {
		if h.Opcode != wire.OpWrite || stuck.Swap(true) {
			return false
		}
		<-release
		_ = conn.Close()
		return true
	})
	value := make([]byte, wire.MaxValueBytes)
	results := make(chan error, n)
	for i := range n {
		go func() {
			_, err := c.Write(ctx, table, []byte(itoa(i)), value)
			results <- err
		}()
	}
	eventually(t, "all calls", func() bool {
		calls := 0
		for _, s := range sessionsOf(c) {
			calls += s.outstanding()
		}
		return calls == n
	})
	close(release)
	done := uint64(0)
	for range n {
		if err := <-results; err == nil {
			done++
		} else {
			want(t, err, Indeterminate)
		}
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if done == 0 || done != f.version {
		t.Errorf("of %d writes %d succeeded and %d were executed", n, done, f.version)
	}
}

// named makes the client look names up like this. The coordinator of the fake store has the name.
func named(t *testing.T, f *fakeStore, answer lookUp) *Client {
	_, port, err := net.SplitHostPort(f.coordinator.Addr().String())
	want(t, err, OK)
	const name = "coordinator.test"
	c := connect(t, net.JoinHostPort(name, port))
	c.names = func(ctx context.Context, host string) ([]string, error) {
		if host != name {
			return []string{host}, nil
		}
		return answer(ctx, host)
	}
	return c
}

// TestASlowLookupIsWaitedFor: as where the first of two name servers is dead, and each lookup takes longer than a
// connection may.
func TestASlowLookupIsWaitedFor(t *testing.T) {
	c := named(t, startFake(t, 1), func(ctx context.Context, _ string) ([]string, error) {
		select {
		case <-time.After(connectTimeout + 100*time.Millisecond):
			return []string{"127.0.0.1"}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, err := c.CreateTable(ctx, "t", 1)
	want(t, err, OK)
}

// TestAllAddressesOfANameAreTried: at the first nobody listens.
func TestAllAddressesOfANameAreTried(t *testing.T) {
	c := named(t, startFake(t, 1), func(context.Context, string) ([]string, error) {
		return []string{"127.0.0.2", "127.0.0.1"}, nil
	})
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, err := c.CreateTable(ctx, "t", 1)
	want(t, err, OK)
}

// TestServersAtOneAddressDoNotShareAConnection: a client that still expects the former server does not
// disturb others.
func TestServersAtOneAddressDoNotShareAConnection(t *testing.T) {
	f, c, _, ctx := setUp(t, 1, 1)
	address := f.servers[0].Addr().String()
	first, err := c.session(ctx, place{address, 1})
	want(t, err, OK)
	_, err = c.session(ctx, place{address, 9})
	want(t, err, WrongServer)
	again, err := c.session(ctx, place{address, 1})
	want(t, err, OK)
	if again != first {
		t.Error("the server's connection was made again")
	}
	f.mutex.Lock()
	f.believing = true // as a server that does not look
	f.mutex.Unlock()
	_, err = c.session(ctx, place{address, 7})
	want(t, err, WrongServer)
}

// TestASilentConnectionIsReplaced while calls that wait there can still be answered.
func TestASilentConnectionIsReplaced(t *testing.T) {
	f, c, table, ctx := setUp(t, 1, 1)
	_, err := c.Write(ctx, table, []byte("key0"), []byte("v"))
	want(t, err, OK)
	type held struct {
		h    wire.Header
		body []byte
		conn *fakeConn
	}
	writes := make(chan held, 2)
	var silent atomic.Pointer[fakeConn]
	f.set(func(server int, h wire.Header, body []byte, conn *fakeConn) bool {
		if server < 0 {
			return false
		}
		silent.CompareAndSwap(nil, conn)
		if conn != silent.Load() {
			return false
		}
		if h.Opcode == wire.OpWrite {
			writes <- held{h, body, conn}
		}
		return true
	})
	results := [2]chan error{make(chan error, 1), make(chan error, 1)}
	for i := range results {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			defer cancel()
			_, err := c.Write(ctx, table, []byte("key"+itoa(i+1)), nil)
			results[i] <- err
		}()
	}
	first, second := <-writes, <-writes
	value, _, err := c.Read(ctx, table, []byte("key0"))
	if err != nil || string(value) != "v" {
		t.Fatalf("%q, %v", value, err)
	}
	if silent.Load() != first.conn || silent.Load() != second.conn {
		t.Fatal("the writes went over different connections")
	}
	f.handle(0, first.h, first.body, first.conn)
	other := results[1]
	select { // whichever was first
	case err = <-results[0]:
	case err = <-results[1]:
		other = results[0]
	case <-ctx.Done():
		t.Fatal("an answer over the former connection did not come")
	}
	want(t, err, OK)
	c.Close()
	select {
	case err = <-other:
	case <-ctx.Done():
		t.Fatal("a call on the former connection outlived its client")
	}
	want(t, err, Indeterminate)
}

// TestARetiredConnectionEndsWithItsLastCall, and begins no other.
func TestARetiredConnectionEndsWithItsLastCall(t *testing.T) {
	near, far := net.Pipe()
	s := newSession(near)
	go s.write()
	go s.read()
	go func() { _, _ = io.Copy(io.Discard, far) }()
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() {
		_, err := s.call(ctx, wire.OpRead, nil)
		result <- err
	}()
	eventually(t, "the call", func() bool { return s.outstanding() == 1 })
	s.mutex.Lock()
	s.quiet = s.quiet.Add(-silence)
	s.mutex.Unlock()
	s.suspect()
	_, err := s.call(ctx, wire.OpRead, nil)
	want(t, err, Unavailable)
	if s.over() {
		t.Error("it ended before its call")
	}
	cancel()
	want(t, <-result, Cancelled)
	eventually(t, "the end of the connection", s.over)
}

// sessionsOf returns the open sessions.
func sessionsOf(c *Client) (sessions []*session) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, p := range c.sessions {
		select {
		case <-p.ready:
			if p.err == nil && p.session.usable() {
				sessions = append(sessions, p.session)
			}
		default:
		}
	}
	return sessions
}

// TestAsksAgainWhatDoesNotSpeakTheProtocol: it may be another program at the address of a stopped server.
func TestAsksAgainWhatDoesNotSpeakTheProtocol(t *testing.T) {
	f, c, table, ctx := setUp(t, 1, 1)
	odd := f.hello(&wire.Hello{VersionMax: wire.VersionMax}, 1)
	odd.Status = 999
	f.mutex.Lock()
	f.nonsense = [][]byte{bytes.Repeat([]byte("HTTP/1.1"), wire.HelloBytes/8), odd.Encode(nil)}
	f.mutex.Unlock()
	_, err := c.Write(ctx, table, []byte("k"), nil)
	want(t, err, OK)
	if f.nextNonsense() != nil {
		t.Error("the hellos were not asked for")
	}
}

// TestAReplyThatRacesTheDeadlineIsTheAnswer: when both are there, the call is not called unknown.
func TestAReplyThatRacesTheDeadlineIsTheAnswer(t *testing.T) {
	near, far := net.Pipe()
	s := newSession(near)
	go s.write()
	defer s.end(io.EOF)
	go func() { _, _ = io.Copy(io.Discard, far) }()
	for i := range 50 {
		ctx, cancel := context.WithCancel(context.Background())
		result := make(chan error, 1)
		go func() {
			_, err := s.call(ctx, wire.OpWrite, nil)
			result <- err
		}()
		eventually(t, "the call", func() bool { return s.outstanding() == 1 })
		// As read does: first the call is taken off, then its reply goes into the channel.
		s.mutex.Lock()
		id := s.next
		answer := s.calls[id]
		delete(s.calls, id)
		if i%2 == 0 {
			cancel() // it wakes between the two
			answer <- reply{}
		} else {
			answer <- reply{}
			cancel()
		}
		s.mutex.Unlock()
		want(t, <-result, OK)
	}
}
