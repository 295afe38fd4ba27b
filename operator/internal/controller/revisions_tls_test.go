package controller_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/certs"
	operator "ramcloud.dev/operator/internal/controller"
	"ramcloud.dev/operator/internal/plan"
	"ramcloud.dev/operator/internal/specs"
)

// upgraded is another operator, whose default images have this tag; it has heard the coordinator.
func (m *manual) upgraded(tag, version string) *operator.ClusterReconciler {
	m.t.Helper()
	r := m.operator(m.coordinator.Address())
	r.Defaults = operator.Defaults{NodeImage: "ramcloud/node:" + tag, EtcdImage: "ramcloud/etcd:" + tag}
	r.Version = version
	r.Reach = func(context.Context, *ramcloudv1.RAMCloudCluster, int32) error { return nil }
	m.until("the coordinator", func() string {
		m.reconcile(r)
		m.kubelet()
		if !r.Watchers.Get(m.key, m.cluster().UID, m.coordinator.Address()).Connected {
			return "not connected"
		}
		return ""
	})
	return r
}

// made are the pods of etcd and of the coordinators, by name.
func (m *manual) made() map[string]corev1.Pod {
	m.t.Helper()
	var pods corev1.PodList
	check(m.t, m.client.List(m.ctx, &pods, client.InNamespace(m.key.Namespace)))
	out := map[string]corev1.Pod{}
	for _, pod := range pods.Items {
		if pod.Labels[specs.LabelComponent] != specs.ComponentServer {
			out[pod.Name] = pod
		}
	}
	return out
}

// lose deletes a pod, and has the operator make it again: with this image, for this stage of TLS.
func (m *manual) lose(r *operator.ClusterReconciler, name, tag, stage string) {
	m.t.Helper()
	check(m.t, m.client.Delete(m.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: m.key.Namespace, Name: name}}, client.GracePeriodSeconds(0)))
	m.reconcile(r)
	pod, there := m.made()[name]
	if !there || !strings.HasSuffix(pod.Spec.Containers[0].Image, ":"+tag) || pod.Annotations[specs.AnnotationTLS] != stage {
		m.t.Errorf("%s made again: %t, image %s for %q, want tag %s for %q", name, there, pod.Spec.Containers[0].Image,
			pod.Annotations[specs.AnnotationTLS], tag, stage)
	}
	m.kubelet()
}

// unchanged runs the operator, and checks that it restarts nothing and does not change the stage.
func (m *manual) unchanged(r *operator.ClusterReconciler, stage string) {
	m.t.Helper()
	before := m.made()
	for range 3 {
		m.reconcile(r)
		m.kubelet()
	}
	s := m.cluster().Status
	if s.Etcd.TLS != stage {
		m.t.Errorf("the stage is %s, want %s", s.Etcd.TLS, stage)
	}
	for name, pod := range m.made() {
		if before[name].UID != pod.UID {
			m.t.Errorf("%s was restarted", name)
		}
	}
	for _, pending := range s.PendingRestart {
		if !strings.Contains(pending.Pod, "-server-") {
			m.t.Errorf("%+v", pending)
		}
	}
}

// An etcd of an operator that knew no TLS and kept no templates moves to TLS when a roll is asked for, and an upgrade of the
// operator on the way changes neither where it goes nor what its members are made from.
func TestAMoveToTLSAcrossUpgrades(t *testing.T) {
	m := plainTrio(t)
	first := m.upgraded("first", "")
	m.unchanged(first, "Off")
	m.lose(first, "demo-etcd-1", "test", "")
	m.lose(first, "demo-coordinator-2", "test", "")
	m.unchanged(first, "Off")

	m.change(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.Update.RestartRequest = "roll" })
	m.moved(first, func(s plan.TLSStage, made map[string]corev1.Pod) bool {
		return s == plan.TLSUsed && made["demo-coordinator-0"].Annotations[specs.AnnotationTLS] == "Used"
	})
	second := m.upgraded("second", "")
	m.lose(second, "demo-etcd-0", "first", "Offered")
	m.lose(second, "demo-coordinator-0", "first", "Used")
	m.moved(second, func(s plan.TLSStage, made map[string]corev1.Pod) bool {
		for i := range 3 {
			if made[fmt.Sprintf("demo-etcd-%d", i)].Annotations[specs.AnnotationTLS] != "Required" {
				return false
			}
		}
		return s == plan.TLSRequired
	})
	m.unchanged(second, "Required")
	m.lose(second, "demo-etcd-2", "first", "Required")
	for name, pod := range m.made() {
		if image := pod.Spec.Containers[0].Image; !strings.HasSuffix(image, ":first") {
			t.Errorf("%s has the image %s", name, image)
		}
	}

	before := m.made()["demo-coordinator-0"]
	m.ahead = certs.Life/6*5 + time.Hour // certificates are renewed, with nobody asking
	m.until("the restart for a certificate", func() string {
		m.reconcile(second)
		m.kubelet()
		if pod, there := m.made()["demo-coordinator-0"]; !there || pod.UID == before.UID {
			return "not restarted"
		}
		return ""
	})
	after := m.made()["demo-coordinator-0"]
	if until := specs.AnnotationCertificateUntil; after.Spec.Containers[0].Image != "ramcloud/node:first" || after.Annotations[until] <= before.Annotations[until] {
		t.Errorf("image %s, %v after %v", after.Spec.Containers[0].Image, after.Annotations, before.Annotations)
	}
}

// moved runs the operator until a condition holds.
func (m *manual) moved(r *operator.ClusterReconciler, done func(plan.TLSStage, map[string]corev1.Pod) bool) {
	m.t.Helper()
	m.until("the move to TLS", func() string {
		if _, err := r.Reconcile(m.ctx, ctrl.Request{NamespacedName: m.key}); err != nil {
			m.t.Fatal(err)
		}
		if n := m.kubelet(); n < 2 {
			m.t.Fatalf("%d members of etcd are left", n)
		}
		if c := m.cluster(); !done(specs.TLSStage(c), m.made()) {
			return "at " + c.Status.Etcd.TLS
		}
		return ""
	})
}

// A roll that is refused starts no move to TLS. A pod that is made meanwhile is made as before, and is restarted with the
// others once the roll is accepted.
func TestARefusedRollMovesNothing(t *testing.T) {
	m := plainTrioOf(t, "0.1.0")
	tooLate := m.upgraded("0.3.0", "0.3.0")
	m.change(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.Update.RestartRequest = "roll" })
	m.unchanged(tooLate, "Off")
	m.condition("UpToDate", metav1.ConditionFalse, ramcloudv1.ReasonRollRefused)
	m.lose(tooLate, "demo-coordinator-1", "0.1.0", "")
	m.lose(tooLate, "demo-etcd-1", "0.1.0", "")
	m.unchanged(tooLate, "Off")

	m.moved(m.upgraded("0.2.0", "0.2.0"), func(s plan.TLSStage, made map[string]corev1.Pod) bool {
		for _, pod := range made {
			if !strings.HasSuffix(pod.Spec.Containers[0].Image, ":0.2.0") || pod.Annotations[specs.AnnotationTLS] == "" {
				return false
			}
		}
		return s == plan.TLSRequired && len(made) == 6
	})
}

// While the template of etcd is not written down no member is restarted, and none is told to be reached by TLS, which its pod
// would not take.
func TestNoMemberIsReachedByTLSBeforeItsTemplateIsKept(t *testing.T) {
	m := plainTrio(t)
	r := m.upgraded("test", "")
	reached := 0
	r.Reach = func(context.Context, *ramcloudv1.RAMCloudCluster, int32) error { reached++; return nil }
	m.change(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.Update.RestartRequest = "roll" })
	m.moved(r, func(s plan.TLSStage, _ map[string]corev1.Pod) bool { return s == plan.TLSUsed })
	m.noRevisions = true
	check(t, m.client.DeleteAllOf(m.ctx, &appsv1.ControllerRevision{}, client.InNamespace(m.key.Namespace),
		client.MatchingLabels{specs.LabelComponent: specs.ComponentEtcd}))
	for left := 5; left > 0; {
		_, _ = r.Reconcile(m.ctx, ctrl.Request{NamespacedName: m.key}) // the error says that it cannot record
		m.kubelet()
		if specs.TLSStage(m.cluster()) == plan.TLSRequired {
			left--
		}
	}
	for name, pod := range m.made() {
		if stage := pod.Annotations[specs.AnnotationTLS]; strings.Contains(name, "-etcd-") && stage != "Offered" || reached > 0 {
			t.Errorf("%s was made for %q; %d were reached", name, stage, reached)
		}
	}
	m.noRevisions = false
	m.moved(r, func(plan.TLSStage, map[string]corev1.Pod) bool { return reached == 3 })
}
