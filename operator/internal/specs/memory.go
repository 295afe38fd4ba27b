package specs

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"ramcloud.dev/operator/internal/plan"
)

const (
	logFlag       = "--log-memory"
	hashTableFlag = "--hash-table-memory"
	// segmentBytes: a log is a multiple of it.
	segmentBytes = 8 * mib
	// noBound is larger than every size.
	noBound = int64(1) << 62
)

// MemoryWanted are the sizes of servers in this template, without the limit by the size of their volumes.
func MemoryWanted(template corev1.PodTemplateSpec) plan.MemoryWanted {
	c := serverContainer(&template.Spec)
	if c == nil {
		return plan.MemoryWanted{}
	}
	log, hashTable := memoryFlags(c.Args)
	limit, uneven := memoryLimit(c.Resources)
	return plan.MemoryWanted{Log: log, HashTable: hashTable, Pod: limit, Uneven: uneven, Least: leastMemory(c.Args, limit), LargestLog: noBound}
}

// leastMemory is the smallest limit with which a server can have the sizes on its command line. It is the limit in the
// template if that was derived from these sizes. Somebody's own limit may be lower than a derived one, but not lower than
// this, as in the validation of spec.servers.
func leastMemory(args []string, limit int64) int64 {
	flags := flagMap(args)
	log, hashTable := parseSizeFlag(flags[logFlag]), parseSizeFlag(flags[hashTableFlag])
	if limit == memoryFor(log, hashTable) {
		return limit
	}
	return roundUp(log+hashTable+serverOverheadBytes, mib)
}

// PodMemory is the memory of a server's pod in its spec and status. madeWith is the limit in the template of the pod; 0:
// not known.
func PodMemory(pod *corev1.Pod, madeWith int64) plan.PodMemory {
	out := plan.PodMemory{Generation: pod.Generation, Observed: pod.Status.ObservedGeneration,
		Pending: said(pod, corev1.PodResizePending), InProgress: said(pod, corev1.PodResizeInProgress)}
	c := serverContainer(&pod.Spec)
	if c == nil {
		return out
	}
	out.Asked, out.Uneven = memoryLimit(c.Resources)
	out.StartLog, out.HashTable = memoryFlags(c.Args)
	if out.Floor = madeWith; out.Floor == 0 {
		out.Floor = memoryFor(out.StartLog, out.HashTable)
	}
	out.HugePages = slices.ContainsFunc(c.Args, func(arg string) bool { return strings.HasPrefix(arg, "--huge-pages=") })
	out.Restarts = slices.ContainsFunc(c.ResizePolicy, func(p corev1.ContainerResizePolicy) bool {
		return p.ResourceName == corev1.ResourceMemory && p.RestartPolicy == corev1.RestartContainer
	})
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == ComponentServer && status.Resources != nil {
			out.Actual, _ = memoryLimit(*status.Resources)
		}
	}
	return out
}

// ResizePatch is the patch of the subresource resize that sets the request and the limit of a pod's server. It applies
// only to this version of the pod.
func ResizePatch(pod *corev1.Pod, limit int64) map[string]any {
	memory := map[string]any{string(corev1.ResourceMemory): resource.NewQuantity(limit, resource.BinarySI).String()}
	container := map[string]any{"name": ComponentServer, "resources": map[string]any{"requests": memory, "limits": memory}}
	return map[string]any{
		"metadata": map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion},
		"spec":     map[string]any{"containers": []any{container}},
	}
}

// resized is the running pod with the log and the memory of the wanted one.
func resized(live, wanted *corev1.Pod) *corev1.Pod {
	out := live.DeepCopy()
	have, want := serverContainer(&out.Spec), serverContainer(&wanted.Spec)
	if have == nil || want == nil {
		return out
	}
	for i, arg := range have.Args {
		if at := slices.IndexFunc(want.Args, isLogFlag); at >= 0 && isLogFlag(arg) {
			have.Args[i] = want.Args[at]
		}
	}
	for _, lists := range [][2]*corev1.ResourceList{{&have.Resources.Requests, &want.Resources.Requests}, {&have.Resources.Limits, &want.Resources.Limits}} {
		if quantity, there := (*lists[1])[corev1.ResourceMemory]; there && *lists[0] != nil {
			(*lists[0])[corev1.ResourceMemory] = quantity
		}
	}
	return out
}

func isLogFlag(arg string) bool { return strings.HasPrefix(arg, logFlag+"=") }

func serverContainer(spec *corev1.PodSpec) *corev1.Container {
	for i := range spec.Containers {
		if spec.Containers[i].Name == ComponentServer {
			return &spec.Containers[i]
		}
	}
	return nil
}

// memoryFlags are the sizes of the log, in whole segments, and of the hash table on a server's command line.
func memoryFlags(args []string) (log, hashTable int64) {
	flags := flagMap(args)
	return parseSizeFlag(flags[logFlag]) / segmentBytes * segmentBytes, parseSizeFlag(flags[hashTableFlag])
}

// parseSizeFlag reads what sizeFlag writes; anything else is 0.
func parseSizeFlag(text string) int64 {
	number, unit := text, int64(1)
	if in, whole := strings.CutSuffix(text, "MiB"); whole {
		number, unit = in, mib
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > noBound/unit {
		return 0
	}
	return n * unit
}

// memoryLimit is the limit of memory, 0 if there is none, and whether the request differs from it. Without a request the
// API server takes the limit as the request.
func memoryLimit(r corev1.ResourceRequirements) (limit int64, uneven bool) {
	request, asks := r.Requests[corev1.ResourceMemory]
	most := r.Limits[corev1.ResourceMemory]
	return most.Value(), asks && request.Cmp(most) != 0
}

// said is a condition of the pod that is True, with the kubelet's reason and message; nil: it is not True.
func said(pod *corev1.Pod, kind corev1.PodConditionType) *plan.Said {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind && c.Status == corev1.ConditionTrue {
			return &plan.Said{Reason: c.Reason, Message: c.Message}
		}
	}
	return nil
}
