package client

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"ramcloud.dev/operator/internal/wire"
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
	eventually(t, "all calls", func() bool { return outstanding(c) == n })
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

// TestServersAtOneAddressDoNotShareAConnection: who still believes in a former server there disturbs nobody.
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
		t.Error("the server's connection was made anew")
	}
	f.mutex.Lock()
	f.believing = true
	f.mutex.Unlock()
	_, err = c.session(ctx, place{address, 7})
	want(t, err, WrongServer)
}

// outstanding counts the calls of all sessions that stand.
func outstanding(c *Client) (calls int) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, p := range c.sessions {
		select {
		case <-p.ready:
			if p.err == nil {
				calls += p.session.outstanding()
			}
		default:
		}
	}
	return calls
}
