package controller

import (
	"context"
	"errors"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/coordinator"
)

// Errors are counted by cluster, and a deleted cluster has no series any more.
func TestReconcileErrorsAreCountedByCluster(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), ramcloudv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	cluster := &ramcloudv1.RAMCloudCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "counted", Name: "demo"}}
	var broken error
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(cluster).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, next client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, pods := list.(*corev1.PodList); pods && broken != nil {
				return broken
			}
			return next.List(ctx, list, options...)
		},
	}).Build()
	r := &ClusterReconciler{Client: c, Uncached: c, Recorder: events.NewFakeRecorder(100),
		Watchers: coordinator.NewWatchers(logr.Discard(), coordinator.DefaultTuning, func(context.Context, types.NamespacedName) {})}
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(cluster)}
	broken = errors.New("no right to list pods")
	for want := 1.0; want <= 2; want++ {
		if _, err := r.Reconcile(context.Background(), request); err == nil || errorsOf(t, "counted") != want {
			t.Fatalf("%v, %v errors are counted, want %v", err, errorsOf(t, "counted"), want)
		}
	}
	broken = nil
	if err := c.Delete(context.Background(), cluster); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reconcile(context.Background(), request); err != nil {
		t.Fatal(err)
	}
	if n := errorsOf(t, "counted"); n >= 0 {
		t.Errorf("a cluster that was deleted still has %v errors", n)
	}
}

// errorsOf is the counter of the clusters in the namespace; -1: there is none.
func errorsOf(t *testing.T, namespace string) float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(ReconcileErrors)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.Metric {
			for _, l := range m.Label {
				if l.GetName() == "namespace" && l.GetValue() == namespace {
					return m.Counter.GetValue()
				}
			}
		}
	}
	return -1
}
