// Package controller reconciles clusters: it reads, lets internal/plan decide, applies what
// internal/specs builds, and reports what internal/status computes.
package controller

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
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
	"ramcloud.dev/operator/internal/brief"
	"ramcloud.dev/operator/internal/coordinator"
	"ramcloud.dev/operator/internal/plan"
	"ramcloud.dev/operator/internal/scope"
	"ramcloud.dev/operator/internal/specs"
)

// lookAgain is when to reconcile again if a change is expected soon; mostly an event comes first.
const lookAgain = time.Second

// ClusterReconciler reconciles RAMCloudClusters.
type ClusterReconciler struct {
	client.Client
	// Uncached reads objects that are not in the cache.
	Uncached client.Reader
	Recorder events.EventRecorder
	Watchers *coordinator.Watchers
	// Leases decide which namespaces this operator is responsible for; nil: all that it can read.
	Leases *scope.Leases
	// Defaults for fields that a cluster does not set.
	Defaults Defaults
	// Version is the operator's own version; if it is not a valid version, it is not compared.
	Version string

	// AdminAddress returns the address of a cluster's admin API; nil: its stable name. For tests, and for an operator that
	// runs outside the Kubernetes cluster.
	AdminAddress func(*ramcloudv1.RAMCloudCluster) string
	// Rejoin removes a member of a cluster's etcd and adds it again; nil: with the etcd's API at its stable names.
	Rejoin func(ctx context.Context, cluster *ramcloudv1.RAMCloudCluster, index int32) error
	// Reach makes the other members reach a member of a cluster's etcd by TLS; nil: with the etcd's API.
	Reach func(ctx context.Context, cluster *ramcloudv1.RAMCloudCluster, index int32) error
	// Namespace is the operator's own, from which etcds are reached; empty: it is not known.
	Namespace string
	// Releaser asks a cluster's coordinator which volumes may be deleted; nil: with its admin API.
	Releaser func(*ramcloudv1.RAMCloudCluster) coordinator.Releaser
	// Now is the clock; nil: the real one.
	Now func() time.Time

	changes  chan event.GenericEvent
	expected expectations
	refused  refusals
	// notReleased are the coordinator's refusals to release volumes.
	notReleased refusals
	// notResized are the refusals of the API server and of servers to sizes of memory.
	notResized refusals
	shared     sharedObjects
	started    time.Time // when this operator was set up
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

// rejoin lets a member of etcd that lost its data start with an empty volume.
func (r *ClusterReconciler) rejoin(ctx context.Context, o *observed, index int32) error {
	if r.Rejoin != nil {
		return r.Rejoin(ctx, o.cluster, index)
	}
	var others []int32
	for i := range specs.WantedEtcd(o.cluster) {
		if i != index {
			others = append(others, i)
		}
	}
	c, err := o.etcdClient(others)
	if err != nil {
		return err
	}
	return c.Rejoin(ctx, specs.EtcdPeerURL(o.cluster, index, specs.TLSStage(o.cluster) == plan.TLSRequired))
}

// CacheOptions restricts the cache to objects that belong to clusters.
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
			&appsv1.ControllerRevision{}: only,
		},
	}
}

// SetupWithManager registers the controller and its event sources: the objects of clusters, and the
// coordinators' watch streams.
func (r *ClusterReconciler) SetupWithManager(mgr ctrl.Manager, tuning coordinator.Tuning, options controller.Options) error {
	r.changes, r.started = make(chan event.GenericEvent), r.now()
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
		Watches(&ramcloudv1.RAMCloudRecovery{}, byLabel).
		Watches(&corev1.Pod{}, byLabel).
		Watches(&corev1.PersistentVolumeClaim{}, byLabel).
		Watches(&corev1.Service{}, byLabel).
		Watches(&corev1.ConfigMap{}, byLabel).
		Watches(&policyv1.PodDisruptionBudget{}, byLabel).
		Watches(&appsv1.ControllerRevision{}, byLabel).
		WatchesRawSource(source.Channel(r.changes, &handler.EnqueueRequestForObject{})).
		WithOptions(options).
		Complete(r)
}

// Reconcile brings one cluster a step closer to the wanted state, and reports its status.
func (r *ClusterReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var cluster ramcloudv1.RAMCloudCluster
	err := r.Get(ctx, request.NamespacedName, &cluster)
	if apierrors.IsNotFound(err) || (err == nil && cluster.DeletionTimestamp != nil) {
		// Kubernetes deletes everything that the cluster owns. No coordinator can be asked about the volumes any more, so
		// their finalizers are removed. A deleted namespace must wait neither for them nor for a lease, because its lease is
		// deleted, too.
		if err := r.removeVolumeFinalizers(ctx, request.NamespacedName); err != nil {
			return ctrl.Result{}, err
		}
		r.Watchers.Forget(request.NamespacedName)
		r.expected.forget(request.NamespacedName)
		forgetReconciles(request.NamespacedName)
		if err := r.forgetCertificates(ctx, request.NamespacedName); err != nil {
			return ctrl.Result{}, err
		}
		var left ramcloudv1.RAMCloudClusterList
		if err := r.List(ctx, &left, client.InNamespace(request.Namespace)); err == nil && len(left.Items) == 0 {
			r.Leases.Forget(request.Namespace)
		}
		return ctrl.Result{}, nil
	}
	if err != nil {
		countReconcile(request.NamespacedName, err)
		return ctrl.Result{}, err
	}
	if !r.Leases.Holds(request.Namespace) { // another operator holds it, or this one does not hold it yet
		return ctrl.Result{RequeueAfter: lookAgain}, nil
	}
	var done steps
	again := r.reconcile(ctx, &cluster, &done)
	log.FromContext(ctx).V(1).Info("reconciled", "steps", done.summary())
	err = done.err()
	countReconcile(request.NamespacedName, err)
	if err != nil {
		return ctrl.Result{}, err // retried with back-off
	}
	if len(done.of(retry)) > 0 && (again == 0 || again > lookAgain) {
		again = lookAgain
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

// reconcile runs the steps, notes how each ended, and returns when to reconcile again without an event (0: never).
func (r *ClusterReconciler) reconcile(ctx context.Context, cluster *ramcloudv1.RAMCloudCluster, done *steps) time.Duration {
	o, err := r.observe(ctx, cluster)
	if !done.noteOutcome("reading what there is", err) {
		done.noteOutcome("writing the status", r.reportUnread(ctx, cluster, done.of(fail)))
		return 0
	}
	if behind := r.behind(ctx, o, done); behind {
		return lookAgain
	}
	r.removeFormerVolumeFinalizers(ctx, o, done)
	input, err := r.forPlan(ctx, o)
	if !done.noteOutcome("reading what is in the way", err) {
		done.noteOutcome("writing the status", r.reportUnread(ctx, cluster, done.of(fail)))
		return 0
	}
	secured := r.secureEtcd(ctx, o, &input, done)
	decision := plan.Decide(input)
	if !secured {
		decision = withoutEtcd(decision)
	}
	evictions := plan.Evictions(input, decision)
	switch {
	case !input.Paused:
		r.act(ctx, o, decision, evictions, done)
	case cluster.Spec.Paused && len(o.former) == 0 && o.stranger == "":
		r.holdEvictions(ctx, o, evictions, done)
	}
	again := decision.Again
	sooner := func(after time.Duration) {
		if after > 0 && (again == 0 || after < again) {
			again = after
		}
	}
	sooner(o.again)
	sooner(evictions.Again)
	if o.certificates != nil {
		sooner(lookAtShared)
	}
	sooner(r.report(ctx, o, decision, evictions, input, done))
	return again
}

// behind says whether the cache does not show this operator's own writes yet (the own-writes rule). An object that was
// written and deleted since will never be shown, so it is read past the cache.
func (r *ClusterReconciler) behind(ctx context.Context, o *observed, done *steps) bool {
	key := client.ObjectKeyFromObject(o.cluster)
	late := false
	for _, one := range r.expected.unseen(key, o.read, r.now()) {
		if !one.deleted && o.read[objectKey(one.object)] == nil {
			fresh := one.object.DeepCopyObject().(client.Object)
			if err := r.Uncached.Get(ctx, client.ObjectKeyFromObject(one.object), fresh); apierrors.IsNotFound(err) {
				r.expected.drop(key, one.object)
				continue
			}
		}
		done.wait("reading what there is", objectKey(one.object)+" is not in the cache as it was written")
		late = true
	}
	return late
}

func (r *ClusterReconciler) event(about client.Object, kind, reason, action, note string, args ...any) {
	r.Recorder.Eventf(about, nil, kind, reason, action, "%s", brief.Clip(fmt.Sprintf(note, args...), brief.Note))
}

// wrote notes a write that the cache has to show before the next decision.
func (r *ClusterReconciler) wrote(o *observed, object client.Object) {
	r.expected.expect(client.ObjectKeyFromObject(o.cluster), object, false, r.now())
}

// delete deletes exactly the object that was read, not a later one of the same name.
func (r *ClusterReconciler) delete(ctx context.Context, o *observed, object client.Object) error {
	uid := object.GetUID()
	err := r.Delete(ctx, object, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return err
	}
	r.expected.expect(client.ObjectKeyFromObject(o.cluster), object, true, r.now())
	return nil
}

// orNil turns a typed nil pointer into the untyped nil that apply expects.
func orNil[T any, P interface {
	*T
	client.Object
}](object P) client.Object {
	if object == nil {
		return nil
	}
	return object
}
