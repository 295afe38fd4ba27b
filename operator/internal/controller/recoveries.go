package controller

import (
	"context"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ramcloud.dev/client/adminpb"
	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/coordinator"
	"ramcloud.dev/operator/internal/plan"
	"ramcloud.dev/operator/internal/specs"
	"ramcloud.dev/operator/internal/status"
	acv1 "ramcloud.dev/operator/pkg/applyconfiguration/api/v1alpha1"
)

// recordRecoveries keeps a record of each recovery that the coordinator lists, and of as many finished ones as the spec
// says. While the coordinator does not answer, the records do not change.
func (r *ClusterReconciler) recordRecoveries(ctx context.Context, o *observed, done *steps) {
	if !o.picture.Connected {
		return
	}
	listed := map[string]*adminpb.Recovery{}
	for _, one := range o.picture.AllRecoveries() {
		listed[coordinator.RecoveryID(one)] = one
	}
	wanted := map[string]ramcloudv1.RAMCloudRecoveryStatus{}
	var all []plan.Recovery
	add := func(id string, record *ramcloudv1.RAMCloudRecovery) {
		in := status.RecoveryInput{Recovery: listed[id], Picture: o.picture}
		if record != nil {
			in.Before = record.Status
		}
		now := status.Recovery(in)
		wanted[id] = now
		all = append(all, plan.Recovery{ID: id, Recorded: record != nil, Listed: listed[id] != nil, Done: now.State == ramcloudv1.RecoveryDone,
			CrashedMs: now.Summary.CrashedAt.UnixMilli()})
	}
	for id := range listed {
		add(id, o.recoveries[specs.RecoveryName(o.cluster.Name, id)])
	}
	for _, record := range o.recoveries {
		if id := record.Spec.ID; listed[id] == nil && record.DeletionTimestamp == nil {
			add(id, record)
		}
	}
	record, remove := plan.History(specs.RecoveryHistory(o.cluster), all)
	for _, id := range record {
		name := specs.RecoveryName(o.cluster.Name, id)
		done.noteOutcome("recording "+name, r.recordRecovery(ctx, o, id, wanted[id]))
	}
	for _, id := range remove {
		name := specs.RecoveryName(o.cluster.Name, id)
		done.noteOutcome("deleting "+name, r.delete(ctx, o, o.recoveries[name]))
	}
}

// recordRecovery writes one record if it changed.
func (r *ClusterReconciler) recordRecovery(ctx context.Context, o *observed, id string, wanted ramcloudv1.RAMCloudRecoveryStatus) error {
	a := applier{client: r.Client, scheme: r.Scheme(), wrote: func(object client.Object) { r.wrote(o, object) }}
	record, live := &ramcloudv1.RAMCloudRecovery{}, o.recoveries[specs.RecoveryName(o.cluster.Name, id)]
	if err := a.apply(ctx, specs.Recovery(o.cluster, id), orNil(live), record); err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(record.Status, wanted) {
		return nil
	}
	fields, err := convert[acv1.RAMCloudRecoveryStatusApplyConfiguration](wanted)
	if err != nil {
		return err
	}
	written := acv1.RAMCloudRecovery(record.Name, record.Namespace).WithResourceVersion(record.ResourceVersion).WithStatus(fields)
	if err := r.Status().Apply(ctx, written, fieldOwner, client.ForceOwnership); err != nil {
		return err
	}
	if wanted.State == ramcloudv1.RecoveryDone && record.Status.State != ramcloudv1.RecoveryDone {
		r.tellRecovered(o, wanted)
	}
	record.ResourceVersion, record.Status = *written.ResourceVersion, wanted
	r.wrote(o, record)
	return nil
}

// tellRecovered emits an event about how a recovery ended.
func (r *ClusterReconciler) tellRecovered(o *observed, s ramcloudv1.RAMCloudRecoveryStatus) {
	server := "server " + s.ServerID + " (" + s.ServerName + ")"
	took := ""
	if s.Summary.Served != "" {
		took = " " + s.Summary.Served + " after the verdict"
	}
	switch s.Outcome {
	case ramcloudv1.OutcomeTailLost, ramcloudv1.OutcomeLossAccepted, ramcloudv1.OutcomeAllLost:
		r.event(o.cluster, corev1.EventTypeWarning, "RecoveredWithLoss", "Recover", "what is left of the data of %s is served again%s, outcome %s: %s",
			server, took, s.Outcome, s.Reason)
	default:
		r.event(o.cluster, corev1.EventTypeNormal, "Recovered", "Recover", "the data of %s is served again%s (%s bytes)",
			server, took, strconv.FormatInt(s.Bytes, 10))
	}
}
