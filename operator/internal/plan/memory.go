package plan

import "fmt"

// Said is a condition of a pod that is True, with the kubelet's reason and message.
type Said struct{ Reason, Message string }

// PodMemory is the memory of a server's pod as Kubernetes reports it. Sizes are in bytes, of the container's
// limit, which equals its request.
type PodMemory struct {
	// Asked is in the pod's spec, Actual what the kubelet has set, according to its status.
	Asked, Actual int64
	// Floor is the memory for the log size in the container's command line. That cannot be changed, and a
	// restarted container begins with it.
	Floor int64
	// Generation is the generation of the pod's spec, Observed the one that the status is about; 0 before
	// Kubernetes 1.34.
	Generation, Observed int64
	// Pending and InProgress are the conditions PodResizePending and PodResizeInProgress; nil: they are not True.
	Pending, InProgress *Said
	// QoS is the pod's quality of service.
	QoS string
	// HugePages: the log is in reserved huge pages, of which a running pod cannot get more.
	HugePages bool
}

// ServerMemory is the size of a server's log as the server reports it, in bytes.
type ServerMemory struct {
	// Log is its present size. During a shrink it falls step by step, as cleaning frees memory.
	Log int64
	// Target is the last requested size.
	Target int64
	// Refused says why it will not reach Target; empty: it will.
	Refused string
}

// MemoryWanted is the size in the spec, and the pod's memory that it needs.
type MemoryWanted struct {
	Log, Pod int64
	QoS      string
	// LargestLog is the largest log for which the servers' volumes have room, by their sizes at the server's
	// start.
	LargestLog int64
	// Resizable: the API server has the subresource pods/resize.
	Resizable bool
}

// MemoryAct is the next action that brings a server to the memory in the spec.
type MemoryAct int

// The acts.
const (
	// MemoryRests: nothing to do, or it waits, or it is not possible.
	MemoryRests MemoryAct = iota
	// MemoryAskPod: patch the subresource resize of the pod.
	MemoryAskPod
	// MemoryAskServer: send the server the target size of its log.
	MemoryAskServer
)

// MemoryStep is the next step. At most one of Waits and Infeasible is set.
type MemoryStep struct {
	Act MemoryAct
	// Bytes to ask for.
	Bytes int64
	// Waits says what it waits for; empty: nothing.
	Waits string
	// Infeasible says why the server cannot get the memory while it runs. A restart is needed.
	Infeasible string
}

// reasonInfeasible is the kubelet's reason for a resize that it does not try again.
const reasonInfeasible = "Infeasible"

// NextMemoryStep brings a running server to another size of its log. It keeps the pod-before-log rule: the
// pod's limit is never below the memory for the server's present log, its target, or the log with which a
// restarted container begins. So a pod grows before its log, and shrinks after it. The function has no state:
// the next step follows only from the present facts, even if the spec changes or a restart happens in
// between.
func NextMemoryStep(wanted MemoryWanted, pod PodMemory, server ServerMemory) MemoryStep {
	wanted.Pod = max(wanted.Pod, pod.Floor)
	if server.Log == wanted.Log && server.Target == wanted.Log && pod.Asked == wanted.Pod && pod.Actual == wanted.Pod {
		return MemoryStep{}
	}
	if why := cannotResize(wanted, pod, server); why != "" {
		return MemoryStep{Infeasible: why}
	}
	if wanted.Log > max(server.Log, server.Target) {
		if pod.Asked != wanted.Pod { // also if it asks for more, because the kubelet may not have allowed that
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

// cannotResize says why a resize is impossible, as far as is known without asking; empty: it must be tried.
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

// has says whether the pod certainly has this limit. The status of an earlier generation is about an earlier
// size, and the limit may have been lowered since.
func (p PodMemory) has(limit int64) bool {
	return p.Observed >= p.Generation && p.Actual == limit && p.Pending == nil && p.InProgress == nil
}

// kubeletAnswer is the kubelet's answer about the size in the pod's spec.
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

// Tell is the text in the condition Resizing about a server: growing says what it waits for, infeasible why
// it cannot get the memory while it runs. Both are empty when it has the memory.
func (s MemoryStep) Tell(server string) (growing, infeasible string) {
	if s.Infeasible != "" {
		return "", fmt.Sprintf("%s keeps its memory until it is restarted: %s", server, s.Infeasible)
	}
	if s.Waits != "" {
		return fmt.Sprintf("%s: %s", server, s.Waits), ""
	}
	return "", ""
}

// words are the kubelet's reason and message.
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
