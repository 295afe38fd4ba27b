package local

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"ramcloud.dev/client"
	"ramcloud.dev/client/testing/freeport"
)

// etcdTrio is a real etcd of three members.
type etcdTrio struct {
	t       *testing.T
	base    int
	folder  string
	members [3]*process
}

func startEtcdTrio(t *testing.T) *etcdTrio {
	t.Helper()
	base, err := freeport.Base(0, 1, 2, 3, 4, 5)
	if err != nil {
		t.Fatal(err)
	}
	e := &etcdTrio{t: t, base: base, folder: t.TempDir()}
	t.Cleanup(func() {
		for i := range e.members {
			e.kill(i)
		}
	})
	for i := range e.members {
		e.start(i)
	}
	for i := range e.members {
		e.awaitHealth(i)
	}
	return e
}

func (e *etcdTrio) client(i int) string { return fmt.Sprintf("127.0.0.1:%d", e.base+2*i) }
func (e *etcdTrio) peer(i int) string   { return fmt.Sprintf("http://127.0.0.1:%d", e.base+2*i+1) }

func (e *etcdTrio) addresses() string {
	return strings.Join([]string{e.client(0), e.client(1), e.client(2)}, ",")
}

func (e *etcdTrio) start(i int) {
	e.t.Helper()
	var all []string
	for j := range e.members {
		all = append(all, fmt.Sprintf("m%d=%s", j, e.peer(j)))
	}
	clients := "http://" + e.client(i)
	e.members[i] = start(e.t, etcdProgram(e.t), []string{fmt.Sprintf("--name=m%d", i), fmt.Sprintf("--data-dir=%s/%d", e.folder, i),
		"--listen-client-urls=" + clients, "--advertise-client-urls=" + clients,
		"--listen-peer-urls=" + e.peer(i), "--initial-advertise-peer-urls=" + e.peer(i),
		"--initial-cluster=" + strings.Join(all, ","), "--log-level=error", "--unsafe-no-fsync"}, func(string) {})
}

func (e *etcdTrio) kill(i int) {
	if e.members[i] == nil {
		return
	}
	_ = syscall.Kill(e.members[i].pid(), syscall.SIGKILL)
	<-e.members[i].ended
	e.members[i] = nil
}

func (e *etcdTrio) awaitHealth(i int) {
	e.t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		response, err := http.Get("http://" + e.client(i) + "/health")
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Now().After(deadline) {
			e.t.Fatalf("etcd member %d: %v\n%s", i, err, e.members[i].log)
		}
	}
}

// makeAndDrop makes a table and drops it, although coordinators may fail meanwhile.
func (r *replicated) makeAndDrop(of *client.Client, name string) time.Duration {
	r.t.Helper()
	began := time.Now()
	r.eventually("the table "+name, func() bool {
		_, err := of.CreateTable(context.Background(), name, 3)
		return err == nil
	})
	r.eventually("the end of the table "+name, func() bool {
		err := of.DropTable(context.Background(), name)
		return err == nil || errors.Is(err, client.NotFound) // an earlier try with an unknown outcome has dropped it
	})
	return time.Since(began)
}

// Each of three members is killed, one after the other, and comes back: tables are made and dropped while it
// is away, and writes go on.
func TestEtcdMembersDieOneAfterAnother(t *testing.T) {
	t.Parallel()
	etcd := startEtcdTrio(t)
	r := startReplicatedOn(t, etcd.addresses())
	of := r.client()
	l := r.pacedLoad(of, r.table(of, "load", 3))
	for i := range etcd.members {
		etcd.kill(i)
		var slowest time.Duration
		for n := range 3 {
			slowest = max(slowest, r.makeAndDrop(of, fmt.Sprintf("t%d-%d", i, n)))
		}
		t.Logf("without member %d the slowest of 3 tables was made and dropped in %s", i, slowest.Round(time.Millisecond))
		etcd.start(i)
		etcd.awaitHealth(i)
	}
	l.finish()
	l.verify()
}
