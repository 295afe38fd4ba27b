package local

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// One of five servers is asked to stop under load: others serve its data, no acknowledged write is lost, and
// it ends with exit code 0.
func TestAServerThatIsAskedToStopUnderLoad(t *testing.T) {
	t.Parallel()
	const servers = 5
	c := startCluster(t, servers, "--replicas", "3")
	// The test starts this server itself, because only the parent gets the exit code.
	victim := c.servers()[servers-1]
	c.kill(victim)
	c.eventually("the verdict", func() bool { return c.status().ServersCrashed == 1 })
	c.ended(victim)
	asked := c.restart(victim)
	c.wholeAgain(servers)

	of := c.client()
	l := startLoad(t, of, c.table(of, "load", servers))
	l.more(3000)
	id := c.serverViews()[victim.Name].ID
	if !c.owners("load")[id] {
		t.Fatalf("server %d has no tablet of the table", id)
	}
	stopped := time.Now()
	if err := asked.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-asked.ended:
	case <-time.After(limit):
		t.Fatalf("it did not end within %s after SIGTERM:\n%s", limit, asked.log)
	}
	if code := asked.command.ProcessState.ExitCode(); code != 0 {
		t.Errorf("its exit code is %d (%v), want 0:\n%s", code, asked.err, asked.log)
	}
	c.eventually("others that serve its tablets", func() bool {
		return c.status().TabletsUnavailable == 0 && !c.owners("load")[id]
	})
	t.Logf("%.2f s from SIGTERM until others served everything", time.Since(stopped).Seconds())
	c.checkAskedToStop(id)
	l.more(3000)
	l.finish()
	l.verify()
}

// restartGrace is the default of --restart-grace.
const restartGrace = 30 * time.Second

// Each of five servers is restarted under load. No operation fails; how long one waits is printed, and compared by
// `make accept` only, because it also depends on the load of the machine. What was closed on the stopped server is not
// copied to others, although they have time for that, but adopted when it is back. After a crash it is copied at once.
func TestARollingRestartCopiesNoClosedReplica(t *testing.T) {
	t.Parallel()
	const servers = 5
	c := startCluster(t, servers, "--replicas", "3", "--log-memory", "128MiB")
	of := c.client()
	table := c.table(of, "large", servers)
	for i := range 600 {
		write(c, of, table, fmt.Sprint(i), strings.Repeat("v", 200_000))
	}
	l := startLoadOf(t, of, c.table(of, "load", servers), pace, most, limit)
	replaced := func(how string) (count float64) {
		for _, d := range c.servers() {
			if alive(d.PID) {
				count += metric(t, d, fmt.Sprintf("ramcloud_replicas_recreated_total{how=%q}", how))
			}
		}
		return count
	}
	c.wholeAgain(servers)
	var adopted float64
	inTime := true // on a machine so slow that the grace period ends first, copies are right
	for _, d := range c.servers() {
		stopped := time.Now()
		if err := syscall.Kill(d.PID, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		c.eventually("the end of "+d.Name, func() bool { return !alive(d.PID) })
		l.more(500)
		time.Sleep(3 * time.Second) // the others could copy much
		c.restart(d)
		c.wholeAgain(servers)
		took, copied := time.Since(stopped), replaced("copied")
		t.Logf("%s was replaced in %s; closed replicas copied: %.0f, adopted: %.0f", d.Name, took.Round(time.Millisecond), copied, replaced("adopted"))
		if inTime = inTime && took < restartGrace; inTime && copied != 0 {
			t.Errorf("%.0f closed replicas were copied in the restart of %s, which took %s", copied, d.Name, took)
		}
		adopted = max(adopted, replaced("adopted"))
	}
	pause := l.longestSoFar()
	t.Logf("while all servers were restarted, the longest operation took %s", pause.Round(time.Millisecond))
	if failed := l.failed.Load(); failed > 0 {
		t.Errorf("while all servers were restarted, %d operations failed, the last one %v", failed, l.failure.Load())
	}
	if path := os.Getenv("RAMCLOUD_ROLLING_REPORT"); path != "" {
		report := fmt.Sprintf(`{"longest_ms":%d}`+"\n", pause.Milliseconds())
		if err := os.WriteFile(path, []byte(report), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if inTime && adopted == 0 {
		t.Error("no closed replica was adopted")
	}

	victim := c.servers()[0]
	killed := time.Now()
	c.kill(victim)
	c.eventually("copies of what was on "+victim.Name, func() bool { return replaced("copied") > 0 })
	t.Logf("the first copy was complete %s after the crash", time.Since(killed).Round(time.Millisecond))
	c.restart(victim)
	c.wholeAgain(servers)
	l.more(500)
	l.finish()
	l.verify()
}

// checkAskedToStop: the coordinator knows why the server ended, and that nothing of its log was missing.
func (c *cluster) checkAskedToStop(id uint64) {
	c.t.Helper()
	const why = "asked to stop"
	var server struct {
		State  string
		Reason string `json:"state_reason"`
	}
	c.shown(&server, "server", id)
	if server.State != "CRASHED" || !strings.Contains(server.Reason, why) {
		c.t.Errorf("the server is %s because %q, want CRASHED because it was %s", server.State, server.Reason, why)
	}
	var recovery struct {
		State, Outcome, Reason string
		Ended                  bool
		TimelineMs             map[string]*uint64 `json:"timeline_ms"`
	}
	c.eventually("the end of its recovery", func() bool {
		c.shown(&recovery, "recovery", id)
		return recovery.State == "DONE"
	})
	if !recovery.Ended || recovery.Outcome != "COMPLETE" || !strings.Contains(recovery.Reason, why) {
		c.t.Errorf("its recovery is told as %+v, want COMPLETE because it was %s", recovery, why)
	}
	if recovery.TimelineMs["served"] == nil {
		c.t.Error("it is not told when all was served")
	}
}

// shown reads the output of `ramcloud KIND show ID`.
func (c *cluster) shown(into any, kind string, id uint64) {
	c.t.Helper()
	r := run(c.t, "ramcloud", "--cluster", c.address, "-o", "json", kind, "show", fmt.Sprint(id))
	if r.code != 0 {
		c.t.Fatalf("ramcloud %s show %d: exit code %d: %s", kind, id, r.code, r.stderr)
	}
	if err := json.Unmarshal([]byte(r.stdout), into); err != nil {
		c.t.Fatalf("ramcloud %s show %d: %v in %q", kind, id, err, r.stdout)
	}
}
