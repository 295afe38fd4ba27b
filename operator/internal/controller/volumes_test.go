package controller_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ramcloud.dev/client/adminpb"
	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	operator "ramcloud.dev/operator/internal/controller"
	"ramcloud.dev/operator/internal/plan"
)

const volumeInUse = "ramcloud.dev/volume-in-use"

// guarded says whether the claim has the operator's finalizer.
func (w *world) guarded(name string) bool {
	w.t.Helper()
	var claim corev1.PersistentVolumeClaim
	w.exists(name, &claim)
	return slices.Contains(claim.Finalizers, volumeInUse)
}

// unprotect takes Kubernetes' own finalizer off the claim: there is no controller here that would, once no pod has it.
func (w *world) unprotect(name string) types.UID {
	w.t.Helper()
	var claim corev1.PersistentVolumeClaim
	w.exists(name, &claim)
	claim.Finalizers = slices.DeleteFunc(claim.Finalizers, func(f string) bool { return f == "kubernetes.io/pvc-protection" })
	check(w.t, w.client.Update(w.ctx, &claim))
	return claim.UID
}

// The release-token rule, against the API server: a claim that somebody deletes under a live server.
func TestAVolumeIsKeptUntilItIsReleased(t *testing.T) {
	w := newWorld(t, nil)
	w.setServers(3)
	w.condition("Ready", metav1.ConditionTrue, ramcloudv1.ReasonAllServersUp)
	for _, name := range []string{"demo-server-0", "demo-server-1", "demo-server-2"} {
		w.ready(name)
	}
	w.quiet()
	const claim = "data-demo-server-1"
	first := w.unprotect(claim)
	var pod corev1.Pod
	w.exists("demo-server-1", &pod)
	server := pod.UID
	check(t, w.client.Delete(w.ctx, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: claim}}))

	// While the server runs, the operator does not even ask for a release.
	if message := w.condition("Degraded", metav1.ConditionTrue, ramcloudv1.ReasonVolumeTerminating); !strings.Contains(message, "server 1 was deleted; it is kept while the server runs") {
		t.Errorf("message: %s", message)
	}
	w.released.Store("2")
	w.poke(3)
	if asked := w.asked.Load(); asked != nil {
		t.Errorf("asked about %v", asked)
	}
	w.until("the event", func() string {
		var list corev1.EventList
		check(t, w.client.List(w.ctx, &list, client.InNamespace(w.key.Namespace)))
		for _, e := range list.Items {
			if e.Reason == ramcloudv1.ReasonVolumeTerminating && e.Type == corev1.EventTypeWarning {
				return ""
			}
		}
		return "none"
	})

	// It crashes: "not up" is not "not needed".
	w.released.Store("")
	w.unready("demo-server-1")
	w.coordinator.SetServer(&adminpb.Server{Id: 2, Name: "demo-server-1", State: adminpb.ServerState_SERVER_CRASHED})
	w.until("the reason", func() string {
		message := w.condition("Degraded", metav1.ConditionTrue, ramcloudv1.ReasonVolumeTerminating)
		if !strings.Contains(message, "does not release it (server id 2): 2 segments have their last replica there") {
			return message
		}
		return ""
	})
	w.released.Store("1") // another server's
	w.askAgain()
	w.exists("demo-server-1", &pod)
	if pod.UID != server || pod.DeletionTimestamp != nil || !w.guarded(claim) {
		t.Errorf("pod %+v", pod.ObjectMeta)
	}

	// Once the claim is released, its pod is deleted: the server continues with another claim.
	w.released.Store("2")
	w.askAgain()
	w.recreated("demo-server-1", server)
	if w.has("demo-server-1", "data-demo-server-1-g2") != first {
		w.gone(claim)
	} else {
		t.Error("the pod has the volume that somebody deleted")
	}
	if !w.guarded("data-demo-server-1-g2") {
		t.Error("the next volume is not guarded")
	}
}

// has returns the UID of the pod's claim, by name.
func (w *world) has(pod, claim string) types.UID {
	w.t.Helper()
	var p corev1.Pod
	w.exists(pod, &p)
	if got := p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName; got != claim {
		w.t.Errorf("pod %s has %s, want %s", pod, got, claim)
	}
	var c corev1.PersistentVolumeClaim
	w.exists(claim, &c)
	return c.UID
}

// gone waits until there is no such claim.
func (w *world) gone(claim string) {
	w.t.Helper()
	w.until(claim+" to be deleted", func() string {
		var c corev1.PersistentVolumeClaim
		if err := w.client.Get(w.ctx, client.ObjectKey{Namespace: w.key.Namespace, Name: claim}, &c); err == nil {
			return fmt.Sprintf("finalizers %v", c.Finalizers)
		}
		return ""
	})
}

// askAgain lets the coordinator be asked again about volumes that it has not released.
func (w *world) askAgain() {
	w.t.Helper()
	w.clockAhead.Add(int64(plan.AskReleaseAgain))
	w.poke(2)
}

// enlisted waits until the claim says under which id its server last enlisted.
func (w *world) enlisted(claim, id string) {
	w.t.Helper()
	w.until(claim+" to say "+id, func() string {
		var c corev1.PersistentVolumeClaim
		w.exists(claim, &c)
		if got := c.Annotations["ramcloud.dev/enlisted"]; got != "00000000-0000-4000-8000-000000000001/"+id {
			return got
		}
		return ""
	})
}

// lose marks the claim's volume as lost, as Kubernetes does when the volume does not exist any more.
func (w *world) lose(name string) types.UID {
	w.t.Helper()
	uid := w.unprotect(name)
	var claim corev1.PersistentVolumeClaim
	w.exists(name, &claim)
	claim.Spec.VolumeName = "pv-of-" + name
	check(w.t, w.client.Update(w.ctx, &claim))
	claim.Status.Phase = corev1.ClaimLost
	check(w.t, w.client.Status().Update(w.ctx, &claim))
	return uid
}

// A server whose volume does not exist any more comes back with another claim, before anything is released. The lost one stays
// until the coordinator releases it, by the id of the server that had it.
func TestALostClaimIsReplacedAndKept(t *testing.T) {
	w := newWorld(t, nil)
	w.setServers(3)
	w.condition("Ready", metav1.ConditionTrue, ramcloudv1.ReasonAllServersUp)
	pod := w.ready("demo-server-1")
	const first, second = "data-demo-server-1", "data-demo-server-1-g2"
	w.enlisted(first, "2")
	w.quiet()
	w.lose(first)

	// The pod still has it mounted, and may come back: nothing is done, whatever the server's state at the
	// coordinator.
	w.unready("demo-server-1")
	w.coordinator.SetServer(&adminpb.Server{Id: 2, Name: "demo-server-1", State: adminpb.ServerState_SERVER_CRASHED})
	if message := w.condition("Degraded", metav1.ConditionTrue, ramcloudv1.ReasonVolumeLost); !strings.Contains(message, "its pod still has it and may continue with it") {
		t.Errorf("message: %s", message)
	}
	w.poke(3)
	if w.podUIDs()["demo-server-1"] != pod {
		t.Error("the pod was deleted")
	}

	w.deletePod("demo-server-1")
	w.has("demo-server-1", second)
	w.enlisted(first, "2")
	w.until("the condition", func() string {
		message := w.condition("Degraded", metav1.ConditionTrue, ramcloudv1.ReasonVolumeLost)
		if !strings.Contains(message, "volume claim "+first+", which server 1 had before, is kept: the coordinator does not release it (server id 2)") {
			return message
		}
		return ""
	})

	// Neither another operator nor the next server on the new volume changes by which id it is asked for.
	w.stop()
	w.operate(operator.Defaults{NodeImage: "ramcloud/node:test", EtcdImage: "ramcloud/etcd:test"}, "")
	w.coordinator.SetServer(&adminpb.Server{Id: 9, Name: "demo-server-1", State: adminpb.ServerState_SERVER_UP})
	w.ready("demo-server-1")
	w.enlisted(second, "9")
	w.enlisted(first, "2")
	w.released.Store("9")
	w.askAgain()
	if !w.guarded(first) || !w.guarded(second) {
		t.Error("a volume was released by another server's id")
	}
	w.released.Store("2")
	w.askAgain()
	w.gone(first)
	w.has("demo-server-1", second)
	w.condition("Degraded", metav1.ConditionFalse, ramcloudv1.ReasonAsExpected)

	// The pod matches its template: no restart is pending.
	w.quiet()
	if pending := w.cluster().Status.PendingRestart; len(pending) > 0 {
		t.Errorf("pending: %+v", pending)
	}
}

// A pod that waits for a lost volume is replaced once its server was condemned.
func TestAPodThatWaitsForALostVolumeIsReplaced(t *testing.T) {
	w := newWorld(t, nil)
	w.setServers(3)
	w.condition("Ready", metav1.ConditionTrue, ramcloudv1.ReasonAllServersUp)
	w.quiet()
	waiting := w.podUIDs()["demo-server-2"]
	w.lose("data-demo-server-2")
	w.poke(2)
	if w.podUIDs()["demo-server-2"] != waiting {
		t.Error("it was replaced while the coordinator lists the server as up")
	}
	w.coordinator.SetServer(&adminpb.Server{Id: 3, Name: "demo-server-2", State: adminpb.ServerState_SERVER_CRASHED})
	w.recreated("demo-server-2", waiting)
	w.has("demo-server-2", "data-demo-server-2-g2")
	if !w.guarded("data-demo-server-2") {
		t.Error("the lost claim was let go without a release")
	}
}

// An id that another cluster noted is not used, although this cluster has a server with the same id.
func TestAnIDOfAnotherClusterIsNotAskedAbout(t *testing.T) {
	w := newWorld(t, nil)
	w.setServers(3)
	w.condition("Ready", metav1.ConditionTrue, ramcloudv1.ReasonAllServersUp)
	w.enlisted("data-demo-server-1", "2")
	var claim corev1.PersistentVolumeClaim
	w.exists("data-demo-server-1", &claim)
	old := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: "data-demo-server-1-g2", Labels: claim.Labels,
		Finalizers: []string{volumeInUse}, Annotations: map[string]string{"ramcloud.dev/retired": "true",
			"ramcloud.dev/enlisted": "00000000-0000-4000-8000-000000000009/2"}}, Spec: *claim.Spec.DeepCopy()}
	old.Spec.VolumeName = "pv-of-another"
	w.released.Store("2")
	check(t, w.client.Create(w.ctx, old))
	if message := w.condition("Degraded", metav1.ConditionTrue, ramcloudv1.ReasonVolumeLost); !strings.Contains(message, "it is not known under which id") {
		t.Errorf("message: %s", message)
	}
	w.askAgain()
	if !w.guarded(old.Name) || w.asked.Load() != nil {
		t.Errorf("it was asked about %v", w.asked.Load())
	}
}

// Without a cluster no coordinator can be asked, and the deletion must not hang.
func TestFinalizersGoWithTheCluster(t *testing.T) {
	w := newWorld(t, nil)
	w.exists("data-demo-server-2", &corev1.PersistentVolumeClaim{})
	if !w.guarded("data-demo-server-2") || w.guarded("data-demo-coordinator-0") {
		t.Error("servers' volumes are guarded, and no others")
	}
	check(t, w.client.Delete(w.ctx, w.cluster()))
	w.until("the finalizers to go", func() string {
		for _, name := range []string{"data-demo-server-0", "data-demo-server-1", "data-demo-server-2"} {
			if w.guarded(name) {
				return name
			}
		}
		return ""
	})
}

// Claims of an operator that knew no finalizer get one; those that were let go for an uninstall do not.
func TestClaimsAreGuardedLater(t *testing.T) {
	w := newWorld(t, nil)
	w.exists("demo-server-2", &corev1.Pod{})
	w.quiet()
	without := func(name string, annotations map[string]string) {
		var claim corev1.PersistentVolumeClaim
		w.exists(name, &claim)
		claim.Finalizers, claim.Annotations = nil, annotations
		check(t, w.client.Update(w.ctx, &claim))
	}
	without("data-demo-server-0", nil)
	w.until("the finalizer", func() string {
		if !w.guarded("data-demo-server-0") {
			return "there is none"
		}
		return ""
	})
	without("data-demo-server-1", map[string]string{"ramcloud.dev/let-go": "2020-01-01T00:00:00Z"}) // before this operator was installed
	w.until("the finalizer", func() string {
		if !w.guarded("data-demo-server-1") {
			return "there is none"
		}
		return ""
	})
	n, err := operator.RemoveVolumeFinalizers(context.Background(), w.client, w.key.Namespace, time.Now().Add(time.Minute))
	if err != nil || n != 3 {
		t.Errorf("%d were let go, %v", n, err)
	}
	w.poke(5)
	for _, name := range []string{"data-demo-server-0", "data-demo-server-1", "data-demo-server-2"} {
		if w.guarded(name) {
			t.Errorf("%s cannot be deleted without the operator", name)
		}
	}
	if n, err := operator.RemoveVolumeFinalizers(context.Background(), w.client, w.key.Namespace, time.Now()); err != nil || n != 0 {
		t.Errorf("%d were let go again, %v", n, err)
	}
}
