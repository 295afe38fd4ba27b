package coordinator

import (
	"strings"
	"testing"
	"time"

	"ramcloud.dev/client/adminpb"
)

// TestNotWhole: no server may be taken away while anything is not served, not on its replicas, or not known.
func TestNotWhole(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, test := range map[string]struct {
		change func(*Picture)
		want   string
	}{
		"whole":             {func(*Picture) {}, ""},
		"silent":            {func(p *Picture) { *p = Picture{Problem: "nobody there"} }, "does not answer"},
		"recovering":        {func(p *Picture) { p.Status.Recoveries = []*adminpb.Recovery{{ServerId: 3, Phase: "WAITING"}} }, "server 3 is WAITING"},
		"not served":        {func(p *Picture) { p.Status.TabletsUnavailable = 2 }, "2 tablets are not served"},
		"suspect":           {func(p *Picture) { p.Status.Detection = &adminpb.Detection{State: "SUSPECT"} }, "is SUSPECT"},
		"not told":          {func(p *Picture) { p.Servers[1].Stats = nil }, "s1 has not said yet"},
		"no summary":        {func(p *Picture) { p.Status.Replication = nil }, "no server has said"},
		"lacks replicas":    {func(p *Picture) { p.Status.Replication.SegmentsUnderReplicated = 1 }, "1 of 4 segments lack replicas"},
		"fewer replicas":    {func(p *Picture) { p.Status.Replication.SegmentsDegraded = 2 }, "2 of 4 segments lack replicas"},
		"writes wait":       {func(p *Picture) { p.Status.Replication.MastersWaiting = 1 }, "writes of 1 servers wait"},
		"a change just now": {func(p *Picture) { p.ChangedAt = now.Add(-Settled + time.Second) }, "less than 10s"},
	} {
		p := &Picture{Connected: true, ChangedAt: now.Add(-Settled), Status: &adminpb.ClusterStatus{Replication: &adminpb.ReplicationSummary{Segments: 4}},
			Servers: map[uint64]*adminpb.Server{1: {Id: 1, Name: "s1", State: adminpb.ServerState_SERVER_UP, Stats: &adminpb.ServerStats{}}}}
		test.change(p)
		why, again := p.NotWhole(now)
		if (test.want == "") != (why == "") || !strings.Contains(why, test.want) {
			t.Errorf("%s: %q", name, why)
		}
		if (again > 0) != (name == "a change just now") {
			t.Errorf("%s: again after %s", name, again)
		}
	}
}

// TestNotSafe: a segment that is opened lacks replicas for a moment, and that holds no eviction; a loss of replicas does, from
// the first moment on.
func TestNotSafe(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, test := range map[string]struct {
		change func(*Picture)
		want   string
		again  time.Duration
	}{
		"whole":      {func(*Picture) {}, "", 0},
		"silent":     {func(p *Picture) { *p = Picture{Problem: "nobody there"} }, "does not answer", 0},
		"recovering": {func(p *Picture) { p.Status.Recoveries = []*adminpb.Recovery{{ServerId: 3}} }, "recoveries are not done", 0},
		"opening": {func(p *Picture) {
			p.Status.Replication.SegmentsUnderReplicated, p.UnderReplicatedSince = 1, now.Add(-Momentary+time.Second)
		}, "", time.Second},
		"lacking": {func(p *Picture) {
			p.Status.Replication.SegmentsUnderReplicated, p.UnderReplicatedSince = 1, now.Add(-Momentary)
		}, "1 of 4 segments lack replicas", 0},
		"fewer replicas": {func(p *Picture) {
			p.Status.Replication.SegmentsUnderReplicated, p.Status.Replication.SegmentsDegraded, p.UnderReplicatedSince = 1, 1, now
		}, "1 of 4 segments lack replicas", 0},
		"a server is lost": {func(p *Picture) {
			p.Status.Replication.SegmentsUnderReplicated, p.UnderReplicatedSince, p.ChangedAt = 1, now, now
		}, "less than 10s", Settled},
		"not told": {func(p *Picture) { p.Servers[1].Stats = nil }, "s1 has not said yet", 0},
	} {
		p := &Picture{Connected: true, ChangedAt: now.Add(-Settled), Status: &adminpb.ClusterStatus{Replication: &adminpb.ReplicationSummary{Segments: 4}},
			Servers: map[uint64]*adminpb.Server{1: {Id: 1, Name: "s1", State: adminpb.ServerState_SERVER_UP, Stats: &adminpb.ServerStats{}}}}
		test.change(p)
		why, again := p.NotSafe(now)
		if (test.want == "") != (why == "") || !strings.Contains(why, test.want) || again != test.again {
			t.Errorf("%s: %q, again after %s", name, why, again)
		}
	}
}

// TestASegmentIsNamedOnce: the coordinator names those that are missing twice, in its own words and in a list.
func TestASegmentIsNamedOnce(t *testing.T) {
	p := &Picture{Servers: map[uint64]*adminpb.Server{7: {Id: 7, Name: "s7"}}}
	for name, test := range map[string]struct {
		recovery *adminpb.Recovery
		want     string
	}{
		"both": {&adminpb.Recovery{WaitsFor: "segment 5: no whole replica, held by server 7", Missing: []*adminpb.MissingSegment{
			{SegmentId: 5, Why: "no whole replica", Holders: []uint64{7}}}}, "needed: segment 5 (no whole replica), held by server 7 (s7)"},
		"twice in the list": {&adminpb.Recovery{Missing: []*adminpb.MissingSegment{
			{SegmentId: 5, Why: "no whole replica", Holders: []uint64{7}}, {SegmentId: 5, Why: "a hole", Holders: []uint64{7, 8}}, {SegmentId: 50}}},
			"needed: segment 5 (no whole replica), held by server 7 (s7), server 8; segment 50"},
		"not known which": {&adminpb.Recovery{WaitsFor: "no digest", Missing: []*adminpb.MissingSegment{{Why: "no digest"}}}, "needed: a segment of the log (no digest)"},
		"another segment": {&adminpb.Recovery{WaitsFor: "segment 50: x", Missing: []*adminpb.MissingSegment{{SegmentId: 5}}}, "segment 50: x; needed: segment 5"},
		"something else":  {&adminpb.Recovery{WaitsFor: "no server that is UP can take tablets"}, "no server that is UP can take tablets"},
	} {
		if got := p.WaitsFor(test.recovery); got != test.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
