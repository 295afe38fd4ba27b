package controller_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ramcloud.dev/client/adminpb"
	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
)

// told returns the events with this reason, by type.
func (w *world) told(reason string) map[string]int {
	w.t.Helper()
	var list corev1.EventList
	check(w.t, w.client.List(w.ctx, &list, client.InNamespace(w.key.Namespace)))
	out := map[string]int{}
	for _, e := range list.Items {
		if e.Reason == reason {
			out[e.Type]++
		}
	}
	return out
}

// TestAShortRecoveryIsNoWarning: a recovery causes one Warning when it lasts or is blocked, and none
// otherwise.
func TestAShortRecoveryIsNoWarning(t *testing.T) {
	w := newWorld(t, nil)
	w.setServers(3)
	tablet := func(state adminpb.TabletState) {
		w.coordinator.SetTable(&adminpb.Table{Id: 1, Name: "t", Tablets: []*adminpb.Tablet{{ServerId: 3, State: state}}})
	}
	tablet(adminpb.TabletState_TABLET_NORMAL)
	w.condition("Ready", metav1.ConditionTrue, ramcloudv1.ReasonAllServersUp)
	w.condition("Degraded", metav1.ConditionFalse, ramcloudv1.ReasonAsExpected)
	expect := func(reason, kind string, n int) {
		t.Helper()
		w.until("events "+reason, func() string {
			if told := w.told(reason); told[kind] != n {
				return fmt.Sprintf("%v, want %d of type %s", told, n, kind)
			}
			return ""
		})
	}

	w.clockAhead.Store(-int64(time.Hour)) // it is short, however slow this test is
	w.coordinator.SetRecoveries(&adminpb.Recovery{ServerId: 9, Phase: "REPLAYING"})
	tablet(adminpb.TabletState_TABLET_UNAVAILABLE)
	w.condition("Ready", metav1.ConditionFalse, ramcloudv1.ReasonTabletsUnavailable)
	w.condition("Degraded", metav1.ConditionFalse, ramcloudv1.ReasonAsExpected)
	expect(ramcloudv1.ReasonTabletsUnavailable, corev1.EventTypeNormal, 1)
	tablet(adminpb.TabletState_TABLET_NORMAL)
	w.coordinator.SetRecoveries()
	w.condition("Ready", metav1.ConditionTrue, ramcloudv1.ReasonAllServersUp)
	if told := w.told(ramcloudv1.ReasonTabletsUnavailable); told[corev1.EventTypeWarning] != 0 {
		t.Errorf("a short recovery was warned of: %v", told)
	}

	w.clockAhead.Store(int64(time.Hour)) // and this one lasts
	w.coordinator.SetRecoveries(&adminpb.Recovery{ServerId: 8, Phase: "REPLAYING"})
	tablet(adminpb.TabletState_TABLET_UNAVAILABLE)
	w.condition("Degraded", metav1.ConditionTrue, ramcloudv1.ReasonTabletsUnavailable)
	expect(ramcloudv1.ReasonTabletsUnavailable, corev1.EventTypeWarning, 1)
	tablet(adminpb.TabletState_TABLET_NORMAL)
	w.coordinator.SetRecoveries()
	w.condition("Degraded", metav1.ConditionFalse, ramcloudv1.ReasonAsExpected)

	w.clockAhead.Store(-int64(time.Hour))
	w.coordinator.SetRecoveries(&adminpb.Recovery{ServerId: 7, Phase: "BLOCKED"})
	tablet(adminpb.TabletState_TABLET_UNAVAILABLE)
	w.condition("Degraded", metav1.ConditionTrue, ramcloudv1.ReasonTabletsUnavailable)
	expect(ramcloudv1.ReasonRecoveryBlocked, corev1.EventTypeWarning, 1)
	if told := w.told(ramcloudv1.ReasonTabletsUnavailable); told[corev1.EventTypeWarning] != 1 {
		t.Errorf("a blocked recovery was warned of twice: %v", told)
	}
}
