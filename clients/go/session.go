package client

import (
	"bufio"
	"cmp"
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

	"ramcloud.dev/client/internal/wire"
)

// Looking a name up has its own time: where the first of two name servers is dead, each lookup takes longer
// than a connection may.
const (
	lookUpTimeout  = 20 * time.Second
	connectTimeout = 3 * time.Second
)

// The addresses of a name are tried one after the other, this long apart: the first may lead nowhere.
const nextAddress = 300 * time.Millisecond

// lookUp returns the addresses of a host; an address in numbers is its own.
type lookUp func(ctx context.Context, host string) ([]string, error)

// If a server has sent no byte for this long after a request, a call that times out suspects it.
const silence = firstPatience / 2

// session is one connection with any number of calls outstanding.
type session struct {
	conn    net.Conn
	hello   wire.Hello // the server's
	out     chan *outgoing
	done    chan struct{} // closed when the connection is over
	written chan struct{} // closed after that, when `sent` is final
	sent    uint64        // bytes that the socket took; owned by write until `written` is closed

	mutex   sync.Mutex
	err     error     // why it ended
	retired error     // why no new call may begin
	quiet   time.Time // since when requests are unanswered without a byte from the server; zero: none
	next    uint64
	calls   map[uint64]chan reply
}

// outgoing is a request on its way to the socket.
type outgoing struct {
	message []byte
	end     uint64 // its end in the stream, 0 if it was not written; owned by write until `written` is closed
}

type reply struct {
	status uint16
	body   []byte
}

type uuid = [16]byte

func formatUUID(u uuid) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

func newSession(conn net.Conn) *session {
	return &session{conn: conn, out: make(chan *outgoing, 64), done: make(chan struct{}), written: make(chan struct{}),
		calls: map[uint64]chan reply{}}
}

// open connects and exchanges hellos. Without an id any server is accepted, and without a cluster a server of
// any cluster. The session ends with alive.
func open(alive context.Context, names lookUp, at place, cluster uuid) (*session, error) {
	cannot := func(err error) error {
		return &Error{Code: Unavailable, Message: fmt.Sprintf("cannot connect to %s: %v", at.address, err), notSent: true}
	}
	hosts, port, err := names.addresses(alive, at.address)
	if err != nil {
		return nil, cannot(err)
	}
	ctx, cancel := context.WithTimeout(alive, connectTimeout)
	defer cancel()
	conn, err := dial(ctx, hosts, port)
	if err != nil {
		return nil, cannot(err)
	}
	s := newSession(conn)
	if err := s.greet(ctx, at.serverID, cluster); err != nil {
		_ = conn.Close()
		var e *Error
		if !errors.As(err, &e) {
			e = failure(Unavailable, "%s did not answer the hello: %v", at.address, err)
		}
		e.notSent = true
		return nil, e
	}
	detach := context.AfterFunc(alive, func() { s.end(errors.New("the client was closed")) })
	go s.write()
	go func() {
		defer detach()
		s.read()
	}()
	return s, nil
}

func (names lookUp) addresses(alive context.Context, address string) (hosts []string, port string, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(alive, lookUpTimeout)
	defer cancel()
	hosts, err = names(ctx, host)
	return hosts, port, err
}

// dial returns the first connection to one of the hosts.
func dial(ctx context.Context, hosts []string, port string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		conn net.Conn
		err  error
	}
	results := make(chan result, len(hosts))
	for i, host := range hosts {
		go func() {
			select {
			case <-time.After(time.Duration(i) * nextAddress):
			case <-ctx.Done():
			}
			conn, err := (&net.Dialer{Control: setOptions}).DialContext(ctx, "tcp", net.JoinHostPort(host, port))
			results <- result{conn, err}
		}()
	}
	err := errors.New("the name has no address")
	for i := range hosts {
		r := <-results
		if r.err != nil {
			err = r.err
			continue
		}
		go func() { // those that were not faster
			for range len(hosts) - i - 1 {
				if late := <-results; late.err == nil {
					_ = late.conn.Close()
				}
			}
		}()
		return r.conn, nil
	}
	return nil, err
}

func (s *session) greet(ctx context.Context, serverID uint64, cluster uuid) error {
	deadline, _ := ctx.Deadline()
	_ = s.conn.SetDeadline(deadline)
	defer func() { _ = s.conn.SetDeadline(time.Time{}) }()
	mine := wire.Hello{VersionMin: wire.VersionMin, VersionMax: wire.VersionMax, MaxBodyBytes: wire.MaxBodyBytes,
		ClusterUUID: cluster, ServerID: serverID}
	if _, err := s.conn.Write(mine.Encode(nil)); err != nil {
		return err
	}
	buffer := make([]byte, wire.HelloBytes)
	if _, err := io.ReadFull(s.conn, buffer); err != nil {
		return err
	}
	// Another program may listen at the address of a stopped server: retry, as for an unreachable server.
	if err := s.hello.Decode(buffer); err != nil {
		return failure(Unavailable, "%s: %v", s.conn.RemoteAddr(), err)
	}
	code := Code(s.hello.Status)
	if code == WrongCluster || (code == OK && cluster != (uuid{}) && s.hello.ClusterUUID != cluster) {
		return failure(WrongCluster, "%s belongs to cluster %s, not %s", s.conn.RemoteAddr(),
			formatUUID(s.hello.ClusterUUID), formatUUID(cluster))
	}
	switch code {
	case OK:
	case Unsupported, Unavailable, WrongServer:
		return failure(code, "%s refused the connection", s.conn.RemoteAddr())
	default:
		return failure(Unavailable, "%s refused the hello with %d", s.conn.RemoteAddr(), s.hello.Status)
	}
	if s.hello.VersionMin != s.hello.VersionMax || s.version() < wire.VersionMin || s.version() > wire.VersionMax {
		return failure(Unsupported, "%s speaks protocol versions %d to %d; accepted: %d to %d",
			s.conn.RemoteAddr(), s.hello.VersionMin, s.hello.VersionMax, wire.VersionMin, wire.VersionMax)
	}
	if serverID != 0 && s.hello.ServerID != serverID {
		return failure(WrongServer, "%s is server %d, not %d", s.conn.RemoteAddr(), s.hello.ServerID, serverID)
	}
	return nil
}

// version is the protocol version of the connection.
func (s *session) version() uint16 { return s.hello.VersionMax }

// call sends a request and waits for its reply. Unavailable means that it was not sent completely, so it was
// not executed; ConnectionLost that it may have been.
func (s *session) call(ctx context.Context, op wire.Opcode, body []byte) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, notSentInTime(ctx)
	}
	id, answer := s.register()
	if answer == nil {
		return nil, s.unsent()
	}
	defer s.forget(id)
	o := &outgoing{message: wire.Message(make([]byte, 0, wire.HeaderBytes+len(body)), wire.Header{
		Kind: wire.KindRequest, Opcode: op, TimeoutMS: timeoutMS(ctx), CallID: id,
	}, body)}
	select {
	case s.out <- o:
	case <-ctx.Done():
		s.suspect()
		return nil, notSentInTime(ctx)
	case <-s.done:
		return nil, s.unsent()
	}
	select {
	case r := <-answer:
		return s.take(r)
	case <-ctx.Done():
		if s.forget(id) {
			s.suspect()
			return nil, failure(contextCode(ctx), "no answer from %s", s.conn.RemoteAddr())
		}
		// The reply came at the same moment: return it instead of an unknown outcome.
		return s.take(<-answer)
	case <-s.done:
	}
	<-s.written
	select { // the reply may have come just before the end of the connection
	case r := <-answer:
		return s.take(r)
	default:
	}
	if o.end == 0 || o.end > s.sent {
		return nil, s.unsent()
	}
	return nil, failure(ConnectionLost, "%s", s.reason())
}

// register creates the id of a call and the channel for its reply; nil if the connection is not usable.
func (s *session) register() (uint64, chan reply) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.err != nil || s.retired != nil {
		return 0, nil
	}
	if s.quiet.IsZero() {
		s.quiet = time.Now()
	}
	s.next++
	answer := make(chan reply, 1)
	s.calls[s.next] = answer
	return s.next, answer
}

// forget removes a call; a retired session ends with its last call. False: the reply has come, and is in the
// channel or will be at once.
func (s *session) forget(id uint64) bool {
	s.mutex.Lock()
	_, waited := s.calls[id]
	delete(s.calls, id)
	retired, left := s.retired, len(s.calls)
	s.mutex.Unlock()
	if retired != nil && left == 0 {
		s.end(retired)
	}
	return waited
}

// suspect is called by a call that timed out: if the server was silent all the time, the next call opens
// another connection, because a proxy or firewall may keep a dead connection open. Calls that wait on this
// connection continue to wait: the server may only be slow, and a write that is cut off has an unknown
// outcome.
func (s *session) suspect() {
	s.mutex.Lock()
	quiet := s.quiet
	s.mutex.Unlock()
	if !quiet.IsZero() && time.Since(quiet) >= silence {
		s.retire(fmt.Errorf("the server was silent for %s", time.Since(quiet).Round(time.Millisecond)))
	}
}

// retire lets outstanding calls end, and no new ones begin.
func (s *session) retire(why error) {
	s.mutex.Lock()
	s.retired = cmp.Or(s.retired, why)
	left := len(s.calls)
	s.mutex.Unlock()
	if left == 0 {
		s.end(why)
	}
}

func (s *session) heard() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.quiet = time.Time{}
}

func (s *session) unsent() error {
	return &Error{Code: Unavailable, Message: s.reason() + " (before this call was sent)", notSent: true}
}

func notSentInTime(ctx context.Context) error {
	return &Error{Code: contextCode(ctx), Message: "the request was not sent", notSent: true}
}

func (s *session) take(r reply) ([]byte, error) {
	if r.status == 0 {
		return r.body, nil
	}
	var e wire.ErrorBody
	if err := e.Decode(r.body); err != nil {
		return nil, failure(Code(r.status), "without a message from %s", s.conn.RemoteAddr())
	}
	return nil, &Error{Code: Code(r.status), Message: e.Message, retryAfterUS: e.RetryAfterUS, details: e.Details}
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

// socket is a session's connection, which records traffic.
type socket struct{ of *session }

func (s socket) Write(p []byte) (int, error) {
	n, err := s.of.conn.Write(p)
	s.of.sent += uint64(n)
	return n, err
}

// Any byte shows that the server is alive, not only a whole reply.
func (s socket) Read(p []byte) (int, error) {
	n, err := s.of.conn.Read(p)
	if n > 0 {
		s.of.heard()
	}
	return n, err
}

// write sends queued requests; those that were queued together go together.
func (s *session) write() {
	defer close(s.written)
	buffered := bufio.NewWriterSize(socket{s}, 64<<10)
	queued := uint64(0)
	for {
		select {
		case o := <-s.out:
			queued += uint64(len(o.message))
			o.end = queued
			_, err := buffered.Write(o.message)
			o.message = nil // free the message while its call still waits
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
	buffered := bufio.NewReaderSize(socket{s}, 64<<10)
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

// end closes the session once, with the error for its callers.
func (s *session) end(err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.err != nil {
		return
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("the server closed the connection")
	}
	s.err = err
	_ = s.conn.Close()
	close(s.done)
}

func (s *session) usable() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.err == nil && s.retired == nil
}

func (s *session) reason() string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return fmt.Sprintf("connection to %s: %v", s.conn.RemoteAddr(), cmp.Or(s.err, s.retired))
}

// parseLocator returns host:port of "tcp:host=H,port=P".
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
