// Package controller reconciles clusters: it reads, lets internal/plan decide, applies what
// internal/specs builds, and reports what internal/status computes.
package controller

import (
	"context"
	"errors"
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
	"ramcloud.dev/operator/internal/etcd"
	"ramcloud.dev/operator/internal/plan"
	"ramcloud.dev/operator/internal/specs"
	"ramcloud.dev/operator/internal/status"
)

// lookAgain is when to look again at what will have changed soon; mostly an event comes first.
const lookAgain = time.Second

// ClusterReconciler reconciles RAMCloudClusters.
type ClusterReconciler struct {
	client.Client
	// Uncached reads what the cache leaves out.
	Uncached client.Reader
	Recorder events.EventRecorder
	Watchers *coordinator.Watchers
	// Defaults where a cluster says nothing.
	Defaults Defaults

	// AdminAddress is where a cluster's admin API is; nil: at its stable name. For an operator that runs
	// outside the Kubernetes cluster, and tests.
	AdminAddress func(*ramcloudv1.RAMCloudCluster) string
	// Rejoin puts a member of a cluster's etcd out and in again; nil: by the etcd's API at its stable names.
	Rejoin func(ctx context.Context, cluster *ramcloudv1.RAMCloudCluster, index int32) error
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

// rejoin lets a member of etcd start again without the data that it lost.
func (r *ClusterReconciler) rejoin(ctx context.Context, cluster *ramcloudv1.RAMCloudCluster, index int32) error {
	if r.Rejoin != nil {
		return r.Rejoin(ctx, cluster, index)
	}
	var others []string
	for i := range specs.WantedEtcd(cluster) {
		if i != index {
			others = append(others, specs.EtcdClientAddress(cluster, i))
		}
	}
	return etcd.Rejoin(ctx, others, specs.EtcdPeerURL(cluster, index))
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
	actErr := r.act(ctx, o, decision, input.Paused)
	reportErr := r.report(ctx, o, decision, input)
	switch err := errors.Join(actErr, reportErr); {
	case outdated(err):
		log.FromContext(ctx).V(1).Info("something has changed since it was read", "error", err.Error())
		return ctrl.Result{RequeueAfter: lookAgain}, nil
	case err != nil:
		return ctrl.Result{}, err
	}
	if len(o.former) > 0 { // of the end of a Secret there is no event
		return ctrl.Result{RequeueAfter: lookAgain}, nil
	}
	again := decision.Again
	if look := status.LookAgain(o.picture, input.Now); look > 0 && (again == 0 || look < again) {
		again = look
	}
	return ctrl.Result{RequeueAfter: again}, nil
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
