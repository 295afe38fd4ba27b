package controller_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ramcloud.dev/client/adminpb"
	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
)

// recorded are the names of the records of recoveries with their states, sorted.
func (w *world) recorded() (out []string) {
	w.t.Helper()
	var list ramcloudv1.RAMCloudRecoveryList
	check(w.t, w.client.List(w.ctx, &list, client.InNamespace(w.key.Namespace)))
	for _, r := range list.Items {
		out = append(out, r.Name+" "+r.Status.State)
	}
	slices.Sort(out)
	return out
}

func (w *world) untilRecorded(want ...string) {
	w.t.Helper()
	w.until("the records of recoveries", func() string {
		if got := w.recorded(); !slices.Equal(got, want) {
			return fmt.Sprintf("%v, want %v", got, want)
		}
		return ""
	})
}

// TestRecoveriesAreRecorded: one object each, written only when something changed, and the oldest go.
func TestRecoveriesAreRecorded(t *testing.T) {
	limit := int32(2)
	w := newWorld(t, func(s *ramcloudv1.RAMCloudClusterSpec) { s.RecoveryHistoryLimit = &limit })
	w.setServers(3)
	tablet := func(server uint64, state adminpb.TabletState) {
		w.coordinator.SetTable(&adminpb.Table{Id: 1, Name: "t", Tablets: []*adminpb.Tablet{{ServerId: server, State: state}}})
	}
	tablet(3, adminpb.TabletState_TABLET_NORMAL)
	w.condition("Ready", metav1.ConditionTrue, ramcloudv1.ReasonAllServersUp)
	if got := w.recorded(); got != nil {
		t.Fatalf("%v", got)
	}

	running := &adminpb.Recovery{ServerId: 11, Name: "demo-server-1", Phase: "REPLAYING", Attempt: 1, Parts: 2, PartsDone: 1, BytesTotal: 64 << 20,
		BytesDone: 12 << 20, BegunAtMs: 1_700_000_000_123}
	tablet(11, adminpb.TabletState_TABLET_UNAVAILABLE)
	w.coordinator.SetRecoveries(running)
	w.untilRecorded("demo-11 REPLAYING")
	var record ramcloudv1.RAMCloudRecovery
	w.exists("demo-11", &record)
	if s := record.Status; !metav1.IsControlledBy(&record, w.cluster()) || record.Spec.ClusterName != "demo" || s.ServerName != "demo-server-1" || s.ServerID != "11" ||
		s.PartitionsTotal != 2 || s.PartitionsDone != 1 || s.BytesReplayed != 12<<20 || s.Summary.Size.String() != "64Mi" || s.Summary.CrashedAt.Unix() != 1_700_000_000 {
		t.Errorf("%+v", record)
	}
	w.quiet()
	before := w.writes.Load()
	w.poke(5)
	if n := w.writes.Load() - before; n != 0 {
		t.Errorf("%d writes while nothing changed", n)
	}

	// The coordinator does not list it, and its tablets are not served: a leader that has just begun.
	w.coordinator.SetRecoveries()
	w.condition("Recovering", metav1.ConditionFalse, ramcloudv1.ReasonNoRecovery)
	w.poke(3)
	w.untilRecorded("demo-11 REPLAYING")
	tablet(3, adminpb.TabletState_TABLET_NORMAL)
	w.untilRecorded("demo-11 DONE")
	w.until("the event", func() string {
		if told := w.told("Recovered"); told[corev1.EventTypeNormal] != 1 {
			return fmt.Sprintf("%v", told)
		}
		return ""
	})

	for id := uint64(12); id < 15; id++ {
		next := &adminpb.Recovery{ServerId: id, Name: "demo-server-1", Phase: "WAITING", BegunAtMs: 1_700_000_000_000 + id*1000}
		w.coordinator.SetRecoveries(next)
		w.until("the record", func() string {
			if !slices.Contains(w.recorded(), fmt.Sprintf("demo-%d WAITING", id)) {
				return fmt.Sprintf("%v", w.recorded())
			}
			return ""
		})
		w.coordinator.SetRecoveries()
	}
	w.untilRecorded("demo-13 DONE", "demo-14 DONE")
	limit = 0
	w.change(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.RecoveryHistoryLimit = &limit })
	w.untilRecorded()

	// A recovery that ended while the operator was away.
	verdict, served, kept := uint64(180), uint64(990), int32(1)
	w.change(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.RecoveryHistoryLimit = &kept })
	w.coordinator.SetRecoveries(&adminpb.Recovery{ServerId: 16, Name: "demo-server-2", State: "DONE", Outcome: "COMPLETE", CrashedAtMs: 1_800_000_000_000,
		TimelineMs: &adminpb.RecoveryTimeline{Verdict: &verdict, Served: &served}})
	w.untilRecorded("demo-16 DONE")
	w.exists("demo-16", &record)
	if s := record.Status; s.Outcome != "COMPLETE" || s.TimelineMs.Verdict == nil || s.Summary.Served != "810ms" {
		t.Errorf("%+v", s)
	}
	w.condition("Recovering", metav1.ConditionFalse, ramcloudv1.ReasonNoRecovery)
	w.quiet()
	kept = 0
	w.change(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.RecoveryHistoryLimit = &kept })
	w.untilRecorded()

	// When the coordinator does not answer, records stay as they are.
	w.coordinator.SetRecoveries(&adminpb.Recovery{ServerId: 15, Name: "demo-server-1", Phase: "BLOCKED"})
	w.untilRecorded("demo-15 BLOCKED")
	w.coordinator.Stop()
	w.condition("Ready", metav1.ConditionFalse, ramcloudv1.ReasonCoordinatorNotAnswering)
	w.poke(3)
	w.untilRecorded("demo-15 BLOCKED")
}
