package coordinator

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ramcloud.dev/client/adminpb"
	"ramcloud.dev/operator/internal/fakeadmin"
	"ramcloud.dev/operator/internal/plan"
)

// A server is asked by its id and reports the size of its log. A refusal is told from a temporary error.
func TestAServerIsAskedForMemory(t *testing.T) {
	fake, err := fakeadmin.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Stop)
	fake.SetServer(&adminpb.Server{Id: 3, Name: "a", State: adminpb.ServerState_SERVER_UP,
		Stats: &adminpb.ServerStats{LogBytesTotal: 256 << 20, LogBytesTarget: 256 << 20, LogBytesHeld: 256 << 20}})
	fake.SetServer(&adminpb.Server{Id: 4, Name: "former", State: adminpb.ServerState_SERVER_UP, Stats: &adminpb.ServerStats{LogBytesTotal: 256 << 20}})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	admin := Admin("127.0.0.1:1," + fake.Address()) // one of two coordinators does not answer
	if got, err := admin.SetMemory(ctx, 3, 0); err != nil || got != (plan.ServerMemory{Log: 256 << 20, Target: 256 << 20, Most: fakeadmin.MostLog}) {
		t.Errorf("%+v, %v", got, err)
	}
	fake.SetSlowLogs(true)
	if got, err := admin.SetMemory(ctx, 3, 512<<20); err != nil || got.Log != 256<<20 || got.Target != 512<<20 {
		t.Errorf("while it grows: %+v, %v", got, err)
	}
	for id, bytes := range map[uint64]int64{3: 1 << 40, 4: 512 << 20} {
		if _, err := admin.SetMemory(ctx, id, bytes); !Refuses(err) || Passes(err) {
			t.Errorf("server %d, %d bytes: %v", id, bytes, err)
		}
	}
	if _, err := admin.SetMemory(ctx, 9, 0); Refuses(err) || !Passes(err) {
		t.Errorf("a server that does not exist: %v", err)
	}
	if _, err := Admin("127.0.0.1:1").SetMemory(ctx, 3, 0); Refuses(err) || !Passes(err) {
		t.Errorf("no coordinator: %v", err)
	}
}

// The refusal of the leader counts, whatever standbys answer.
func TestANoIsNotAskedForAgainElsewhere(t *testing.T) {
	refuse, absent := status.Error(codes.Unimplemented, "not known"), errors.New("gone")
	var calls int
	err := Admin("127.0.0.1:1,127.0.0.1:2").ask(t.Context(), func(adminpb.AdminClient) error {
		if calls++; calls == 1 {
			return refuse
		}
		return absent
	})
	if !errors.Is(err, refuse) || calls != 2 {
		t.Errorf("%v after %d calls", err, calls)
	}
	calls = 0
	err = Admin("127.0.0.1:1,127.0.0.1:2").ask(t.Context(), func(adminpb.AdminClient) error {
		calls++
		return status.Error(codes.InvalidArgument, "accepted are")
	})
	if calls != 1 || !strings.Contains(err.Error(), "accepted are") {
		t.Errorf("%v after %d calls", err, calls)
	}
}

func TestLogMemory(t *testing.T) {
	for name, test := range map[string]struct {
		stats *adminpb.ServerStats
		want  plan.ServerMemory
	}{
		"resting":          {&adminpb.ServerStats{LogBytesTotal: 8, LogBytesTarget: 8, LogBytesHeld: 8}, plan.ServerMemory{Log: 8, Target: 8}},
		"held longer":      {&adminpb.ServerStats{LogBytesTotal: 8, LogBytesTarget: 8, LogBytesHeld: 9, Cleaner: &adminpb.Cleaner{Why: "w"}}, plan.ServerMemory{Log: 9, Target: 8, Cleaning: "w"}},
		"held ahead":       {&adminpb.ServerStats{LogBytesTotal: 8, LogBytesTarget: 12, LogBytesHeld: 9}, plan.ServerMemory{Log: 9, Target: 12}},
		"a former version": {&adminpb.ServerStats{LogBytesTotal: 8}, plan.ServerMemory{Log: 8, Target: 8, Most: 8}},
	} {
		if got := LogMemory(test.stats); *got != test.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if LogMemory(nil) != nil {
		t.Error("a server that has not said anything has a log")
	}
}

func TestLargestLog(t *testing.T) {
	server := func(state adminpb.ServerState, frames uint64, replicas uint32) *adminpb.Server {
		return &adminpb.Server{State: state, Stats: &adminpb.ServerStats{BackupFramesTotal: frames, ReplicasWanted: replicas}}
	}
	p := &Picture{Servers: map[uint64]*adminpb.Server{
		1: server(adminpb.ServerState_SERVER_UP, 100, 2), 2: server(adminpb.ServerState_SERVER_UP, 60, 2),
		3: server(adminpb.ServerState_SERVER_CRASHED, 1000, 2), 4: {State: adminpb.ServerState_SERVER_UP},
	}}
	if got := p.LargestLog(); got != 40*frameBytes {
		t.Errorf("%d frames", got/frameBytes)
	}
	p.Servers = map[uint64]*adminpb.Server{1: server(adminpb.ServerState_SERVER_UP, 100, 0)}
	if got := p.LargestLog(); got != 0 {
		t.Errorf("%d bytes without replicas", got)
	}
}
