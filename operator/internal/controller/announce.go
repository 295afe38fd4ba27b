package controller

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
)

// announce turns changes of conditions into events. A change to Unknown causes none.
func (r *ClusterReconciler) announce(cluster *ramcloudv1.RAMCloudCluster, wanted ramcloudv1.RAMCloudClusterStatus) {
	for _, c := range wanted.Conditions {
		before := meta.FindStatusCondition(cluster.Status.Conditions, c.Type)
		if c.Status == metav1.ConditionUnknown || before != nil && before.Status == c.Status && before.Reason == c.Reason {
			continue
		}
		good := c.Status == metav1.ConditionTrue
		if c.Type == ramcloudv1.ConditionResizing {
			good = c.Reason != ramcloudv1.ReasonResizeInfeasible
		}
		if c.Type == ramcloudv1.ConditionRecovering {
			good = c.Reason != ramcloudv1.ReasonRecoveryBlocked
		}
		if c.Type == ramcloudv1.ConditionUpToDate && c.Reason != ramcloudv1.ReasonRollRefused {
			if before != nil || !good { // a pending update is not a problem
				r.event(cluster, corev1.EventTypeNormal, c.Reason, c.Type, "%s", c.Message)
			}
			continue
		}
		switch c.Type {
		case ramcloudv1.ConditionDegraded, ramcloudv1.ConditionScaleBlocked, ramcloudv1.ConditionPaused, ramcloudv1.ConditionDeprecatedFields:
			good = !good
		}
		good = good || passes(c, wanted)
		switch {
		case c.Type == ramcloudv1.ConditionProgressing:
		case good && (c.Type == ramcloudv1.ConditionReady || before != nil):
			r.event(cluster, corev1.EventTypeNormal, c.Reason, c.Type, "%s", c.Message)
		case !good && (c.Type != ramcloudv1.ConditionReady || before != nil):
			r.event(cluster, corev1.EventTypeWarning, c.Reason, c.Type, "%s", c.Message)
		}
	}
}

// passes says whether a condition's state is expected to end by itself, so that no warning is needed: waiting for a
// recovery becomes Degraded if it lasts, and a member that is being restarted is away for a while. Recovering tells
// once that a recovery is blocked.
func passes(c metav1.Condition, wanted ramcloudv1.RAMCloudClusterStatus) bool {
	reason := func(kind string) string {
		if other := meta.FindStatusCondition(wanted.Conditions, kind); other != nil {
			return other.Reason
		}
		return ""
	}
	switch {
	case c.Type == ramcloudv1.ConditionReady && c.Status == metav1.ConditionFalse:
		return c.Reason == ramcloudv1.ReasonTabletsUnavailable || reason(ramcloudv1.ConditionProgressing) == ramcloudv1.ReasonRollingRestart
	case c.Type == ramcloudv1.ConditionDegraded && c.Reason == ramcloudv1.ReasonTabletsUnavailable:
		return reason(ramcloudv1.ConditionRecovering) == ramcloudv1.ReasonRecoveryBlocked
	}
	return false
}
