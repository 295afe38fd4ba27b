package local

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"sync/atomic"
	"testing"
)

const (
	invalidArgument = 4
	tryAgain        = 7 // RETRY
	unsupported     = 16
	noSpace         = 19
	highestTerm     = uint64(1) << 62 // nothing above it is a term or a revision
)

// logOf is the log of a process since the test started it last.
func (c *cluster) logOf(d *daemon) string {
	for _, p := range c.extra {
		if p.pid() == d.PID {
			return p.log.String()
		}
	}
	return ""
}

func words(of ...uint64) (body []byte) {
	for _, word := range of {
		body = binary.LittleEndian.AppendUint64(body, word)
	}
	return body
}

// impostor is a server that enlists, answers pings, has no room for replicas, and refuses every order of coordinators
// because it knows a higher term.
type impostor struct {
	*door
	claims   atomic.Uint64
	refusals atomic.Int64
}

func startImpostor(t *testing.T, term uint64) *impostor {
	t.Helper()
	i := &impostor{}
	i.claims.Store(term)
	i.door = openDoor(t, "127.0.0.1:0", i.serve)
	return i
}

func (i *impostor) serve(_ *door, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	hello := make([]byte, 64)
	if _, err := io.ReadFull(conn, hello); err != nil {
		return
	}
	hello[8], hello[10] = 1, 1 // accepts any server id, and speaks version 1
	if _, err := conn.Write(hello); err != nil {
		return
	}
	for {
		header := make([]byte, 48)
		if _, err := io.ReadFull(conn, header); err != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, conn, int64(binary.LittleEndian.Uint32(header))); err != nil {
			return
		}
		status, text := i.answer(binary.LittleEndian.Uint16(header[6:]))
		var body []byte
		if status != 0 {
			body = binary.LittleEndian.AppendUint16(make([]byte, 4), uint16(len(text)))
			body = append(body, text...)
		}
		binary.LittleEndian.PutUint32(header, uint32(len(body)))
		header[4] = 2 // a reply
		binary.LittleEndian.PutUint16(header[8:], status)
		binary.LittleEndian.PutUint32(header[12:], 0)
		if _, err := conn.Write(append(header, body...)); err != nil {
			return
		}
	}
}

func (i *impostor) answer(opcode uint16) (status uint16, text string) {
	switch {
	case opcode >= 96 && opcode < 128: // orders of coordinators
		i.refusals.Add(1)
		return staleTerm, fmt.Sprintf("term 1 is of a former coordinator; the present one is %d", i.claims.Load())
	case opcode >= 128:
		return noSpace, "no frame is free"
	}
	return 0, ""
}

// enlist enlists the impostor at a coordinator, and returns its id.
func (i *impostor) enlist(t *testing.T, coordinator *daemon) uint64 {
	t.Helper()
	text := func(body []byte, text string) []byte {
		return append(binary.LittleEndian.AppendUint32(body, uint32(len(text))), text...)
	}
	address := i.listener.Addr().(*net.TCPAddr)
	locator := fmt.Sprintf("tcp:host=127.0.0.1,port=%d", address.Port)
	body := make([]byte, 16+8) // of any cluster, with a fresh volume
	for _, field := range []string{"impostor", "0", locator, "", "", ""} {
		body = text(body, field)
	}
	body = append(body, words(64<<20, 64<<20, 1<<20)...)
	body = binary.LittleEndian.AppendUint32(body, 2)
	body = append(body, words(uint64(address.Port))...)
	c := connectRaw(t, coordinator.Ports.RPC)
	c.send(80, body)
	status, reply := c.status()
	if status != 0 || len(reply) < 8 {
		t.Fatalf("the impostor is not enlisted: status %d, %q", status, reply)
	}
	return binary.LittleEndian.Uint64([]byte(reply))
}

// Messages with made-up terms and revisions, and a server that claims such a term, stop neither servers nor
// the leader: refused messages are counted, and named in the log.
func TestMadeUpTermsStopNobody(t *testing.T) {
	t.Parallel()
	r := startReplicated(t)
	of := r.client()
	table := r.table(of, "load", 3)
	l := r.pacedLoad(of, table)
	l.more(200)
	before, leader, term := r.serverViews(), r.leader(nil), r.term(of)
	elections := r.counter("ramcloud_coordinator_elected_total")

	for _, server := range r.daemons {
		for _, c := range []struct {
			opcode uint16
			body   []byte
			status uint16
		}{
			{99, words(math.MaxUint64, 1), invalidArgument},
			{98, words(math.MaxUint64, 1, table.ID), invalidArgument}, // to drop the table
			{98, words(term, math.MaxUint64, table.ID), invalidArgument},
			{98, words(highestTerm+1, 1, table.ID), invalidArgument},
			{98, words(highestTerm, highestTerm, table.ID), tryAgain},
			{98, words(term+1, 1, table.ID), tryAgain},
			{98, words(term, 1<<40, table.ID), tryAgain},
		} {
			conn := connectRaw(t, server.Ports.RPC)
			conn.send(c.opcode, c.body)
			if status, text := conn.status(); status != c.status || !strings.Contains(text, "term ") {
				t.Errorf("%s answered opcode %d, %x with status %d, %q; want %d", server.Name, c.opcode, c.body, status, text, c.status)
			}
		}
		if n := counterOf(server, `ramcloud_refused_terms_total{reason="impossible"}`); n != 4 {
			t.Errorf("%s counted %d impossible terms", server.Name, n)
		}
		if n := counterOf(server, `ramcloud_refused_terms_total{reason="unconfirmed"}`); n < 3 {
			t.Errorf("%s counted %d terms that nobody confirms", server.Name, n)
		}
		r.eventually("the line that names it", func() bool { // one a second
			conn := connectRaw(t, server.Ports.RPC)
			conn.send(99, words(math.MaxUint64, 1))
			_, _ = conn.status()
			return strings.Contains(r.logOf(server), "term=18446744073709551615")
		})
	}
	for _, coordinator := range r.coordinators {
		conn := connectRaw(t, coordinator.Ports.RPC)
		conn.send(98, words(math.MaxUint64, math.MaxUint64, table.ID))
		if status, text := conn.status(); status != unsupported && status != notLeader {
			t.Errorf("%s takes orders of coordinators: status %d, %q", coordinator.Name, status, text)
		}
	}
	l.more(200)

	liar := startImpostor(t, math.MaxUint64)
	id := liar.enlist(t, leader)
	for i, claimed := range []uint64{math.MaxUint64, highestTerm - 1} {
		liar.claims.Store(claimed)
		refusals := liar.refusals.Load()
		r.eventually("refusals", func() bool { return liar.refusals.Load() > refusals+10 })
		if r.leader(nil) != leader || r.term(of) != term {
			t.Errorf("after a claim of %d the term is %d, it was %d", claimed, r.term(of), term)
		}
		for _, tablet := range r.table(of, fmt.Sprintf("while it claims %d", i), 3).Tablets {
			if tablet.ServerID == id {
				t.Error("a new table has a tablet on the server that takes no orders")
			}
		}
	}
	if text := r.logOf(leader); !strings.Contains(text, "claimed=18446744073709551615") {
		t.Errorf("the leader's log does not say what was claimed:\n%s", text)
	}

	// The leader rises above a claimed term that is possible, and goes on.
	claimed := term + 1_000_000
	liar.claims.Store(claimed)
	r.eventually("a term above the claim", func() bool { return r.term(of) > claimed })
	r.table(of, "above the claim", 3)
	l.more(200)
	if r.leader(nil) != leader {
		t.Error("another coordinator leads")
	}
	liar.close()
	r.eventually("the verdict on the impostor", func() bool { return r.serverViews()["impostor"].State == "CRASHED" })
	l.finish()
	l.verify()
	views := r.serverViews()
	for name, was := range before {
		if is := views[name]; is.ID != was.ID || is.State != "UP" {
			t.Errorf("%s is server %d, %s; it was %d", name, is.ID, is.State, was.ID)
		}
	}
	if n := r.counter("ramcloud_coordinator_elected_total"); n != elections {
		t.Errorf("%d elections, there were %d", n, elections)
	}
	if n := r.counter("ramcloud_coordinator_leadership_lost_total"); n != 0 {
		t.Errorf("leadership was lost %d times", n)
	}
}
