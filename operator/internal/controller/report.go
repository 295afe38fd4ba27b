package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/plan"
	"ramcloud.dev/operator/internal/status"
	acv1 "ramcloud.dev/operator/pkg/applyconfiguration/api/v1alpha1"
)

// report writes the status of the cluster and its servers where it changed.
func (r *ClusterReconciler) report(ctx context.Context, o *observed, d plan.Decision, input plan.Observed) error {
	var errs []error
	in := status.Input{
		Cluster: o.cluster, Picture: o.picture, Decision: d, Now: metav1.NewTime(r.now()), Refused: o.refused, Former: o.former,
	}
	for _, m := range o.members(d) {
		pod := o.pods[m.name]
		problem := podProblem(pod)
		if service := m.waitsForAddress(o); pod == nil && service != "" {
			problem = "the pod waits for the address of the load balancer of Service " + service
		}
		if problem != "" {
			in.PodProblems = append(in.PodProblems, m.name+": "+problem)
		}
		differs := m.differences(o, r.Defaults)
		if len(differs) > 0 {
			in.Pending = append(in.Pending, ramcloudv1.PendingRestart{
				Pod: m.name, Differs: differs, Waits: waits(input, o.memberForPlan(m), o.cluster)})
		}
		if m.id.Kind != plan.Server {
			// One that is going is still Ready for Kubernetes, for as long as it takes to end.
			ready := pod != nil && pod.DeletionTimestamp == nil && podForPlan(pod).Ready
			in.Members = append(in.Members, status.Member{Kind: m.id.Kind, Pod: m.name, Exists: pod != nil,
				Ready: ready, Failure: m.failure(o)})
			continue
		}
		record := o.servers[m.name]
		if record == nil {
			continue // could not be created; act has said so
		}
		node := ""
		if pod != nil {
			node = pod.Spec.NodeName
		}
		wanted := status.Server(status.ServerInput{
			Name: m.name, Picture: o.picture, Node: node, PodProblem: problem,
			Pending: len(differs) > 0, LastFailure: m.failure(o), Before: record.Status,
		})
		if err := r.writeServerStatus(ctx, record, wanted); err != nil {
			errs = append(errs, err)
		}
		in.Servers = append(in.Servers, *record)
	}
	wanted := status.Cluster(in)
	err := r.writeClusterStatus(ctx, o.cluster, wanted)
	if err == nil { // what was computed from an object that has changed is no news
		r.announce(o.cluster, wanted)
	}
	return errors.Join(append(errs, err)...)
}

// waits says why a pod that differs is not restarted now.
func waits(input plan.Observed, m plan.Member, cluster *ramcloudv1.RAMCloudCluster) string {
	if m.ID.Kind == plan.Server || cluster.Spec.Pause {
		return plan.MayNotRestart(input, m)
	}
	if input.Request == "" || m.Pod.Request == input.Request {
		return "no restart was asked for; set spec.update.restartRequest to a new text"
	}
	if why := plan.MayNotRestart(input, m); why != "" {
		return why
	}
	return "its turn comes"
}

// writeServerStatus applies a status to the record as it was read, and to no later version of it: parts of a
// status are carried over from the one before, and an old one must not take back what was noted since.
func (r *ClusterReconciler) writeServerStatus(ctx context.Context, record *ramcloudv1.RAMCloudServer, wanted ramcloudv1.RAMCloudServerStatus) error {
	if equality.Semantic.DeepEqual(record.Status, wanted) {
		return nil
	}
	fields, err := convert[acv1.RAMCloudServerStatusApplyConfiguration](wanted)
	if err != nil {
		return err
	}
	record.Status = wanted
	written := acv1.RAMCloudServer(record.Name, record.Namespace).WithResourceVersion(record.ResourceVersion).WithStatus(fields)
	if err := r.Status().Apply(ctx, written, fieldOwner); err != nil {
		return fmt.Errorf("writing the status of %s: %w", record.Name, err)
	}
	record.ResourceVersion = *written.ResourceVersion
	return nil
}

// writeClusterStatus does the same for a cluster, whose Status is left as it was read.
func (r *ClusterReconciler) writeClusterStatus(ctx context.Context, cluster *ramcloudv1.RAMCloudCluster, wanted ramcloudv1.RAMCloudClusterStatus) error {
	if equality.Semantic.DeepEqual(cluster.Status, wanted) {
		return nil
	}
	fields, err := convert[acv1.RAMCloudClusterStatusApplyConfiguration](wanted)
	if err != nil {
		return err
	}
	written := acv1.RAMCloudCluster(cluster.Name, cluster.Namespace).WithResourceVersion(cluster.ResourceVersion).WithStatus(fields)
	if err := r.Status().Apply(ctx, written, fieldOwner); err != nil {
		return fmt.Errorf("writing the status of %s: %w", cluster.Name, err)
	}
	cluster.ResourceVersion = *written.ResourceVersion
	return nil
}

// outdated says whether something was not written because it has changed since it was read. (A conflict about
// who owns a field is another thing, which does not go away by looking again.)
func outdated(err error) bool {
	return apierrors.IsConflict(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict)
}

// recordFailure notes a member's failure (nil: forgets it) at once, before anything is done about it.
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
		return nil // without a record there is nothing to remember, nor to forget
	}
	wanted := *record.Status.DeepCopy()
	wanted.LastFailure = failure
	return r.writeServerStatus(ctx, record, wanted)
}

// announce turns changes of conditions into events.
func (r *ClusterReconciler) announce(cluster *ramcloudv1.RAMCloudCluster, wanted ramcloudv1.RAMCloudClusterStatus) {
	for _, c := range wanted.Conditions {
		before := meta.FindStatusCondition(cluster.Status.Conditions, c.Type)
		if before != nil && before.Status == c.Status && before.Reason == c.Reason {
			continue
		}
		good := c.Status == metav1.ConditionTrue
		if c.Type == ramcloudv1.ConditionDegraded || c.Type == ramcloudv1.ConditionScaleBlocked || c.Type == ramcloudv1.ConditionPaused {
			good = !good
		}
		switch {
		case c.Type == ramcloudv1.ConditionProgressing:
		case good && (c.Type == ramcloudv1.ConditionReady || before != nil):
			r.event(cluster, corev1.EventTypeNormal, c.Reason, c.Type, "%s", c.Message)
		case !good && (c.Type != ramcloudv1.ConditionReady || before != nil):
			r.event(cluster, corev1.EventTypeWarning, c.Reason, c.Type, "%s", c.Message)
		}
	}
}

// convert makes the apply configuration of a status: both have the same JSON.
func convert[T any](from any) (*T, error) {
	text, err := json.Marshal(from)
	if err != nil {
		return nil, err
	}
	to := new(T)
	return to, json.Unmarshal(text, to)
}
