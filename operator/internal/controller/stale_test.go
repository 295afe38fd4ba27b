package controller_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	operator "ramcloud.dev/operator/internal/controller"
	"ramcloud.dev/operator/internal/coordinator"
	"ramcloud.dev/operator/internal/envtest"
	"ramcloud.dev/operator/internal/fakeadmin"
)

// TestAnOldReadTakesNothingBack: a cache may be behind what the operator itself wrote. Here every reconcile is
// called for, and what it reads of the cluster and its records can be held at what they were.
func TestAnOldReadTakesNothingBack(t *testing.T) {
	direct, err := client.NewWithWatch(envtest.Need(t), client.Options{Scheme: envtest.Scheme})
	check(t, err)
	fake, err := fakeadmin.Start()
	check(t, err)
	t.Cleanup(fake.Stop)
	ctx := context.Background()
	w := &world{t: t, ctx: ctx, client: direct, coordinator: fake,
		key: client.ObjectKey{Namespace: fmt.Sprintf("test-%d", names.Add(1)), Name: "demo"}}
	check(t, direct.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.key.Namespace}}))
	w.create(withEtcd)

	var oldCluster *ramcloudv1.RAMCloudCluster
	var oldRecords *ramcloudv1.RAMCloudServerList
	cache := interceptor.NewClient(direct, interceptor.Funcs{
		Get: func(ctx context.Context, next client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if cluster, ok := object.(*ramcloudv1.RAMCloudCluster); ok && oldCluster != nil {
				oldCluster.DeepCopyInto(cluster)
				return nil
			}
			return next.Get(ctx, key, object, options...)
		},
		List: func(ctx context.Context, next client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if records, ok := list.(*ramcloudv1.RAMCloudServerList); ok && oldRecords != nil {
				oldRecords.DeepCopyInto(records)
				return nil
			}
			return next.List(ctx, list, options...)
		},
	})
	watchers := coordinator.NewWatchers(logr.Discard(), coordinator.Tuning{FirstRetry: 10 * time.Millisecond, LastRetry: 200 * time.Millisecond,
		Check: time.Second, Answer: 5 * time.Second, Figures: 50 * time.Millisecond}, func(context.Context, types.NamespacedName) {})
	running, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { _ = watchers.Start(running); close(ended) }()
	t.Cleanup(func() { stop(); <-ended })
	ahead := time.Duration(0)
	r := &operator.ClusterReconciler{Client: cache, Uncached: direct, Recorder: &events.FakeRecorder{}, Watchers: watchers,
		Defaults:     operator.Defaults{NodeImage: "ramcloud/node:test", EtcdImage: "ramcloud/etcd:test"},
		AdminAddress: func(*ramcloudv1.RAMCloudCluster) string { return fake.Address() },
		Now:          func() time.Time { return time.Now().Add(ahead) },
	}
	reconcile := func() ctrl.Result {
		t.Helper()
		result, err := r.Reconcile(ctx, ctrl.Request{NamespacedName: w.key})
		check(t, err)
		return result
	}
	records := func() *ramcloudv1.RAMCloudServerList {
		var list ramcloudv1.RAMCloudServerList
		check(t, direct.List(ctx, &list, client.InNamespace(w.key.Namespace)))
		return &list
	}
	// kept says what of the facts that are noted once is missing.
	kept := func() string {
		s := w.cluster().Status
		if s.Coordinator.ClusterUUID == "" || !s.Etcd.Formed || len(s.Coordinator.LastFailures) != 1 {
			return fmt.Sprintf("%+v %+v", s.Coordinator, s.Etcd)
		}
		for _, record := range records().Items {
			if f := record.Status.LastFailure; record.Status.Incarnation == "" || record.Name == "demo-server-0" && (f == nil || f.Count != 1) {
				return fmt.Sprintf("%s: %+v", record.Name, record.Status)
			}
		}
		return ""
	}
	fail := func(name string) {
		t.Helper()
		var pod corev1.Pod
		w.exists(name, &pod)
		pod.Status.Phase, pod.Status.Reason = corev1.PodFailed, "Evicted"
		check(t, direct.Status().Update(ctx, &pod))
	}

	reconcile()
	old, oldList := w.cluster(), records()
	for i := range 3 {
		w.ready(fmt.Sprintf("demo-etcd-%d", i))
	}
	reconcile()
	reconcile() // the etcd was complete, so there are coordinators
	w.setServers(3)
	fail("demo-server-0")
	fail("demo-coordinator-0")
	ahead = time.Hour
	w.until("the facts", func() string { reconcile(); return kept() })

	// From here on nothing but what was noted tells of them.
	var member corev1.Pod
	w.exists("demo-etcd-1", &member)
	member.Status.Conditions[0].Status = corev1.ConditionFalse
	check(t, direct.Status().Update(ctx, &member))
	fake.Stop()
	w.until("the coordinator's silence", func() string {
		reconcile()
		if watchers.Get(w.key, w.cluster().UID, fake.Address()).Connected {
			return "it is connected"
		}
		return ""
	})
	w.change(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.Images.Node = "ramcloud/node:other" }) // there is something to report
	for _, behind := range []struct {
		what    string
		cluster *ramcloudv1.RAMCloudCluster
		records *ramcloudv1.RAMCloudServerList
	}{{"the cluster", old, nil}, {"the records", nil, oldList}, {"both", old, oldList}} {
		oldCluster, oldRecords = behind.cluster, behind.records
		result := reconcile()
		oldCluster, oldRecords = nil, nil
		if missing := kept(); missing != "" {
			t.Errorf("an old read of %s took back: %s", behind.what, missing)
		}
		if result.RequeueAfter <= 0 {
			t.Errorf("an old read of %s is not looked at again", behind.what)
		}
	}
	reconcile()
	if missing := kept(); missing != "" {
		t.Errorf("a new read took back: %s", missing)
	}
}
