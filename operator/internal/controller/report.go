package controller

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/plan"
	"ramcloud.dev/operator/internal/specs"
	"ramcloud.dev/operator/internal/status"
	acv1 "ramcloud.dev/operator/pkg/applyconfiguration/api/v1alpha1"
)

// report writes the status of the cluster and its servers if it changed. It returns when to reconcile again without an
// event; 0: never.
func (r *ClusterReconciler) report(ctx context.Context, o *observed, d plan.Decision, evictions plan.Eviction, input plan.Observed, done *steps) time.Duration {
	if left := status.Silence(o.cluster, o.picture, input.Now); left > 0 {
		done.wait("writing the status", "the coordinator was not heard yet: "+o.picture.Problem)
		return left
	}
	in := status.Input{
		Cluster: o.cluster, Picture: o.picture, Decision: d, Now: metav1.NewTime(input.Now), Refused: o.refused, Former: o.former,
		Stranger: o.stranger, Deprecated: o.deprecated, Revisions: o.revisionsForStatus(d), EvictionsHeld: evictions.Held,
	}
	for _, m := range o.members(d) {
		member := o.memberForPlan(m)
		in.Members = append(in.Members, member)
		differs := m.differences(o, d)
		if len(differs) > 0 {
			in.Pending = append(in.Pending, ramcloudv1.PendingRestart{Pod: m.name, Differs: differs, Waits: waits(d, input, member, o.cluster)})
		}
		record := o.servers[m.name]
		if m.id.Kind != plan.Server || record == nil { // a record that could not be created is among the failed steps
			continue
		}
		wanted := status.Server(status.ServerInput{Member: member, Picture: o.picture, Pending: len(differs) > 0,
			Before: record.Status, Generation: record.Generation, Now: in.Now})
		done.noteOutcome("writing the status of "+m.name, r.writeServerStatus(ctx, o, record, wanted))
		in.Servers = append(in.Servers, *record)
	}
	if len(o.former) == 0 {
		r.recordRecoveries(ctx, o, done)
	}
	in.Growing, in.NotGrowing = o.resizes(o.members(d))
	if o.picture.Connected {
		in.MemoryMoving, in.MemoryStaying = o.memoryTells(d)
	}
	in.Failed = done.of(fail)
	wanted := status.Cluster(in)
	// If the object has changed meanwhile, the computed status is outdated, so no events are emitted.
	if done.noteOutcome("writing the status", r.writeClusterStatus(ctx, o.cluster, wanted)) {
		r.announce(o.cluster, wanted)
	}
	return status.LookAgain(in)
}

// revisionsForStatus are the current templates of members, and what a roll would change.
func (o *observed) revisionsForStatus(d plan.Decision) (out []status.Revision) {
	for _, kind := range kinds(o.cluster) {
		decided, any := d.Revisions[kind]
		if !any {
			continue
		}
		one := o.roles[kind]
		revision := status.Revision{Component: one.component, Current: decided.Current, Pending: decided.Pending, Refused: decided.Refused, Waits: decided.Waits}
		if decided.Pending != "" {
			pod := func(name string) *corev1.Pod {
				return specs.Instantiate(o.cluster, one.templates[name], 0, specs.NodePorts{}, specs.Trust{})
			}
			revision.Differs = specs.Differences(pod(decided.Current), pod(decided.Pending))
		}
		out = append(out, revision)
	}
	return out
}

// reportUnread reports a reconcile that could not read the objects. The rest of the status stays unchanged.
func (r *ClusterReconciler) reportUnread(ctx context.Context, cluster *ramcloudv1.RAMCloudCluster, failed []string) error {
	if len(failed) == 0 {
		return nil
	}
	wanted := status.Unread(cluster, failed, metav1.NewTime(r.now()))
	if err := r.writeClusterStatus(ctx, cluster, wanted); err != nil {
		return err
	}
	r.announce(cluster, wanted)
	return nil
}

// waits says why a differing pod is not restarted now.
func waits(d plan.Decision, input plan.Observed, m plan.Member, cluster *ramcloudv1.RAMCloudCluster) string {
	if cluster.Spec.Paused {
		return plan.MayNotRestart(input, m)
	}
	if why := plan.NeverRestarts(input, m); why != "" {
		return why
	}
	if d.WantsRestart(input, m) == "" {
		if refused := d.Revisions[m.ID.Kind].Refused; refused != "" {
			return "what was asked for is refused: " + refused
		}
		return "no restart was asked for; set spec.update.restartRequest to a new text"
	}
	if why := plan.MayNotRestart(input, m); why != "" {
		return why
	}
	return "its turn comes"
}

// writeServerStatus applies a status only to the version of the record that was read. Parts of a status are carried
// over from the previous one, and an old status must not overwrite later notes. It takes ownership of its fields from
// others, because only the operator reports.
func (r *ClusterReconciler) writeServerStatus(ctx context.Context, o *observed, record *ramcloudv1.RAMCloudServer, wanted ramcloudv1.RAMCloudServerStatus) error {
	if equality.Semantic.DeepEqual(record.Status, wanted) {
		return nil
	}
	fields, err := convert[acv1.RAMCloudServerStatusApplyConfiguration](wanted)
	if err != nil {
		return err
	}
	record.Status = wanted
	written := acv1.RAMCloudServer(record.Name, record.Namespace).WithResourceVersion(record.ResourceVersion).WithStatus(fields)
	if err := r.Status().Apply(ctx, written, fieldOwner, client.ForceOwnership); err != nil {
		return err
	}
	record.ResourceVersion = *written.ResourceVersion
	r.wrote(o, record)
	return nil
}

// writeClusterStatus does the same for a cluster. The Status of c itself is not changed.
func (r *ClusterReconciler) writeClusterStatus(ctx context.Context, cluster *ramcloudv1.RAMCloudCluster, wanted ramcloudv1.RAMCloudClusterStatus) error {
	if equality.Semantic.DeepEqual(cluster.Status, wanted) {
		return nil
	}
	fields, err := convert[acv1.RAMCloudClusterStatusApplyConfiguration](wanted)
	if err != nil {
		return err
	}
	written := acv1.RAMCloudCluster(cluster.Name, cluster.Namespace).WithResourceVersion(cluster.ResourceVersion).WithStatus(fields)
	if err := r.Status().Apply(ctx, written, fieldOwner, client.ForceOwnership); err != nil {
		return err
	}
	cluster.ResourceVersion = *written.ResourceVersion
	r.expected.expect(client.ObjectKeyFromObject(cluster), cluster, false, r.now())
	return nil
}

// recordFailure records a member's failure (nil: removes it) at once, before anything is done about it.
func (r *ClusterReconciler) recordFailure(ctx context.Context, o *observed, m member, failure *ramcloudv1.PodFailure) error {
	if m.id.Kind != plan.Server {
		wanted := *o.cluster.Status.DeepCopy()
		list := failures(&wanted, m.id.Kind)
		*list = slices.DeleteFunc(*list, func(f ramcloudv1.MemberFailure) bool { return f.Pod == m.name })
		if failure != nil {
			*list = append(*list, ramcloudv1.MemberFailure{Pod: m.name, PodFailure: *failure})
		}
		if err := r.writeClusterStatus(ctx, o.cluster, wanted); err != nil {
			return err
		}
		o.cluster.Status = wanted
		return nil
	}
	record := o.servers[m.name]
	if record == nil {
		return nil // without a record there is nothing to change
	}
	wanted := *record.Status.DeepCopy()
	wanted.LastFailure = failure
	return r.writeServerStatus(ctx, o, record, wanted)
}

// convert creates the apply configuration of a status: both have the same JSON.
func convert[T any](from any) (*T, error) {
	text, err := json.Marshal(from)
	if err != nil {
		return nil, err
	}
	to := new(T)
	return to, json.Unmarshal(text, to)
}
