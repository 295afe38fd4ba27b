package local

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ramcloud.dev/client"
	"ramcloud.dev/client/testing/freeport"
)

const (
	failoverRounds = 10 // of each of the two tests
	etcdPrefix     = "/ramcloud/failover"
	notLeader      = 12
	staleTerm      = 13
)

// replicated is a cluster with three coordinators on one etcd, and three servers.
type replicated struct {
	*cluster
	etcd         *etcdServer
	coordinators []*daemon
}

func startReplicated(t *testing.T) *replicated {
	t.Helper()
	etcd := startEtcd(t)
	r := startReplicatedOn(t, etcd.address)
	r.etcd = etcd
	return r
}

// startReplicatedWith does the same; `change` may change each process before it starts.
func startReplicatedWith(t *testing.T, change func(r *replicated, i int, d *daemon)) *replicated {
	t.Helper()
	etcd := startEtcd(t)
	r := startReplicatedAs(t, etcd.address, change)
	r.etcd = etcd
	return r
}

// startReplicatedOn starts the same on the etcd with these addresses.
func startReplicatedOn(t *testing.T, etcd string) *replicated {
	t.Helper()
	return startReplicatedAs(t, etcd, func(*replicated, int, *daemon) {})
}

func startReplicatedAs(t *testing.T, etcd string, change func(r *replicated, i int, d *daemon)) *replicated {
	t.Helper()
	base, err := freeport.Base(1, 2, 10, 11, 12, 20, 21, 22, 30, 32, 40, 42, 50, 52)
	if err != nil {
		t.Fatal(err)
	}
	r := &replicated{cluster: &cluster{t: t, dir: t.TempDir()}}
	at := func(offset int) string { return fmt.Sprintf("127.0.0.1:%d", base+offset) }
	r.address = at(0) + "," + at(10) + "," + at(20)
	for i := range 3 {
		d := &daemon{Role: "coordinator", Name: fmt.Sprintf("coordinator-%d", i)}
		d.Ports.RPC, d.Ports.Admin, d.Ports.HTTP = base+10*i, base+10*i+1, base+10*i+2
		d.arguments = []string{"coordinator", "--listen", at(10 * i), "--admin-listen", at(10*i + 1),
			"--http-listen", at(10*i + 2), "--leader-lease", "2s", "--cluster-name", "failover",
			"--metadata", "etcd:" + etcd + "?prefix=" + etcdPrefix}
		change(r, i, d)
		r.coordinators = append(r.coordinators, d)
		r.restart(d)
	}
	for i := range 3 {
		name := fmt.Sprintf("server-%d", i)
		d := &daemon{Role: "server", Name: name, Dir: filepath.Join(r.dir, name)}
		d.Ports.RPC, d.Ports.HTTP = base+30+10*i, base+32+10*i
		d.arguments = []string{"server", "--coordinator", r.address, "--listen", at(30 + 10*i), "--http-listen", at(32 + 10*i),
			"--dir", d.Dir, "--name", name, "--replicas", "2", "--log-memory", "64MiB"}
		change(r, i, d)
		r.daemons = append(r.daemons, d)
		r.restart(d)
	}
	r.dev = r.extra[0] // stop() ends the others
	t.Cleanup(r.stop)
	r.eventually("three servers", func() bool {
		asked := run(t, "ramcloud", "--cluster", r.address, "--timeout", "5s", "-o", "json", "status")
		return asked.code == 0 && strings.Contains(asked.stdout, `"servers_up":3`)
	})
	return r
}

// leads says whether a coordinator leads, by its own metrics.
func leads(d *daemon) bool {
	ask := http.Client{Timeout: time.Second}
	response, err := ask.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", d.Ports.HTTP))
	if err != nil {
		return false
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return err == nil && strings.Contains(string(text), "\nramcloud_coordinator_leading 1\n")
}

// leader waits for a coordinator that leads, other than `not`.
func (r *replicated) leader(not *daemon) *daemon {
	r.t.Helper()
	var found *daemon
	r.eventually("a leader", func() bool {
		for _, d := range r.coordinators {
			if d != not && leads(d) {
				found = d
				return true
			}
		}
		return false
	})
	return found
}

// pacedLoad is a load that leaves room in memory for as long as the test takes.
func (r *replicated) pacedLoad(of *client.Client, table *client.Table) *load {
	return startLoadAt(r.t, of, table, 2*pace)
}

// freeze stops a process and waits until all its threads are stopped.
func (r *replicated) freeze(d *daemon) {
	r.t.Helper()
	if err := syscall.Kill(d.PID, syscall.SIGSTOP); err != nil {
		r.t.Fatal(err)
	}
	r.eventually("the standstill of "+d.Name, func() bool {
		stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", d.PID))
		for _, path := range stats {
			text, err := os.ReadFile(path)
			_, state, _ := strings.Cut(string(text), ") ")
			if err != nil || !strings.HasPrefix(state, "T") {
				return false
			}
		}
		return len(stats) > 0
	})
}

// raw is a connection that speaks the protocol by hand (docs/formats.md, "Wire").
type raw struct {
	t    *testing.T
	conn net.Conn
}

func connectRaw(t *testing.T, port int) *raw {
	t.Helper()
	conn, _ := sayHello(t, port, 1)
	return &raw{t, conn}
}

// sayHello connects and speaks version 1 to `highest` of the protocol; it returns the version that was
// chosen.
func sayHello(t *testing.T, port int, highest uint8) (net.Conn, uint16) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(limit))
	hello := make([]byte, 64)
	copy(hello, "RAMCLOUD")
	hello[8], hello[10] = 1, highest
	binary.LittleEndian.PutUint32(hello[20:], 4<<20)
	if _, err := conn.Write(hello); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, hello); err != nil || binary.LittleEndian.Uint16(hello[12:]) != 0 {
		t.Fatalf("hello: %v, status %d", err, binary.LittleEndian.Uint16(hello[12:]))
	}
	return conn, binary.LittleEndian.Uint16(hello[8:])
}

func (c *raw) send(opcode uint16, body []byte) {
	c.t.Helper()
	header := make([]byte, 48, 48+len(body))
	binary.LittleEndian.PutUint32(header, uint32(len(body)))
	header[4] = 1
	binary.LittleEndian.PutUint16(header[6:], opcode)
	header[16] = 1
	if _, err := c.conn.Write(append(header, body...)); err != nil {
		c.t.Fatal(err)
	}
}

// status reads a reply.
func (c *raw) status() (uint16, string) {
	c.t.Helper()
	header := make([]byte, 48)
	_, err := io.ReadFull(c.conn, header)
	body := make([]byte, binary.LittleEndian.Uint32(header))
	if err == nil {
		_, err = io.ReadFull(c.conn, body)
	}
	if err != nil {
		c.t.Fatalf("no answer: %v", err)
	}
	return binary.LittleEndian.Uint16(header[8:]), string(body)
}

func createTableBody(name string) []byte {
	body := binary.LittleEndian.AppendUint32(nil, uint32(len(name)))
	body = append(body, name...)
	return binary.LittleEndian.AppendUint32(body, 1)
}

// takeTabletBody is a command to a server to take all of a table.
func takeTabletBody(term, revision, table uint64) []byte {
	var body []byte
	for _, word := range []uint64{term, revision, table, 0, ^uint64(0)} {
		body = binary.LittleEndian.AppendUint64(body, word)
	}
	return body
}

func (r *replicated) term(of *client.Client) uint64 {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	info, err := of.Info(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	return info.Term
}

// standbysRedirect asks only a coordinator that does not lead.
func (r *replicated) standbysRedirect(leader *daemon) {
	r.t.Helper()
	for _, d := range r.coordinators {
		if d == leader {
			continue
		}
		r.eventually("an answer by way of "+d.Name, func() bool {
			return run(r.t, "ramcloud", "--cluster", fmt.Sprintf("127.0.0.1:%d", d.Ports.RPC), "--timeout", "5s", "status").code == 0
		})
		only, err := client.Connect(fmt.Sprintf("127.0.0.1:%d", d.Ports.RPC))
		if err != nil {
			r.t.Fatal(err)
		}
		r.term(only)
		only.Close()
		return
	}
}

// When a leader is killed, another continues its work; neither data nor metadata is lost.
func TestKilledLeadersAreFollowedByOthers(t *testing.T) {
	t.Parallel()
	r := startReplicated(t)
	of := r.client()
	l := r.pacedLoad(of, r.table(of, "load", 3))
	lastTerm := r.term(of)
	for round := range failoverRounds {
		leader := r.leader(nil)
		r.kill(leader)
		r.table(of, fmt.Sprintf("table-%d", round), 2)
		if term := r.term(of); term <= lastTerm {
			t.Fatalf("term %d after %d", term, lastTerm)
		} else {
			lastTerm = term
		}
		r.restart(leader)
		l.more(50)
	}
	r.standbysRedirect(r.leader(nil))
	l.finish()
	l.verify()
	tables, err := of.ListTables(t.Context())
	if err != nil || len(tables) != failoverRounds+1 {
		t.Errorf("%d tables, %v", len(tables), err)
	}
	if leaders := checkHistory(t, r.etcd.history(etcdPrefix), etcdPrefix); leaders <= failoverRounds {
		t.Errorf("%d leaders in %d rounds", leaders, failoverRounds)
	}
	for name, view := range r.serverViews() {
		if view.State != "UP" {
			t.Errorf("%s is %s", name, view.State)
		}
	}
}

// A leader that was suspended while another took over changes nothing when it goes on: neither its queued
// changes nor its commands on the way to a server take effect.
func TestStoppedLeadersChangeNothingWhenTheyGoOn(t *testing.T) {
	t.Parallel()
	r := startReplicated(t)
	of := r.client()
	l := r.pacedLoad(of, r.table(of, "load", 3))
	for round := range failoverRounds {
		former := r.leader(nil)
		term := r.term(of)
		queue := connectRaw(t, former.Ports.RPC)
		r.freeze(former)
		queued := fmt.Sprintf("queued-%d", round)
		queue.send(65, createTableBody(queued))
		r.leader(former)
		r.table(of, fmt.Sprintf("table-%d", round), 3) // all servers know the new term
		for _, server := range r.daemons {
			late := connectRaw(t, server.Ports.RPC)
			late.send(97, takeTabletBody(term, 1<<40, 1<<40))
			if status, text := late.status(); status != staleTerm {
				t.Errorf("round %d: %s answered a command of term %d with status %d: %q", round, server.Name, term, status, text)
			}
		}
		if err := syscall.Kill(former.PID, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if status, text := queue.status(); status != notLeader {
			t.Errorf("round %d: what was queued on the former leader was answered with status %d: %q", round, status, text)
		}
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		if _, err := of.GetTable(ctx, queued); !errors.Is(err, client.NotFound) {
			t.Errorf("round %d: the queued table: %v", round, err)
		}
		cancel()
		l.more(50)
	}
	r.standbysRedirect(r.leader(nil))
	l.finish()
	l.verify()
	changes := r.etcd.history(etcdPrefix)
	if leaders := checkHistory(t, changes, etcdPrefix); leaders <= failoverRounds {
		t.Errorf("%d leaders in %d rounds", leaders, failoverRounds)
	}
	for _, c := range changes {
		if strings.Contains(c.value, "queued-") {
			t.Errorf("revision %d: etcd has %q", c.modified, c.value)
		}
	}
}
