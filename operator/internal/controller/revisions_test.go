package controller_test

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	operator "ramcloud.dev/operator/internal/controller"
	"ramcloud.dev/operator/internal/specs"
)

// upgrade replaces the running operator by a later one.
func (w *world) upgrade(tag, version string) {
	w.t.Helper()
	w.stop()
	w.operate(operator.Defaults{NodeImage: "ramcloud/node:" + tag, EtcdImage: "ramcloud/etcd:" + tag}, version)
}

func (w *world) scale(servers int32) {
	w.t.Helper()
	w.change(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.Servers.Replicas = &servers })
}

func (w *world) image(pod string) string {
	w.t.Helper()
	var p corev1.Pod
	w.exists(pod, &p)
	return p.Spec.Containers[0].Image
}

// revisions returns a component's revisions, by state.
func (w *world) revisions(component string) map[string][]appsv1.ControllerRevision {
	w.t.Helper()
	var list appsv1.ControllerRevisionList
	check(w.t, w.client.List(w.ctx, &list, client.InNamespace(w.key.Namespace), client.MatchingLabels{specs.LabelComponent: component}))
	out := map[string][]appsv1.ControllerRevision{}
	for _, r := range list.Items {
		state := r.Labels[specs.LabelRevisionState]
		out[state] = append(out[state], r)
	}
	return out
}

// kept waits until so many revisions of a component are current, pending and former.
func (w *world) kept(component string, current, pending, former int) {
	w.t.Helper()
	w.until("revisions of "+component, func() string {
		r := w.revisions(component)
		if len(r[specs.RevisionCurrent]) != current || len(r[specs.RevisionPending]) != pending || len(r[specs.RevisionFormer]) != former {
			return fmt.Sprintf("%d current, %d pending, %d former", len(r[specs.RevisionCurrent]), len(r[specs.RevisionPending]), len(r[specs.RevisionFormer]))
		}
		return ""
	})
}

func (w *world) podUIDs() map[string]types.UID {
	w.t.Helper()
	var list corev1.PodList
	check(w.t, w.client.List(w.ctx, &list, client.InNamespace(w.key.Namespace)))
	out := map[string]types.UID{}
	for _, pod := range list.Items {
		out[pod.Name] = pod.UID
	}
	return out
}

// recreated waits until the pod was re-created.
func (w *world) recreated(name string, before types.UID) {
	w.t.Helper()
	w.until(name+" to be re-created", func() string {
		var pod corev1.Pod
		err := w.client.Get(w.ctx, client.ObjectKey{Namespace: w.key.Namespace, Name: name}, &pod)
		if err != nil || pod.UID == before {
			return fmt.Sprintf("not yet (%v)", err)
		}
		return ""
	})
}

func (w *world) deletePod(name string) {
	w.t.Helper()
	before := w.podUIDs()[name]
	check(w.t, w.client.Delete(w.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: name}}, client.GracePeriodSeconds(0)))
	w.recreated(name, before)
}

// A later operator has another default image: neither a pod that is made again nor one that is added has it before a roll
// is asked for, and then coordinators have it before servers.
func TestAnUpgradeOfTheOperatorChangesNoMember(t *testing.T) {
	w := newWorld(t, nil)
	w.setServers(3)
	coordinator := w.ready("demo-coordinator-0")
	w.condition("UpToDate", metav1.ConditionTrue, ramcloudv1.ReasonUpToDate)
	before := w.podUIDs()
	w.upgrade("later", "")
	message := w.condition("UpToDate", metav1.ConditionFalse, ramcloudv1.ReasonRollPending)
	if !strings.Contains(message, "image: ramcloud/node:test, wanted ramcloud/node:later") || !strings.Contains(message, "spec.update.restartRequest") {
		t.Errorf("message: %s", message)
	}
	w.kept("coordinator", 1, 1, 0)
	w.kept("server", 1, 1, 0)
	w.quiet()
	writes := w.writes.Load()
	w.poke(5)
	if n := w.writes.Load() - writes; n != 0 {
		t.Errorf("%d writes while nothing changed", n)
	}
	if pending := w.cluster().Status.PendingRestart; len(pending) > 0 {
		t.Errorf("pods differ from what is current: %+v", pending)
	}
	w.deletePod("demo-server-1")
	w.scale(4)
	for _, pod := range []string{"demo-server-1", "demo-server-3"} {
		if image := w.image(pod); image != "ramcloud/node:test" {
			t.Errorf("%s has the image %s", pod, image)
		}
	}
	after := w.podUIDs()
	for _, pod := range []string{"demo-coordinator-0", "demo-server-0", "demo-server-2"} {
		if after[pod] != before[pod] {
			t.Errorf("%s was re-created", pod)
		}
	}

	w.change(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.Update.RestartRequest = "roll" })
	w.recreated("demo-coordinator-0", coordinator)
	if image := w.image("demo-coordinator-0"); image != "ramcloud/node:later" {
		t.Errorf("the coordinator has the image %s", image)
	}
	w.poke(3)
	w.kept("coordinator", 1, 0, 0)
	w.kept("server", 1, 1, 0) // not before the coordinator works again
	w.ready("demo-coordinator-0")
	w.setServers(4)
	w.condition("UpToDate", metav1.ConditionFalse, ramcloudv1.ReasonRolling)
	w.kept("server", 1, 0, 1)
	w.scale(5)
	if image := w.image("demo-server-4"); image != "ramcloud/node:later" {
		t.Errorf("demo-server-4 has the image %s", image)
	}
	w.kept("server", 1, 0, 1)
	if s := w.cluster().Status.Revisions; len(s) != 2 || s[0].Component != "coordinator" || s[0].Pending != "" ||
		s[0].Current != w.revisions("coordinator")[specs.RevisionCurrent][0].Name {
		t.Errorf("%+v", s)
	}
}

// A changed spec is followed by new members as before, with the versions that the cluster has.
func TestAChangedSpecKeepsTheVersion(t *testing.T) {
	w := newWorld(t, nil)
	w.setServers(3)
	w.ready("demo-coordinator-0")
	w.upgrade("later", "")
	w.condition("UpToDate", metav1.ConditionFalse, ramcloudv1.ReasonRollPending)
	four := int32(4)
	w.change(func(c *ramcloudv1.RAMCloudCluster) {
		c.Spec.Servers.Template.Metadata.Annotations = map[string]string{"team": "a"}
		c.Spec.Servers.Replicas = &four
	})
	var pod corev1.Pod
	w.exists("demo-server-3", &pod)
	if pod.Annotations["team"] != "a" || pod.Spec.Containers[0].Image != "ramcloud/node:test" {
		t.Errorf("%v, image %s", pod.Annotations, pod.Spec.Containers[0].Image)
	}
	w.kept("server", 1, 1, 1)
	w.kept("coordinator", 1, 1, 0)
	// An image that the spec names is a change like any other.
	five := int32(5)
	w.change(func(c *ramcloudv1.RAMCloudCluster) {
		c.Spec.Images.Node, c.Spec.Servers.Replicas = "ramcloud/node:named", &five
	})
	if image := w.image("demo-server-4"); image != "ramcloud/node:named" {
		t.Errorf("demo-server-4 has the image %s", image)
	}
}

// Pods of an operator without revisions are adopted as they are, to the byte, and nothing rolls.
func TestMembersOfAnOperatorWithoutRevisionsAreAdopted(t *testing.T) {
	w, before := startTrio(t)
	w.kept("etcd", 1, 0, 0)
	names := map[string]string{}
	for _, component := range []string{"etcd", "coordinator", "server"} {
		names[component] = w.revisions(component)[specs.RevisionCurrent][0].Name
	}
	w.condition("UpToDate", metav1.ConditionTrue, ramcloudv1.ReasonUpToDate)
	w.quiet()
	w.stop()
	var pods corev1.PodList
	check(t, w.client.List(w.ctx, &pods, client.InNamespace(w.key.Namespace)))
	for i := range pods.Items {
		delete(pods.Items[i].Annotations, specs.AnnotationRevision)
		check(t, w.client.Update(w.ctx, &pods.Items[i]))
	}
	check(t, w.client.DeleteAllOf(w.ctx, &appsv1.ControllerRevision{}, client.InNamespace(w.key.Namespace)))
	w.operate(operator.Defaults{NodeImage: "ramcloud/node:later", EtcdImage: "ramcloud/etcd:later"}, "")
	w.condition("UpToDate", metav1.ConditionFalse, ramcloudv1.ReasonRollPending)
	for component, name := range names {
		w.kept(component, 1, 1, 0)
		if now := w.revisions(component)[specs.RevisionCurrent][0].Name; now != name {
			t.Errorf("%s: the members were made from %s, and %s was adopted", component, name, now)
		}
	}
	w.quiet()
	if pending := w.cluster().Status.PendingRestart; len(pending) > 0 {
		t.Errorf("%+v", pending)
	}
	after := w.podUIDs()
	for name, uid := range before {
		if after[name] != uid {
			t.Errorf("%s was re-created", name)
		}
	}
	w.deletePod("demo-server-1")
	w.deletePod("demo-etcd-1")
	if image, etcd := w.image("demo-server-1"), w.image("demo-etcd-1"); image != "ramcloud/node:test" || etcd != "ramcloud/etcd:test" {
		t.Errorf("images %s, %s", image, etcd)
	}
}

// Two versions at once are refused, and nothing is restarted for it.
func TestARollThatBreaksTheSkewRuleIsRefused(t *testing.T) {
	w := newWorldOf(t, operator.Defaults{NodeImage: "ramcloud/node:0.1.0", EtcdImage: "ramcloud/etcd:0.1.0"}, "0.1.0", nil)
	w.setServers(3)
	coordinator := w.ready("demo-coordinator-0")
	w.upgrade("0.3.0", "0.3.0")
	w.condition("UpToDate", metav1.ConditionFalse, ramcloudv1.ReasonRollPending)
	w.change(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.Update.RestartRequest = "roll" })
	message := w.condition("UpToDate", metav1.ConditionFalse, ramcloudv1.ReasonRollRefused)
	if !strings.Contains(message, "image ramcloud/node:0.3.0 is version 0.3, and only a version and the one before may run at the same time") {
		t.Errorf("message: %s", message)
	}
	w.poke(3)
	if uid := w.podUIDs()["demo-coordinator-0"]; uid != coordinator {
		t.Error("the coordinator was restarted")
	}
	w.deletePod("demo-coordinator-0") // it is made as before, and is no member that was rolled
	if image := w.image("demo-coordinator-0"); image != "ramcloud/node:0.1.0" {
		t.Errorf("the coordinator has the image %s", image)
	}
	coordinator = w.ready("demo-coordinator-0")
	w.upgrade("0.2.0", "0.2.0") // the request stands
	w.recreated("demo-coordinator-0", coordinator)
	if image := w.image("demo-coordinator-0"); image != "ramcloud/node:0.2.0" {
		t.Errorf("the coordinator has the image %s", image)
	}
}
