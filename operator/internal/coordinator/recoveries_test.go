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
		"silent":            {func(p *Picture) { p.Connected = false }, "does not answer"},
		"recovering":        {func(p *Picture) { p.Status.Recoveries = []*adminpb.Recovery{{ServerId: 3, Phase: "WAITING"}} }, "server 3 is WAITING"},
		"not served":        {func(p *Picture) { p.Status.TabletsUnavailable = 2 }, "2 tablets are not served"},
		"suspect":           {func(p *Picture) { p.Status.Detection = &adminpb.Detection{State: "SUSPECT"} }, "too few servers"},
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
