package controller_test

import (
	"context"
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

	// Under a server that runs nothing is even asked for.
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
	w.poke(3)
	w.exists("demo-server-1", &pod)
	if pod.UID != server || pod.DeletionTimestamp != nil || !w.guarded(claim) {
		t.Errorf("pod %+v", pod.ObjectMeta)
	}

	w.released.Store("2")
	w.poke(1)
	w.until("the next volume", func() string {
		var next corev1.PersistentVolumeClaim
		if err := w.client.Get(w.ctx, client.ObjectKey{Namespace: w.key.Namespace, Name: claim}, &next); err != nil {
			return err.Error()
		}
		if next.UID == first {
			return "it is the first"
		}
		return ""
	})
	if !w.guarded(claim) {
		t.Error("the next volume is not guarded")
	}
	w.until("the next pod", func() string {
		w.exists("demo-server-1", &pod)
		if pod.UID == server {
			return "it is the first"
		}
		return ""
	})
}

// Without a cluster nobody can be asked, and nothing hangs.
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
	n, err := operator.LetGo(context.Background(), w.client, w.key.Namespace, time.Now().Add(time.Minute))
	if err != nil || n != 3 {
		t.Errorf("%d were let go, %v", n, err)
	}
	w.poke(5)
	for _, name := range []string{"data-demo-server-0", "data-demo-server-1", "data-demo-server-2"} {
		if w.guarded(name) {
			t.Errorf("%s cannot be deleted without the operator", name)
		}
	}
	if n, err := operator.LetGo(context.Background(), w.client, w.key.Namespace, time.Now()); err != nil || n != 0 {
		t.Errorf("%d were let go again, %v", n, err)
	}
}
