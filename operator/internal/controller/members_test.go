package controller_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ramcloud.dev/client/adminpb"
	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
)

// ready lets a pod become ready, as a kubelet would.
func (w *world) ready(name string) types.UID {
	w.t.Helper()
	var pod corev1.Pod
	w.exists(name, &pod)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name, Ready: true, Image: "i", ImageID: "i",
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}}}
	check(w.t, w.client.Status().Update(w.ctx, &pod))
	return pod.UID
}

func (w *world) absent(name string) {
	w.t.Helper()
	err := w.client.Get(w.ctx, client.ObjectKey{Namespace: w.key.Namespace, Name: name}, &corev1.Pod{})
	if client.IgnoreNotFound(err) != nil || err == nil {
		w.t.Errorf("pod %s exists (%v)", name, err)
	}
}

func withEtcd(s *ramcloudv1.RAMCloudClusterSpec) {
	s.Coordinator.Replicas = 3
	s.Metadata.ManagedEtcd = &ramcloudv1.ManagedEtcdSpec{Replicas: 3, AutoCompactionRetention: "1h"}
}

// startTrio brings up three etcd members and three coordinators.
func startTrio(t *testing.T) (*world, map[string]types.UID) {
	w := newWorld(t, withEtcd)
	pods := map[string]types.UID{}
	w.exists("demo-server-2", &corev1.Pod{})
	w.absent("demo-coordinator-0") // it would only fail until the etcd is there
	for i := range 3 {
		w.exists(fmt.Sprintf("data-demo-etcd-%d", i), &corev1.PersistentVolumeClaim{})
		name := fmt.Sprintf("demo-etcd-%d", i)
		pods[name] = w.ready(name)
	}
	for i := range 3 {
		name := fmt.Sprintf("demo-coordinator-%d", i)
		pods[name] = w.ready(name)
	}
	w.setServers(3)
	w.condition("Ready", metav1.ConditionTrue, ramcloudv1.ReasonAllServersUp)
	return w, pods
}

func TestThreeCoordinatorsWithEtcd(t *testing.T) {
	w, _ := startTrio(t)
	var pod corev1.Pod
	w.exists("demo-coordinator-2", &pod)
	if flags := strings.Join(pod.Spec.Containers[0].Args, " "); !strings.Contains(flags, "--metadata=etcd:demo-etcd-0."+w.key.Namespace+".svc:2379,") {
		t.Errorf("coordinator: %s", flags)
	}
	var service corev1.Service
	w.exists("demo-etcd-0", &service)
	if service.Spec.ClusterIP == "" || service.Spec.ClusterIP == corev1.ClusterIPNone || !service.Spec.PublishNotReadyAddresses {
		t.Errorf("the address of an etcd member does not stay: %+v", service.Spec)
	}
	var claims corev1.PersistentVolumeClaimList
	check(t, w.client.List(w.ctx, &claims, client.InNamespace(w.key.Namespace)))
	for _, claim := range claims.Items {
		if strings.Contains(claim.Name, "coordinator") {
			t.Errorf("a coordinator has a volume although the metadata is in etcd: %s", claim.Name)
		}
	}
	var budget policyv1.PodDisruptionBudget
	for name, want := range map[string]int{"demo-etcd": 2, "demo-coordinators": 2, "demo-servers": 3} {
		w.exists(name, &budget)
		if budget.Spec.MinAvailable.IntValue() != want {
			t.Errorf("budget %s: %v, want %d", name, budget.Spec.MinAvailable, want)
		}
	}
	w.until("the status", func() string {
		s := w.cluster().Status
		if !s.Etcd.Formed || s.Etcd.Ready != 3 || s.Coordinator.Ready != 3 {
			return fmt.Sprintf("%+v %+v", s.Etcd, s.Coordinator)
		}
		return ""
	})
	w.quiet()
	before := w.writes.Load()
	w.poke(10)
	if n := w.writes.Load() - before; n != 0 {
		t.Errorf("%d writes while nothing changed", n)
	}
}

// A pod advertises the address of its load balancer, so it is not made before there is one.
func TestPodsWaitForTheirLoadBalancers(t *testing.T) {
	w := newWorld(t, func(s *ramcloudv1.RAMCloudClusterSpec) { s.Expose.Type = ramcloudv1.ExposeLoadBalancer })
	address := func(name, host string) {
		var service corev1.Service
		w.exists(name+"-outside", &service)
		if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
			t.Errorf("%s is of type %s", service.Name, service.Spec.Type)
		}
		service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: host}}
		check(t, w.client.Status().Update(w.ctx, &service))
	}
	w.until("the reason", func() string {
		var server ramcloudv1.RAMCloudServer
		w.exists("demo-server-1", &server)
		if want := "the pod waits for the address of the load balancer of Service demo-server-1-outside"; !strings.Contains(server.Status.StateReason, want) {
			return server.Status.StateReason
		}
		return ""
	})
	w.absent("demo-coordinator-0")
	address("demo-coordinator-0", "lb-c.example")
	address("demo-server-0", "lb-0.example")
	var pod corev1.Pod
	w.exists("demo-server-0", &pod)
	if flags := strings.Join(pod.Spec.Containers[0].Args, " "); !strings.Contains(flags, "--advertise-outside=lb-0.example:11200") {
		t.Errorf("server: %s", flags)
	}
	w.exists("demo-coordinator-0", &pod)
	if flags := strings.Join(pod.Spec.Containers[0].Args, " "); !strings.Contains(flags, "--admin-advertise-outside=lb-c.example:11101") {
		t.Errorf("coordinator: %s", flags)
	}
	w.absent("demo-server-1")
	w.until("the connection", func() string {
		var connection corev1.ConfigMap
		w.exists("demo-connection", &connection)
		if got := connection.Data["cluster-outside"]; got != "lb-c.example:11100" {
			return "cluster-outside is " + got
		}
		return ""
	})
}

// A terminating member is still Ready for Kubernetes, but must not count when all members must be ready.
func TestAMemberThatEndsIsNotCounted(t *testing.T) {
	w, _ := startTrio(t)
	var pod corev1.Pod
	w.exists("demo-etcd-1", &pod)
	pod.Finalizers = []string{"ramcloud.dev/test"} // as long as it takes to end
	check(t, w.client.Update(w.ctx, &pod))
	check(t, w.client.Delete(w.ctx, &pod))
	w.until("two members", func() string {
		if ready := w.cluster().Status.Etcd.Ready; ready != 2 {
			return fmt.Sprintf("%d are ready", ready)
		}
		return ""
	})
	w.exists("demo-etcd-1", &pod)
	pod.Finalizers = nil
	check(t, w.client.Update(w.ctx, &pod))
}

func TestARestartIsRolledOneAtATime(t *testing.T) {
	w, pods := startTrio(t)
	var server corev1.Pod
	w.exists("demo-server-0", &server)
	w.change(func(c *ramcloudv1.RAMCloudCluster) {
		c.Spec.Images.Node = "ramcloud/node:new"
		c.Spec.Update.RestartRequest = "first"
	})
	order := []string{"demo-etcd-0", "demo-etcd-1", "demo-etcd-2", "demo-coordinator-0", "demo-coordinator-1", "demo-coordinator-2"}
	for i, name := range order {
		var pod corev1.Pod
		w.until(name+" to be re-created", func() string {
			w.exists(name, &pod)
			if pod.UID == pods[name] {
				return "still the first"
			}
			return ""
		})
		// It is not ready yet: the next one is not touched however often the operator looks.
		if i < len(order)-1 {
			w.condition("Progressing", metav1.ConditionTrue, ramcloudv1.ReasonRollingRestart)
		}
		w.poke(3)
		for _, later := range order[i+1:] {
			w.exists(later, &pod)
			if pod.UID != pods[later] {
				t.Fatalf("%s was restarted before %s was ready", later, name)
			}
		}
		w.ready(name)
	}
	// Servers come last, and each only after others have replicas of its log.
	w.poke(3)
	w.condition("Progressing", metav1.ConditionTrue, ramcloudv1.ReasonRollingRestart)
	var same corev1.Pod
	w.exists("demo-server-0", &same)
	if same.UID != server.UID {
		t.Error("a server was restarted")
	}
	w.until("what is left", func() string {
		pending := w.cluster().Status.PendingRestart
		if len(pending) != 3 || pending[0].Pod != "demo-server-0" || !strings.Contains(pending[0].Waits, "its log has replicas") {
			return fmt.Sprintf("%+v", pending)
		}
		return ""
	})
}

func TestSurplusCoordinatorsGo(t *testing.T) {
	w, _ := startTrio(t)
	w.change(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.Expose.Type = ramcloudv1.ExposeNodePort })
	w.exists("demo-coordinator-2-outside", &corev1.Service{})
	w.change(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.Coordinator.Replicas = 1 })
	w.until("two coordinators to go", func() string {
		var pods corev1.PodList
		check(t, w.client.List(w.ctx, &pods, client.InNamespace(w.key.Namespace), client.MatchingLabels{"app.kubernetes.io/component": "coordinator"}))
		if len(pods.Items) != 1 || pods.Items[0].Name != "demo-coordinator-0" {
			return fmt.Sprintf("%d left", len(pods.Items))
		}
		var services corev1.ServiceList
		check(t, w.client.List(w.ctx, &services, client.InNamespace(w.key.Namespace), client.MatchingLabels{"app.kubernetes.io/component": "coordinator"}))
		if len(services.Items) != 1 {
			return fmt.Sprintf("%d Services left", len(services.Items))
		}
		return ""
	})
}

// loseVolume deletes a claim and its pod for good, as an administrator would whose disk died.
func (w *world) loseVolume(pod string) {
	w.t.Helper()
	var claim corev1.PersistentVolumeClaim
	w.exists("data-"+pod, &claim)
	claim.Finalizers = nil                                                                                                 // there is no controller here that would take it away
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, "ramcloud.dev/let-go", time.Now().Add(time.Hour).Format(time.RFC3339)) // nor is ours put back
	check(w.t, w.client.Update(w.ctx, &claim))
	check(w.t, w.client.Delete(w.ctx, &claim))
	check(w.t, w.client.Delete(w.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: pod}}, client.GracePeriodSeconds(0)))
}

func TestALostVolumeIsReplacedOnTheCoordinatorsWord(t *testing.T) {
	w := newWorld(t, nil)
	w.setServers(3)
	w.condition("Ready", metav1.ConditionTrue, ramcloudv1.ReasonAllServersUp)
	w.quiet()
	w.loseVolume("demo-server-1")
	message := w.condition("Degraded", metav1.ConditionTrue, ramcloudv1.ReasonVolumeLost)
	if !strings.Contains(message, "which lists the server as up") {
		t.Errorf("message: %s", message)
	}
	w.poke(3)
	w.absent("demo-server-1")
	w.coordinator.SetServer(&adminpb.Server{Id: 2, Name: "demo-server-1", State: adminpb.ServerState_SERVER_CRASHED})
	// No name is used twice, although nothing is left of the first claim.
	w.exists("data-demo-server-1-g2", &corev1.PersistentVolumeClaim{})
	w.has("demo-server-1", "data-demo-server-1-g2")
	w.gone("data-demo-server-1")
	w.until("the generation to be noted", func() string {
		var server ramcloudv1.RAMCloudServer
		w.exists("demo-server-1", &server)
		if server.Status.VolumeGeneration != 2 {
			return fmt.Sprintf("%+v", server.Status)
		}
		return ""
	})
}

// An etcd member that lost its volume is removed and added again, once, and comes back without data to join
// the others.
func TestALostEtcdMemberIsReplaced(t *testing.T) {
	w, pods := startTrio(t)
	w.until("the etcd to be whole", func() string {
		if !w.cluster().Status.Etcd.Formed {
			return "not yet"
		}
		return ""
	})
	w.quiet()
	w.loseVolume("demo-etcd-1")
	var pod corev1.Pod
	w.until("demo-etcd-1 to be re-created", func() string {
		err := w.client.Get(w.ctx, client.ObjectKey{Namespace: w.key.Namespace, Name: "demo-etcd-1"}, &pod)
		if err != nil || pod.UID == pods["demo-etcd-1"] {
			return fmt.Sprintf("not yet: %v", err)
		}
		return ""
	})
	w.exists("data-demo-etcd-1", &corev1.PersistentVolumeClaim{})
	if flags := strings.Join(pod.Spec.Containers[0].Args, " "); !strings.Contains(flags, "--initial-cluster-state=existing") {
		t.Errorf("it would found another etcd: %s", flags)
	}
	if got := w.rejoined.Load(); got != 1<<1 {
		t.Errorf("rejoined (a bit for each member): %#b", got)
	}
	w.ready("demo-etcd-1")
	w.condition("Degraded", metav1.ConditionFalse, ramcloudv1.ReasonAsExpected)
	if pending := w.cluster().Status.PendingRestart; len(pending) > 0 {
		t.Errorf("pending: %+v", pending)
	}
}

func TestLostMetadataIsNotReplaced(t *testing.T) {
	w := newWorld(t, nil)
	w.setServers(3)
	w.condition("Ready", metav1.ConditionTrue, ramcloudv1.ReasonAllServersUp)
	w.quiet()
	w.loseVolume("demo-coordinator-0")
	message := w.condition("Degraded", metav1.ConditionTrue, ramcloudv1.ReasonMetadataVolumeLost)
	if !strings.Contains(message, "coordinator 0") {
		t.Errorf("message: %s", message)
	}
	w.change(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.PVCRetention = ramcloudv1.RetentionDelete }) // it looks again
	w.until("the operator to have looked", func() string {
		if c := w.cluster(); c.Status.ObservedGeneration != c.Generation {
			return "not yet"
		}
		return ""
	})
	w.absent("demo-coordinator-0")
}

func TestAPausedClusterIsLeftAlone(t *testing.T) {
	w := newWorld(t, nil)
	w.exists("demo-server-2", &corev1.Pod{})
	w.condition("Paused", metav1.ConditionFalse, ramcloudv1.ReasonNotPaused)
	w.quiet()
	w.change(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.Paused = true })
	w.condition("Paused", metav1.ConditionTrue, ramcloudv1.ReasonPaused)
	check(t, w.client.Delete(w.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: "demo-server-2"}}, client.GracePeriodSeconds(0)))
	w.poke(3)
	w.absent("demo-server-2")
	w.change(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.Paused = false })
	w.exists("demo-server-2", &corev1.Pod{})
}

// A spec in old fields is followed, reported, and left as its user wrote it.
func TestOldFieldsAreFollowed(t *testing.T) {
	w := newWorld(t, func(s *ramcloudv1.RAMCloudClusterSpec) { s.DeprecatedFailureDomain, s.Durability = "zone", "synced" })
	w.exists("demo-coordinator-0", &corev1.Pod{})
	var pod corev1.Pod
	w.exists("demo-server-2", &pod)
	flags := strings.Join(pod.Spec.Containers[0].Args, " ")
	if !strings.Contains(flags, "--durability=synced") || !strings.Contains(flags, "--failure-domain=$(ZONE)") {
		t.Errorf("server: %s", flags)
	}
	w.quiet()
	w.change(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.DeprecatedPause = true })
	w.condition("Paused", metav1.ConditionTrue, ramcloudv1.ReasonPaused)
	message := w.condition("DeprecatedFields", metav1.ConditionTrue, ramcloudv1.ReasonDeprecatedFieldsUsed)
	if !strings.Contains(message, "spec.pause is now paused: true") || !strings.Contains(message, "spec.durability: synced is now Synced") {
		t.Errorf("message: %s", message)
	}
	check(t, w.client.Delete(w.ctx, &pod, client.GracePeriodSeconds(0)))
	w.poke(3)
	w.absent("demo-server-2")
	if s := w.cluster().Spec; s.DeprecatedFailureDomain != "zone" || s.TopologyKey != "" || s.Durability != "synced" {
		t.Errorf("the operator changed spec: %+v", s)
	}
	w.change(func(c *ramcloudv1.RAMCloudCluster) {
		c.Spec.DeprecatedFailureDomain, c.Spec.TopologyKey, c.Spec.Durability = "", corev1.LabelTopologyZone, ramcloudv1.DurabilitySynced
		c.Spec.DeprecatedPause = false
	})
	w.condition("DeprecatedFields", metav1.ConditionFalse, ramcloudv1.ReasonNoDeprecatedFields)
	w.exists("demo-server-2", &corev1.Pod{})
	w.quiet()
	for _, pending := range w.cluster().Status.PendingRestart {
		t.Errorf("the new names of the same are a difference: %+v", pending)
	}
}

func TestEventsTellWhatHappened(t *testing.T) {
	w := newWorld(t, nil)
	w.setServers(3)
	w.condition("Ready", metav1.ConditionTrue, ramcloudv1.ReasonAllServersUp)
	replicas := int32(4)
	w.change(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.Servers.Replicas = &replicas })
	w.exists("demo-server-3", &corev1.Pod{})
	replicas = 3
	w.change(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.Servers.Replicas = &replicas })
	w.until("the events", func() string {
		var list corev1.EventList
		check(t, w.client.List(w.ctx, &list, client.InNamespace(w.key.Namespace)))
		var reasons []string
		for _, e := range list.Items {
			reasons = append(reasons, e.Reason)
		}
		for _, want := range []string{"PodCreated", "AllServersUp", "ScaleInNotSupported"} {
			if !slices.Contains(reasons, want) {
				return fmt.Sprintf("no %s in %v", want, reasons)
			}
		}
		return ""
	})
}
