package specs

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Resize is the comparison of a volume claim's size with the spec. At most one of Growing and Infeasible is
// set.
type Resize struct {
	// Ask: request this size in the claim; nil: the claim requests the right size, or cannot change.
	Ask *resource.Quantity
	// Growing says what it waits for; empty: nothing.
	Growing string
	// Infeasible says why the volume will not get the size; empty: it will, or has it.
	Infeasible string
}

// ResizeOf says how a claim gets the wanted size. A claim that somebody has made larger is left unchanged.
func ResizeOf(wanted, live *corev1.PersistentVolumeClaim) Resize {
	if live == nil || live.Status.Phase != corev1.ClaimBound || live.DeletionTimestamp != nil {
		return Resize{} // the API server allows growth only of bound claims
	}
	want, asks, has := storage(wanted.Spec.Resources.Requests), storage(live.Spec.Resources.Requests), storage(live.Status.Capacity)
	if want.Cmp(asks) > 0 {
		return Resize{Ask: &want, Growing: fmt.Sprintf("volume claim %s is to grow from %s to %s", live.Name, has.String(), want.String())}
	}
	if has.Cmp(asks) >= 0 {
		return Resize{}
	}
	if why := failedResize(live); why != "" {
		switch {
		case want.Cmp(has) <= 0:
			return Resize{} // an earlier growth was given up, and the volume has the size in the spec
		case want.Cmp(asks) < 0: // the API server accepts that after an infeasible larger size
			return Resize{Ask: &want, Growing: fmt.Sprintf("volume claim %s is to grow from %s to %s, since %s was infeasible",
				live.Name, has.String(), want.String(), asks.String())}
		}
		return Resize{Infeasible: fmt.Sprintf("volume claim %s does not grow from %s to %s: %s", live.Name, has.String(), asks.String(), why)}
	}
	return Resize{Growing: fmt.Sprintf("volume claim %s grows from %s to %s: %s", live.Name, has.String(), asks.String(), resizeStep(live))}
}

func storage(list corev1.ResourceList) resource.Quantity { return list[corev1.ResourceStorage] }

// failedResize is the storage driver's message about a resize that it does not try again.
func failedResize(claim *corev1.PersistentVolumeClaim) string {
	switch status := claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]; status {
	case corev1.PersistentVolumeClaimControllerResizeInfeasible, corev1.PersistentVolumeClaimNodeResizeInfeasible:
		why := string(status)
		for _, c := range claim.Status.Conditions {
			if c.Type == corev1.PersistentVolumeClaimControllerResizeError || c.Type == corev1.PersistentVolumeClaimNodeResizeError {
				why += ": " + c.Message
			}
		}
		return why
	}
	return ""
}

// resizeStep is the progress of a resize.
func resizeStep(claim *corev1.PersistentVolumeClaim) string {
	step := "waiting for the storage driver"
	for _, c := range claim.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case corev1.PersistentVolumeClaimFileSystemResizePending:
			return "the volume is larger, and the node must grow its file system; a driver that cannot do it while the volume is in use does it when the pod starts next"
		case corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimNodeResizeError:
			return "the storage driver tries again after an error: " + c.Message
		case corev1.PersistentVolumeClaimResizing:
			step = "the storage driver is working on it"
		}
	}
	return step
}
