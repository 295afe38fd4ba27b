package local

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// testBuild is the path of a program of a build with tests: it has failpoints (docs/design/simulation.md). The unit
// stage builds it; RAMCLOUD_TEST_BUILD names another build folder.
func testBuild(t *testing.T, name string) string {
	t.Helper()
	folder := os.Getenv("RAMCLOUD_TEST_BUILD")
	if folder == "" {
		folder = "../../build/coverage"
	}
	path, err := filepath.Abs(filepath.Join(folder, name))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("%v; hack/test.sh processes builds it, or RAMCLOUD_TEST_BUILD names its build folder", err)
	}
	return path
}

// arm kills a daemon and starts it again as a test build with a failpoint.
func (r *replicated) arm(d *daemon, failpoint string) *process {
	r.t.Helper()
	if alive(d.PID) {
		r.kill(d)
	}
	d.program, d.environment = testBuild(r.t, "bin/ramcloudd"), []string{"RAMCLOUD_FAILPOINTS=" + failpoint}
	return r.restart(d)
}

// disarm starts a daemon that has died again as what users run.
func (r *replicated) disarm(d *daemon) {
	r.t.Helper()
	d.program, d.environment = "", nil
	if alive(d.PID) {
		r.kill(d)
	}
	r.restart(d)
}

// diesAt waits until a process has killed itself at a failpoint.
func (r *replicated) diesAt(p *process, failpoint string) {
	r.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(limit):
		r.t.Fatalf("the failpoint %s was not reached within %s\n%s", failpoint, limit, p.log)
	}
	if !strings.Contains(p.log.String(), "failpoint reached") {
		r.t.Fatalf("the process ended by itself, not at %s: %v\n%s", failpoint, p.err, p.log)
	}
}

// holderOf gives the server that has a table, and the others.
func (r *replicated) holderOf(id uint64) (owner *daemon, others []*daemon) {
	r.t.Helper()
	for name, view := range r.serverViews() {
		for _, d := range r.servers() {
			switch {
			case d.Name != name:
			case view.ID == id:
				owner = d
			default:
				others = append(others, d)
			}
		}
	}
	if owner == nil || len(others) != 2 {
		r.t.Fatalf("server %d is none of three", id)
	}
	return owner, others
}

func (r *replicated) allUp() bool {
	asked := run(r.t, "ramcloud", "--cluster", r.address, "--timeout", "5s", "-o", "json", "status")
	return asked.code == 0 && strings.Contains(asked.stdout, `"servers_up":3`) &&
		strings.Contains(asked.stdout, `"all_segments_replicated":true`)
}

// Backups die between the steps of what their master waits for; acknowledged writes stay.
func TestBackupsDieAtFailpoints(t *testing.T) {
	r := startReplicated(t)
	of := r.client()
	table := r.table(of, "load", 1)
	_, backups := r.holderOf(table.Tablets[0].ServerID)
	l := r.pacedLoad(of, table)
	l.more(200)
	for i, failpoint := range []string{"backup.open.frame_taken", "backup.open.before_sync", "backup.open.before_answer",
		"backup.write.before_append:20", "backup.write.before_answer:20", "backup.copy.before_visible"} {
		backup := backups[i%2]
		r.diesAt(r.arm(backup, failpoint+"=kill"), failpoint)
		r.disarm(backup)
		l.more(100)
		r.eventually("three servers and all replicas after "+failpoint, r.allUp)
	}
	l.finish()
	l.verify()
}

// A backup stands still with bytes that it has written and not acknowledged, and goes on.
func TestABackupStopsAtAFailpoint(t *testing.T) {
	r := startReplicated(t)
	of := r.client()
	table := r.table(of, "load", 1)
	_, backups := r.holderOf(table.Tablets[0].ServerID)
	l := r.pacedLoad(of, table)
	r.arm(backups[0], "backup.write.before_answer:30=stop,backup.open.before_answer=delay:200")
	r.eventually("a standstill", func() bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", backups[0].PID))
		return err == nil && bytes.Contains(text, []byte(") T "))
	})
	if err := syscall.Kill(backups[0].PID, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	l.more(200)
	l.finish()
	l.verify()
}

// Two coordinators, one after the other, die between a record and those who are told; the third goes on.
func TestCoordinatorsDieAtFailpoints(t *testing.T) {
	r := startReplicated(t)
	of := r.client()
	l := r.pacedLoad(of, r.table(of, "load", 1))
	for i, failpoint := range []string{"coordinator.table.create_recorded", "coordinator.table.taken",
		"coordinator.table.created", "coordinator.commit.after:3"} {
		leader := r.leader(nil)
		armed := map[*daemon]*process{}
		for _, d := range r.coordinators {
			if d != leader {
				armed[d] = r.arm(d, failpoint+"=kill")
			}
		}
		r.kill(leader)
		name := fmt.Sprintf("made-%d", i)
		made := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 2*limit)
			defer cancel()
			for {
				_, err := of.CreateTable(ctx, name, 1)
				if err == nil || ctx.Err() != nil {
					made <- err
					return
				}
			}
		}()
		for _, p := range armed {
			r.diesAt(p, failpoint)
		}
		r.disarm(leader)
		if err := <-made; err != nil {
			t.Fatalf("%s: create table: %v", failpoint, err)
		}
		for d := range armed {
			r.disarm(d)
		}
		l.more(50)
	}
	l.finish()
	l.verify()
	leaders := checkHistory(t, r.etcd.history(etcdPrefix), etcdPrefix)
	t.Logf("%d terms", leaders)
}

func TestUnknownFailpointsAreRefused(t *testing.T) {
	command := exec.Command(testBuild(t, "bin/ramcloudd"), "coordinator")
	command.Env = append(os.Environ(), "RAMCLOUD_FAILPOINTS=backup.nowhere=kill")
	output, err := command.CombinedOutput()
	if err == nil || !strings.Contains(string(output), "'backup.nowhere' is no failpoint") ||
		!strings.Contains(string(output), "backup.open.before_sync") {
		t.Errorf("%v: %s", err, output)
	}
	listed, err := exec.Command(testBuild(t, "bin/ramcloudd"), "failpoints").Output()
	if err != nil || len(strings.Split(strings.TrimSpace(string(listed)), "\n")) < 20 {
		t.Errorf("%v: %s", err, listed)
	}
}

// What users run has no trace of failpoints.
func TestReleasesHaveNoFailpoints(t *testing.T) {
	path := program(t, "ramcloudd")
	bytesOf, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, trace := range []string{"RAMCLOUD_FAILPOINTS", "backup.open.before_sync", "failpoint reached"} {
		if bytes.Contains(bytesOf, []byte(trace)) {
			t.Errorf("%s contains %q", path, trace)
		}
	}
	if output, err := exec.Command(path, "failpoints").CombinedOutput(); err == nil {
		t.Errorf("%s failpoints: %s", path, output)
	}
}
