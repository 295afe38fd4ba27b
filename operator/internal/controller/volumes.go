package controller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/coordinator"
	"ramcloud.dev/operator/internal/plan"
	"ramcloud.dev/operator/internal/specs"
)

// answerWithin is how long the coordinator has to answer whether a volume may be deleted.
const answerWithin = 5 * time.Second

func (r *ClusterReconciler) releaser(cluster *ramcloudv1.RAMCloudCluster) coordinator.Releaser {
	if r.Releaser != nil {
		return r.Releaser(cluster)
	}
	return coordinator.Admin(r.adminAddress(cluster))
}

// askReleases asks the coordinator about the volumes that the plan would give up in this decision.
func (r *ClusterReconciler) askReleases(ctx context.Context, o *observed, input *plan.Observed) {
	for i := range input.Members {
		m := &input.Members[i]
		if id := plan.WantsRelease(*input, *m); id != "" {
			m.Release = r.askRelease(ctx, o, memberOf(o, m.ID).claim(o), id)
		}
		for j := range m.Retired {
			c := &m.Retired[j]
			if id := plan.WantsReleaseOf(*input, *c); id != "" {
				c.Release = r.askRelease(ctx, o, o.claims[c.Name], id)
			}
		}
	}
}

// askRelease asks about one claim. After a refusal it does not ask again for a while, because the coordinator asks
// every master.
func (r *ClusterReconciler) askRelease(ctx context.Context, o *observed, claim *corev1.PersistentVolumeClaim, id string) plan.Release {
	if no := r.notReleased.of(claim.UID, id, r.now(), plan.AskReleaseAgain); no != nil {
		return plan.Release{ServerID: id, Reason: no.message}
	}
	asking, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	answer := coordinator.AskRelease(asking, r.releaser(o.cluster), id, r.now())
	if answer.Releasable {
		r.notReleased.note(claim.UID, nil)
	} else {
		r.notReleased.note(claim.UID, &refusal{of: id, message: answer.Reason, at: r.now()})
	}
	o.tokens[claim.Name] = answer.Token
	return plan.Release{ServerID: id, Releasable: answer.Releasable, Reason: answer.Reason}
}

// dropVolumes deletes metadata claims whose volumes are lost, and pods of servers whose volumes are lost. The pod is
// deleted first: a claim in use cannot be deleted, and a deleted pod writes nothing.
func (r *ClusterReconciler) dropVolumes(ctx context.Context, o *observed, d plan.Decision, done *steps) {
	for _, id := range d.DropVolumes {
		m := memberOf(o, id)
		if pod := o.pods[m.name]; pod != nil {
			done.noteOutcome("deleting pod "+m.name, r.delete(ctx, o, pod))
		} else if claim := m.claim(o); claim != nil && claim.DeletionTimestamp == nil {
			done.noteOutcome("deleting volume claim "+claim.Name, r.delete(ctx, o, claim))
		}
	}
	for _, id := range d.GiveUp {
		m := memberOf(o, id)
		if done.noteOutcome("deleting pod "+m.name, r.delete(ctx, o, o.pods[m.name])) {
			r.event(o.cluster, corev1.EventTypeWarning, "PodReplaced", "Replace", "the volume of pod %s is lost; it is created again with another", m.name)
		}
	}
}

// releaseVolumes deletes former claims of servers that the coordinator has released.
func (r *ClusterReconciler) releaseVolumes(ctx context.Context, o *observed, d plan.Decision, done *steps) {
	for _, released := range d.Release {
		claim := o.claims[specs.VolumeClaimName(memberOf(o, released.ID).name, released.Generation)]
		if claim == nil || claim.DeletionTimestamp == nil && !done.noteOutcome("deleting volume claim "+claim.Name, r.delete(ctx, o, claim)) {
			continue
		}
		if !controllerutil.ContainsFinalizer(claim, specs.FinalizerVolume) {
			continue
		}
		if done.noteOutcome("releasing volume claim "+claim.Name, r.removeFinalizer(ctx, claim)) && o.tokens[claim.Name] != "" {
			r.event(o.cluster, corev1.EventTypeNormal, "VolumeReleased", "Release",
				"volume claim %s is deleted: the coordinator says that no replica on it is needed (token %s)", claim.Name, o.tokens[claim.Name])
		}
	}
}

// removeFinalizer removes our finalizer from the claim, even if the claim was changed otherwise: the decision was about
// its volume.
func (r *ClusterReconciler) removeFinalizer(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	changed := claim.DeepCopy()
	if !controllerutil.RemoveFinalizer(changed, specs.FinalizerVolume) {
		return nil
	}
	// The patch replaces the whole list, so without the lock a finalizer that was added meanwhile would be lost.
	return client.IgnoreNotFound(r.Patch(ctx, changed, client.MergeFromWithOptions(claim, client.MergeFromWithOptimisticLock{}), fieldOwner))
}

// guardVolume adds the finalizer to a claim without it, which an earlier operator created. It does not add it again to
// a claim that was released for an uninstall, unless the operator was installed after that.
func (r *ClusterReconciler) guardVolume(claim *corev1.PersistentVolumeClaim) bool {
	if claim.DeletionTimestamp != nil || controllerutil.ContainsFinalizer(claim, specs.FinalizerVolume) {
		return false
	}
	if text, was := claim.Annotations[specs.AnnotationLetGo]; was {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil || !r.started.After(at) {
			return false
		}
		delete(claim.Annotations, specs.AnnotationLetGo)
	}
	return controllerutil.AddFinalizer(claim, specs.FinalizerVolume)
}

// removeVolumeFinalizers removes the finalizers from the claims of a cluster that is deleted or being deleted.
func (r *ClusterReconciler) removeVolumeFinalizers(ctx context.Context, cluster types.NamespacedName) error {
	var claims corev1.PersistentVolumeClaimList
	err := r.List(ctx, &claims, client.InNamespace(cluster.Namespace), client.MatchingLabels{specs.LabelCluster: cluster.Name})
	if err != nil {
		return fmt.Errorf("listing the volume claims of a cluster that is gone: %w", err)
	}
	for i := range claims.Items {
		if err := r.removeFinalizer(ctx, &claims.Items[i]); err != nil {
			return fmt.Errorf("removing the finalizer of volume claim %s: %w", claims.Items[i].Name, err)
		}
	}
	return nil
}

// removeFormerVolumeFinalizers does the same for claims that a former cluster of the same name owned, so that they are
// deleted with it.
func (r *ClusterReconciler) removeFormerVolumeFinalizers(ctx context.Context, o *observed, done *steps) {
	for _, object := range o.read {
		claim, ok := object.(*corev1.PersistentVolumeClaim)
		if ok && specs.OfFormer(o.cluster, claim) && controllerutil.ContainsFinalizer(claim, specs.FinalizerVolume) {
			done.noteOutcome("removing the finalizer of volume claim "+claim.Name+" of a former cluster", r.removeFinalizer(ctx, claim))
		}
	}
}

// RemoveVolumeFinalizers removes the finalizers from all claims in the namespace (empty: in all namespaces) before the
// operator is uninstalled. It returns how many there were.
func RemoveVolumeFinalizers(ctx context.Context, c client.Client, namespace string, now time.Time) (int, error) {
	var claims corev1.PersistentVolumeClaimList
	if err := c.List(ctx, &claims, client.InNamespace(namespace), client.MatchingLabels{specs.LabelManagedBy: specs.ManagedBy}); err != nil {
		return 0, fmt.Errorf("listing volume claims: %w", err)
	}
	n := 0
	for i := range claims.Items {
		claim := &claims.Items[i]
		changed := claim.DeepCopy()
		if !controllerutil.RemoveFinalizer(changed, specs.FinalizerVolume) {
			continue
		}
		metav1.SetMetaDataAnnotation(&changed.ObjectMeta, specs.AnnotationLetGo, now.UTC().Format(time.RFC3339))
		err := c.Patch(ctx, changed, client.MergeFromWithOptions(claim, client.MergeFromWithOptimisticLock{}), fieldOwner)
		if client.IgnoreNotFound(err) != nil {
			return n, fmt.Errorf("volume claim %s/%s: %w", claim.Namespace, claim.Name, err)
		}
		n++
	}
	return n, nil
}
