package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ramcloud.dev/operator/internal/plan"
	"ramcloud.dev/operator/internal/specs"
)

// generationsOf are the generations of the claims, by the name of their pod.
func generationsOf(claims map[string]*corev1.PersistentVolumeClaim) map[string][]int32 {
	out := map[string][]int32{}
	for name := range claims {
		if pod, generation, ok := specs.ParseVolumeClaimName(name); ok {
			out[pod] = append(out[pod], generation)
		}
	}
	for _, generations := range out {
		slices.Sort(generations)
	}
	return out
}

// generation is the generation of the member's claim: of the one that its pod uses, or the newest that is not retired;
// 0: there is none.
func (m member) generation(o *observed) int32 {
	if pod := o.pods[m.name]; pod != nil {
		if of, generation, ok := specs.ParseVolumeClaimName(specs.ClaimOf(pod)); ok && of == m.name {
			return generation
		}
	}
	newest := int32(0)
	for _, generation := range o.generations[m.name] {
		if claim := o.claims[specs.VolumeClaimName(m.name, generation)]; claim.Annotations[specs.AnnotationRetired] == "" {
			newest = generation
		}
	}
	return newest
}

// nextGeneration is the generation of a new claim for the member. A pod that waits for a claim names it. The record
// tells the generations of claims that do not exist any more. If the record was lost, too, a name may be used again,
// which is harmless.
func (m member) nextGeneration(o *observed) int32 {
	if o.pods[m.name] != nil {
		return m.generation(o)
	}
	last := int32(0)
	if generations := o.generations[m.name]; len(generations) > 0 {
		last = generations[len(generations)-1]
	}
	if record := o.servers[m.name]; m.id.Kind == plan.Server && record != nil {
		last = max(last, record.Status.VolumeGeneration)
	}
	return last + 1
}

// claim is the member's volume claim; nil: there is none.
func (m member) claim(o *observed) *corev1.PersistentVolumeClaim {
	return o.claims[specs.VolumeClaimName(m.name, m.generation(o))]
}

// claimNames are the names of claims that the member uses or will use.
func (m member) claimNames(o *observed) (out []string) {
	claim := m.claim(o)
	if claim != nil {
		out = append(out, claim.Name)
	}
	if volumeOf(claim) != plan.VolumePresent && (claim == nil || m.id.Kind == plan.Server) {
		out = append(out, specs.VolumeClaimName(m.name, m.nextGeneration(o)))
	}
	return out
}

// retired are the server's former claims.
func (m member) retired(o *observed) (out []plan.Claim) {
	if m.id.Kind != plan.Server {
		return nil
	}
	now := m.generation(o)
	for _, generation := range o.generations[m.name] {
		claim := o.claims[specs.VolumeClaimName(m.name, generation)]
		if generation == now || claim.Annotations[specs.AnnotationRetired] == "" && generation > now {
			continue
		}
		out = append(out, plan.Claim{Generation: generation, Name: claim.Name, State: volumeOf(claim), Bound: claim.Spec.VolumeName != "",
			ServerID: m.noted(o, claim)})
	}
	return out
}

// noted is the id that is noted on a server's claim. Earlier operators noted it only in the record, for the only claim.
// An id of a former cluster is ignored, because this cluster's coordinator would answer about its own server with that
// id.
func (m member) noted(o *observed, claim *corev1.PersistentVolumeClaim) string {
	text, isNoted := claim.Annotations[specs.AnnotationEnlisted]
	if record := o.servers[m.name]; !isNoted && record != nil && claim.Name == specs.VolumeClaimName(m.name, 1) && len(o.generations[m.name]) == 1 {
		return record.Status.Incarnation
	}
	uuid, id, _ := strings.Cut(text, "/")
	if uuid != o.uuid() {
		return ""
	}
	return id
}

// uuid is the identity of the cluster's store; empty: it is not known yet.
func (o *observed) uuid() string {
	return cmp.Or(o.cluster.Status.Coordinator.ClusterUUID, o.picture.Status.GetClusterUuid())
}

// ensureVolume creates the member's volume claim if that was decided, also in place of a lost one. Otherwise it
// maintains the claim's owner, finalizer and noted id.
func (r *ClusterReconciler) ensureVolume(ctx context.Context, o *observed, d plan.Decision, m member) error {
	live := m.claim(o)
	if live != nil && slices.Contains(d.Retire, m.id) {
		if err := r.retire(ctx, o, m, live); err != nil {
			return fmt.Errorf("retiring %s: %w", live.Name, err)
		}
		live = nil
	}
	switch {
	case live != nil: // also for a new server whose claim was kept from before
		return r.keepVolume(ctx, o, m, live)
	case slices.Contains(d.Volumes, m.id):
		return r.createVolume(ctx, o, m)
	}
	return nil
}

// createVolume creates the next claim of the member.
func (r *ClusterReconciler) createVolume(ctx context.Context, o *observed, m member) error {
	wanted := m.volumeClaim(o, m.nextGeneration(o))
	hadData := m.hadData(o) || len(m.retired(o)) > 0
	err := r.Create(ctx, wanted, fieldOwner)
	if apierrors.IsAlreadyExists(err) {
		foreign, err := r.foreignVolume(ctx, o, wanted.Name)
		if err == nil && foreign {
			err = fmt.Errorf("%s exists and is not this cluster's", wanted.Name)
		}
		return err // nil: the cache does not show it yet
	}
	if err != nil {
		return err
	}
	r.wrote(o, wanted)
	o.claims[wanted.Name] = wanted
	o.generations = generationsOf(o.claims)
	switch {
	case hadData && m.id.Kind == plan.Etcd:
		r.event(o.cluster, corev1.EventTypeWarning, "VolumeReplaced", "Replace",
			"the volume of %s was lost; the member was removed from the etcd and added again, and gets an empty volume", m.name)
	case hadData:
		r.event(o.cluster, corev1.EventTypeWarning, "VolumeReplaced", "Replace",
			"the volume of %s was lost; the coordinator does not list the server as up, and it gets an empty one (volume claim %s)", m.name, wanted.Name)
	}
	return nil
}

// retire notes on the claim that the server gets another one, and the id with which the coordinator can be asked about
// this volume.
func (r *ClusterReconciler) retire(ctx context.Context, o *observed, m member, live *corev1.PersistentVolumeClaim) error {
	changed := live.DeepCopy()
	m.noteID(o, changed)
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, specs.AnnotationRetired, "true")
	return r.patchClaim(ctx, o, live, changed)
}

// noteID notes on a server's claim the id under which the server enlisted with it. True if the note changed.
func (m member) noteID(o *observed, claim *corev1.PersistentVolumeClaim) bool {
	text := ""
	if id := o.memberForPlan(m).ServerID; id != "" {
		text = o.uuid() + "/" + id
	}
	if was, is := claim.Annotations[specs.AnnotationEnlisted]; was == text && is || text == "" {
		return false // a note of another cluster is kept until this cluster has its own
	}
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, specs.AnnotationEnlisted, text)
	return true
}

// keepVolume maintains a claim's owner, finalizer and id. Nothing else of an existing claim is changed, nor the owner
// of a claim that another object controls.
func (r *ClusterReconciler) keepVolume(ctx context.Context, o *observed, m member, live *corev1.PersistentVolumeClaim) error {
	wanted := m.volumeClaim(o, m.generation(o))
	changed := live.DeepCopy()
	owned := metav1.IsControlledBy(live, o.cluster)
	change := owned != (len(wanted.OwnerReferences) > 0) && live.DeletionTimestamp == nil && (owned || metav1.GetControllerOf(live) == nil)
	if change {
		changed.OwnerReferences = wanted.OwnerReferences
	}
	if m.id.Kind == plan.Server {
		guarded, noted := r.guardVolume(changed), m.noteID(o, changed)
		change = change || guarded || noted
	}
	if !change {
		return nil
	}
	return r.patchClaim(ctx, o, live, changed)
}

func (r *ClusterReconciler) patchClaim(ctx context.Context, o *observed, live, changed *corev1.PersistentVolumeClaim) error {
	patch := client.MergeFromWithOptions(live, client.MergeFromWithOptimisticLock{})
	if err := r.Patch(ctx, changed, patch, fieldOwner); err != nil {
		return err
	}
	r.wrote(o, changed)
	o.claims[changed.Name] = changed
	return nil
}
