package plan

import "fmt"

// Said is a condition of a pod that is True, in the kubelet's words.
type Said struct{ Reason, Message string }

// PodMemory is what Kubernetes says of the memory of a server's pod. Sizes are in bytes, of the container's limit, which
// is its request as well.
type PodMemory struct {
	// Asked is in the pod's spec, Actual what the kubelet has set, according to its status.
	Asked, Actual int64
	// Floor is what the log of the container's command line needs. That cannot be changed, and a container that is started
	// again begins with it.
	Floor int64
	// Generation is that of the pod's spec, Observed the one that the status speaks of. Before Kubernetes 1.34 it is 0.
	Generation, Observed int64
	// Pending and InProgress are the conditions PodResizePending and PodResizeInProgress; nil: they are not True.
	Pending, InProgress *Said
	// QoS is the pod's quality of service.
	QoS string
	// HugePages: the log is in pages that were reserved, of which a pod cannot get others while it runs.
	HugePages bool
}

// ServerMemory is what a server says of its log, in bytes.
type ServerMemory struct {
	// Log is how large it is. While it shrinks that falls bit by bit, as cleaning frees memory.
	Log int64
	// Target is what the server was asked for last.
	Target int64
	// Refused says why it will not reach Target; empty: it will.
	Refused string
}

// MemoryWanted is what spec asks for, and what it needs of the pod.
type MemoryWanted struct {
	Log, Pod int64
	QoS      string
	// LargestLog is what the servers' volumes have room for, as the server knew them when it started.
	LargestLog int64
	// Resizable: the API server has the subresource pods/resize.
	Resizable bool
}

// MemoryAct is what is done next to bring a server to the memory that spec asks for.
type MemoryAct int

// The acts.
const (
	// MemoryRests: nothing is to be done, or it is waited for something, or it cannot be done.
	MemoryRests MemoryAct = iota
	// MemoryAskPod: patch the subresource resize of the pod.
	MemoryAskPod
	// MemoryAskServer: tell the server how large its log is to be.
	MemoryAskServer
)

// MemoryStep is the next step. At most one of Waits and Infeasible is set.
type MemoryStep struct {
	Act MemoryAct
	// Bytes to ask for.
	Bytes int64
	// Waits says what for; empty: for nothing.
	Waits string
	// Infeasible says why the server does not get the memory while it runs. A restart brings it.
	Infeasible string
}

// reasonInfeasible is the kubelet's for a resize that it does not try again.
const reasonInfeasible = "Infeasible"

// NextMemoryStep brings a running server to another size of its log. It keeps the pod-before-log rule: at no time is the
// pod's limit below what the log needs that the server has, may take, or begins with when its container is started again. So a pod grows before its log does, and shrinks
// after it. It remembers nothing: whatever spec asks for next, and whoever was restarted in between, the next step follows
// from what is there.
func NextMemoryStep(wanted MemoryWanted, pod PodMemory, server ServerMemory) MemoryStep {
	wanted.Pod = max(wanted.Pod, pod.Floor)
	if server.Log == wanted.Log && server.Target == wanted.Log && pod.Asked == wanted.Pod && pod.Actual == wanted.Pod {
		return MemoryStep{}
	}
	if why := cannotResize(wanted, pod, server); why != "" {
		return MemoryStep{Infeasible: why}
	}
	if wanted.Log > max(server.Log, server.Target) {
		if pod.Asked != wanted.Pod { // a larger one, too, which the kubelet may not have allowed
			return askPod(wanted)
		}
		if !pod.has(wanted.Pod) {
			return kubeletAnswer(pod)
		}
	}
	if server.Target != wanted.Log {
		return MemoryStep{Act: MemoryAskServer, Bytes: wanted.Log, Waits: "the server is asked to change its log"}
	}
	if server.Log != wanted.Log {
		if server.Refused != "" {
			return MemoryStep{Infeasible: "the server says: " + server.Refused}
		}
		return MemoryStep{Waits: fmt.Sprintf("the server's log is %s, and becomes %s", mebibytes(server.Log), mebibytes(wanted.Log))}
	}
	// The log needs no more than this.
	if pod.Asked != wanted.Pod {
		return askPod(wanted)
	}
	return kubeletAnswer(pod)
}

// cannotResize says what is known before anybody is asked; empty: somebody has to be.
func cannotResize(wanted MemoryWanted, pod PodMemory, server ServerMemory) string {
	switch {
	case !wanted.Resizable || pod.Observed == 0:
		return "this Kubernetes cannot change the memory of a running pod"
	case pod.HugePages:
		return "the log is in huge pages, of which a running pod gets no others"
	case pod.QoS != wanted.QoS:
		return fmt.Sprintf("the pod's quality of service would change from %s to %s, which Kubernetes refuses", pod.QoS, wanted.QoS)
	case wanted.Log > server.Log && wanted.Log > wanted.LargestLog:
		return fmt.Sprintf("the log is to be %s, and the volumes, as servers knew them when they started, have room for logs of %s",
			mebibytes(wanted.Log), mebibytes(wanted.LargestLog))
	}
	return ""
}

func askPod(wanted MemoryWanted) MemoryStep {
	return MemoryStep{Act: MemoryAskPod, Bytes: wanted.Pod, Waits: "the kubelet is asked to change the pod's memory"}
}

// has says whether the pod is known to have this limit and no other before it. A status of an earlier generation speaks of an
// earlier size: the limit that it tells may have been lowered since.
func (p PodMemory) has(limit int64) bool {
	return p.Observed >= p.Generation && p.Actual == limit && p.Pending == nil && p.InProgress == nil
}

// kubeletAnswer is what the kubelet says of the size that the pod's spec asks for.
func kubeletAnswer(pod PodMemory) MemoryStep {
	switch {
	case pod.Observed < pod.Generation:
		return MemoryStep{Waits: "the kubelet has not answered yet"}
	case pod.Pending != nil && pod.Pending.Reason == reasonInfeasible:
		return MemoryStep{Infeasible: pod.Pending.words()}
	case pod.Pending != nil: // Deferred: it tries again by itself
		return MemoryStep{Waits: pod.Pending.words()}
	case pod.InProgress != nil: // after an error, too
		return MemoryStep{Waits: pod.InProgress.words()}
	}
	return MemoryStep{Waits: "the kubelet changes the pod's memory"}
}

// Tell is what the condition Resizing says of a server: growing what is waited for, infeasible why it does not get the
// memory while it runs. Both are empty when it has it.
func (s MemoryStep) Tell(server string) (growing, infeasible string) {
	if s.Infeasible != "" {
		return "", fmt.Sprintf("%s keeps its memory until it is restarted: %s", server, s.Infeasible)
	}
	if s.Waits != "" {
		return fmt.Sprintf("%s: %s", server, s.Waits), ""
	}
	return "", ""
}

// words are the kubelet's.
func (s *Said) words() string {
	switch {
	case s.Reason == "" && s.Message == "":
		return "the kubelet changes the pod's memory"
	case s.Reason == "":
		return "the kubelet says: " + s.Message
	case s.Message == "":
		return "the kubelet says " + s.Reason
	}
	return fmt.Sprintf("the kubelet says %s: %s", s.Reason, s.Message)
}

func mebibytes(bytes int64) string { return fmt.Sprintf("%dMi", bytes>>20) }
