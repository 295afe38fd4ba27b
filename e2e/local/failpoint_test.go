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

// testBuild is the path of a program of a build with tests: it has failpoints (docs/design/simulation.md). `make sim` and
// `hack/test.sh processes` build it; RAMCLOUD_TEST_BUILD names another build folder.
func testBuild(t *testing.T, name string) string {
	t.Helper()
	folder := os.Getenv("RAMCLOUD_TEST_BUILD")
	if folder == "" {
		folder = "../../build/plain"
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

// disarm starts a daemon that has died again with the program that users run.
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
	if !strings.Contains(p.log.String(), "failpoint.reached") {
		r.t.Fatalf("the process ended by itself, not at %s: %v\n%s", failpoint, p.err, p.log)
	}
}

// holderOf gives the server that has a table, and the others.
func (r *replicated) holderOf(id uint64) (owner *daemon, others []*daemon) {
	r.t.Helper()
	for name, view := range r.serverViews() {
		for _, d := range r.daemons {
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

// awaitReplicas waits until three servers are up and every segment has all of its replicas.
func (r *replicated) awaitReplicas(after string) {
	r.t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
		asked := run(r.t, "ramcloud", "--cluster", r.address, "--timeout", "5s", "-o", "json", "status")
		if asked.code == 0 && strings.Contains(asked.stdout, `"servers_up":3`) &&
			strings.Contains(asked.stdout, `"all_segments_replicated":true`) {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("after %s replicas are missing for %s: %s%s", after, limit, asked.stdout, asked.stderr)
		}
	}
}

// Backups die between the steps for which their master waits; acknowledged writes stay. Few of them in one
// cluster: each death costs the master a segment, and the frames of the dead are kept.
func TestBackupsDieAtFailpoints(t *testing.T) {
	t.Parallel()
	t.Run("open", func(t *testing.T) {
		backupsDieAt(t, "backup.open.frame_taken", "backup.open.before_sync", "backup.open.before_answer")
	})
	t.Run("write", func(t *testing.T) {
		backupsDieAt(t, "backup.write.before_append:20", "backup.write.before_answer:20")
	})
	// Only closed segments are copied: the first death makes one.
	t.Run("copy", func(t *testing.T) { backupsDieAt(t, "backup.open.before_answer", "backup.copy.before_visible") })
}

func backupsDieAt(t *testing.T, failpoints ...string) {
	r := startReplicated(t)
	of := r.client()
	table := r.table(of, "load", 1)
	_, backups := r.holderOf(table.Tablets[0].ServerID)
	l := r.pacedLoad(of, table)
	l.more(200)
	for i, failpoint := range failpoints {
		backup := backups[i%2]
		r.diesAt(r.arm(backup, failpoint+"=kill"), failpoint)
		r.disarm(backup)
		l.more(400)
		r.awaitReplicas(failpoint)
	}
	l.finish()
	l.verify()
}

// A backup is stopped after it has written bytes and before it acknowledges them, and goes on.
func TestABackupStopsAtAFailpoint(t *testing.T) {
	t.Parallel()
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
	l.more(2500)
	l.finish()
	l.verify()
}

// The next leader dies between a record and its messages to servers; another continues.
func TestCoordinatorsDieAtFailpoints(t *testing.T) {
	t.Parallel()
	r := startReplicated(t)
	of := r.client()
	l := r.pacedLoad(of, r.table(of, "load", 1))
	for i, failpoint := range []string{"coordinator.table.create_recorded", "coordinator.table.taken",
		"coordinator.table.created", "coordinator.commit.after:2"} {
		leader := r.leader(nil)
		var armed []*daemon
		died := make(chan *process, len(r.coordinators))
		for _, d := range r.coordinators {
			if d == leader {
				continue
			}
			armed = append(armed, d)
			p := r.arm(d, failpoint+"=kill")
			go func() {
				<-p.ended
				died <- p
			}()
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
		select {
		case p := <-died: // the other may never reach the failpoint, because the first one's work is recorded
			r.diesAt(p, failpoint)
		case <-time.After(limit):
			t.Fatalf("the failpoint %s was not reached within %s", failpoint, limit)
		}
		r.disarm(leader)
		if err := <-made; err != nil {
			t.Fatalf("%s: create table: %v", failpoint, err)
		}
		for _, d := range armed {
			r.disarm(d)
		}
		l.more(600)
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

// The released programs have no failpoints.
func TestReleasesHaveNoFailpoints(t *testing.T) {
	path := program(t, "ramcloudd")
	bytesOf, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, trace := range []string{"RAMCLOUD_FAILPOINTS", "backup.open.before_sync", "failpoint.reached"} {
		if bytes.Contains(bytesOf, []byte(trace)) {
			t.Errorf("%s contains %q", path, trace)
		}
	}
	if output, err := exec.Command(path, "failpoints").CombinedOutput(); err == nil {
		t.Errorf("%s failpoints: %s", path, output)
	}
}
