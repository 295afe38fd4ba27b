package coordinator

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"ramcloud.dev/client/adminpb"
	"ramcloud.dev/operator/internal/fakeadmin"
)

var key = types.NamespacedName{Namespace: "default", Name: "demo"}

const up, crashed = adminpb.ServerState_SERVER_UP, adminpb.ServerState_SERVER_CRASHED

type harness struct {
	t        *testing.T
	watchers *Watchers
	notified chan types.NamespacedName
	uid      types.UID
	address  string
}

func start(t *testing.T, address string) *harness {
	h := &harness{t: t, notified: make(chan types.NamespacedName, 1000), uid: "first", address: address}
	h.watchers = NewWatchers(logr.Discard(), Tuning{
		FirstRetry: 5 * time.Millisecond, LastRetry: 50 * time.Millisecond,
		Check: 50 * time.Millisecond, Answer: 2 * time.Second, Figures: 20 * time.Millisecond,
	}, func(_ context.Context, name types.NamespacedName) { h.notified <- name })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { _ = h.watchers.Start(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return h
}

// until waits for a picture that ok accepts, waking up only when notified.
func (h *harness) until(what string, ok func(*Picture) bool) *Picture {
	h.t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		if p := h.watchers.Get(key, h.uid, h.address); ok(p) {
			return p
		}
		select {
		case <-h.notified:
		case <-deadline:
			h.t.Fatalf("never saw %s; last: %+v", what, h.watchers.Get(key, h.uid, h.address))
		}
	}
}

func fake(t *testing.T) *fakeadmin.Server {
	server, err := fakeadmin.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server
}

func TestFindsTheOneThatLeads(t *testing.T) {
	coordinator := fake(t)
	coordinator.SetServer(&adminpb.Server{Id: 1, Name: "demo-server-0", State: up})
	gone := fake(t)
	gone.Stop()
	h := start(t, gone.Address()+","+coordinator.Address())
	h.until("the snapshot", func(p *Picture) bool { return p.Connected && len(p.Servers) == 1 })
	coordinator.Stop()
	p := h.until("the loss of both", func(p *Picture) bool { return !p.Connected })
	if !strings.Contains(p.Problem, gone.Address()) || !strings.Contains(p.Problem, coordinator.Address()) {
		t.Errorf("the problem is %q", p.Problem)
	}
}

func TestFollowsChangesAndLoad(t *testing.T) {
	coordinator := fake(t)
	coordinator.SetServer(&adminpb.Server{Id: 1, Name: "demo-server-0", State: up})
	h := start(t, coordinator.Address())
	h.until("the snapshot", func(p *Picture) bool { return p.Connected && len(p.Servers) == 1 && p.Status.ServersUp == 1 })

	coordinator.SetTable(&adminpb.Table{Id: 1, Name: "t", Tablets: []*adminpb.Tablet{
		{ServerId: 1, State: adminpb.TabletState_TABLET_NORMAL}, {ServerId: 1, State: adminpb.TabletState_TABLET_UNAVAILABLE}}})
	p := h.until("the table", func(p *Picture) bool { return len(p.Tables) == 1 })
	if all, served := p.TabletCounts(); all != 2 || served != 1 || p.Tablets(1) != 2 || p.Tablets(2) != 0 {
		t.Errorf("tablets: %d, served %d, of server 1: %d", all, served, p.Tablets(1))
	}
	coordinator.SetServer(&adminpb.Server{Id: 1, Name: "demo-server-0", State: up, Stats: &adminpb.ServerStats{Objects: 7}})
	h.until("new figures", func(p *Picture) bool { return p.Servers[1].Stats.GetObjects() == 7 })
	coordinator.SetServer(&adminpb.Server{Id: 1, State: adminpb.ServerState_SERVER_REMOVED})
	h.until("the removal", func(p *Picture) bool { return p.Connected && len(p.Servers) == 0 })
}

func TestReconnectsWithANewSnapshot(t *testing.T) {
	coordinator := fake(t)
	coordinator.SetServer(&adminpb.Server{Id: 1, Name: "a", State: up})
	h := start(t, coordinator.Address())
	h.until("the first coordinator", func(p *Picture) bool { return p.Connected })
	coordinator.Stop()
	p := h.until("the loss", func(p *Picture) bool { return !p.Connected })
	if p.Problem == "" || p.Servers != nil {
		t.Errorf("a lost coordinator leaves facts behind or no problem: %+v", p)
	}
	second, err := fakeadmin.StartAt(coordinator.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(second.Stop)
	second.SetServer(&adminpb.Server{Id: 2, Name: "a", State: up})
	p = h.until("the second coordinator", func(p *Picture) bool { return p.Connected && len(p.Servers) == 1 })
	if p.Servers[2] == nil {
		t.Errorf("servers of the first coordinator survived: %v", p.Servers)
	}
}

func TestAnAbsentCoordinatorIsNewsOnce(t *testing.T) {
	h := start(t, "127.0.0.1:1") // nobody listens there
	h.until("the refusal", func(p *Picture) bool { return p.Problem != "" && p.Problem[0] == 't' })
	for range 3 { // several retries later there is nothing to tell
		select {
		case <-h.notified:
			t.Fatal("notified of the same problem again")
		case <-time.After(60 * time.Millisecond):
		}
	}
}

// What was never heard is told from what went away.
func TestWhatWasHeardIsRemembered(t *testing.T) {
	began := time.Now()
	h := start(t, "127.0.0.1:1") // nobody listens there
	p := h.until("the refusal", func(p *Picture) bool { return p.Problem != "" && p.Problem[0] == 't' })
	if p.Heard || p.Since.Before(began) || time.Now().Before(p.Since) {
		t.Errorf("of a coordinator that never answered: %+v", p)
	}
	coordinator := fake(t)
	h.address = coordinator.Address()
	if p := h.watchers.Get(key, h.uid, h.address); p.Heard || p.Since.IsZero() {
		t.Errorf("before the first answer: %+v", p)
	}
	h.until("the snapshot", func(p *Picture) bool { return p.Connected && p.Heard })
	coordinator.Stop()
	if p := h.until("the loss", func(p *Picture) bool { return !p.Connected }); !p.Heard {
		t.Errorf("after the loss: %+v", p)
	}
}

func TestForgetClosesTheStream(t *testing.T) {
	coordinator := fake(t)
	h := start(t, coordinator.Address())
	h.until("the snapshot", func(p *Picture) bool { return p.Connected })
	if coordinator.Watches() != 1 || h.watchers.Len() != 1 {
		t.Fatalf("%d streams, %d watchers", coordinator.Watches(), h.watchers.Len())
	}
	h.watchers.Forget(key)
	h.streams(coordinator, 0)
}

// streams waits until n streams are open.
func (h *harness) streams(coordinator *fakeadmin.Server, n int) {
	h.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for coordinator.Watches() != n {
		if time.Now().After(deadline) {
			h.t.Fatalf("%d streams are open, want %d", coordinator.Watches(), n)
		}
		time.Sleep(time.Millisecond)
	}
}

// A cluster that was deleted and made again has the same name and address, and is another.
func TestTheNextClusterOfANameBeginsAnew(t *testing.T) {
	coordinator := fake(t)
	h := start(t, coordinator.Address())
	h.until("the snapshot", func(p *Picture) bool { return p.Connected })
	h.uid = "second"
	if p := h.watchers.Get(key, h.uid, h.address); p.Connected {
		t.Errorf("it has the picture of the former cluster: %+v", p.Status)
	}
	h.until("a snapshot of its own", func(p *Picture) bool { return p.Connected })
	h.streams(coordinator, 1)
	if n := h.watchers.Len(); n != 1 {
		t.Errorf("%d watchers for one name", n)
	}
}

func TestServerByNamePrefersTheLiveThenTheNewest(t *testing.T) {
	p := &Picture{Servers: map[uint64]*adminpb.Server{
		1: {Id: 1, Name: "a", State: crashed, EnlistedAtMs: 10},
		2: {Id: 2, Name: "a", State: up, EnlistedAtMs: 5},
		3: {Id: 3, Name: "a", State: crashed, EnlistedAtMs: 30},
		4: {Id: 4, Name: "b", State: crashed, EnlistedAtMs: 10},
		5: {Id: 5, Name: "b", State: crashed, EnlistedAtMs: 10},
	}}
	if got := p.ServerByName("a").GetId(); got != 2 {
		t.Errorf("a: %d", got)
	}
	if got := p.ServerByName("b").GetId(); got != 5 {
		t.Errorf("b: %d", got)
	}
	if p.ServerByName("c") != nil {
		t.Error("c exists")
	}
	if p.Crashed() != 4 {
		t.Errorf("%d crashed", p.Crashed())
	}
}

func TestUnderReplicationIsTimed(t *testing.T) {
	d, start := newDraft(), time.Unix(1000, 0)
	add := func(lacking uint64, at time.Duration) change {
		return d.add(&adminpb.WatchEvent{Event: &adminpb.WatchEvent_Status{Status: &adminpb.ClusterStatus{
			ServersUp: 3, Health: "DEGRADED", Replication: &adminpb.ReplicationSummary{SegmentsUnderReplicated: lacking}}}}, start.Add(at))
	}
	add(0, 0)
	if how := add(1, time.Second); how != changeFigures {
		t.Errorf("a segment that was opened is change %d, want a figure", how)
	}
	add(2, 5*time.Second)
	if got := d.picture().UnderReplicatedSince; !got.Equal(start.Add(time.Second)) {
		t.Errorf("since %s", got)
	}
	add(0, 6*time.Second)
	if got := d.picture().UnderReplicatedSince; !got.IsZero() {
		t.Errorf("still since %s", got)
	}
}
