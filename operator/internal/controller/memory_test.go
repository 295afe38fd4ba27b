package controller_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ramcloud.dev/client/adminpb"
	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/fakeadmin"
)

// setLogs adds servers that are up and can change the size of their logs.
func (w *world) setLogs(n int, bytes uint64) {
	for i := range n {
		w.coordinator.SetServer(&adminpb.Server{
			Id: uint64(i + 1), Name: fmt.Sprintf("demo-server-%d", i), State: adminpb.ServerState_SERVER_UP, FailureDomain: fmt.Sprintf("d%d", i), Version: "1",
			Stats: &adminpb.ServerStats{LogBytesTotal: bytes, LogBytesTarget: bytes, LogBytesHeld: bytes, ReplicasWanted: 2, BackupFramesTotal: 4096,
				Segments: 1, SegmentsFullyReplicated: 1},
		})
	}
}

// kubelet writes the status of a pod that runs with the memory in its spec.
func (w *world) kubelet(name string) {
	w.t.Helper()
	var pod corev1.Pod
	w.exists(name, &pod)
	w.kubeletSays(name, pod.Spec.Containers[0].Resources.DeepCopy())
}

// kubeletSays writes the status of a pod that has these resources and conditions.
func (w *world) kubeletSays(name string, has *corev1.ResourceRequirements, conditions ...corev1.PodCondition) {
	w.t.Helper()
	var pod corev1.Pod
	w.exists(name, &pod)
	pod.Status.Phase, pod.Status.ObservedGeneration = corev1.PodRunning, pod.Generation
	pod.Status.Conditions = append(conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "server", Ready: true, Resources: has,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}}}
	check(w.t, w.client.Status().Update(w.ctx, &pod))
}

// memory is the limit in a pod's spec.
func (w *world) memory(name string) string {
	w.t.Helper()
	var pod corev1.Pod
	w.exists(name, &pod)
	request, limit := pod.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory], pod.Spec.Containers[0].Resources.Limits[corev1.ResourceMemory]
	if request.Cmp(limit) != 0 {
		w.t.Errorf("pod %s asks for %s of at most %s", name, request.String(), limit.String())
	}
	return limit.String()
}

func (w *world) untilMemory(name, size string) {
	w.t.Helper()
	w.until("the memory of "+name, func() string {
		if have := w.memory(name); have != size {
			return have
		}
		return ""
	})
}

// untilAsked waits until servers were asked for exactly these sizes of their logs, in this order.
func (w *world) untilAsked(want ...fakeadmin.MemoryAsked) {
	w.t.Helper()
	w.until("what servers are asked for", func() string {
		if have := w.coordinator.MemoryAsked(); !slices.Equal(have, want) {
			return fmt.Sprintf("%v, want %v", have, want)
		}
		return ""
	})
}

// nothingElse checks, after several reconciles, the number of requests to servers and the limits of pods.
func (w *world) nothingElse(asked int, pods ...string) {
	w.t.Helper()
	w.quiet()
	if have := w.coordinator.MemoryAsked(); len(have) != asked {
		w.t.Errorf("servers were asked for %v", have)
	}
	for i, size := range pods {
		if have := w.memory(serverPods[i]); have != size {
			w.t.Errorf("%s asks for %s, want %s", serverPods[i], have, size)
		}
	}
}

var serverPods = []string{"demo-server-0", "demo-server-1", "demo-server-2"}

func logMemory(size string) func(*ramcloudv1.RAMCloudCluster) {
	log := resource.MustParse(size)
	return func(c *ramcloudv1.RAMCloudCluster) { c.Spec.Servers.Memory.Log = &log }
}

// running is a cluster of three serving servers with logs of 256 MiB.
func running(t *testing.T, change ...func(*ramcloudv1.RAMCloudClusterSpec)) *world {
	w := newWorld(t, func(spec *ramcloudv1.RAMCloudClusterSpec) {
		for _, one := range change {
			one(spec)
		}
	})
	w.setLogs(3, 256<<20)
	for _, name := range append([]string{"demo-coordinator-0"}, serverPods...) {
		w.kubelet(name)
	}
	w.condition("Ready", metav1.ConditionTrue, ramcloudv1.ReasonAllServersUp)
	w.clockAhead.Store(int64(time.Minute)) // the cluster is whole for long enough
	w.quiet()
	if c := meta.FindStatusCondition(w.cluster().Status.Conditions, "Resizing"); c != nil {
		t.Fatalf("no size was changed: %+v", c)
	}
	return w
}

const (
	mi          = 1 << 20
	small, more = "496Mi", "800Mi" // limits of pods with logs of 256 and 512 MiB
)

func (w *world) resizes(says ...string) {
	w.t.Helper()
	w.until("what is told", func() string {
		message := w.condition("Resizing", metav1.ConditionTrue, ramcloudv1.ReasonMemoryResizing)
		for _, one := range says {
			if !strings.Contains(message, one) {
				return message
			}
		}
		return ""
	})
}

// A pod grows before its log and shrinks after it, one server after the other, without a restart.
func TestServersGrowAndShrinkWhileTheyRun(t *testing.T) {
	w := running(t)
	before := w.podUIDs()
	w.change(logMemory("512Mi"))
	var asked []fakeadmin.MemoryAsked
	for i, name := range serverPods {
		w.untilMemory(name, more)
		w.resizes(fmt.Sprintf("%d of 3 servers have logs of 512Mi", i), name+": the kubelet has not answered yet")
		w.nothingElse(len(asked), []string{more, []string{small, more}[min(i, 1)], []string{small, more}[max(i-1, 0)]}...)
		w.kubelet(name)
		asked = append(asked, fakeadmin.MemoryAsked{Server: uint64(i + 1), Bytes: 512 * mi})
		w.untilAsked(asked...)
	}
	w.condition("Resizing", metav1.ConditionFalse, ramcloudv1.ReasonMemoryAsWanted)
	for _, pending := range w.cluster().Status.PendingRestart { // the hash table waits for a restart, memory does not
		if text := strings.Join(pending.Differs, "; "); strings.Contains(text, "--log-memory") || strings.Contains(text, "resources") {
			t.Errorf("%s has its memory, and differs in %s", pending.Pod, text)
		}
	}

	w.coordinator.SetSlowLogs(true)
	w.change(logMemory("256Mi"))
	asked = append(asked, fakeadmin.MemoryAsked{Server: 1, Bytes: 256 * mi})
	w.untilAsked(asked...)
	w.resizes("demo-server-0: the server's log is 512Mi, and becomes 256Mi", "demo-server-1: its turn comes after server 0")
	w.nothingElse(len(asked), more, more, more)
	w.coordinator.SetSlowLogs(false)
	for i, name := range serverPods {
		w.untilMemory(name, small)
		w.kubelet(name)
		if i < 2 {
			asked = append(asked, fakeadmin.MemoryAsked{Server: uint64(i + 2), Bytes: 256 * mi})
		}
		w.untilAsked(asked...)
	}
	w.condition("Resizing", metav1.ConditionFalse, ramcloudv1.ReasonMemoryAsWanted)
	w.condition("UpToDate", metav1.ConditionTrue, ramcloudv1.ReasonUpToDate)
	w.quiet()
	for name, uid := range w.podUIDs() {
		if before[name] != uid {
			t.Errorf("pod %s was re-created", name)
		}
	}
}

// New pods are created with the new size.
func TestLaterServersAreMadeWithTheNewMemory(t *testing.T) {
	w := running(t)
	w.change(func(c *ramcloudv1.RAMCloudCluster) {
		logMemory("512Mi")(c)
		c.Spec.Servers.Replicas = new(int32(4))
	})
	var pod corev1.Pod
	w.exists("demo-server-3", &pod)
	if have := w.memory("demo-server-3"); have != more || !slices.Contains(pod.Spec.Containers[0].Args, "--log-memory=512MiB") {
		t.Errorf("it is made with %s and %v", have, pod.Spec.Containers[0].Args)
	}
}

// The operator waits for a deferred resize. An infeasible one waits for a restart, and can be taken back.
func TestAKubeletThatCannot(t *testing.T) {
	w := running(t)
	var pod corev1.Pod
	w.exists("demo-server-0", &pod)
	has := pod.Spec.Containers[0].Resources.DeepCopy()
	w.change(logMemory("512Mi"))
	w.untilMemory("demo-server-0", more)
	pending := func(reason, message string) corev1.PodCondition {
		return corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reason, Message: message}
	}
	w.kubeletSays("demo-server-0", has, pending(corev1.PodReasonDeferred, "Node didn't have enough resource: memory"))
	w.resizes("the kubelet says Deferred: Node didn't have enough resource: memory")
	w.nothingElse(0, more, small, small)

	const why = `Resize is infeasible for Guaranteed Pods alongside Memory Manager policy "Static"`
	for _, name := range serverPods {
		w.untilMemory(name, more)
		w.kubeletSays(name, has, pending(corev1.PodReasonInfeasible, why))
	}
	w.until("all to be infeasible", func() string {
		message := w.condition("Resizing", metav1.ConditionFalse, ramcloudv1.ReasonResizeInfeasible)
		if strings.Count(message, why) != 3 {
			return message
		}
		return ""
	})
	message := w.condition("UpToDate", metav1.ConditionFalse, ramcloudv1.ReasonRollPending)
	if list := w.cluster().Status.PendingRestart; len(list) != 3 || !slices.Contains(list[0].Differs, "--log-memory: 256MiB, wanted 512MiB") {
		t.Errorf("a restart does not bring it: %s, %+v", message, list)
	}
	w.nothingElse(0, more, more, more)

	w.change(logMemory("256Mi"))
	for _, name := range serverPods {
		w.untilMemory(name, small)
		w.kubelet(name)
	}
	w.condition("Resizing", metav1.ConditionFalse, ramcloudv1.ReasonMemoryAsWanted)
	w.condition("UpToDate", metav1.ConditionTrue, ramcloudv1.ReasonUpToDate)
	w.nothingElse(0, small, small, small)
}

// A server refuses before its pod is changed. The operator does not ask again in every reconcile.
func TestAServerThatCannot(t *testing.T) {
	w := running(t)
	w.change(func(c *ramcloudv1.RAMCloudCluster) { logMemory("17Gi")(c) })
	w.until("what is told", func() string {
		message := w.condition("Resizing", metav1.ConditionFalse, ramcloudv1.ReasonResizeInfeasible)
		if strings.Count(message, "the log is to be 17408Mi, and the volumes") != 3 {
			return message
		}
		return ""
	})
	for i := range 3 { // with larger volumes
		w.coordinator.SetServer(&adminpb.Server{Id: uint64(i + 1), Name: serverPods[i], State: adminpb.ServerState_SERVER_UP, FailureDomain: fmt.Sprint(i),
			Stats: &adminpb.ServerStats{LogBytesTotal: 256 * mi, LogBytesTarget: 256 * mi, LogBytesHeld: 256 * mi, ReplicasWanted: 2, BackupFramesTotal: 1 << 20}})
	}
	w.until("what is told", func() string {
		message := w.condition("Resizing", metav1.ConditionFalse, ramcloudv1.ReasonResizeInfeasible)
		if strings.Count(message, "it accepts logs of up to 16Gi (--log-memory-max)") != 3 {
			return message
		}
		return ""
	})
	w.nothingElse(0, small, small, small)
}

// The condition has the API server's message, and the operator asks again after some minutes.
func TestAnAPIServerThatRefusesMemory(t *testing.T) {
	w := running(t)
	w.forbidden.Store("/resize")
	w.change(logMemory("512Mi"))
	w.until("what is told", func() string {
		message := w.condition("Resizing", metav1.ConditionFalse, ramcloudv1.ReasonResizeInfeasible)
		if strings.Count(message, "the API server says: exceeded quota: little") != 3 {
			return message
		}
		return ""
	})
	w.nothingElse(0, small, small, small)

	w.forbidden.Store("")
	w.clockAhead.Store(int64(7 * time.Minute)) // time to ask again
	w.poke(1)
	w.untilMemory(serverPods[0], more)
}

// A size that is asked for while the cluster is paused is not said to be there. One that was refused and set back is.
func TestASizeWaitsWhileTheClusterIsPaused(t *testing.T) {
	w := running(t)
	w.change(func(c *ramcloudv1.RAMCloudCluster) {
		logMemory("512Mi")(c)
		c.Spec.Paused = true
	})
	w.resizes("logs of 512Mi wait: spec.paused is set")
	w.nothingElse(0, small, small, small)
	w.forbidden.Store("/resize")
	w.change(func(c *ramcloudv1.RAMCloudCluster) { c.Spec.Paused = false })
	w.condition("Resizing", metav1.ConditionFalse, ramcloudv1.ReasonResizeInfeasible)
	w.change(logMemory("256Mi"))
	w.condition("Resizing", metav1.ConditionFalse, ramcloudv1.ReasonMemoryAsWanted)
	w.nothingElse(0, small, small, small)
}

// A pod does not shrink while its log grows, even if the watch stream has not reported that yet (the pod-before-log rule).
func TestAPodDoesNotShrinkUnderALogThatGrowsUntold(t *testing.T) {
	w := running(t)
	w.change(logMemory("512Mi"))
	w.untilMemory("demo-server-0", more)
	w.coordinator.SetUntold(true)
	w.kubelet("demo-server-0")
	asked := []fakeadmin.MemoryAsked{{Server: 1, Bytes: 512 * mi}}
	w.until("the server to be asked", func() string {
		if len(w.coordinator.MemoryAsked()) == 0 {
			return "it was not"
		}
		return ""
	})
	w.change(logMemory("256Mi"))
	w.resizes("demo-server-0")
	w.poke(3)
	if have := w.memory("demo-server-0"); have != more {
		t.Fatalf("the log grows to 512 MiB, and its pod asks for %s", have)
	}
	w.coordinator.SetUntold(false)
	w.until("the log to be small again", func() string {
		if all := w.coordinator.MemoryAsked(); all[len(all)-1] != (fakeadmin.MemoryAsked{Server: 1, Bytes: 256 * mi}) || all[0] != asked[0] {
			return fmt.Sprint(all)
		}
		return ""
	})
	w.untilMemory("demo-server-0", small)
}

// Volumes whose size is not in the spec need not grow with the log.
func TestVolumesThatFollowTheLogNeedNotGrow(t *testing.T) {
	w := running(t, func(spec *ramcloudv1.RAMCloudClusterSpec) {
		spec.Servers.BackupStorage.StorageClass = new("test-follows")
	})
	w.storageClass("test-follows", false)
	for _, name := range serverClaims {
		w.grown(name, "1088Mi")
	}
	w.change(logMemory("512Mi"))
	for _, name := range serverPods {
		w.untilMemory(name, more)
		w.kubelet(name)
	}
	w.condition("Resizing", metav1.ConditionFalse, ramcloudv1.ReasonMemoryAsWanted)
	w.nothingElse(3, more, more, more)
	w.asks(serverClaims[0], "1088Mi")
}
