package specs

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func sizes(request, capacity string) *corev1.PersistentVolumeClaim {
	list := func(size string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data-a"}}
	claim.Spec.Resources.Requests = list(request)
	claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, list(capacity)
	return claim
}

func TestResizeOf(t *testing.T) {
	with := func(claim *corev1.PersistentVolumeClaim, kind corev1.PersistentVolumeClaimConditionType, message string) *corev1.PersistentVolumeClaim {
		claim.Status.Conditions = append(claim.Status.Conditions, corev1.PersistentVolumeClaimCondition{Type: kind, Status: corev1.ConditionTrue, Message: message})
		return claim
	}
	infeasible := func(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
		claim.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{
			corev1.ResourceStorage: corev1.PersistentVolumeClaimControllerResizeInfeasible}
		return claim
	}
	pending, going := sizes("1Gi", "1Gi"), sizes("1Gi", "1Gi")
	pending.Status.Phase = corev1.ClaimPending
	going.DeletionTimestamp = &metav1.Time{}
	for name, test := range map[string]struct {
		want                     string
		live                     *corev1.PersistentVolumeClaim
		ask, growing, infeasible string
	}{
		"as wanted":                      {want: "1Gi", live: sizes("1Gi", "1Gi")},
		"the driver gave more":           {want: "1Gi", live: sizes("1Gi", "4Gi")},
		"larger":                         {want: "2Gi", live: sizes("1Gi", "1Gi"), ask: "2Gi", growing: "from 1Gi to 2Gi"},
		"larger, of more than was asked": {want: "2Gi", live: sizes("1Gi", "4Gi"), ask: "2Gi", growing: "to 2Gi"},
		"there is no claim":              {want: "2Gi"},
		"not bound":                      {want: "2Gi", live: pending},
		"deleted":                        {want: "2Gi", live: going},
		"asked for":                      {want: "2Gi", live: sizes("2Gi", "1Gi"), growing: "waiting for the storage driver"},
		"begun":                          {want: "2Gi", live: with(sizes("2Gi", "1Gi"), corev1.PersistentVolumeClaimResizing, ""), growing: "is working on it"},
		"the file system is left": {want: "2Gi", growing: "when the pod starts next",
			live: with(with(sizes("2Gi", "1Gi"), corev1.PersistentVolumeClaimResizing, ""), corev1.PersistentVolumeClaimFileSystemResizePending, "")},
		"an error, tried again": {want: "2Gi", live: with(sizes("2Gi", "1Gi"), corev1.PersistentVolumeClaimControllerResizeError, "busy"), growing: "after an error: busy"},
		"beyond the driver": {want: "9Ti", infeasible: "from 1Gi to 9Ti: ControllerResizeInfeasible: too much",
			live: infeasible(with(sizes("9Ti", "1Gi"), corev1.PersistentVolumeClaimControllerResizeError, "too much"))},
		"beyond the driver, and taken back": {want: "1Gi", live: infeasible(sizes("9Ti", "1Gi"))},
		"beyond the driver, and then less":  {want: "2Gi", live: infeasible(sizes("9Ti", "1Gi")), ask: "2Gi", growing: "from 1Gi to 2Gi, since 9Ti was infeasible"},
		"more than spec asks for":           {want: "1Gi", live: sizes("2Gi", "2Gi")},
		"more, and growing":                 {want: "1Gi", live: sizes("2Gi", "1Gi"), growing: "from 1Gi to 2Gi"},
		"the same in other words":           {want: "1Gi", live: sizes("1024Mi", "1Gi")},
	} {
		got := ResizeOf(sizes(test.want, "1"), test.live)
		ask := ""
		if got.Ask != nil {
			ask = got.Ask.String()
		}
		if ask != test.ask || (got.Growing != "") != (test.growing != "") || !strings.Contains(got.Growing, test.growing) ||
			(got.Infeasible != "") != (test.infeasible != "") || !strings.Contains(got.Infeasible, test.infeasible) {
			t.Errorf("%s: asks for %q, growing %q, infeasible %q", name, ask, got.Growing, got.Infeasible)
		}
	}
}
