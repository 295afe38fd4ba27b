package specs

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/plan"
)

func withLog(log string) *ramcloudv1.RAMCloudCluster {
	c, size := demo(), resource.MustParse(log)
	c.Spec.Servers.Memory.Log = &size
	return c
}

func TestMemoryWanted(t *testing.T) {
	limit := func(text string) int64 { q := resource.MustParse(text); return q.Value() }
	for name, test := range map[string]struct {
		change func(*ramcloudv1.RAMCloudCluster)
		want   plan.MemoryWanted
	}{
		"derived":                     {func(*ramcloudv1.RAMCloudCluster) {}, plan.MemoryWanted{Log: 512 * mib, HashTable: 64 * mib, Pod: 800 * mib, Least: 800 * mib}},
		"a log of no whole segments":  {func(c *ramcloudv1.RAMCloudCluster) { *c.Spec.Servers.Memory.Log = resource.MustParse("100Mi") }, plan.MemoryWanted{Log: 96 * mib, HashTable: 13 * mib, Pod: 312 * mib, Least: 312 * mib}},
		"a log of no whole mebibytes": {func(c *ramcloudv1.RAMCloudCluster) { *c.Spec.Servers.Memory.Log = resource.MustParse("100M") }, plan.MemoryWanted{Log: 88 * mib, HashTable: 12 * mib, Pod: 306 * mib, Least: 306 * mib}},
		"resources of one's own": {func(c *ramcloudv1.RAMCloudCluster) {
			c.Spec.Servers.Resources = &corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")}}
		}, plan.MemoryWanted{Log: 512 * mib, HashTable: 64 * mib, Pod: limit("2Gi"), Uneven: true, Least: 768 * mib}},
		"a limit of one's own, which is the request, too": {func(c *ramcloudv1.RAMCloudCluster) {
			c.Spec.Servers.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("768Mi")}}
		}, plan.MemoryWanted{Log: 512 * mib, HashTable: 64 * mib, Pod: 768 * mib, Least: 768 * mib}},
		"no limit": {func(c *ramcloudv1.RAMCloudCluster) { c.Spec.Servers.Resources = &corev1.ResourceRequirements{} },
			plan.MemoryWanted{Log: 512 * mib, HashTable: 64 * mib, Least: 768 * mib}},
	} {
		c := withLog("512Mi")
		test.change(c)
		test.want.LargestLog = noBound
		if got := MemoryWanted(Template(c, ComponentServer, Defaults{Image: "i"})); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

func TestPodMemory(t *testing.T) {
	c := withLog("512Mi")
	pod := ServerPod(c, 0, Defaults{Image: "i"}, NodePorts{})
	pod.Generation = 4
	pod.Status.ObservedGeneration = 3
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred, Message: "full"},
		{Type: corev1.PodResizeInProgress, Status: corev1.ConditionFalse},
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: "sidecar", Resources: &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Mi")}}},
		{Name: ComponentServer, Resources: &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("700Mi")}}},
	}
	want := plan.PodMemory{Asked: 800 * mib, Actual: 700 * mib, StartLog: 512 * mib, HashTable: 64 * mib, Floor: 790 * mib,
		Generation: 4, Observed: 3, Pending: &plan.Said{Reason: "Deferred", Message: "full"}}
	if got := PodMemory(pod, 790*mib); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := PodMemory(pod, 0); got.Floor != 800*mib {
		t.Errorf("a pod of which nobody knows what it was made from has the floor %d", got.Floor)
	}
	pod.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{
		{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}, {ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.NotRequired}}
	if PodMemory(pod, 0).Restarts {
		t.Error("a change of memory restarts nobody")
	}
	pod.Spec.Containers[0].ResizePolicy[1].RestartPolicy = corev1.RestartContainer
	if !PodMemory(pod, 0).Restarts {
		t.Error("a change of memory restarts the container")
	}
	c.Spec.Servers.HugePages = "2Mi"
	if !PodMemory(ServerPod(c, 0, Defaults{Image: "i"}, NodePorts{}), 0).HugePages {
		t.Error("huge pages are not seen")
	}
}

func TestResizePatch(t *testing.T) {
	pod := ServerPod(withLog("512Mi"), 0, Defaults{Image: "i"}, NodePorts{})
	pod.UID, pod.ResourceVersion = "u", "7"
	text, err := json.Marshal(ResizePatch(pod, 900*mib))
	const want = `{"metadata":{"resourceVersion":"7","uid":"u"},"spec":{"containers":[{"name":"server","resources":{"limits":{"memory":"900Mi"},"requests":{"memory":"900Mi"}}}]}}`
	if err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
}

// The log's memory is no difference of a running server. The hash table is one, because it stays until a restart.
func TestDifferencesBesideMemory(t *testing.T) {
	made := func(c *ramcloudv1.RAMCloudCluster) *corev1.Pod {
		return Instantiate(c, Template(c, ComponentServer, Defaults{Image: "i"}), 0, NodePorts{}, Trust{})
	}
	live, wanted := made(withLog("256Mi")), made(withLog("512Mi"))
	names := func(list []string) (out []string) {
		for _, one := range list {
			name, _, _ := strings.Cut(one, ":")
			out = append(out, name)
		}
		return out
	}
	if got := names(Differences(live, wanted)); !slices.Equal(got, []string{"--backup-size", "--hash-table-memory", "--log-memory", "resources"}) {
		t.Errorf("of a server that is to be restarted: %q", got)
	}
	if got := names(DifferencesBesideMemory(live, wanted)); !slices.Equal(got, []string{"--backup-size", "--hash-table-memory"}) {
		t.Errorf("of a server that gets the memory while it runs: %q", got)
	}
	if got := DifferencesBesideMemory(wanted, wanted); got != nil {
		t.Errorf("of a server that was made with it: %q", got)
	}
	fraction := func(log, fraction string) *corev1.Pod {
		c, table := withLog(log), resource.MustParse(fraction)
		size := resource.MustParse("8Gi")
		c.Spec.Servers.Memory.HashTableFraction, c.Spec.Servers.BackupStorage.Size = &table, &size
		return made(c)
	}
	if got := DifferencesBesideMemory(fraction("256Mi", "0.5"), fraction("512Mi", "0.25")); got != nil {
		t.Errorf("nothing but the log differs, and said is %q", got)
	}
	newer := wanted.DeepCopy()
	newer.Annotations[AnnotationTemplate] = "another"
	if got := DifferencesBesideMemory(wanted, newer); !slices.Equal(got, []string{"what a newer operator makes of the same spec"}) {
		t.Errorf("of a difference without a name: %q", got)
	}
}
