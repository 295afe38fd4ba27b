package controller

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/plan"
	"ramcloud.dev/operator/internal/specs"
)

// act carries the decision out. A failure of one member does not stop the work on others.
func (r *ClusterReconciler) act(ctx context.Context, o *observed, d plan.Decision, evictions plan.Eviction, done *steps) {
	a := applier{client: r.Client, scheme: r.Scheme(), wrote: func(object client.Object) { r.wrote(o, object) }}
	if !r.adopt(ctx, o, done) {
		return
	}
	if !r.holdEvictions(ctx, o, evictions, done) {
		// Otherwise another server could be evicted together with the one whose pod is created or restarted.
		d.Create, d.Restart = nil, nil
	}
	r.record(ctx, o, d, done)
	service := specs.HeadlessService(o.cluster)
	done.noteOutcome("Service "+service.Name, a.apply(ctx, service, orNil(o.services[service.Name]), &corev1.Service{}))
	for index := range specs.WantedEtcd(o.cluster) {
		service := specs.EtcdService(o.cluster, index)
		done.noteOutcome("Service "+service.Name, a.apply(ctx, service, orNil(o.services[service.Name]), &corev1.Service{}))
	}
	for _, index := range d.Servers {
		record, name := &ramcloudv1.RAMCloudServer{}, specs.ServerName(o.cluster.Name, index)
		if done.noteOutcome("RAMCloudServer "+name, a.apply(ctx, specs.Server(o.cluster, index), orNil(o.servers[name]), record)) {
			o.servers[name] = record
		}
	}
	for _, id := range d.Rejoin {
		if done.noteOutcome("replacing "+id.String(), r.rejoin(ctx, o, id.Index)) {
			d.Volumes = append(slices.Clone(d.Volumes), id)
		}
	}
	for _, m := range o.members(d) {
		r.actOnMember(ctx, a, o, d, m, done)
	}
	r.replaceFailed(ctx, o, d, done)
	r.dropVolumes(ctx, o, d, done)
	r.releaseVolumes(ctx, o, d, done)
	for _, id := range d.Secure {
		if !o.recorded(memberOf(o, id)) || !done.noteOutcome("reaching "+id.String()+" by TLS", r.securePeer(ctx, o, id)) {
			d.Restart = nil
		}
	}
	r.takeAway(ctx, o, d, done)
	r.resizeServers(ctx, o, d, done)
	r.deleteUnexposed(ctx, o, done)
	r.publish(ctx, a, o, done)
	r.applyBudgets(ctx, a, o, evictions, done)
}

// holdEvictions forbids evictions of servers from now on, if that was decided. It must come before anything that makes
// a pod ready, because the budget would count that pod.
func (r *ClusterReconciler) holdEvictions(ctx context.Context, o *observed, evictions plan.Eviction, done *steps) bool {
	budget := specs.DisruptionBudget(o.cluster, evictions.Keep)
	live := o.budgets[budget.Name]
	if evictions.Held == "" || live == nil {
		return true // none: so no eviction was allowed before
	}
	a, held := applier{client: r.Client, scheme: r.Scheme(), wrote: func(object client.Object) { r.wrote(o, object) }}, &policyv1.PodDisruptionBudget{}
	if !done.noteOutcome("PodDisruptionBudget "+budget.Name, a.apply(ctx, budget, live, held)) {
		return false
	}
	o.budgets[budget.Name] = held
	return true
}

// adopt makes the cluster the owner of objects that an orphaning delete left. Before that it reads past the cache that
// the cluster is still the same (the owner rule): otherwise the deletion of the old cluster would delete them, too.
func (r *ClusterReconciler) adopt(ctx context.Context, o *observed, done *steps) bool {
	if len(o.orphans) == 0 {
		return true
	}
	names := map[string]bool{}
	for _, id := range o.existing() {
		names[memberOf(o, id).name] = true
	}
	var fresh ramcloudv1.RAMCloudCluster
	err := r.Uncached.Get(ctx, client.ObjectKeyFromObject(o.cluster), &fresh)
	if apierrors.IsNotFound(err) || err == nil && (fresh.UID != o.cluster.UID || fresh.DeletionTimestamp != nil) {
		done.wait("adopting what nothing controls", "the cluster was deleted meanwhile")
		return false
	}
	if !done.noteOutcome("reading the cluster past the cache", err) {
		return false
	}
	for _, orphan := range o.orphans { // all other objects are applied with their owner
		pod, isPod := orphan.(*corev1.Pod)
		if !isPod || !names[pod.Name] {
			continue
		}
		changed := pod.DeepCopy()
		changed.OwnerReferences = append(changed.OwnerReferences, specs.OwnerReference(o.cluster))
		patch := client.MergeFromWithOptions(pod, client.MergeFromWithOptimisticLock{})
		if done.noteOutcome("adopting pod "+pod.Name, r.Patch(ctx, changed, patch, fieldOwner)) {
			o.pods[pod.Name] = changed
			r.wrote(o, changed)
			r.event(o.cluster, corev1.EventTypeNormal, "PodAdopted", "Adopt", "pod %s, which nothing controlled, is this cluster's", pod.Name)
		}
	}
	return true
}

// actOnMember maintains one member's Service and volume, and its pod if that was decided.
func (r *ClusterReconciler) actOnMember(ctx context.Context, a applier, o *observed, d plan.Decision, m member, done *steps) {
	if m.exposed(o) {
		service, name := &corev1.Service{}, specs.OutsideServiceName(m.name)
		if !done.noteOutcome("Service "+name, a.apply(ctx, m.outsideService(o), orNil(o.services[name]), service)) {
			return
		}
		o.services[name] = service
	}
	if o.foreign(d, m) {
		return
	}
	if m.hasVolume(o) && !done.noteOutcome("volume claim of "+m.name, r.ensureVolume(ctx, o, d, m)) {
		return
	}
	r.growVolume(ctx, o, m, done)
	if !slices.Contains(d.Create, m.id) {
		return
	}
	if service := m.waitsForAddress(o); service != "" {
		done.wait("pod "+m.name, "Service "+service+" has no address of a load balancer yet")
		return
	}
	if !o.recorded(m) {
		done.wait("pod "+m.name, "its template is not recorded yet")
		return
	}
	if err := r.createPod(ctx, o, m); !done.noteOutcome("pod "+m.name, err) && outcomeOf(err) == fail {
		r.event(o.cluster, corev1.EventTypeWarning, "PodNotCreated", "Create", "pod %s: %v", m.name, err)
	}
}

// createPod creates the member's pod. If a pod of this name exists that the cache does not have, it belongs to somebody
// else.
func (r *ClusterReconciler) createPod(ctx context.Context, o *observed, m member) error {
	pod := m.wantedPod(o)
	err := r.Create(ctx, pod, fieldOwner)
	if apierrors.IsAlreadyExists(err) {
		var there corev1.Pod
		if err := r.Uncached.Get(ctx, client.ObjectKeyFromObject(pod), &there); err != nil {
			return client.IgnoreNotFound(err)
		}
		if !metav1.IsControlledBy(&there, o.cluster) {
			return fmt.Errorf("a pod of this name exists and is not this cluster's (controlled by %s)", controllerText(&there))
		}
		return nil // the cache does not show it yet
	}
	if err != nil {
		return err
	}
	r.wrote(o, pod)
	log.FromContext(ctx).Info("created pod", "pod", m.name)
	r.event(o.cluster, corev1.EventTypeNormal, "PodCreated", "Create", "created pod %s", m.name)
	o.pods[m.name] = pod
	return nil
}

// controllerText names what controls an object.
func controllerText(object metav1.Object) string {
	if owner := metav1.GetControllerOfNoCopy(object); owner != nil {
		return owner.Kind + " " + owner.Name
	}
	return "nothing"
}

// replaceFailed records the failure and then deletes the pod, in this order, so that a crash in between never shortens
// the back-off.
func (r *ClusterReconciler) replaceFailed(ctx context.Context, o *observed, d plan.Decision, done *steps) {
	for _, replacement := range d.Replace {
		m := memberOf(o, replacement.ID)
		if done.noteOutcome("noting the failure of "+m.name, r.recordFailure(ctx, o, m, failureForStatus(replacement.Failure))) &&
			done.noteOutcome("deleting pod "+m.name, r.delete(ctx, o, o.pods[m.name])) {
			r.event(o.cluster, corev1.EventTypeWarning, "PodReplaced", "Replace", "pod %s failed (%s %s) and is re-created",
				m.name, replacement.Failure.Reason, replacement.Failure.Message)
		}
	}
	for _, id := range d.Forget {
		m := memberOf(o, id)
		done.noteOutcome("forgetting the failures of "+m.name, r.recordFailure(ctx, o, m, nil))
	}
}

// takeAway deletes the next pod of a rolling restart, or a coordinator that is not wanted.
func (r *ClusterReconciler) takeAway(ctx context.Context, o *observed, d plan.Decision, done *steps) {
	for _, id := range d.Restart {
		m := memberOf(o, id)
		name := m.name
		if o.recorded(m) && done.noteOutcome("deleting pod "+name, r.delete(ctx, o, o.pods[name])) {
			r.event(o.cluster, corev1.EventTypeNormal, "PodRestarted", "Restart", "%s is restarted (%s)", name, d.Rolling)
		}
	}
	for _, id := range d.Remove {
		name := memberOf(o, id).name
		if done.noteOutcome("deleting pod "+name, r.delete(ctx, o, o.pods[name])) {
			r.event(o.cluster, corev1.EventTypeNormal, "PodRemoved", "Remove", "%s is removed: spec.coordinator.replicas is %d",
				name, specs.WantedCoordinators(o.cluster))
		}
	}
}

// deleteUnexposed removes outside Services once spec no longer asks for them, and those of coordinators that do not
// exist any more.
func (r *ClusterReconciler) deleteUnexposed(ctx context.Context, o *observed, done *steps) {
	for name, service := range o.services {
		if name == o.cluster.Name || service.Labels[specs.LabelComponent] == specs.ComponentEtcd || service.DeletionTimestamp != nil || !metav1.IsControlledBy(service, o.cluster) {
			continue
		}
		index, coordinator := specs.MemberIndex(service.Labels, specs.ComponentCoordinator)
		gone := coordinator && index >= specs.WantedCoordinators(o.cluster) && o.pods[specs.CoordinatorName(o.cluster.Name, index)] == nil
		if specs.Exposed(o.cluster) && !gone {
			continue
		}
		done.noteOutcome("deleting Service "+name, r.delete(ctx, o, service))
	}
}

// publish writes the ConfigMap that says how to connect.
func (r *ClusterReconciler) publish(ctx context.Context, a applier, o *observed, done *steps) {
	c := o.cluster
	var outside []string
	for index := range specs.WantedCoordinators(c) {
		pod := specs.CoordinatorName(c.Name, index)
		host, ports := "", specs.NodePorts{}
		if live := o.pods[pod]; live != nil {
			host = live.Status.HostIP
		}
		if service := o.services[specs.OutsideServiceName(pod)]; service != nil {
			ports = specs.AllocatedNodePorts(service)
		}
		if address := specs.OutsideAddress(host, ports); address != "" {
			outside = append(outside, address)
		}
	}
	name := specs.ConnectionName(c.Name)
	connection := specs.Connection(c, outside)
	done.noteOutcome("ConfigMap "+name, a.apply(ctx, specs.ConnectionConfigMap(c, connection), orNil(o.configMaps[name]), &corev1.ConfigMap{}))
}

// applyBudgets keeps servers, and a majority of the others, from being evicted. The servers' budget comes last, because
// it may allow an eviction.
func (r *ClusterReconciler) applyBudgets(ctx context.Context, a applier, o *observed, evictions plan.Eviction, done *steps) {
	c := o.cluster
	wanted := []*policyv1.PodDisruptionBudget{specs.CoordinatorBudget(c)}
	if specs.WantedEtcd(c) > 0 {
		wanted = append(wanted, specs.EtcdBudget(c))
	}
	wanted = append(wanted, specs.DisruptionBudget(c, evictions.Keep))
	for _, budget := range wanted {
		done.noteOutcome("PodDisruptionBudget "+budget.Name, a.apply(ctx, budget, orNil(o.budgets[budget.Name]), &policyv1.PodDisruptionBudget{}))
	}
}
