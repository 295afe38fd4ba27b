package controller_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"ramcloud.dev/client/adminpb"
	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	operator "ramcloud.dev/operator/internal/controller"
	"ramcloud.dev/operator/internal/coordinator"
	"ramcloud.dev/operator/internal/envtest"
	"ramcloud.dev/operator/internal/fakeadmin"
)

// cpu is the CPU time of this process: the operator, and the tests around it.
func cpu(t *testing.T) time.Duration {
	var usage syscall.Rusage
	check(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// TestAHundredClusters: one operator with one coordinator for all (they differ in name only) brings 100
// clusters up within 60 s of CPU and 256 MB of heap, client side of the test included.
func TestAHundredClusters(t *testing.T) {
	const clusters, maxCPU, maxHeap = 100, 60 * time.Second, uint64(256 << 20)
	config := envtest.Need(t)
	config.QPS = -1
	direct, err := client.New(config, client.Options{Scheme: envtest.Scheme})
	check(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	namespace := fmt.Sprintf("test-%d", names.Add(1))
	check(t, direct.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	fake, err := fakeadmin.Start()
	check(t, err)
	t.Cleanup(fake.Stop)
	for c := range clusters {
		for s := range 3 {
			id := uint64(c*3 + s + 1)
			fake.SetServer(&adminpb.Server{Id: id, Name: fmt.Sprintf("c%d-server-%d", c, s), State: adminpb.ServerState_SERVER_UP,
				FailureDomain: fmt.Sprint(id)})
		}
	}
	skip := true
	cacheOptions := operator.CacheOptions()
	cacheOptions.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: envtest.Scheme, Cache: cacheOptions,
		Metrics: metricsserver.Options{BindAddress: "0"}, Logger: logr.Discard()})
	check(t, err)
	r := &operator.ClusterReconciler{Client: mgr.GetClient(), Uncached: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("ramcloud-operator"),
		Defaults:     operator.Defaults{NodeImage: "ramcloud/node:test", EtcdImage: "ramcloud/etcd:test"},
		AdminAddress: func(*ramcloudv1.RAMCloudCluster) string { return fake.Address() }}
	check(t, r.SetupWithManager(mgr, coordinator.DefaultTuning, controller.Options{SkipNameValidation: &skip, MaxConcurrentReconciles: 4}))
	before := cpu(t)
	var running sync.WaitGroup
	running.Go(func() {
		if err := mgr.Start(ctx); err != nil {
			t.Errorf("manager: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	for c := range clusters {
		check(t, direct.Create(ctx, &ramcloudv1.RAMCloudCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("c%d", c)}}))
	}
	w := &world{t: t}
	w.until("100 clusters", func() string {
		var list ramcloudv1.RAMCloudClusterList
		check(t, direct.List(ctx, &list, client.InNamespace(namespace)))
		ready := 0
		for i := range list.Items {
			for _, c := range list.Items[i].Status.Conditions {
				if c.Type == "Ready" && c.Status == metav1.ConditionTrue {
					ready++
				}
			}
		}
		if ready < clusters {
			return fmt.Sprintf("%d are ready", ready)
		}
		return ""
	})
	used := cpu(t) - before
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	t.Logf("%d clusters: %s of CPU, %d MiB of heap after collection", clusters, used.Round(time.Millisecond), memory.HeapAlloc>>20)
	if used > maxCPU || memory.HeapAlloc > maxHeap {
		t.Errorf("used %s of CPU (at most %s) and %d bytes of heap (at most %d)", used, maxCPU, memory.HeapAlloc, maxHeap)
	}
}
