package controller

import (
	"context"
	"errors"
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

// act carries the decision out. One member's trouble does not keep the others from going on.
func (r *ClusterReconciler) act(ctx context.Context, o *observed, d plan.Decision, paused bool) error {
	if paused {
		return nil
	}
	a := applier{client: r.Client, scheme: r.Scheme()}
	var errs []error
	if err := a.apply(ctx, specs.HeadlessService(o.cluster), orNil(o.services[o.cluster.Name]), &corev1.Service{}); err != nil {
		errs = append(errs, err)
	}
	for index := range specs.WantedEtcd(o.cluster) {
		name := specs.EtcdName(o.cluster.Name, index)
		if err := a.apply(ctx, specs.EtcdService(o.cluster, index), orNil(o.services[name]), &corev1.Service{}); err != nil {
			errs = append(errs, err)
		}
	}
	for _, index := range d.Servers {
		record, name := &ramcloudv1.RAMCloudServer{}, specs.ServerName(o.cluster.Name, index)
		if err := a.apply(ctx, specs.Server(o.cluster, index), orNil(o.servers[name]), record); err != nil {
			errs = append(errs, err)
			continue
		}
		o.servers[name] = record
	}
	for _, id := range d.Rejoin {
		if err := r.rejoin(ctx, o.cluster, id.Index); err != nil {
			errs = append(errs, fmt.Errorf("replacing %s: %w", id, err))
			continue
		}
		d.Volumes = append(slices.Clone(d.Volumes), id)
	}
	for _, m := range o.members(d) {
		if err := r.actOnMember(ctx, a, o, d, m); err != nil {
			errs = append(errs, err)
		}
	}
	errs = append(errs, r.replaceFailed(ctx, o, d), r.dropVolumes(ctx, o, d), r.takeAway(ctx, o, d),
		r.deleteUnexposed(ctx, o), r.publish(ctx, a, o), r.applyBudgets(ctx, a, o, d))
	return errors.Join(errs...)
}

// actOnMember sees to one pod's Service, volume and, if decided, the pod.
func (r *ClusterReconciler) actOnMember(ctx context.Context, a applier, o *observed, d plan.Decision, m member) error {
	if m.exposed(o) {
		service, name := &corev1.Service{}, specs.OutsideServiceName(m.name)
		if err := a.apply(ctx, m.outsideService(o), orNil(o.services[name]), service); err != nil {
			return err
		}
		o.services[name] = service
	}
	if o.foreign(d, m) {
		return nil
	}
	if m.hasVolume(o) {
		if err := r.ensureVolume(ctx, o, d, m); err != nil {
			return err
		}
	}
	if !slices.Contains(d.Create, m.id) || m.waitsForAddress(o) != "" {
		return nil
	}
	pod := m.pod(o, r.Defaults)
	err := r.Create(ctx, pod, fieldOwner)
	if apierrors.IsAlreadyExists(err) {
		return nil // the cache is behind
	}
	if err != nil {
		r.event(o.cluster, corev1.EventTypeWarning, "PodNotCreated", "Create", "pod %s: %v", m.name, err)
		return fmt.Errorf("creating pod %s: %w", m.name, err)
	}
	log.FromContext(ctx).Info("created pod", "pod", m.name)
	r.event(o.cluster, corev1.EventTypeNormal, "PodCreated", "Create", "created pod %s", m.name)
	o.pods[m.name] = pod
	return nil
}

// ensureVolume creates the pod's volume claim if that was decided, or only sees to its owner: the rest of a
// claim is not changed once it exists, nor is the owner of one that another object controls.
func (r *ClusterReconciler) ensureVolume(ctx context.Context, o *observed, d plan.Decision, m member) error {
	wanted := m.volumeClaim(o)
	live := o.claims[wanted.Name]
	if live == nil {
		if !slices.Contains(d.Volumes, m.id) {
			return nil
		}
		if err := r.Create(ctx, wanted, fieldOwner); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating volume claim %s: %w", wanted.Name, err)
		}
		if m.made(o) && m.id.Kind == plan.Etcd {
			r.event(o.cluster, corev1.EventTypeWarning, "VolumeReplaced", "Replace",
				"the volume of %s was lost; the member was put out of the etcd and in again, and gets an empty one", m.name)
		} else if m.made(o) {
			r.event(o.cluster, corev1.EventTypeWarning, "VolumeReplaced", "Replace",
				"the volume of %s was lost; the coordinator does not list the server as up, and it gets an empty one", m.name)
		}
		return nil
	}
	owned := metav1.IsControlledBy(live, o.cluster)
	if owned == (len(wanted.OwnerReferences) > 0) || live.DeletionTimestamp != nil || (!owned && metav1.GetControllerOf(live) != nil) {
		return nil
	}
	changed := live.DeepCopy()
	changed.OwnerReferences = wanted.OwnerReferences
	patch := client.MergeFromWithOptions(live, client.MergeFromWithOptimisticLock{})
	if err := r.Patch(ctx, changed, patch, fieldOwner); err != nil {
		return fmt.Errorf("changing the retention of volume claim %s: %w", wanted.Name, err)
	}
	return nil
}

// deletePod deletes the pod that was looked at, and no later one of the same name.
func (r *ClusterReconciler) deletePod(ctx context.Context, pod *corev1.Pod) error {
	err := r.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting pod %s: %w", pod.Name, err)
	}
	return nil
}

// replaceFailed records the failure and then deletes the pod: in this order, so that a crash in between
// never shortens the back-off.
func (r *ClusterReconciler) replaceFailed(ctx context.Context, o *observed, d plan.Decision) error {
	var errs []error
	for _, replacement := range d.Replace {
		m := memberOf(o, replacement.ID)
		if err := r.recordFailure(ctx, o, m, failureForStatus(replacement.Failure)); err != nil {
			errs = append(errs, err)
			continue
		}
		if err := r.deletePod(ctx, o.pods[m.name]); err != nil {
			errs = append(errs, err)
			continue
		}
		r.event(o.cluster, corev1.EventTypeWarning, "PodReplaced", "Replace", "pod %s failed (%s %s) and is made anew",
			m.name, replacement.Failure.Reason, replacement.Failure.Message)
	}
	for _, id := range d.Forget {
		errs = append(errs, r.recordFailure(ctx, o, memberOf(o, id), nil))
	}
	return errors.Join(errs...)
}

// dropVolumes deletes claims whose volumes are lost, and the pods that keep them from going.
func (r *ClusterReconciler) dropVolumes(ctx context.Context, o *observed, d plan.Decision) error {
	var errs []error
	for _, id := range d.DropVolumes {
		m := memberOf(o, id)
		claim := o.claims[specs.VolumeClaimName(m.name)]
		if claim != nil && claim.DeletionTimestamp == nil {
			err := r.Delete(ctx, claim, client.Preconditions{UID: &claim.UID})
			if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
				errs = append(errs, fmt.Errorf("deleting the lost volume claim %s: %w", claim.Name, err))
				continue
			}
		}
		if pod := o.pods[m.name]; pod != nil {
			errs = append(errs, r.deletePod(ctx, pod))
		}
	}
	return errors.Join(errs...)
}

// takeAway deletes the pod whose turn it is in a rolling restart, or a coordinator that is not wanted.
func (r *ClusterReconciler) takeAway(ctx context.Context, o *observed, d plan.Decision) error {
	var errs []error
	for _, id := range d.Restart {
		name := memberOf(o, id).name
		if err := r.deletePod(ctx, o.pods[name]); err != nil {
			errs = append(errs, err)
			continue
		}
		r.event(o.cluster, corev1.EventTypeNormal, "PodRestarted", "Restart", "%s is restarted (%s)", name, d.Rolling)
	}
	for _, id := range d.Remove {
		name := memberOf(o, id).name
		if err := r.deletePod(ctx, o.pods[name]); err != nil {
			errs = append(errs, err)
			continue
		}
		r.event(o.cluster, corev1.EventTypeNormal, "PodRemoved", "Remove", "%s is removed: spec.coordinator.replicas is %d",
			name, specs.WantedCoordinators(o.cluster))
	}
	return errors.Join(errs...)
}

// deleteUnexposed removes outside Services once spec no longer asks for them, and those of coordinators that are
// gone.
func (r *ClusterReconciler) deleteUnexposed(ctx context.Context, o *observed) error {
	var errs []error
	for name, service := range o.services {
		if name == o.cluster.Name || service.Labels[specs.LabelComponent] == specs.ComponentEtcd || service.DeletionTimestamp != nil || !metav1.IsControlledBy(service, o.cluster) {
			continue
		}
		index, coordinator := specs.MemberIndex(service.Labels, specs.ComponentCoordinator)
		gone := coordinator && index >= specs.WantedCoordinators(o.cluster) && o.pods[specs.CoordinatorName(o.cluster.Name, index)] == nil
		if specs.Exposed(o.cluster) && !gone {
			continue
		}
		if err := r.Delete(ctx, service); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("deleting service %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// publish says how to connect.
func (r *ClusterReconciler) publish(ctx context.Context, a applier, o *observed) error {
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
	connection := specs.Connection(c, outside)
	err1 := a.apply(ctx, specs.ConnectionConfigMap(c, connection), orNil(o.configMaps[specs.ConnectionName(c.Name)]), &corev1.ConfigMap{})
	err2 := a.apply(ctx, specs.ConnectionSecret(c, connection), orNil(o.secret), &corev1.Secret{})
	return errors.Join(err1, err2)
}

// applyBudgets keeps servers, and a majority of the others, from being evicted.
func (r *ClusterReconciler) applyBudgets(ctx context.Context, a applier, o *observed, d plan.Decision) error {
	c := o.cluster
	wanted := []*policyv1.PodDisruptionBudget{specs.DisruptionBudget(c, int32(len(d.Servers))), specs.CoordinatorBudget(c)}
	if specs.WantedEtcd(c) > 0 {
		wanted = append(wanted, specs.EtcdBudget(c))
	}
	var errs []error
	for _, budget := range wanted {
		errs = append(errs, a.apply(ctx, budget, orNil(o.budgets[budget.Name]), &policyv1.PodDisruptionBudget{}))
	}
	return errors.Join(errs...)
}
