package status

import (
	"testing"

	"ramcloud.dev/client/adminpb"
	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
)

// TestRecovery: the record has the coordinator's data, of this version or of an earlier one.
func TestRecovery(t *testing.T) {
	p, ms := input().Picture, func(n uint64) *uint64 { return &n }
	done := Recovery(RecoveryInput{Picture: p, Recovery: &adminpb.Recovery{ServerId: 7, Name: "demo-server-1", State: "DONE", Phase: "HANDING_OVER", Outcome: "TAIL_LOST",
		Reason: "no answer", WaitsFor: "of before", CrashedAtMs: 1_700_000_000_500, BytesTotal: 64 << 20, Entries: 9, Parts: 40, PartsDone: 40,
		TimelineMs: &adminpb.RecoveryTimeline{Verdict: ms(180), Served: ms(992)}, Memory: &adminpb.RecoveryMemory{NeededBytes: 5, FreeBytes: 6},
		Partitions: make([]*adminpb.RecoveryPartition, 40)}})
	if done.State != "DONE" || done.Outcome != "TAIL_LOST" || done.Reason != "no answer" || done.WaitsFor != "" || done.CrashedAtMs != 1_700_000_000_500 ||
		*done.TimelineMs.Verdict != 180 || done.TimelineMs.Queried != nil || done.Summary.Served != "812ms" || done.Summary.Size.String() != "64Mi" ||
		done.Summary.CrashedAt.Unix() != 1_700_000_000 || len(done.Partitions) != maxListed || done.PartitionsTotal != 40 || done.Memory.FreeBytes != 6 {
		t.Errorf("%+v", done)
	}
	if again := Recovery(RecoveryInput{Picture: p, Before: done}); again.State != "DONE" || again.Outcome != "TAIL_LOST" || again.Summary.Served != "812ms" {
		t.Errorf("what the coordinator forgot is forgotten here: %+v", again)
	}
	for phase, want := range map[string]string{"QUERYING": ramcloudv1.RecoveryPlanning, "HANDING_OVER": ramcloudv1.RecoveryReplaying, "BLOCKED": ramcloudv1.RecoveryBlocked, "LATER": "LATER"} {
		former := Recovery(RecoveryInput{Picture: p, Recovery: &adminpb.Recovery{ServerId: 7, Phase: phase, WaitsFor: "server 3", BegunAtMs: 1_700_000_000_000}})
		if former.State != want || former.WaitsFor != "server 3" || former.Summary.CrashedAt.Unix() != 1_700_000_000 || former.TimelineMs.Verdict != nil || former.Summary.Served != "" {
			t.Errorf("%s: %+v", phase, former)
		}
	}
}
