package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"ramcloud.dev/operator/internal/wire"
)

const connectTimeout = 3 * time.Second

// session is one connection with any number of calls outstanding.
type session struct {
	conn  net.Conn
	hello wire.Hello // the server's
	out   chan []byte
	done  chan struct{} // closed when the connection is over

	mutex sync.Mutex
	err   error // why it is over
	next  uint64
	calls map[uint64]chan reply
}

type reply struct {
	status uint16
	body   []byte
}

// open connects and exchanges hellos. serverID 0 accepts any server.
func open(ctx context.Context, address string, serverID uint64) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, &Error{Code: Unavailable, Message: fmt.Sprintf("cannot connect to %s: %v", address, err), notSent: true}
	}
	s := &session{conn: conn, out: make(chan []byte, 64), done: make(chan struct{}), calls: map[uint64]chan reply{}}
	if err := s.greet(ctx, serverID); err != nil {
		_ = conn.Close()
		var e *Error
		if !errors.As(err, &e) {
			e = failure(Unavailable, "%s did not answer the hello: %v", address, err)
		}
		e.notSent = true
		return nil, e
	}
	go s.write()
	go s.read()
	return s, nil
}

func (s *session) greet(ctx context.Context, serverID uint64) error {
	deadline, _ := ctx.Deadline()
	_ = s.conn.SetDeadline(deadline)
	defer func() { _ = s.conn.SetDeadline(time.Time{}) }()
	mine := wire.Hello{VersionMin: wire.Version, VersionMax: wire.Version, MaxBodyBytes: wire.MaxBodyBytes, ServerID: serverID}
	if _, err := s.conn.Write(mine.Encode(nil)); err != nil {
		return err
	}
	buffer := make([]byte, wire.HelloBytes)
	if _, err := io.ReadFull(s.conn, buffer); err != nil {
		return err
	}
	if err := s.hello.Decode(buffer); err != nil {
		return failure(ProtocolError, "%v", err)
	}
	if code := Code(s.hello.Status); code != OK {
		return failure(code, "%s refused the connection", s.conn.RemoteAddr())
	}
	if s.hello.VersionMin > wire.Version || s.hello.VersionMax < wire.Version {
		return failure(Unsupported, "%s speaks protocol versions %d to %d; accepted: %d",
			s.conn.RemoteAddr(), s.hello.VersionMin, s.hello.VersionMax, wire.Version)
	}
	return nil
}

// call sends a request and waits for its reply.
func (s *session) call(ctx context.Context, op wire.Opcode, body []byte) ([]byte, error) {
	answer := make(chan reply, 1)
	s.mutex.Lock()
	if s.err != nil {
		defer s.mutex.Unlock()
		return nil, &Error{Code: ConnectionLost, Message: s.err.Error(), notSent: true}
	}
	s.next++
	id := s.next
	s.calls[id] = answer
	s.mutex.Unlock()
	defer func() {
		s.mutex.Lock()
		delete(s.calls, id)
		s.mutex.Unlock()
	}()
	message := wire.Message(make([]byte, 0, wire.HeaderBytes+len(body)), wire.Header{
		Kind: wire.KindRequest, Opcode: op, TimeoutMS: timeoutMS(ctx), CallID: id,
	}, body)
	select {
	case s.out <- message:
	case <-ctx.Done():
		return nil, &Error{Code: contextCode(ctx), Message: "the request was not sent", notSent: true}
	case <-s.done:
		return nil, &Error{Code: ConnectionLost, Message: s.reason(), notSent: true}
	}
	select {
	case r := <-answer:
		return s.take(r)
	case <-ctx.Done():
		return nil, failure(contextCode(ctx), "no answer from %s", s.conn.RemoteAddr())
	case <-s.done:
		select { // the reply may have come just before the end
		case r := <-answer:
			return s.take(r)
		default:
			return nil, failure(ConnectionLost, "%s", s.reason())
		}
	}
}

func (s *session) take(r reply) ([]byte, error) {
	if r.status == 0 {
		return r.body, nil
	}
	var e wire.ErrorBody
	if err := e.Decode(r.body); err != nil {
		return nil, failure(Code(r.status), "without a message from %s", s.conn.RemoteAddr())
	}
	return nil, &Error{Code: Code(r.status), Message: e.Message, retryAfterUS: e.RetryAfterUS}
}

func timeoutMS(ctx context.Context) uint32 {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	ms := time.Until(deadline).Milliseconds()
	return uint32(min(max(ms, 1), math.MaxUint32))
}

func contextCode(ctx context.Context) Code {
	if errors.Is(ctx.Err(), context.Canceled) {
		return Cancelled
	}
	return DeadlineExceeded
}

func (s *session) write() {
	buffered := bufio.NewWriterSize(s.conn, 64<<10)
	for {
		select {
		case message := <-s.out:
			_, err := buffered.Write(message)
			if err == nil && len(s.out) == 0 {
				err = buffered.Flush()
			}
			if err != nil {
				s.end(err)
				return
			}
		case <-s.done:
			return
		}
	}
}

func (s *session) read() {
	buffered := bufio.NewReaderSize(s.conn, 64<<10)
	head := make([]byte, wire.HeaderBytes)
	for {
		var h wire.Header
		if _, err := io.ReadFull(buffered, head); err != nil {
			s.end(err)
			return
		}
		if err := h.Decode(head); err != nil {
			s.end(err)
			return
		}
		if h.Kind != wire.KindReply {
			s.end(fmt.Errorf("%w: a request from a server", wire.ErrMalformed))
			return
		}
		body := make([]byte, h.BodyLength)
		if _, err := io.ReadFull(buffered, body); err != nil {
			s.end(err)
			return
		}
		s.mutex.Lock()
		answer := s.calls[h.CallID] // nil: the caller gave up
		delete(s.calls, h.CallID)
		s.mutex.Unlock()
		if answer != nil {
			answer <- reply{status: h.Status, body: body}
		}
	}
}

// end closes the session once, with the reason that callers are told.
func (s *session) end(err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.err != nil {
		return
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("the server closed the connection")
	}
	s.err = fmt.Errorf("connection to %s: %w", s.conn.RemoteAddr(), err)
	_ = s.conn.Close()
	close(s.done)
}

func (s *session) over() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

func (s *session) reason() string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.err.Error()
}

// parseLocator gives host:port of "tcp:host=H,port=P".
func parseLocator(locator string) (string, error) {
	rest, ok := strings.CutPrefix(locator, "tcp:")
	if !ok {
		return "", failure(InvalidArgument, "locator is '%s'; accepted: tcp:host=H,port=P", locator)
	}
	host, port := "", ""
	for field := range strings.SplitSeq(rest, ",") {
		key, value, _ := strings.Cut(field, "=")
		switch key {
		case "host":
			host = strings.TrimSuffix(strings.TrimPrefix(value, "["), "]")
		case "port":
			port = value
		}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" {
		return "", failure(InvalidArgument, "locator is '%s'; accepted: tcp:host=H,port=P", locator)
	}
	return net.JoinHostPort(host, port), nil
}
