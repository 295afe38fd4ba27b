package status

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"ramcloud.dev/client/adminpb"
	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
)

// TestRecovering: the condition says which recovery there is, how far it is and what it waits for.
func TestRecovering(t *testing.T) {
	for name, test := range map[string]struct {
		recoveries []*adminpb.Recovery
		want       string
		parts      []string
	}{
		"none": {nil, "-NoRecovery", []string{"tablets of crashed servers are served"}},
		"running": {[]*adminpb.Recovery{{ServerId: 7, Name: "demo-server-1", Phase: "REPLAYING", Parts: 4, PartsDone: 1, BytesTotal: 64 << 20, BytesDone: 12 << 20}},
			"+RecoveryRunning", []string{"server 7 (demo-server-1) is REPLAYING (1 of 4 parts done, 12 MiB of 64 MiB read)"}},
		"blocked": {[]*adminpb.Recovery{{ServerId: 7, Name: "demo-server-1", Phase: "BLOCKED", WaitsFor: "a segment of its log",
			Missing: []*adminpb.MissingSegment{{SegmentId: 5, Why: "no whole replica", Holders: []uint64{99}}}}},
			"+RecoveryBlocked", []string{"BLOCKED: a segment of its log", "segment 5 (no whole replica), held by server 99"}},
		"too little memory": {[]*adminpb.Recovery{{ServerId: 7, Phase: "WAITING", WaitsFor: "memory", Memory: &adminpb.RecoveryMemory{NeededBytes: 2, FreeBytes: 1}}},
			"+RecoveryWaitsForMemory", []string{"WAITING: memory"}},
		"waits for a holder": {[]*adminpb.Recovery{{ServerId: 7, Phase: "WAITING", Missing: []*adminpb.MissingSegment{{SegmentId: 5}}, Memory: &adminpb.RecoveryMemory{NeededBytes: 2}}},
			"+RecoveryRunning", []string{"WAITING: needed: segment 5"}},
	} {
		in := input()
		in.Picture.Status.Recoveries = test.recoveries
		out := Cluster(in)
		c := meta.FindStatusCondition(out.Conditions, ramcloudv1.ConditionRecovering)
		if c == nil || sign(string(c.Status))+c.Reason != test.want {
			t.Fatalf("%s: %+v", name, c)
		}
		for _, part := range test.parts {
			if !strings.Contains(c.Message, part) {
				t.Errorf("%s: %s", name, c.Message)
			}
		}
	}
}
