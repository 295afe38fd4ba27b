package controller_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
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

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	envtest.Main(m)
}

const patience = 60 * time.Second

// world is an API server, the operator and one cluster with a fake coordinator.
type world struct {
	t           *testing.T
	ctx         context.Context
	client      client.Client
	coordinator *fakeadmin.Server
	watchers    func() *coordinator.Watchers
	key         client.ObjectKey
	stop        func()       // the operator
	writes      atomic.Int64 // requests of the operator that change something
	reconciles  atomic.Int64
	rejoined    atomic.Int64 // a bit for each member of etcd
	released    atomic.Value // the id of the server whose volume the coordinator releases; empty: none
	asked       atomic.Value // the id that it was last asked about
	clockAhead  atomic.Int64 // ns
	refused     atomic.Value // a part of the paths that the operator may not write to; empty: none
	forbidden   atomic.Value // a part of the paths for which the API server says Forbidden; empty: none
}

type countWrites struct {
	next http.RoundTripper
	w    *world
}

func (c countWrites) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "/events") {
		c.w.writes.Add(1)
		if part, _ := c.w.refused.Load().(string); part != "" && strings.Contains(r.URL.Path, part) {
			return nil, fmt.Errorf("the test refuses %s %s", r.Method, r.URL.Path)
		}
		if part, _ := c.w.forbidden.Load().(string); part != "" && strings.Contains(r.URL.Path, part) {
			return forbidden(r), nil
		}
	}
	return c.next.RoundTrip(r)
}

// forbidden is what an API server answers whose quota is used up.
func forbidden(r *http.Request) *http.Response {
	const text = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"exceeded quota: little"}`
	return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: io.NopCloser(strings.NewReader(text))}
}

var names atomic.Int32

func newWorld(t *testing.T, spec func(*ramcloudv1.RAMCloudClusterSpec)) *world {
	return newWorldOf(t, operator.Defaults{NodeImage: "ramcloud/node:test", EtcdImage: "ramcloud/etcd:test"}, "", spec)
}

func newWorldOf(t *testing.T, defaults operator.Defaults, version string, spec func(*ramcloudv1.RAMCloudClusterSpec)) *world {
	config := envtest.Need(t)
	direct, err := client.New(config, client.Options{Scheme: envtest.Scheme})
	check(t, err)
	fake, err := fakeadmin.Start()
	check(t, err)
	t.Cleanup(fake.Stop)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	w := &world{t: t, ctx: ctx, client: direct, coordinator: fake}
	namespace := fmt.Sprintf("test-%d", names.Add(1))
	check(t, direct.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}))
	w.key = client.ObjectKey{Namespace: namespace, Name: "demo"}

	w.operate(defaults, version)
	w.create(spec)
	return w
}

// operate starts an operator. A running one must be stopped before.
func (w *world) operate(defaults operator.Defaults, version string) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.ctx)
	operatorConfig := envtest.Need(w.t)
	operatorConfig.Wrap(func(next http.RoundTripper) http.RoundTripper { return countWrites{next, w} })
	skip := true
	cacheOptions := operator.CacheOptions() // clusters of other tests are still there
	cacheOptions.DefaultNamespaces = map[string]cache.Config{w.key.Namespace: {}}
	mgr, err := ctrl.NewManager(operatorConfig, ctrl.Options{
		Scheme: envtest.Scheme, Cache: cacheOptions,
		Metrics: metricsserver.Options{BindAddress: "0"}, Logger: logr.Discard(),
	})
	check(w.t, err)
	r := &operator.ClusterReconciler{
		Client: mgr.GetClient(), Uncached: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("ramcloud-operator"),
		Rejoin: func(_ context.Context, _ *ramcloudv1.RAMCloudCluster, index int32) error {
			w.rejoined.Or(1 << index)
			return nil
		},
		Defaults:     defaults,
		Version:      version,
		AdminAddress: func(*ramcloudv1.RAMCloudCluster) string { return w.coordinator.Address() },
		Releaser:     func(*ramcloudv1.RAMCloudCluster) coordinator.Releaser { return w },
		Now: func() time.Time {
			w.reconciles.Add(1)
			return time.Now().Add(time.Duration(w.clockAhead.Load()))
		},
	}
	tuning := coordinator.Tuning{FirstRetry: 10 * time.Millisecond, LastRetry: 200 * time.Millisecond,
		Check: time.Second, Answer: 5 * time.Second, Figures: 50 * time.Millisecond}
	check(w.t, r.SetupWithManager(mgr, tuning, controller.Options{SkipNameValidation: &skip}))
	w.watchers = func() *coordinator.Watchers { return r.Watchers }
	var running sync.WaitGroup
	running.Go(func() {
		if err := mgr.Start(ctx); err != nil {
			w.t.Errorf("manager: %v", err)
		}
	})
	w.stop = func() { cancel(); running.Wait() }
	w.t.Cleanup(w.stop)
}

// VolumeRelease implements coordinator.Releaser.
func (w *world) VolumeRelease(_ context.Context, serverID string) (coordinator.Release, error) {
	w.asked.Store(serverID)
	if id, _ := w.released.Load().(string); id != serverID {
		return coordinator.Release{Reason: "2 segments have their last replica there"}, nil
	}
	return coordinator.Release{Releasable: true, Token: "token-of-" + serverID, Expires: time.Now().Add(24 * time.Hour)}, nil
}

func (w *world) create(spec func(*ramcloudv1.RAMCloudClusterSpec)) {
	w.t.Helper()
	cluster := &ramcloudv1.RAMCloudCluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: w.key.Name}}
	if spec != nil {
		spec(&cluster.Spec)
	}
	check(w.t, w.client.Create(w.ctx, cluster))
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// until waits until ok returns an empty text.
func (w *world) until(what string, missing func() string) {
	w.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		text := missing()
		if text == "" {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%s: %s", what, text)
		}
		time.Sleep(20 * time.Millisecond) // polling a condition with a deadline
	}
}

func (w *world) cluster() *ramcloudv1.RAMCloudCluster {
	w.t.Helper()
	cluster := &ramcloudv1.RAMCloudCluster{}
	check(w.t, w.client.Get(w.ctx, w.key, cluster))
	return cluster
}

// condition waits for a condition with this status and reason and gives its message.
func (w *world) condition(kind string, status metav1.ConditionStatus, reason string) string {
	w.t.Helper()
	message := ""
	w.until(kind, func() string {
		c := w.cluster()
		got := meta.FindStatusCondition(c.Status.Conditions, kind)
		if got == nil {
			return "no such condition"
		}
		if got.Status != status || got.Reason != reason || got.ObservedGeneration != c.Generation {
			return fmt.Sprintf("is %+v at generation %d", got, c.Generation)
		}
		message = got.Message
		return ""
	})
	return message
}

func (w *world) exists(name string, object client.Object) {
	w.t.Helper()
	w.until(fmt.Sprintf("%T %s", object, name), func() string {
		if err := w.client.Get(w.ctx, client.ObjectKey{Namespace: w.key.Namespace, Name: name}, object); err != nil {
			return err.Error()
		}
		return ""
	})
}

func (w *world) setServers(n int) {
	for i := range n {
		w.coordinator.SetServer(&adminpb.Server{
			Id: uint64(i + 1), Name: fmt.Sprintf("demo-server-%d", i), State: adminpb.ServerState_SERVER_UP,
			Locator: fmt.Sprintf("tcp:host=demo-server-%d,port=11200", i), FailureDomain: fmt.Sprintf("d%d", i), Version: "1",
			Stats: &adminpb.ServerStats{LogBytesTotal: 256 << 20, LogBytesUsed: 1 << 20, Objects: 5, Segments: 1, SegmentsFullyReplicated: 1},
		})
	}
}

func (w *world) change(f func(*ramcloudv1.RAMCloudCluster)) {
	w.t.Helper()
	before := w.cluster()
	after := before.DeepCopy()
	f(after)
	check(w.t, w.client.Patch(w.ctx, after, client.MergeFrom(before)))
}

// quiet waits until the operator has stopped writing: no write during several reconciles in a row.
func (w *world) quiet() {
	w.t.Helper()
	w.until("the operator to come to rest", func() string {
		before := w.writes.Load()
		w.poke(3)
		if now := w.writes.Load(); now != before {
			return fmt.Sprintf("%d writes", now-before)
		}
		return ""
	})
}

// poke makes the operator reconcile at least n times, by changing an annotation of a pod.
func (w *world) poke(n int64) {
	w.t.Helper()
	for i := range n {
		start := w.reconciles.Load()
		pod := &corev1.Pod{}
		check(w.t, w.client.Get(w.ctx, client.ObjectKey{Namespace: w.key.Namespace, Name: "demo-coordinator-0"}, pod))
		before := pod.DeepCopy()
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "test/poke", fmt.Sprint(time.Now().UnixNano(), i))
		check(w.t, w.client.Patch(w.ctx, pod, client.MergeFrom(before)))
		w.until("a reconcile", func() string {
			if w.reconciles.Load() == start {
				return "none"
			}
			return ""
		})
	}
}

func exposed(replicas int32) func(*ramcloudv1.RAMCloudClusterSpec) {
	return func(s *ramcloudv1.RAMCloudClusterSpec) {
		s.Servers.Replicas = &replicas
		s.Expose.Type = ramcloudv1.ExposeNodePort
	}
}

func TestAClusterComesUpAndRests(t *testing.T) {
	w := newWorld(t, exposed(3))
	w.condition("Ready", metav1.ConditionFalse, ramcloudv1.ReasonServersNotUp)
	w.condition("Progressing", metav1.ConditionTrue, ramcloudv1.ReasonStarting)

	var service corev1.Service
	w.exists("demo", &service)
	if service.Spec.ClusterIP != "None" || !service.Spec.PublishNotReadyAddresses {
		t.Errorf("headless service: %+v", service.Spec)
	}
	var claim corev1.PersistentVolumeClaim
	w.exists("data-demo-coordinator-0", &claim)
	for i := range 3 {
		name := fmt.Sprintf("demo-server-%d", i)
		var pod corev1.Pod
		var outside corev1.Service
		w.exists(name, &pod)
		w.exists(name+"-outside", &outside)
		w.exists("data-"+name, &claim)
		if claim.OwnerReferences != nil {
			t.Errorf("a retained volume has an owner: %v", claim.OwnerReferences)
		}
		want := fmt.Sprintf("--advertise-outside=$(HOST_IP):%d", outside.Spec.Ports[0].NodePort)
		if outside.Spec.Ports[0].NodePort == 0 || !strings.Contains(strings.Join(pod.Spec.Containers[0].Args, " "), want) {
			t.Errorf("%s does not advertise its node port (%s): %v", name, want, pod.Spec.Containers[0].Args)
		}
	}
	var budget policyv1.PodDisruptionBudget
	w.exists("demo-servers", &budget)
	if budget.Spec.MinAvailable.IntValue() != 3 {
		t.Errorf("budget: %v", budget.Spec.MinAvailable)
	}
	var pod corev1.Pod
	w.exists("demo-coordinator-0", &pod)
	pod.Status.HostIP, pod.Status.HostIPs = "192.0.2.7", []corev1.HostIP{{IP: "192.0.2.7"}}
	check(t, w.client.Status().Update(w.ctx, &pod))
	var coordinatorOutside corev1.Service
	w.exists("demo-coordinator-0-outside", &coordinatorOutside)
	address := fmt.Sprintf("192.0.2.7:%d", coordinatorOutside.Spec.Ports[0].NodePort)
	w.until("the connection", func() string {
		var configMap corev1.ConfigMap
		w.exists("demo-connection", &configMap)
		if configMap.Data["cluster-outside"] != address {
			return fmt.Sprintf("%v", configMap.Data)
		}
		if want := "demo-coordinator-0.demo." + w.key.Namespace + ".svc:11100"; configMap.Data["cluster"] != want {
			t.Errorf("cluster is %s, want %s", configMap.Data["cluster"], want)
		}
		return ""
	})

	w.setServers(3)
	w.condition("Ready", metav1.ConditionTrue, ramcloudv1.ReasonAllServersUp)
	w.condition("Progressing", metav1.ConditionFalse, ramcloudv1.ReasonSettled)
	w.condition("Degraded", metav1.ConditionFalse, ramcloudv1.ReasonAsExpected)
	c := w.cluster()
	if s := c.Status; s.Servers.Summary != "3/3" || s.Servers.Replicas != 3 || s.Data.State != ramcloudv1.DataComplete ||
		s.Data.Objects != 15 || s.Selector == "" || s.Coordinator.ClusterUUID == "" || s.Data.MemoryUsed.Cmp(resource.MustParse("3Mi")) != 0 {
		t.Errorf("status: %+v", s)
	}
	var server ramcloudv1.RAMCloudServer
	w.exists("demo-server-1", &server)
	if s := server.Status; s.State != ramcloudv1.ServerUp || s.Incarnation != "2" || s.Locator == "" || s.MemoryTotal.String() != "256Mi" {
		t.Errorf("server: %+v", s)
	}
	if ready := meta.FindStatusCondition(server.Status.Conditions, "Ready"); ready == nil || ready.Status != metav1.ConditionTrue ||
		ready.ObservedGeneration != server.Generation || server.Status.ObservedGeneration != server.Generation {
		t.Errorf("server of generation %d: %+v", server.Generation, server.Status)
	}
	if len(server.Finalizers)+len(c.Finalizers) > 0 {
		t.Error("finalizers would strand objects when the operator is uninstalled first")
	}

	w.quiet()
	before := w.writes.Load()
	w.poke(10)
	if n := w.writes.Load() - before; n != 0 {
		t.Errorf("%d writes while nothing changed", n)
	}
	w.setServers(3) // the same again
	w.poke(5)
	if n := w.writes.Load() - before; n != 0 {
		t.Errorf("%d writes although the coordinator said the same", n)
	}
}

func TestScaleOutAndScaleInRefused(t *testing.T) {
	w := newWorld(t, nil)
	w.setServers(3)
	w.condition("Ready", metav1.ConditionTrue, ramcloudv1.ReasonAllServersUp)
	replicas := int32(5)
	w.change(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.Servers.Replicas = &replicas })
	w.exists("demo-server-4", &corev1.Pod{})
	w.setServers(5)
	w.condition("Ready", metav1.ConditionTrue, ramcloudv1.ReasonAllServersUp)

	replicas = 3
	w.change(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.Servers.Replicas = &replicas })
	message := w.condition("ScaleBlocked", metav1.ConditionTrue, ramcloudv1.ReasonScaleInNotSupported)
	for _, part := range []string{"spec.servers.replicas is 3", "5 servers exist", "accepted: 5 or more"} {
		if !strings.Contains(message, part) {
			t.Errorf("no %q in %q", part, message)
		}
	}
	if c := w.cluster(); *c.Spec.Servers.Replicas != 3 || c.Status.Servers.Replicas != 5 {
		t.Errorf("spec %d, status %d", *c.Spec.Servers.Replicas, c.Status.Servers.Replicas)
	}
	// Everything else goes on: a lost pod is created again, even a surplus one.
	var pod corev1.Pod
	w.exists("demo-server-4", &pod)
	first := pod.UID
	check(t, w.client.Delete(w.ctx, &pod, client.GracePeriodSeconds(0)))
	w.until("the pod to come back", func() string {
		w.exists("demo-server-4", &pod)
		if pod.UID == first {
			return "it is still the first"
		}
		return ""
	})
	replicas = 5
	w.change(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.Servers.Replicas = &replicas })
	w.condition("ScaleBlocked", metav1.ConditionFalse, ramcloudv1.ReasonNotBlocked)
}

func TestALostServerDegrades(t *testing.T) {
	w := newWorld(t, nil)
	w.setServers(3)
	w.coordinator.SetTable(&adminpb.Table{Id: 1, Name: "books", Tablets: []*adminpb.Tablet{
		{ServerId: 1, State: adminpb.TabletState_TABLET_NORMAL}, {ServerId: 2, State: adminpb.TabletState_TABLET_NORMAL}}})
	w.condition("Ready", metav1.ConditionTrue, ramcloudv1.ReasonAllServersUp)
	w.coordinator.SetServer(&adminpb.Server{Id: 2, Name: "demo-server-1", State: adminpb.ServerState_SERVER_CRASHED, StateReason: "no answer for 2 s"})
	w.coordinator.SetTable(&adminpb.Table{Id: 1, Name: "books", Tablets: []*adminpb.Tablet{
		{ServerId: 1, State: adminpb.TabletState_TABLET_NORMAL}, {ServerId: 2, State: adminpb.TabletState_TABLET_UNAVAILABLE}}})
	w.clockAhead.Store(int64(time.Minute)) // as if it lasted
	w.poke(1)
	message := w.condition("Degraded", metav1.ConditionTrue, ramcloudv1.ReasonTabletsUnavailable)
	w.clockAhead.Store(0)
	if !strings.Contains(message, "1 of table 'books'") {
		t.Errorf("message: %s", message)
	}
	w.condition("Ready", metav1.ConditionFalse, ramcloudv1.ReasonTabletsUnavailable)
	// It comes back as another server; the data of the former one does not.
	w.coordinator.SetServer(&adminpb.Server{Id: 9, Name: "demo-server-1", State: adminpb.ServerState_SERVER_UP})
	w.until("the new incarnation", func() string {
		var server ramcloudv1.RAMCloudServer
		w.exists("demo-server-1", &server)
		if server.Status.Incarnation != "9" || server.Status.State != ramcloudv1.ServerUp {
			return fmt.Sprintf("%+v", server.Status)
		}
		return ""
	})
	w.condition("Ready", metav1.ConditionFalse, ramcloudv1.ReasonTabletsUnavailable)
	if c := w.cluster(); c.Status.Data.State != ramcloudv1.DataPartial || c.Status.Servers.Crashed != 1 {
		t.Errorf("%+v", c.Status)
	}
	w.coordinator.Stop()
	w.condition("Ready", metav1.ConditionFalse, ramcloudv1.ReasonCoordinatorNotAnswering)
}

func TestAFailedPodIsReplacedAfterItsBackoff(t *testing.T) {
	w := newWorld(t, nil)
	var pod corev1.Pod
	w.exists("demo-server-0", &pod)
	first := pod.UID
	pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodFailed, "Evicted", "the node was low on memory"
	check(t, w.client.Status().Update(w.ctx, &pod))
	message := w.condition("Degraded", metav1.ConditionTrue, ramcloudv1.ReasonPodsFailing)
	if !strings.Contains(message, "server 0 failed (Evicted: the node was low on memory)") {
		t.Errorf("message: %s", message)
	}
	w.clockAhead.Store(int64(time.Hour))
	w.poke(1)
	w.until("the replacement", func() string {
		// Without a kubelet a bound pod would wait for its grace period; an unbound one goes at once.
		w.exists("demo-server-0", &pod)
		if pod.UID == first {
			return "still the first pod"
		}
		return ""
	})
	w.until("the record", func() string {
		var server ramcloudv1.RAMCloudServer
		w.exists("demo-server-0", &server)
		if f := server.Status.LastFailure; f == nil || f.Count != 1 || f.Reason != "Evicted" {
			return fmt.Sprintf("%+v", f)
		}
		return ""
	})
}

func TestVolumesOfOthersAndRetention(t *testing.T) {
	w := newWorld(t, func(s *ramcloudv1.RAMCloudClusterSpec) { s.PVCRetention = ramcloudv1.RetentionDelete })
	var claim corev1.PersistentVolumeClaim
	w.exists("data-demo-server-2", &claim)
	if c := w.cluster(); !metav1.IsControlledBy(&claim, c) {
		t.Errorf("a volume that goes with its cluster has no owner")
	}
	w.change(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.PVCRetention = ramcloudv1.RetentionRetain })
	w.until("the volume to be let go", func() string {
		w.exists("data-demo-server-2", &claim)
		return strings.Repeat("still owned", len(claim.OwnerReferences))
	})

	foreign := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: "data-demo-server-3"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	check(t, w.client.Create(w.ctx, foreign))
	replicas := int32(4)
	w.change(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.Servers.Replicas = &replicas })
	message := w.condition("Degraded", metav1.ConditionTrue, ramcloudv1.ReasonVolumeNotOurs)
	if !strings.Contains(message, "data-demo-server-3") {
		t.Errorf("message: %s", message)
	}
	w.exists("data-demo-server-3", &claim)
	if len(claim.Labels) > 0 {
		t.Errorf("a volume of somebody else was taken over: %v", claim.Labels)
	}
}

func TestDeletionEndsTheWatch(t *testing.T) {
	w := newWorld(t, nil)
	w.setServers(3)
	w.condition("Ready", metav1.ConditionTrue, ramcloudv1.ReasonAllServersUp)
	check(t, w.client.Delete(w.ctx, w.cluster()))
	w.until("the watch to end", func() string {
		if n := w.watchers().Len() + w.coordinator.Watches(); n > 0 {
			return fmt.Sprintf("%d left", n)
		}
		return ""
	})
}

func TestAnImageChangeRestartsNothing(t *testing.T) {
	w := newWorld(t, nil)
	w.setServers(3)
	w.condition("Ready", metav1.ConditionTrue, ramcloudv1.ReasonAllServersUp)
	var pod corev1.Pod
	w.exists("demo-server-0", &pod)
	w.change(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.Images.Node = "ramcloud/node:other" })
	w.until("the difference to be told", func() string {
		s := w.cluster().Status
		if s.Servers.PendingRestart != 3 || len(s.PendingRestart) != 4 {
			return fmt.Sprintf("%+v %+v", s.Servers, s.PendingRestart)
		}
		for _, p := range s.PendingRestart {
			if len(p.Differs) != 1 || p.Differs[0] != "image: ramcloud/node:test, wanted ramcloud/node:other" || p.Waits == "" {
				return fmt.Sprintf("%+v", p)
			}
		}
		return ""
	})
	var same corev1.Pod
	w.exists("demo-server-0", &same)
	if same.UID != pod.UID || same.Spec.Containers[0].Image != "ramcloud/node:test" {
		t.Error("a running server was changed")
	}
}

// How servers clean is a flag of theirs as any other: it waits until somebody asks for a restart, and new servers have it.
func TestAChangeOfCleaningRestartsNothing(t *testing.T) {
	w := newWorld(t, nil)
	w.setServers(3)
	w.condition("Ready", metav1.ConditionTrue, ramcloudv1.ReasonAllServersUp)
	before := w.podUIDs()
	w.change(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.Servers.Cleaning.Mode = ramcloudv1.CleaningOff })
	w.until("the difference to be told", func() string {
		pending := w.cluster().Status.PendingRestart
		if len(pending) != 3 {
			return fmt.Sprintf("%+v", pending)
		}
		for _, p := range pending {
			if len(p.Differs) != 1 || p.Differs[0] != "--cleaning: not given, wanted off" || p.Waits == "" {
				return fmt.Sprintf("%+v", p)
			}
		}
		return ""
	})
	w.scale(4)
	var added corev1.Pod
	w.exists("demo-server-3", &added)
	if args := added.Spec.Containers[0].Args; !slices.Contains(args, "--cleaning=off") {
		t.Errorf("a new server has %q", args)
	}
	after := w.podUIDs()
	for pod, uid := range before {
		if after[pod] != uid {
			t.Errorf("%s was re-created", pod)
		}
	}
}
