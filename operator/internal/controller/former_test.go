package controller_test

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ramcloud.dev/client/adminpb"
	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
)

// again deletes the cluster and makes another of its name at once. No garbage collector runs here; a test
// calls collect to remove the former cluster's objects.
func (w *world) again(spec func(*ramcloudv1.RAMCloudClusterSpec)) (former types.UID) {
	w.t.Helper()
	cluster := w.cluster()
	check(w.t, w.client.Delete(w.ctx, cluster))
	w.create(spec)
	return cluster.UID
}

// collect takes away the objects of these kinds that the former cluster owned, as Kubernetes' collector would.
func (w *world) collect(former types.UID, kinds ...client.ObjectList) {
	w.t.Helper()
	for _, list := range kinds {
		check(w.t, w.client.List(w.ctx, list, client.InNamespace(w.key.Namespace)))
		check(w.t, meta.EachListItem(list, func(item runtime.Object) error {
			object := item.(client.Object)
			if controllerOf(object) != former {
				return nil
			}
			if len(object.GetFinalizers()) > 0 { // there is no controller here that would take them away
				object.SetFinalizers(nil)
				if err := w.client.Update(w.ctx, object); err != nil {
					return err
				}
			}
			return client.IgnoreNotFound(w.client.Delete(w.ctx, object, client.GracePeriodSeconds(0)))
		}))
	}
}

// podsAndVolumes take their time to end; everything else goes at once.
func podsAndVolumes() []client.ObjectList {
	return []client.ObjectList{&corev1.PodList{}, &corev1.PersistentVolumeClaimList{}}
}

func everythingElse() []client.ObjectList {
	return []client.ObjectList{&corev1.ServiceList{}, &corev1.ConfigMapList{}, &policyv1.PodDisruptionBudgetList{}, &appsv1.ControllerRevisionList{}, &ramcloudv1.RAMCloudServerList{}}
}

// controllerOf returns the object's controller; empty: none.
func controllerOf(object client.Object) types.UID {
	if owner := metav1.GetControllerOf(object); owner != nil {
		return owner.UID
	}
	return ""
}

// owned waits for an object of the cluster as it is now.
func (w *world) owned(name string, object client.Object) {
	w.t.Helper()
	w.until(fmt.Sprintf("%T %s of the new cluster", object, name), func() string {
		if err := w.client.Get(w.ctx, client.ObjectKey{Namespace: w.key.Namespace, Name: name}, object); err != nil {
			return err.Error()
		}
		if controllerOf(object) != w.cluster().UID {
			return "it is of the former one"
		}
		return ""
	})
}

func withVolumesThatGo(spec func(*ramcloudv1.RAMCloudClusterSpec)) func(*ramcloudv1.RAMCloudClusterSpec) {
	return func(s *ramcloudv1.RAMCloudClusterSpec) {
		spec(s)
		s.PVCRetention = ramcloudv1.RetentionDelete
	}
}

// A cluster is deleted, and made again with fewer servers while the former one's pods still run, its coordinator
// answers, and its volumes wait to be deleted.
func TestAFormerClusterIsNotTakenOver(t *testing.T) {
	w := newWorld(t, withVolumesThatGo(exposed(5)))
	w.setServers(5)
	w.condition("Ready", metav1.ConditionTrue, ramcloudv1.ReasonAllServersUp)
	var claim corev1.PersistentVolumeClaim
	w.exists("data-demo-server-0", &claim)
	first := claim.UID

	former := w.again(withVolumesThatGo(exposed(3)))
	message := w.condition("Ready", metav1.ConditionFalse, ramcloudv1.ReasonFormerClusterNotGone)
	w.collect(former, everythingElse()...)
	if !strings.Contains(message, "pod demo-coordinator-0, pod demo-server-0") {
		t.Errorf("message: %s", message)
	}
	w.condition("Progressing", metav1.ConditionTrue, ramcloudv1.ReasonFormerClusterNotGone)
	w.condition("Degraded", metav1.ConditionFalse, ramcloudv1.ReasonAsExpected)
	w.quiet()
	before := w.writes.Load()
	w.poke(5)
	if n := w.writes.Load() - before; n != 0 {
		t.Errorf("%d writes while it waits", n)
	}
	var records ramcloudv1.RAMCloudServerList
	check(t, w.client.List(w.ctx, &records, client.InNamespace(w.key.Namespace)))
	if len(records.Items) > 0 {
		t.Errorf("%d records were made for the former cluster's servers", len(records.Items))
	}
	if s := w.cluster().Status; s.Coordinator.ClusterUUID != "" || s.Coordinator.Replicas != 0 || s.Servers.Replicas != 0 || w.watchers().Len() != 0 {
		t.Errorf("the former cluster is taken for this one: %+v %+v, %d watchers", s.Coordinator, s.Servers, w.watchers().Len())
	}
	w.exists("data-demo-server-0", &claim)
	if controllerOf(&claim) != former {
		t.Errorf("a volume that shall go got the owner %v", claim.OwnerReferences)
	}

	w.coordinator.SetServer(&adminpb.Server{Id: 4, State: adminpb.ServerState_SERVER_REMOVED})
	w.coordinator.SetServer(&adminpb.Server{Id: 5, State: adminpb.ServerState_SERVER_REMOVED})
	w.collect(former, podsAndVolumes()...)
	w.owned("data-demo-server-0", &claim)
	if claim.UID == first {
		t.Error("the volume is the former cluster's")
	}
	for i := range 3 {
		w.owned(fmt.Sprintf("demo-server-%d", i), &corev1.Pod{})
	}
	w.owned("demo-coordinator-0", &corev1.Pod{})
	w.condition("Ready", metav1.ConditionTrue, ramcloudv1.ReasonAllServersUp)
	w.condition("ScaleBlocked", metav1.ConditionFalse, ramcloudv1.ReasonNotBlocked)
	if s := w.cluster().Status; s.Servers.Replicas != 3 || s.Coordinator.ClusterUUID == "" {
		t.Errorf("%+v %+v", s.Servers, s.Coordinator)
	}
	w.absent("demo-server-3")
}

// The former etcd's state (it was complete, its volumes are lost) does not apply to the new one.
func TestAFormerEtcdIsNotTakenOver(t *testing.T) {
	w, _ := startTrio(t)
	w.change(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.PVCRetention = ramcloudv1.RetentionDelete })
	for i := range 3 {
		w.owned(fmt.Sprintf("data-demo-etcd-%d", i), &corev1.PersistentVolumeClaim{})
		w.owned(fmt.Sprintf("data-demo-server-%d", i), &corev1.PersistentVolumeClaim{})
	}
	former := w.again(withVolumesThatGo(withEtcd))
	w.condition("Ready", metav1.ConditionFalse, ramcloudv1.ReasonFormerClusterNotGone)
	w.collect(former, everythingElse()...)
	w.poke(5)
	if s := w.cluster().Status; s.Etcd.Formed || s.Etcd.Ready != 0 || s.Coordinator.ClusterUUID != "" {
		t.Errorf("the former cluster is taken for this one: %+v %+v", s.Etcd, s.Coordinator)
	}
	w.collect(former, podsAndVolumes()...)
	for i := range 3 {
		w.owned(fmt.Sprintf("demo-etcd-%d", i), &corev1.Pod{})
		w.ready(fmt.Sprintf("demo-etcd-%d", i))
	}
	for i := range 3 {
		w.owned(fmt.Sprintf("demo-coordinator-%d", i), &corev1.Pod{})
		w.ready(fmt.Sprintf("demo-coordinator-%d", i))
	}
	w.condition("Ready", metav1.ConditionTrue, ramcloudv1.ReasonAllServersUp)
	w.condition("Degraded", metav1.ConditionFalse, ramcloudv1.ReasonAsExpected)
}

// Volumes that were kept belong to nobody, and the next cluster of the name has them.
func TestKeptVolumesAreFoundAgain(t *testing.T) {
	w := newWorld(t, nil)
	w.setServers(3)
	w.condition("Ready", metav1.ConditionTrue, ramcloudv1.ReasonAllServersUp)
	names := []string{"data-demo-coordinator-0", "data-demo-server-0", "data-demo-server-1", "data-demo-server-2"}
	kept := map[string]types.UID{}
	for _, name := range names {
		var claim corev1.PersistentVolumeClaim
		w.exists(name, &claim)
		kept[name] = claim.UID
	}
	former := w.again(nil)
	message := w.condition("Ready", metav1.ConditionFalse, ramcloudv1.ReasonFormerClusterNotGone)
	if strings.Contains(message, "volume claim") {
		t.Errorf("it waits for volumes that are kept: %s", message)
	}
	w.collect(former, append(podsAndVolumes(), everythingElse()...)...)
	for i := range 3 {
		w.owned(fmt.Sprintf("demo-server-%d", i), &corev1.Pod{})
	}
	w.condition("Ready", metav1.ConditionTrue, ramcloudv1.ReasonAllServersUp)
	for _, name := range names {
		var claim corev1.PersistentVolumeClaim
		w.exists(name, &claim)
		if claim.UID != kept[name] || len(claim.OwnerReferences) > 0 {
			t.Errorf("%s is another volume, or owned: %v", name, claim.OwnerReferences)
		}
	}
	// pvcRetention may still be changed to Delete.
	w.change(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.PVCRetention = ramcloudv1.RetentionDelete })
	for _, name := range names {
		w.owned(name, &corev1.PersistentVolumeClaim{})
	}
}

func TestTheOwnerOfAnothersVolumeIsNotChanged(t *testing.T) {
	w := newWorld(t, nil)
	w.setServers(3)
	w.condition("Ready", metav1.ConditionTrue, ramcloudv1.ReasonAllServersUp)
	yes := true
	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: "other"}}
	check(t, w.client.Create(w.ctx, other))
	var claim corev1.PersistentVolumeClaim
	w.exists("data-demo-server-0", &claim)
	claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: other.Name, UID: other.UID, Controller: &yes}}
	check(t, w.client.Update(w.ctx, &claim))
	w.change(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.PVCRetention = ramcloudv1.RetentionDelete })
	w.owned("data-demo-server-1", &corev1.PersistentVolumeClaim{})
	w.quiet()
	w.exists("data-demo-server-0", &claim)
	if controllerOf(&claim) != other.UID {
		t.Errorf("the owner is now %v", claim.OwnerReferences)
	}
}
