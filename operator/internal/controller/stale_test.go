package controller_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	leasev1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	operator "ramcloud.dev/operator/internal/controller"
	"ramcloud.dev/operator/internal/coordinator"
	"ramcloud.dev/operator/internal/envtest"
	"ramcloud.dev/operator/internal/fakeadmin"
	"ramcloud.dev/operator/internal/scope"
	"ramcloud.dev/operator/internal/status"
)

// manual is a world whose operators reconcile only when the test calls them, and read from a cache that can
// be delayed.
type manual struct {
	noRevisions bool // refuses to create ControllerRevisions
	*world
	cache client.Client
	ahead time.Duration
	// The contents of the cache while it is delayed.
	oldCluster *ramcloudv1.RAMCloudCluster
	oldRecords *ramcloudv1.RAMCloudServerList
	oldPods    *corev1.PodList
	// created are the pods that operators asked for, and events the events that they wrote.
	created []string
	events  []string
	refusal string // with which no pod can be created
}

// Eventf implements events.EventRecorder.
func (m *manual) Eventf(_, _ apiruntime.Object, kind, reason, _, note string, args ...any) {
	text := fmt.Sprintf(note, args...)
	if len(text) > 1024 {
		m.t.Errorf("the note of %s has %d bytes", reason, len(text))
	}
	m.events = append(m.events, kind+" "+reason+": "+text)
}

func newManual(t *testing.T, spec func(*ramcloudv1.RAMCloudClusterSpec)) *manual {
	direct, err := client.NewWithWatch(envtest.Need(t), client.Options{Scheme: envtest.Scheme})
	check(t, err)
	fake, err := fakeadmin.Start()
	check(t, err)
	t.Cleanup(fake.Stop)
	m := &manual{world: &world{t: t, ctx: context.Background(), client: direct, coordinator: fake,
		key: client.ObjectKey{Namespace: fmt.Sprintf("test-%d", names.Add(1)), Name: "demo"}}}
	check(t, direct.Create(m.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: m.key.Namespace}}))
	m.create(spec)
	m.cache = interceptor.NewClient(direct, interceptor.Funcs{
		Get: func(ctx context.Context, next client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if cluster, ok := object.(*ramcloudv1.RAMCloudCluster); ok && m.oldCluster != nil {
				m.oldCluster.DeepCopyInto(cluster)
				return nil
			}
			return next.Get(ctx, key, object, options...)
		},
		List: func(ctx context.Context, next client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if records, ok := list.(*ramcloudv1.RAMCloudServerList); ok && m.oldRecords != nil {
				m.oldRecords.DeepCopyInto(records)
				return nil
			}
			if pods, ok := list.(*corev1.PodList); ok && m.oldPods != nil {
				m.oldPods.DeepCopyInto(pods)
				return nil
			}
			return next.List(ctx, list, options...)
		},
		Create: func(ctx context.Context, next client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if _, ok := object.(*appsv1.ControllerRevision); ok && m.noRevisions {
				return errors.New("no ControllerRevision is taken now")
			}
			if _, ok := object.(*corev1.Pod); ok {
				m.created = append(m.created, object.GetName())
				if m.refusal != "" {
					return errors.New(m.refusal)
				}
			}
			return next.Create(ctx, object, options...)
		},
	})
	return m
}

// operator is one that has just started; address is where it looks for the coordinator.
func (m *manual) operator(address string) *operator.ClusterReconciler {
	watchers := coordinator.NewWatchers(logr.Discard(), coordinator.Tuning{FirstRetry: 10 * time.Millisecond, LastRetry: 200 * time.Millisecond,
		Check: time.Second, Answer: 5 * time.Second, Figures: 50 * time.Millisecond}, func(context.Context, types.NamespacedName) {})
	running, stop := context.WithCancel(m.ctx)
	ended := make(chan struct{})
	go func() { _ = watchers.Start(running); close(ended) }()
	m.t.Cleanup(func() { stop(); <-ended })
	return &operator.ClusterReconciler{Client: m.cache, Uncached: m.client, Recorder: m, Watchers: watchers,
		Defaults:     operator.Defaults{NodeImage: "ramcloud/node:test", EtcdImage: "ramcloud/etcd:test"},
		AdminAddress: func(*ramcloudv1.RAMCloudCluster) string { return address },
		Now:          func() time.Time { return time.Now().Add(m.ahead) },
	}
}

func (m *manual) reconcile(r *operator.ClusterReconciler) ctrl.Result {
	m.t.Helper()
	result, err := r.Reconcile(m.ctx, ctrl.Request{NamespacedName: m.key})
	check(m.t, err)
	return result
}

// TestAnOldReadTakesNothingBack: a cache may lag behind the previous operator's writes. Here the test calls
// every reconcile, and can delay the cluster and its records in the cache.
func TestAnOldReadTakesNothingBack(t *testing.T) {
	w := newManual(t, withEtcd)
	ctx, direct := w.ctx, w.client
	r := w.operator(w.coordinator.Address())
	reconcile := func() ctrl.Result {
		t.Helper()
		return w.reconcile(r)
	}
	records := func() *ramcloudv1.RAMCloudServerList {
		var list ramcloudv1.RAMCloudServerList
		check(t, direct.List(ctx, &list, client.InNamespace(w.key.Namespace)))
		return &list
	}
	// kept returns which of the facts that are recorded once is missing.
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
	w.ahead = time.Hour
	w.until("the facts", func() string { reconcile(); return kept() })

	// From here on only the recorded facts show them.
	var member corev1.Pod
	w.exists("demo-etcd-1", &member)
	member.Status.Conditions[0].Status = corev1.ConditionFalse
	check(t, direct.Status().Update(ctx, &member))
	w.coordinator.Stop()
	w.until("the coordinator's silence", func() string {
		reconcile()
		if r.Watchers.Get(w.key, w.cluster().UID, w.coordinator.Address()).Connected {
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
		next := w.operator(w.coordinator.Address()) // it does not expect any write of its own in the cache
		w.oldCluster, w.oldRecords = behind.cluster, behind.records
		result := w.reconcile(next)
		w.oldCluster, w.oldRecords = nil, nil
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

// The own-writes rule: no decision is taken from a cache that does not show the operator's own writes yet.
func TestOwnWritesAreSeenBeforeTheNextDecision(t *testing.T) {
	w := newManual(t, nil)
	r := w.operator(w.coordinator.Address())
	w.oldPods = &corev1.PodList{}
	w.reconcile(r)
	if len(w.created) != 4 {
		t.Fatalf("created %v", w.created)
	}
	for range 3 {
		if result := w.reconcile(r); result.RequeueAfter <= 0 {
			t.Error("it does not look again")
		}
	}
	if len(w.created) != 4 {
		t.Errorf("created again, from an old cache: %v", w.created[4:])
	}
	// An object that was created and deleted again will never appear in the cache.
	check(t, w.client.Delete(w.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: "demo-server-1"}}, client.GracePeriodSeconds(0)))
	w.oldPods = nil
	w.reconcile(r)
	if len(w.created) != 5 || w.created[4] != "demo-server-1" {
		t.Errorf("created %v", w.created[4:])
	}
}

// A restart that was asked for is done once, also while the cache still shows the pod as it was.
func TestARestartIsNotDoneTwice(t *testing.T) {
	w := newManual(t, withEtcd)
	r := w.operator(w.coordinator.Address())
	w.reconcile(r)
	for i := range 3 {
		w.ready(fmt.Sprintf("demo-etcd-%d", i))
	}
	w.reconcile(r)
	w.reconcile(r)
	for i := range 3 {
		w.ready(fmt.Sprintf("demo-coordinator-%d", i))
	}
	w.setServers(3)
	w.change(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.Update.RestartRequest = "now" })
	var before corev1.PodList
	check(t, w.client.List(w.ctx, &before, client.InNamespace(w.key.Namespace)))
	restarts := func() (n int) {
		for _, event := range w.events {
			if strings.HasPrefix(event, "Normal PodRestarted") {
				n++
			}
		}
		return n
	}
	w.until("the first restart", func() string {
		w.reconcile(r)
		if restarts() == 0 {
			return "none"
		}
		return ""
	})
	w.oldPods = &before
	for range 3 {
		w.reconcile(r)
	}
	if n := restarts(); n != 1 {
		t.Errorf("%d restarts from an old cache: %v", n, w.events)
	}
}

// The silence rule: an operator that replaces another one has no information at first, and changes no
// condition.
func TestAFreshOperatorTakesNothingBack(t *testing.T) {
	w := newManual(t, nil)
	first := w.operator(w.coordinator.Address())
	w.reconcile(first)
	w.setServers(3)
	ready := func() *metav1.Condition {
		return meta.FindStatusCondition(w.cluster().Status.Conditions, ramcloudv1.ConditionReady)
	}
	w.until("the cluster", func() string {
		w.reconcile(first)
		if c := ready(); c.Status != metav1.ConditionTrue {
			return c.Message
		}
		return ""
	})
	w.reconcile(first)
	before, told := w.cluster(), len(w.events)
	next := w.operator("127.0.0.1:1") // nothing listens there
	for range 3 {
		if result := w.reconcile(next); result.RequeueAfter <= 0 || result.RequeueAfter > status.SilenceGrace {
			t.Errorf("it looks again in %s", result.RequeueAfter)
		}
	}
	if after := w.cluster(); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the status became %+v", after.Status)
	}
	if len(w.events) > told {
		t.Errorf("it told %v", w.events[told:])
	}
	w.ahead = status.SilenceGrace + time.Second
	w.reconcile(next)
	if c := ready(); c.Status != metav1.ConditionUnknown || c.Reason != ramcloudv1.ReasonCoordinatorNotAnswering {
		t.Errorf("after the grace: %+v", c)
	}
}

// The owner rule: an object without a controller is adopted only by a cluster that still exists.
func TestADeletedClusterAdoptsNothing(t *testing.T) {
	w := newManual(t, nil)
	w.reconcile(w.operator(w.coordinator.Address()))
	old := w.cluster()
	var pod corev1.Pod
	w.exists("demo-server-0", &pod)
	pod.OwnerReferences = nil
	check(t, w.client.Update(w.ctx, &pod))
	check(t, w.client.Delete(w.ctx, old))
	w.oldCluster = old
	w.reconcile(w.operator(w.coordinator.Address()))
	w.oldCluster = nil
	w.exists("demo-server-0", &pod)
	if len(pod.OwnerReferences) > 0 {
		t.Errorf("a cluster that is gone owns the pod: %v", pod.OwnerReferences)
	}
}

// The bounded-text rule: the API server refuses longer notes, and then nothing is told at all.
func TestNotesAreBounded(t *testing.T) {
	w := newManual(t, nil)
	w.refusal = strings.Repeat("this policy allows no pods; ", 100)
	r := w.operator(w.coordinator.Address())
	_, err := r.Reconcile(w.ctx, ctrl.Request{NamespacedName: w.key})
	if err == nil || len(err.Error()) > 4096 {
		t.Errorf("the reconcile ends with %v", err)
	}
	told := 0
	for _, event := range w.events {
		if strings.HasPrefix(event, "Warning PodNotCreated: pod demo-server-1: this policy") {
			told++
		}
	}
	if told != 1 {
		t.Errorf("%d events: %v", told, w.events)
	}
	c := meta.FindStatusCondition(w.cluster().Status.Conditions, ramcloudv1.ConditionDegraded)
	if c == nil || c.Reason != ramcloudv1.ReasonReconcileFailed || !strings.Contains(c.Message, "pod demo-server-0: this policy allows no pods") {
		t.Errorf("%+v", c)
	}
}

// Of two operators, only the one with the namespace's lease acts on its clusters.
func TestAnotherOperatorsNamespaceIsLeftAlone(t *testing.T) {
	w := newManual(t, nil)
	leases, err := coordinationv1.NewForConfig(envtest.Need(t))
	check(t, err)
	other, seconds, renewed := "operator of namespace "+w.key.Namespace, int32(3600), metav1.NowMicro()
	theirs, err := leases.Leases(w.key.Namespace).Create(w.ctx, &leasev1.Lease{ObjectMeta: metav1.ObjectMeta{Name: scope.LeaseName},
		Spec: leasev1.LeaseSpec{HolderIdentity: &other, LeaseDurationSeconds: &seconds, AcquireTime: &renewed, RenewTime: &renewed}}, metav1.CreateOptions{})
	check(t, err)
	r := w.operator(w.coordinator.Address())
	r.Leases = scope.NewLeases(leases, "elsewhere", scope.Timing{Lease: 3 * time.Second, Renew: 2 * time.Second, Retry: 20 * time.Millisecond}, logr.Discard())
	running, stop := context.WithCancel(w.ctx)
	ended := make(chan struct{})
	go func() { _ = r.Leases.Start(running); close(ended) }()
	t.Cleanup(func() { stop(); <-ended })
	for range 10 {
		if result := w.reconcile(r); result.RequeueAfter <= 0 {
			t.Error("it does not look again")
		}
		time.Sleep(20 * time.Millisecond) // a few attempts to get the lease
	}
	if len(w.created) > 0 || len(w.cluster().Status.Conditions) > 0 {
		t.Errorf("created %v, conditions %v", w.created, w.cluster().Status.Conditions)
	}
	*theirs.Spec.HolderIdentity = "" // it gives the lease back
	_, err = leases.Leases(w.key.Namespace).Update(w.ctx, theirs, metav1.UpdateOptions{})
	check(t, err)
	w.until("the lease", func() string {
		if w.reconcile(r); len(w.created) == 0 {
			return "nothing was created"
		}
		return ""
	})
}

// A namespace that is deleted has no lease any more, and none can be made in it: the finalizers go without one.
func TestFinalizersGoWithoutALease(t *testing.T) {
	w := newManual(t, nil)
	first := w.operator(w.coordinator.Address())
	w.reconcile(first)
	if !w.guarded("data-demo-server-0") {
		t.Fatal("the claim is not guarded")
	}
	check(t, w.client.Delete(w.ctx, w.cluster()))
	next := w.operator(w.coordinator.Address())
	next.Leases = scope.NewLeases(nil, "elsewhere", scope.DefaultTiming, logr.Discard()) // it holds none
	w.reconcile(next)
	if w.guarded("data-demo-server-0") {
		t.Error("the namespace hangs")
	}
}
