// Package controller reconciles clusters: it reads, lets internal/plan decide, applies what
// internal/specs builds, and reports what internal/status computes.
package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/coordinator"
	"ramcloud.dev/operator/internal/plan"
	"ramcloud.dev/operator/internal/specs"
	"ramcloud.dev/operator/internal/status"
)

// ClusterReconciler reconciles RAMCloudClusters.
type ClusterReconciler struct {
	client.Client
	// Uncached reads what the cache leaves out.
	Uncached client.Reader
	Recorder events.EventRecorder
	Watchers *coordinator.Watchers
	// NodeImage is the image of coordinator and servers where a cluster names none.
	NodeImage string

	// AdminAddress is where a cluster's admin API is; nil: at its stable name. For an operator that runs
	// outside the Kubernetes cluster, and tests.
	AdminAddress func(*ramcloudv1.RAMCloudCluster) string
	// Now is the clock; nil: the real one.
	Now func() time.Time

	changes chan event.GenericEvent
}

func (r *ClusterReconciler) now() time.Time {
	if r.Now != nil {
		return r.Now()
	}
	return time.Now()
}

func (r *ClusterReconciler) adminAddress(cluster *ramcloudv1.RAMCloudCluster) string {
	if r.AdminAddress != nil {
		return r.AdminAddress(cluster)
	}
	return specs.AdminAddress(cluster)
}

// CacheOptions restricts the cache to what belongs to clusters, whatever else runs in Kubernetes.
func CacheOptions() cache.Options {
	ours, err := labels.NewRequirement(specs.LabelManagedBy, selection.Equals, []string{specs.ManagedBy})
	if err != nil {
		panic(err) // constants
	}
	only := cache.ByObject{Label: labels.NewSelector().Add(*ours)}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}: only, &corev1.PersistentVolumeClaim{}: only, &corev1.Service{}: only,
			&corev1.ConfigMap{}: only, &policyv1.PodDisruptionBudget{}: only,
		},
	}
}

// ClientOptions keeps Secrets out of the cache.
func ClientOptions() client.Options {
	return client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}}
}

// SetupWithManager registers the controller and its event sources: the objects of clusters, and the
// coordinators' watch streams.
func (r *ClusterReconciler) SetupWithManager(mgr ctrl.Manager, tuning coordinator.Tuning, options controller.Options) error {
	r.changes = make(chan event.GenericEvent)
	r.Watchers = coordinator.NewWatchers(mgr.GetLogger().WithName("coordinator"), tuning,
		func(ctx context.Context, cluster types.NamespacedName) {
			changed := event.GenericEvent{Object: &ramcloudv1.RAMCloudCluster{
				ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: cluster.Name}}}
			select {
			case r.changes <- changed:
			case <-ctx.Done():
			}
		})
	if err := mgr.Add(r.Watchers); err != nil {
		return err
	}
	byLabel := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		cluster := object.GetLabels()[specs.LabelCluster]
		if cluster == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: cluster}}}
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("ramcloudcluster").
		For(&ramcloudv1.RAMCloudCluster{}).
		Watches(&ramcloudv1.RAMCloudServer{}, byLabel).
		Watches(&corev1.Pod{}, byLabel).
		Watches(&corev1.PersistentVolumeClaim{}, byLabel).
		Watches(&corev1.Service{}, byLabel).
		Watches(&corev1.ConfigMap{}, byLabel).
		Watches(&policyv1.PodDisruptionBudget{}, byLabel).
		WatchesRawSource(source.Channel(r.changes, &handler.EnqueueRequestForObject{})).
		WithOptions(options).
		Complete(r)
}

// Reconcile brings one cluster a step closer to what is wanted and reports where it is.
func (r *ClusterReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var cluster ramcloudv1.RAMCloudCluster
	err := r.Get(ctx, request.NamespacedName, &cluster)
	if apierrors.IsNotFound(err) || (err == nil && cluster.DeletionTimestamp != nil) {
		// Nothing is left to do: everything that shall go has the cluster as its owner.
		r.Watchers.Forget(request.NamespacedName)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	o, err := r.observe(ctx, &cluster)
	if err != nil {
		return ctrl.Result{}, err
	}
	input, err := r.forPlan(ctx, o)
	if err != nil {
		return ctrl.Result{}, err
	}
	decision := plan.Decide(input)
	actErr := r.act(ctx, o, decision)
	reportErr := r.report(ctx, o, decision)
	if err := errors.Join(actErr, reportErr); err != nil {
		return ctrl.Result{}, err
	}
	again := decision.Again
	if look := status.LookAgain(o.picture, input.Now); look > 0 && (again == 0 || look < again) {
		again = look
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

// act carries the decision out. One member's trouble does not keep the others from going on.
func (r *ClusterReconciler) act(ctx context.Context, o *observed, d plan.Decision) error {
	a := applier{client: r.Client, scheme: r.Scheme()}
	var errs []error
	if err := a.apply(ctx, specs.HeadlessService(o.cluster), orNil(o.services[o.cluster.Name]), &corev1.Service{}); err != nil {
		errs = append(errs, err)
	}
	for _, index := range d.Servers {
		record, name := &ramcloudv1.RAMCloudServer{}, specs.ServerName(o.cluster.Name, index)
		if err := a.apply(ctx, specs.Server(o.cluster, index), orNil(o.servers[name]), record); err != nil {
			errs = append(errs, err)
			continue
		}
		o.servers[name] = record
	}
	for _, m := range o.members(d) {
		if err := r.actOnMember(ctx, a, o, d, m); err != nil {
			errs = append(errs, err)
		}
	}
	errs = append(errs, r.replaceFailed(ctx, o, d), r.deleteUnexposed(ctx, o), r.publish(ctx, a, o, d))
	return errors.Join(errs...)
}

// actOnMember sees to one pod's Service, volume and, if decided, the pod.
func (r *ClusterReconciler) actOnMember(ctx context.Context, a applier, o *observed, d plan.Decision, m member) error {
	if specs.Exposed(o.cluster) {
		service, name := &corev1.Service{}, specs.OutsideServiceName(m.name)
		if err := a.apply(ctx, m.outsideService(o), orNil(o.services[name]), service); err != nil {
			return err
		}
		o.services[name] = service
	}
	if o.foreign(d, m) {
		return nil
	}
	if err := r.ensureVolume(ctx, o, m); err != nil {
		return err
	}
	if !m.create(d) {
		return nil
	}
	pod := m.pod(o, r.NodeImage)
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

// ensureVolume creates the pod's volume claim, or only sees to its owner: the rest of a claim is not
// changed once it exists.
func (r *ClusterReconciler) ensureVolume(ctx context.Context, o *observed, m member) error {
	wanted := m.volumeClaim(o)
	live := o.claims[wanted.Name]
	if live == nil {
		if err := r.Create(ctx, wanted, fieldOwner); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating volume claim %s: %w", wanted.Name, err)
		}
		return nil
	}
	owned := metav1.IsControlledBy(live, o.cluster)
	if owned == (len(wanted.OwnerReferences) > 0) || live.DeletionTimestamp != nil {
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

// replaceFailed records the failure and then deletes the pod: in this order, so that a crash in between
// never shortens the back-off.
func (r *ClusterReconciler) replaceFailed(ctx context.Context, o *observed, d plan.Decision) error {
	var errs []error
	for _, replacement := range d.Replace {
		m := memberOf(o, replacement.Index)
		pod := o.pods[m.name]
		if err := r.recordFailure(ctx, o, m, failureForStatus(replacement.Failure)); err != nil {
			errs = append(errs, err)
			continue
		}
		err := r.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			errs = append(errs, fmt.Errorf("deleting the failed pod %s: %w", pod.Name, err))
			continue
		}
		r.event(o.cluster, corev1.EventTypeWarning, "PodReplaced", "Replace", "pod %s failed (%s %s) and is made anew",
			pod.Name, replacement.Failure.Reason, replacement.Failure.Message)
	}
	for _, index := range d.Forget {
		errs = append(errs, r.recordFailure(ctx, o, memberOf(o, index), nil))
	}
	return errors.Join(errs...)
}

// deleteUnexposed removes outside Services once spec no longer asks for them.
func (r *ClusterReconciler) deleteUnexposed(ctx context.Context, o *observed) error {
	if specs.Exposed(o.cluster) {
		return nil
	}
	var errs []error
	for name, service := range o.services {
		if name == o.cluster.Name || service.DeletionTimestamp != nil || !metav1.IsControlledBy(service, o.cluster) {
			continue
		}
		if err := r.Delete(ctx, service); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("deleting service %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// publish says how to connect, and keeps servers from being evicted.
func (r *ClusterReconciler) publish(ctx context.Context, a applier, o *observed, d plan.Decision) error {
	c := o.cluster
	host, ports := "", specs.NodePorts{}
	pod := specs.CoordinatorName(c.Name)
	if live := o.pods[pod]; live != nil {
		host = live.Status.HostIP
	}
	if service := o.services[specs.OutsideServiceName(pod)]; service != nil {
		ports = specs.AllocatedNodePorts(service)
	}
	connection := specs.Connection(c, host, ports)
	err1 := a.apply(ctx, specs.ConnectionConfigMap(c, connection), orNil(o.configMaps[specs.ConnectionName(c.Name)]), &corev1.ConfigMap{})
	err2 := a.apply(ctx, specs.ConnectionSecret(c, connection), orNil(o.secret), &corev1.Secret{})
	err3 := a.apply(ctx, specs.DisruptionBudget(c, int32(len(d.Servers))),
		orNil(o.budgets[specs.DisruptionBudgetName(c.Name)]), &policyv1.PodDisruptionBudget{})
	return errors.Join(err1, err2, err3)
}

func (r *ClusterReconciler) event(about client.Object, kind, reason, action, note string, args ...any) {
	r.Recorder.Eventf(about, nil, kind, reason, action, note, args...)
}

// orNil turns a typed nil into the nil that apply knows.
func orNil[T any, P interface {
	*T
	client.Object
}](object P) client.Object {
	if object == nil {
		return nil
	}
	return object
}
