package controller_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ramcloud.dev/client/adminpb"
	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/envtest"
)

const uncounted, counted = false, true

// budgetOf waits until the servers' budget keeps so many, and, if asked to, counts pods as Kubernetes' controller would.
func (w *world) budgetOf(keep int, count bool) {
	w.t.Helper()
	var budget policyv1.PodDisruptionBudget
	w.until("the budget", func() string {
		w.exists("demo-servers", &budget)
		if now := budget.Spec.MinAvailable.IntValue(); now != keep {
			return fmt.Sprintf("%d are kept, want %d; evictions are held: %q", now, keep, w.cluster().Status.Servers.EvictionsHeld)
		}
		return ""
	})
	if !count {
		return
	}
	healthy := int32(0)
	for i := range w.cluster().Status.Servers.Replicas {
		var pod corev1.Pod
		w.exists(fmt.Sprintf("demo-server-%d", i), &pod)
		if len(pod.Status.Conditions) > 0 && pod.Status.Conditions[0].Status == corev1.ConditionTrue {
			healthy++
		}
	}
	budget.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: budget.Generation, CurrentHealthy: healthy, DesiredHealthy: int32(keep),
		ExpectedPods: healthy, DisruptionsAllowed: max(0, healthy-int32(keep))}
	check(w.t, w.client.Status().Update(w.ctx, &budget))
}

// evict asks for a pod to be evicted, as kubectl drain does, and says whether it was.
func (w *world) evict(pod string) bool {
	w.t.Helper()
	clients, err := kubernetes.NewForConfig(envtest.Need(w.t))
	check(w.t, err)
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: pod}}
	// Without retries: an eviction that is refused would be asked for again, and be granted later.
	err = clients.PolicyV1().RESTClient().Post().AbsPath("/api/v1").Namespace(w.key.Namespace).Resource("pods").Name(pod).SubResource("eviction").
		Body(eviction).MaxRetries(0).Do(w.ctx).Error()
	if !apierrors.IsTooManyRequests(err) {
		check(w.t, err)
	}
	return err == nil
}

// wholeServer is server i of a cluster with R = 2, as the coordinator reports it.
func (w *world) wholeServer(i int, id uint64, lacking uint64) {
	w.coordinator.SetServer(&adminpb.Server{Id: id, Name: fmt.Sprintf("demo-server-%d", i), State: adminpb.ServerState_SERVER_UP, FailureDomain: fmt.Sprint(i),
		Stats: &adminpb.ServerStats{ReplicasWanted: 2, Segments: 4, SegmentsFullyReplicated: 4 - lacking, SegmentsUnderReplicated: lacking}})
}

// newWhole is a cluster of four servers with R = 2, of which one may be evicted.
func newWhole(t *testing.T) *world {
	replicas := int32(4)
	w := newWorld(t, func(s *ramcloudv1.RAMCloudClusterSpec) { s.Servers.Replicas, s.ReplicationFactor = &replicas, 2 })
	w.clockAhead.Store(int64(time.Minute)) // the servers' states have lasted long enough
	w.exists("demo-coordinator-0", &corev1.Pod{})
	w.ready("demo-coordinator-0")
	for i := range 4 {
		w.ready(fmt.Sprintf("demo-server-%d", i))
		w.wholeServer(i, uint64(i+1), 0)
	}
	w.budgetOf(3, counted)
	return w
}

// TestADrainTakesOneServerAtATime: by the budget, against the API server's evictions.
func TestADrainTakesOneServerAtATime(t *testing.T) {
	w := newWhole(t)
	w.condition("Ready", metav1.ConditionTrue, ramcloudv1.ReasonAllServersUp)
	held := func(part string) {
		t.Helper()
		w.until("what holds evictions", func() string {
			if text := w.cluster().Status.Servers.EvictionsHeld; (part == "") != (text == "") || !strings.Contains(text, part) {
				return fmt.Sprintf("%q", text)
			}
			return ""
		})
	}
	held("")
	w.budgetOf(3, counted)
	w.quiet()
	before := w.writes.Load()
	w.poke(5)
	if n := w.writes.Load() - before; n != 0 {
		t.Errorf("%d writes while nothing changed", n)
	}

	// The first is evicted, and the second is not, although the operator has not seen the eviction yet.
	first := w.ready("demo-server-1")
	if !w.evict("demo-server-1") {
		t.Fatal("a server of a whole cluster was not evicted")
	}
	if w.evict("demo-server-2") {
		t.Fatal("two servers were evicted at once")
	}
	w.until("the next pod", func() string {
		var pod corev1.Pod
		w.exists("demo-server-1", &pod)
		if pod.UID == first {
			return "the first is still there"
		}
		return ""
	})
	w.budgetOf(4, uncounted)
	if w.evict("demo-server-2") { // Kubernetes has not counted by the new budget yet
		t.Fatal("a server was evicted by a budget that is not in force any more")
	}

	// The server is ready, but its recovery is not done; afterwards replicas are missing.
	w.ready("demo-server-1")
	w.coordinator.SetServer(&adminpb.Server{Id: 2, Name: "demo-server-1", State: adminpb.ServerState_SERVER_CRASHED})
	w.coordinator.SetRecoveries(&adminpb.Recovery{ServerId: 2, Name: "demo-server-1", Phase: "REPLAYING"})
	w.wholeServer(1, 9, 0)
	held("recoveries are not done: server 2 (demo-server-1) is REPLAYING")
	w.budgetOf(4, counted)
	if w.evict("demo-server-2") {
		t.Fatal("a server was evicted while another was recovered")
	}
	w.wholeServer(0, 1, 1)
	w.coordinator.SetRecoveries()
	held("1 of 16 segments lack replicas")
	w.budgetOf(4, counted)
	if w.evict("demo-server-2") {
		t.Fatal("a server was evicted while segments lacked replicas")
	}

	// Whole again: the next.
	w.wholeServer(0, 1, 0)
	held("")
	w.budgetOf(3, counted)
	if !w.evict("demo-server-2") {
		t.Fatal("a server of a cluster that is whole again was not evicted")
	}
}

// TestNoPodIsCreatedBeforeEvictionsAreHeld: a budget that lets one go would count it.
func TestNoPodIsCreatedBeforeEvictionsAreHeld(t *testing.T) {
	w := newWhole(t)
	w.quiet()
	w.refused.Store("poddisruptionbudgets/demo-servers")
	check(t, w.client.Delete(w.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: "demo-server-1"}}, client.GracePeriodSeconds(0)))
	message := w.condition("Degraded", metav1.ConditionTrue, ramcloudv1.ReasonReconcileFailed)
	if !strings.Contains(message, "demo-servers") {
		t.Errorf("%s", message)
	}
	w.poke(3)
	w.absent("demo-server-1")
	w.refused.Store("")
	w.exists("demo-server-1", &corev1.Pod{})
	w.budgetOf(4, uncounted)
}

// TestAPausedClusterLetsNoServerGo: nobody would create its pod again.
func TestAPausedClusterLetsNoServerGo(t *testing.T) {
	w := newWhole(t)
	w.change(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.Paused = true })
	w.budgetOf(4, uncounted)
	w.change(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.Paused = false })
	w.budgetOf(3, uncounted)
}
