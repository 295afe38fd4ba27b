package controller_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	acv1 "ramcloud.dev/operator/pkg/applyconfiguration/api/v1alpha1"
)

// unready takes a pod's readiness away, as a kubelet would.
func (w *world) unready(name string) {
	w.t.Helper()
	var pod corev1.Pod
	w.exists(name, &pod)
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Now()}}
	check(w.t, w.client.Status().Update(w.ctx, &pod))
}

func TestMembersThatAreDownAreTold(t *testing.T) {
	w, _ := startTrio(t)
	w.condition("Degraded", metav1.ConditionFalse, ramcloudv1.ReasonAsExpected)
	w.clockAhead.Store(int64(2 * patience)) // none of them counts as just created
	for name, reason := range map[string]string{"demo-etcd-1": ramcloudv1.ReasonEtcdMembersDown, "demo-coordinator-2": ramcloudv1.ReasonCoordinatorsDown} {
		w.unready(name)
		for kind, status := range map[string]metav1.ConditionStatus{"Ready": metav1.ConditionFalse, "Degraded": metav1.ConditionTrue} {
			if message := w.condition(kind, status, reason); !strings.Contains(message, "1 of 3") || !strings.Contains(message, name) {
				t.Errorf("%s: %s", kind, message)
			}
		}
		w.ready(name)
		w.condition("Ready", metav1.ConditionTrue, ramcloudv1.ReasonAllServersUp)
		w.condition("Degraded", metav1.ConditionFalse, ramcloudv1.ReasonAsExpected)
	}
}

// A step that fails reaches the condition, with what the API server said, and the others are taken.
func TestAFailedStepIsTold(t *testing.T) {
	w := newWorld(t, nil)
	w.setServers(3)
	w.condition("Ready", metav1.ConditionTrue, ramcloudv1.ReasonAllServersUp)
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: "few"}}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePersistentVolumeClaims: resource.MustParse("4")}
	check(t, w.client.Create(w.ctx, quota))
	quota.Status.Hard = quota.Spec.Hard // there is no controller here that would count
	quota.Status.Used = quota.Spec.Hard
	check(t, w.client.Status().Update(w.ctx, quota))
	probe := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: "probe"},
		Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}}
	w.until("the quota", func() string {
		if err := w.client.Create(w.ctx, probe.DeepCopy(), client.DryRunAll); err == nil {
			return "it is not followed yet"
		}
		return ""
	})
	replicas := int32(5)
	w.change(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.Servers.Replicas = &replicas })
	message := w.condition("Degraded", metav1.ConditionTrue, ramcloudv1.ReasonReconcileFailed)
	for _, part := range []string{"data-demo-server-3", "data-demo-server-4", "exceeded quota: few"} {
		if !strings.Contains(message, part) {
			t.Errorf("no %q in %q", part, message)
		}
	}
	w.exists("demo-server-4", &ramcloudv1.RAMCloudServer{})
	check(t, w.client.Delete(w.ctx, quota))
	w.exists("demo-server-4", &corev1.Pod{})
	w.condition("Degraded", metav1.ConditionFalse, ramcloudv1.ReasonAsExpected)
}

// If somebody else applied the status, the operator takes its fields back, and goes on.
func TestTheStatusIsTakenBack(t *testing.T) {
	w := newWorld(t, nil)
	w.setServers(3)
	w.condition("Ready", metav1.ConditionTrue, ramcloudv1.ReasonAllServersUp)
	w.quiet()
	somebody := []client.SubResourceApplyOption{client.FieldOwner("somebody"), client.ForceOwnership}
	check(t, w.client.Status().Apply(w.ctx, acv1.RAMCloudCluster(w.key.Name, w.key.Namespace).WithStatus(
		acv1.RAMCloudClusterStatus().WithServers(acv1.ServersStatus().WithReady(99).WithReplicas(99).WithSummary("99/99"))), somebody...))
	check(t, w.client.Status().Apply(w.ctx, acv1.RAMCloudServer("demo-server-0", w.key.Namespace).WithStatus(
		acv1.RAMCloudServerStatus().WithState(ramcloudv1.ServerCrashed).WithTablets(99)), somebody...))
	w.until("the status", func() string {
		var server ramcloudv1.RAMCloudServer
		w.exists("demo-server-0", &server)
		if s := w.cluster().Status.Servers; s.Summary != "3/3" || server.Status.State != ramcloudv1.ServerUp || server.Status.Tablets != 0 {
			return fmt.Sprintf("%+v, %+v", s, server.Status)
		}
		return ""
	})
}

// The bounded-text rule, against the API server: two hundred servers that find no node.
func TestTwoHundredUnschedulableServers(t *testing.T) {
	const servers = 200
	replicas := int32(servers)
	w := newWorld(t, func(s *ramcloudv1.RAMCloudClusterSpec) { s.Servers.Replicas = &replicas })
	reason := "0/3 nodes are available: " + strings.Repeat("1 node(s) had untolerated taint(s), 2 Insufficient memory. ", 20)
	for i := range servers {
		var pod corev1.Pod
		w.exists(fmt.Sprintf("demo-server-%d", i), &pod)
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: reason}}
		check(t, w.client.Status().Update(w.ctx, &pod))
	}
	w.until("what is told of the last one", func() string {
		var server ramcloudv1.RAMCloudServer
		w.exists(fmt.Sprintf("demo-server-%d", servers-1), &server)
		if !strings.Contains(server.Status.StateReason, "not scheduled") {
			return server.Status.StateReason
		}
		return ""
	})
	message := w.condition("Ready", metav1.ConditionFalse, ramcloudv1.ReasonServersNotUp)
	if !strings.Contains(message, "0 of 200 servers are up") || !strings.HasSuffix(message, "… and 195 more") || len(message) > 4096 {
		t.Errorf("%d bytes: %s", len(message), message)
	}
	// It goes on reporting.
	w.setServers(3)
	w.until("the first three", func() string {
		if s := w.cluster().Status.Servers; s.Summary != "3/200" {
			return s.Summary
		}
		return ""
	})
}

// The pinned-identity rule: with another store the operator changes nothing, and does not use its data.
func TestAnotherStoreStopsEverything(t *testing.T) {
	w := newWorld(t, nil)
	w.setServers(3)
	w.condition("Ready", metav1.ConditionTrue, ramcloudv1.ReasonAllServersUp)
	w.condition("ConsistentIdentity", metav1.ConditionTrue, ramcloudv1.ReasonIdentityPinned)
	w.quiet()
	ours := w.cluster().Status.Coordinator.ClusterUUID
	const theirs = "00000000-0000-4000-8000-000000000002"
	w.coordinator.SetUUID(theirs)
	for _, part := range []string{ours, theirs} {
		if message := w.condition("ConsistentIdentity", metav1.ConditionFalse, ramcloudv1.ReasonIdentityChanged); !strings.Contains(message, part) {
			t.Errorf("no %s in %s", part, message)
		}
	}
	w.condition("Ready", metav1.ConditionFalse, ramcloudv1.ReasonIdentityChanged)
	w.condition("Degraded", metav1.ConditionTrue, ramcloudv1.ReasonIdentityChanged)
	check(t, w.client.Delete(w.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: "demo-server-2"}}, client.GracePeriodSeconds(0)))
	w.poke(3)
	w.absent("demo-server-2")
	if got := w.cluster().Status.Coordinator.ClusterUUID; got != ours {
		t.Errorf("the UUID became %s", got)
	}
	w.coordinator.SetUUID(ours)
	w.condition("ConsistentIdentity", metav1.ConditionTrue, ramcloudv1.ReasonIdentityPinned)
	w.exists("demo-server-2", &corev1.Pod{})
	w.condition("Ready", metav1.ConditionTrue, ramcloudv1.ReasonAllServersUp)
}

// The owner rule: objects that an orphaning delete left are adopted as they are.
func TestOrphansAreAdopted(t *testing.T) {
	w := newWorld(t, nil)
	w.setServers(3)
	w.condition("Ready", metav1.ConditionTrue, ramcloudv1.ReasonAllServersUp)
	w.quiet()
	for name, object := range map[string]client.Object{"demo-server-1": &corev1.Pod{}, "demo": &corev1.Service{}} {
		w.exists(name, object)
		uid := object.GetUID()
		object.SetOwnerReferences(nil)
		check(t, w.client.Update(w.ctx, object))
		w.owned(name, object)
		if object.GetUID() != uid {
			t.Errorf("%s is another one", name)
		}
	}
}

// The owner rule: objects of another controller are not touched, and the message names them.
func TestAnothersPodIsNotTouched(t *testing.T) {
	w := newWorld(t, nil)
	w.setServers(3)
	w.condition("Ready", metav1.ConditionTrue, ramcloudv1.ReasonAllServersUp)
	yes := true
	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: "other"}}
	check(t, w.client.Create(w.ctx, other))
	var ours corev1.Pod
	w.exists("demo-server-2", &ours)
	labels := maps.Clone(ours.Labels)
	labels["ramcloud.dev/server"] = "3"
	theirs := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: "demo-server-3", Labels: labels,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: other.Name, UID: other.UID, Controller: &yes}}},
		Spec: ours.Spec}
	check(t, w.client.Create(w.ctx, theirs))
	w.poke(3)
	var records ramcloudv1.RAMCloudServerList
	check(t, w.client.List(w.ctx, &records, client.InNamespace(w.key.Namespace)))
	if len(records.Items) != 3 {
		t.Errorf("it is taken for a server: there are %d records", len(records.Items))
	}
	replicas := int32(4)
	w.change(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.Servers.Replicas = &replicas })
	message := w.condition("Degraded", metav1.ConditionTrue, ramcloudv1.ReasonReconcileFailed)
	if !strings.Contains(message, "pod demo-server-3") || !strings.Contains(message, "controlled by ConfigMap other") {
		t.Errorf("message: %s", message)
	}
	var same corev1.Pod
	w.exists("demo-server-3", &same)
	if same.UID != theirs.UID || controllerOf(&same) != other.UID || same.DeletionTimestamp != nil {
		t.Errorf("it is now %+v", same.ObjectMeta)
	}
	check(t, w.client.Delete(w.ctx, &same, client.GracePeriodSeconds(0)))
	w.owned("demo-server-3", &corev1.Pod{})
	if c := meta.FindStatusCondition(w.cluster().Status.Conditions, "Ready"); c == nil {
		t.Error("there are no conditions")
	}
}
