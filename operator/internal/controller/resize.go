package controller

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ramcloud.dev/operator/internal/plan"
	"ramcloud.dev/operator/internal/specs"
)

// askAgainAfter is when a refused growth of a claim is tried again: its storage class or the quota may have changed.
const askAgainAfter = 5 * time.Minute

// refusal is a refusal by the API server to grow a claim, or by the coordinator to release the volume of a server id.
type refusal struct {
	of, message string
	at          time.Time
}

// refusals caches them, so that not every reconcile asks again, and the condition keeps the message.
type refusals struct {
	mutex sync.Mutex
	known map[types.UID]refusal
}

// of is the cached refusal; nil: there is none, or it is older than `again`, so it must be asked for.
func (r *refusals) of(claim types.UID, what string, now time.Time, again time.Duration) *refusal {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	known, refused := r.known[claim]
	if !refused || known.of != what || now.Sub(known.at) >= again {
		return nil
	}
	return &known
}

// last is the last refusal; nil: there is none, or it is time to ask again.
func (r *refusals) last(key types.UID, now time.Time, again time.Duration) *refusal {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	known, refused := r.known[key]
	if !refused || now.Sub(known.at) >= again {
		return nil
	}
	return &known
}

// note stores a refusal; nil removes it.
func (r *refusals) note(claim types.UID, no *refusal) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if no == nil {
		delete(r.known, claim)
		return
	}
	if r.known == nil {
		r.known = map[types.UID]refusal{}
	}
	r.known[claim] = *no
}

// resize says how the member's claim gets the size in the spec.
func (m member) resize(o *observed) specs.Resize {
	if !m.hasVolume(o) {
		return specs.Resize{}
	}
	return specs.ResizeOf(m.volumeClaim(o, m.generation(o)), m.claim(o))
}

// sized says whether the spec has the size of the member's volume. Otherwise the size follows from the log, and the
// servers report for how large a log their volumes have room.
func (m member) sized(o *observed) bool {
	return m.id.Kind != plan.Server || o.cluster.Spec.Servers.BackupStorage.Size != nil
}

// growVolume requests a larger volume if the spec does. The API server decides whether the storage class allows it,
// because the operator has no right to read classes. A refusal is shown in the condition Resizing.
func (r *ClusterReconciler) growVolume(ctx context.Context, o *observed, m member, done *steps) {
	ask := m.resize(o).Ask
	if ask == nil {
		return
	}
	live := m.claim(o)
	name, size := "size of volume claim "+live.Name, ask.String()
	no := r.refused.of(live.UID, size, r.now(), askAgainAfter)
	if no == nil {
		changed := live.DeepCopy()
		changed.Spec.Resources.Requests[corev1.ResourceStorage] = *ask
		err := r.Patch(ctx, changed, client.MergeFromWithOptions(live, client.MergeFromWithOptimisticLock{}), fieldOwner)
		if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			if done.noteOutcome(name, err) {
				r.refused.note(live.UID, nil)
				r.wrote(o, changed)
				o.claims[live.Name] = changed
				r.event(o.cluster, corev1.EventTypeNormal, "VolumeGrows", "Resize", "volume claim %s asks for %s", live.Name, size)
			}
			return
		}
		no = &refusal{of: size, message: err.Error(), at: r.now()}
		r.refused.note(live.UID, no)
	}
	o.notGrown[m.name] = no.message
	done.wait(name, no.message)
	o.lookAgainAfter(no.at.Add(askAgainAfter).Sub(r.now()))
}

// lookAgainAfter: decide again after this time, also without an event.
func (o *observed) lookAgainAfter(left time.Duration) {
	if left > 0 && (o.again == 0 || left < o.again) {
		o.again = left
	}
}

// resizes are the texts in the status about sizes of volumes.
func (o *observed) resizes(members []member) (growing, infeasible []string) {
	for _, m := range members {
		resize := m.resize(o)
		switch refused := o.notGrown[m.name]; {
		case refused != "" && !m.sized(o): // nobody asked for that size
		case refused != "":
			infeasible = append(infeasible, "volume claim "+specs.VolumeClaimName(m.name, m.generation(o))+" cannot grow: "+refused)
		case resize.Infeasible != "":
			infeasible = append(infeasible, resize.Infeasible)
		case resize.Growing != "":
			growing = append(growing, resize.Growing)
		}
	}
	return growing, infeasible
}
