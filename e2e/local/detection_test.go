package local

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ramcloud.dev/client"
	"ramcloud.dev/client/testing/freeport"
)

// suspension is how long processes are suspended: well above every limit of failure detection. RAMCLOUD_SOAK=60 makes
// it a minute.
func suspension(t *testing.T) time.Duration {
	return time.Duration(numberFrom(t, "RAMCLOUD_SOAK", 12, 12)) * time.Second
}

// detection is the part of `ramcloud status` about failure detection.
type detection struct {
	State     string
	Accounted int
	Expected  int
	WaitsFor  []string `json:"waits_for"`
}

func (c *cluster) detection() (d detection, ok bool) {
	c.t.Helper()
	asked := run(c.t, "ramcloud", "--cluster", c.address, "--timeout", "5s", "-o", "json", "status")
	var s struct{ Detection detection }
	if asked.code != 0 || json.Unmarshal([]byte(asked.stdout), &s) != nil {
		return detection{}, false
	}
	return s.Detection, true
}

func (c *cluster) eventuallyDetection(state string) detection {
	c.t.Helper()
	var last detection
	c.eventually("detection "+state, func() bool {
		d, ok := c.detection()
		last = d
		return ok && d.State == state
	})
	return last
}

func (c *cluster) resume(d *daemon) {
	c.t.Helper()
	if err := syscall.Kill(d.PID, syscall.SIGCONT); err != nil {
		c.t.Fatal(err)
	}
}

// allAsBefore: the same servers under the same ids, all UP.
func (c *cluster) allAsBefore(before map[string]serverView) {
	c.t.Helper()
	for name, view := range c.serverViews() {
		if view.State != "UP" || view.ID != before[name].ID {
			c.t.Errorf("%s is server %d, %s; it was %d", name, view.ID, view.State, before[name].ID)
		}
	}
}

// counter sums a metric over the coordinators that answer; labels are part of the name.
func (r *replicated) counter(name string) (sum uint64) {
	r.t.Helper()
	for _, d := range r.coordinators {
		sum += counterOf(d, name)
	}
	return sum
}

func counterOf(d *daemon, name string) uint64 {
	ask := http.Client{Timeout: time.Second}
	response, err := ask.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", d.Ports.HTTP))
	if err != nil {
		return 0
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(response.Body)
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, name+" "); found {
			n, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return uint64(n)
		}
	}
	return 0
}

const condemned = "ramcloud_coordinator_condemned_total"

// costsNothing does something to a cluster under load: afterwards detection is sound, every acknowledged write is there,
// the servers are the same, and nobody was condemned.
func (r *replicated) costsNothing(what func(l *load)) {
	r.t.Helper()
	of := r.client()
	before := r.serverViews()
	l := r.pacedLoad(of, r.table(of, "load", 3))
	l.more(400)
	what(l)
	r.eventuallyDetection("SOUND")
	l.more(400)
	l.finish()
	l.verify()
	r.allAsBefore(before)
	if n := r.counter(condemned); n != 0 {
		r.t.Errorf("%d verdicts", n)
	}
}

// All servers are suspended for long, and go on: only that time is lost.
func TestSuspendingAllServersCostsNothingButThatTime(t *testing.T) {
	t.Parallel()
	r := startReplicated(t)
	r.costsNothing(func(*load) {
		for _, d := range r.daemons {
			r.freeze(d)
		}
		began := time.Now()
		waits := r.eventuallyDetection("SUSPECT")
		if waits.Expected != 3 || waits.Accounted > 1 || len(waits.WaitsFor) < 2 {
			t.Errorf("detection is %+v", waits)
		}
		time.Sleep(suspension(t) - time.Since(began)) // the length of the suspension is what is tested
		for _, d := range r.daemons {
			r.resume(d)
		}
	})
}

// Coordinators that were suspended condemn no server for that silence.
func TestSuspendedCoordinatorsCondemnNobody(t *testing.T) {
	t.Parallel()
	r := startReplicated(t)
	r.costsNothing(func(l *load) {
		for _, d := range r.coordinators {
			r.freeze(d)
		}
		l.more(200) // data needs no coordinator
		time.Sleep(suspension(t))
		for _, d := range r.coordinators {
			r.resume(d)
		}
	})
}

// Among suspended servers one is killed: it is detected once the others answer, and no other is condemned.
func TestOneKilledAmongSuspendedIsFoundWhenTheOthersResume(t *testing.T) {
	t.Parallel()
	r := startReplicated(t)
	before := r.serverViews()
	for _, d := range r.daemons[1:] {
		r.freeze(d)
	}
	r.kill(r.daemons[0])
	r.eventuallyDetection("SUSPECT")
	time.Sleep(suspension(t))
	if s := r.status(); s.ServersUp != 3 {
		t.Errorf("%d servers are up while nobody could tell", s.ServersUp)
	}
	for _, d := range r.daemons[1:] {
		r.resume(d)
	}
	r.eventually("the verdict on the dead", func() bool { return r.serverViews()[r.daemons[0].Name].State == "CRASHED" })
	r.eventuallyDetection("SOUND")
	for _, d := range r.daemons[1:] {
		if view := r.serverViews()[d.Name]; view.State != "UP" || view.ID != before[d.Name].ID {
			t.Errorf("%s is %+v", d.Name, view)
		}
	}
	if n := r.counter(`ramcloud_coordinator_verdicts_total{evidence="silent"}`); n != 0 {
		t.Errorf("%d verdicts by silence", n)
	}
}

// oneWay is a proxy in front of a server. While it is cut, requests of coordinators are dropped; connections
// stay open, and answers pass.
type oneWay struct {
	target string
	cut    atomic.Bool
	lost   atomic.Int64 // bytes
}

func startOneWay(t *testing.T, port int, target string) *oneWay {
	t.Helper()
	p := &oneWay{target: target}
	openDoor(t, fmt.Sprintf("127.0.0.1:%d", port), p.serve)
	return p
}

func (p *oneWay) serve(d *door, in net.Conn) {
	out, err := net.Dial("tcp", p.target)
	if err != nil { // if the server refuses, the proxy closes too
		_ = in.Close()
		return
	}
	d.keep(out)
	go func() {
		_, _ = io.Copy(in, out)
		_ = in.Close()
	}()
	defer func() { _, _ = in.Close(), out.Close() }()
	head := make([]byte, 64)
	if _, err := io.ReadFull(in, head); err != nil {
		return
	}
	if _, err := out.Write(head); err != nil {
		return
	}
	head = head[:48] // the first request shows the sender
	if _, err := io.ReadFull(in, head); err != nil {
		return
	}
	opcode := binary.LittleEndian.Uint16(head[6:])
	coordinators := opcode >= 96 && opcode < 128
	chunk := make([]byte, 64<<10)
	copy(chunk, head)
	dropped := false
	for n := len(head); ; {
		if coordinators && p.cut.Load() {
			p.lost.Add(int64(n))
			dropped = true
		} else if dropped { // healed: the next bytes would be the middle of a message
			return
		} else if _, err := out.Write(chunk[:n]); err != nil {
			return
		}
		if n, err = in.Read(chunk); err != nil {
			return
		}
	}
}

// Only requests of coordinators to servers are dropped: data is served, and no server is condemned.
func TestAOneWayCutBetweenCoordinatorsAndAllServersCondemnsNobody(t *testing.T) {
	t.Parallel()
	var proxies []*oneWay
	r := startReplicatedWith(t, func(_ *replicated, _ int, d *daemon) {
		if d.Role != "server" {
			return
		}
		port, err := freeport.One()
		if err != nil {
			t.Fatal(err)
		}
		proxies = append(proxies, startOneWay(t, port, fmt.Sprintf("127.0.0.1:%d", d.Ports.RPC)))
		d.arguments = append(d.arguments, "--advertise", fmt.Sprintf("127.0.0.1:%d", port))
	})
	r.costsNothing(func(l *load) {
		for _, p := range proxies {
			p.cut.Store(true)
		}
		began := time.Now()
		r.eventuallyDetection("SUSPECT")
		l.more(200)
		time.Sleep(suspension(t) - time.Since(began))
		for i, p := range proxies {
			if p.lost.Load() == 0 {
				t.Errorf("nothing was lost on the way to %s", r.daemons[i].Name)
			}
			p.cut.Store(false)
		}
	})
}

// The folder of a server that runs is copied, and a server is started on the copy: that one is refused, and the other
// goes on. The same server, killed and started again, comes back.
func TestACopiedVolumeIsRefused(t *testing.T) {
	t.Parallel()
	r := startReplicated(t)
	of := r.client()
	before := r.serverViews()
	l := r.pacedLoad(of, r.table(of, "load", 3))
	l.more(300)
	original := r.daemons[1]
	folder := filepath.Join(r.dir, "copy")
	if text, err := exec.Command("cp", "-r", "--sparse=always", original.Dir, folder).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	base, err := freeport.Base(0, 2)
	if err != nil {
		t.Fatal(err)
	}
	arguments := replaceFlag(original.arguments, "--dir", folder)
	arguments = replaceFlag(arguments, "--listen", fmt.Sprintf("127.0.0.1:%d", base))
	arguments = replaceFlag(arguments, "--http-listen", fmt.Sprintf("127.0.0.1:%d", base+2))
	arguments = replaceFlag(arguments, "--name", "copy")
	refused := run(t, "ramcloudd", arguments...)
	id := before[original.Name].ID
	for _, text := range []string{"is a copy", fmt.Sprintf("server %d", id), fmt.Sprintf("port=%d", original.Ports.RPC),
		"'copy'", fmt.Sprintf("port=%d", base)} {
		if refused.code == 0 || !strings.Contains(refused.stderr+refused.stdout, text) {
			t.Errorf("exit code %d, without %q:\n%s%s", refused.code, text, refused.stdout, refused.stderr)
		}
	}
	l.more(300)
	r.allAsBefore(before)

	r.kill(original)
	r.restart(original)
	r.eventually("the restarted server", func() bool {
		view := r.serverViews()[original.Name]
		return view.State == "UP" && view.ID > id
	})
	l.finish()
}

// An operator condemns the servers that detection waits for; without --yes nothing happens, and a server that
// answers is not condemned.
func TestAnOperatorCondemnsWhatDetectionWaitsFor(t *testing.T) {
	t.Parallel()
	r := startReplicated(t)
	ids := r.serverViews()
	command := func(arguments ...string) result {
		return run(t, "ramcloud", append([]string{"--cluster", r.address, "server"}, arguments...)...)
	}
	spared := command("condemn", fmt.Sprint(ids[r.daemons[0].Name].ID), "--yes")
	if spared.code == 0 || !strings.Contains(spared.stderr, "accepted with --force only") {
		t.Errorf("a server that answers: %+v", spared)
	}
	for _, d := range r.daemons[:2] {
		r.freeze(d)
	}
	r.eventuallyDetection("SUSPECT")
	id := fmt.Sprint(ids[r.daemons[0].Name].ID)
	looked := command("condemn", id)
	if looked.code == 0 || !strings.Contains(looked.stdout, "would be marked CRASHED") || !strings.Contains(looked.stderr, "--yes") {
		t.Errorf("without --yes: %+v", looked)
	}
	if r.status().ServersUp != 3 {
		t.Error("somebody is condemned without --yes")
	}
	done := command("condemn", id, "--yes", "--reason", "its rack burnt")
	if done.code != 0 {
		t.Errorf("with --yes: %+v", done)
	}
	if shown := command("show", id); !strings.Contains(shown.stdout, "condemned by an operator: its rack burnt") {
		t.Errorf("show: %+v", shown)
	}
	if listed := command("list"); !strings.Contains(listed.stdout, "CRASHED") {
		t.Errorf("list: %+v", listed)
	}
	// One silent server is left, and half of the two expected ones answer: it is condemned by silence.
	r.eventually("the verdict on the other", func() bool { return r.status().ServersCrashed == 2 })
	for _, d := range r.daemons[:2] {
		r.resume(d)
	}
	// They are answered CRASHED, and start again as new servers.
	r.eventually("both as new servers", func() bool { return r.status().ServersUp == 3 })
	for _, d := range r.daemons[:2] {
		if now := r.serverViews()[d.Name].ID; now <= ids[d.Name].ID {
			t.Errorf("%s was server %d and is server %d", d.Name, ids[d.Name].ID, now)
		}
	}
}

// gaps writes without pause, and gives the longest time between two acknowledgements until stop is called.
func gaps(t *testing.T, of *client.Client, table *client.Table) (stop func() time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	longest := make(chan time.Duration, 1)
	go func() {
		var worst time.Duration
		last := time.Now()
		for n := 0; ctx.Err() == nil; n++ {
			within, done := context.WithTimeout(ctx, limit)
			_, err := of.Write(within, table.ID, []byte(fmt.Sprint(n%1000)), []byte(strings.Repeat("x", 100)))
			done()
			if err != nil && ctx.Err() == nil && !errors.Is(err, client.Indeterminate) {
				t.Errorf("write: %v", err)
				break
			}
			if err == nil {
				worst = max(worst, time.Since(last))
				last = time.Now()
			}
		}
		longest <- worst
	}()
	return func() time.Duration {
		cancel()
		return <-longest
	}
}

// Writes wait for the verdict on a dead backup: the master reports it at once, and several backups that die
// together are detected together. The seconds are printed, not judged.
func TestWritesWaitForADeadBackupNoLongerThanDetectionTakes(t *testing.T) {
	c := startCluster(t, 6, "--replicas", "3")
	of := c.client()
	table := c.table(of, "load", 1)
	owner, others := c.splitByTable(of, table)
	for round, deaths := range [][]*daemon{others[:1], others[1:3]} {
		hints := counterOf(c.coordinator(), `ramcloud_coordinator_hints_total{from="server"}`)
		crashed := c.status().ServersCrashed
		stop := gaps(t, of, table)
		for _, d := range deaths {
			if err := syscall.Kill(d.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		c.eventually("the verdicts", func() bool { return c.status().ServersCrashed == crashed+len(deaths) })
		c.eventually("all segments whole again", func() bool { return c.status().Replication.MastersWaiting == 0 })
		t.Logf("round %d: %d backups killed at once, longest gap between acknowledged writes %s", round, len(deaths), stop())
		if now := counterOf(c.coordinator(), `ramcloud_coordinator_hints_total{from="server"}`); now == hints {
			t.Error("no server told the coordinator")
		}
		for _, d := range deaths {
			c.restart(d)
		}
		c.eventually("all servers again", func() bool { return c.status().ServersUp == 6 })
	}
	if n := counterOf(c.coordinator(), `ramcloud_coordinator_verdicts_total{evidence="refused"}`); n != 3 {
		t.Errorf("%d verdicts by refusal, want 3", n)
	}
	if n := counterOf(c.coordinator(), `ramcloud_coordinator_verdicts_total{evidence="silent"}`); n != 0 {
		t.Errorf("%d verdicts by silence", n)
	}
	if !slices.Contains(c.servers(), owner) || !alive(owner.PID) {
		t.Error("the master is gone")
	}
}
