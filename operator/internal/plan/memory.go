package plan

import (
	"cmp"
	"fmt"
)

// Said is a condition of a pod that is True, with the kubelet's reason and message.
type Said struct{ Reason, Message string }

// Refusal says that one size was refused: a pod's memory by the API server, or a log by its server.
type Refusal struct {
	Size int64
	Why  string
}

// PodMemory is the memory of a server's pod as Kubernetes reports it. Sizes are in bytes, of the container's
// limit; 0: it has none.
type PodMemory struct {
	// Asked is in the pod's spec, Actual what the kubelet has set, according to its status.
	Asked, Actual int64
	// Uneven: the request is not the limit.
	Uneven bool
	// StartLog and HashTable are the sizes in the container's command line. That cannot be changed, and a
	// restarted container begins with it. Floor is the limit that the pod was created with.
	StartLog, HashTable, Floor int64
	// Generation is the generation of the pod's spec, Observed the one that the status is about; 0 before
	// Kubernetes 1.34.
	Generation, Observed int64
	// Pending and InProgress are the conditions PodResizePending and PodResizeInProgress; nil: they are not True.
	Pending, InProgress *Said
	// HugePages: the log is in reserved huge pages, of which a running pod cannot get more.
	HugePages bool
	// Restarts: the container's resizePolicy restarts it when its memory changes.
	Restarts bool
	// Refused is the size that the API server refused last.
	Refused Refusal
}

// ServerMemory is the size of a server's log as the server reports it, in bytes.
type ServerMemory struct {
	// Log is its present size. During a shrink it falls step by step, as cleaning frees memory.
	Log int64
	// Target is the last requested size.
	Target int64
	// Most is the largest size that the server accepts; 0: not known.
	Most int64
	// Refused is the size that the server refused last.
	Refused Refusal
	// Cleaning is the server's text about what cleaning does, or what it waits for.
	Cleaning string
}

// MemoryWanted are the sizes in a template of servers, and the pod's memory that they need.
type MemoryWanted struct {
	Log, HashTable, Pod int64
	// Uneven: the request of the pod is not its limit.
	Uneven bool
	// Least is the smallest limit with which a server can have these sizes. Pod is below it only if somebody has
	// set such a limit.
	Least int64
	// LargestLog is the largest log for which the servers' volumes have room, by their sizes at the servers'
	// start.
	LargestLog int64
}

// MemoryAct is the next action that brings a server to the memory in the spec.
type MemoryAct int

// The acts.
const (
	// MemoryUnchanged: nothing to do, or it waits, or it is not possible.
	MemoryUnchanged MemoryAct = iota
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
	wanted.Pod = pod.needs(wanted)
	sized := server.Log == wanted.Log && server.Target == wanted.Log
	if sized && pod.rests(wanted.Pod) {
		return MemoryStep{}
	}
	if why := cmp.Or(pod.cannotResize(wanted), server.cannotResize(wanted)); why != "" {
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
		return MemoryStep{Waits: server.moves()}
	}
	// The log needs no more than this.
	if pod.Asked != wanted.Pod {
		return askPod(wanted)
	}
	return kubeletAnswer(pod)
}

// withoutServer is the step of a server that is not up, so that the size of its log is not known. Its container
// begins with the size in its command line.
func withoutServer(wanted MemoryWanted, pod PodMemory) MemoryStep {
	wanted.Pod = pod.needs(wanted)
	if pod.StartLog == wanted.Log && pod.rests(wanted.Pod) {
		return MemoryStep{}
	}
	if why := pod.cannotResize(wanted); why != "" {
		return MemoryStep{Infeasible: why}
	}
	if pod.Asked == wanted.Pod && pod.infeasible() {
		return kubeletAnswer(pod)
	}
	return MemoryStep{Waits: "the server is not up, and then gets another size"}
}

// needs is the pod's limit for the wanted sizes. The server keeps its present hash table until it restarts, so a
// larger one counts. The limit is never below the memory with which a restarted container begins. Without a limit in
// the template the pod keeps what it has: no limit, or the one that its namespace gave it.
func (p PodMemory) needs(wanted MemoryWanted) int64 {
	if wanted.Pod == 0 {
		return p.Asked
	}
	limit := wanted.Pod
	if more := p.HashTable - wanted.HashTable; more > 0 {
		limit = max(limit, wanted.Least+more)
	}
	if p.StartLog > wanted.Log {
		limit = max(limit, p.Floor)
	}
	return limit
}

// rests says whether the pod has this limit, as far as is known. A kubelet that cannot resize reports no limit,
// and changes none.
func (p PodMemory) rests(limit int64) bool {
	return p.Asked == limit && (p.Actual == limit || p.Actual == 0 && p.Pending == nil && p.InProgress == nil)
}

// cannotResize says why the pod cannot be resized, as far as is known without asking; empty: it must be tried.
func (p PodMemory) cannotResize(wanted MemoryWanted) string {
	changes := p.Asked != wanted.Pod
	switch {
	case p.HugePages:
		return "the log is in huge pages, whose number cannot change while the pod runs"
	case p.Observed == 0 || p.Actual == 0 && p.Asked > 0:
		return "this Kubernetes cannot change the memory of a running pod, or its node does not tell how large it is"
	case changes && p.Restarts:
		return "the container's resizePolicy asks for a restart when its memory changes"
	case changes && (p.Uneven || wanted.Uneven || p.Asked == 0):
		return "the pod's memory request and limit differ, and they can be changed only if they are equal"
	case changes && p.Refused.Why != "" && p.Refused.Size == wanted.Pod:
		return "the API server says: " + p.Refused.Why
	}
	return ""
}

// cannotResize is the same for the server.
func (s ServerMemory) cannotResize(wanted MemoryWanted) string {
	grows := wanted.Log > s.Log
	switch {
	case s.Refused.Why != "" && s.Refused.Size == wanted.Log && s.Target != wanted.Log:
		return "the server says: " + s.Refused.Why
	case grows && s.Most > 0 && wanted.Log > s.Most:
		return fmt.Sprintf("the log is to be %s, and the server accepts logs of up to %s (--log-memory-max)", mebibytes(wanted.Log), mebibytes(s.Most))
	case grows && wanted.Pod > 0 && wanted.Pod < wanted.Least:
		return fmt.Sprintf("the log is to be %s, and the pod's limit of %s is too small for it: it needs %s",
			mebibytes(wanted.Log), mebibytes(wanted.Pod), mebibytes(wanted.Least))
	case grows && wanted.Log > wanted.LargestLog:
		return fmt.Sprintf("the log is to be %s, and the volumes, as servers knew them when they started, have room for logs of %s",
			mebibytes(wanted.Log), mebibytes(wanted.LargestLog))
	}
	return ""
}

// moves is the progress of the log.
func (s ServerMemory) moves() string {
	text := fmt.Sprintf("the server's log is %s, and becomes %s", mebibytes(s.Log), mebibytes(s.Target))
	if s.Log > s.Target && s.Cleaning != "" {
		text += ", as cleaning frees memory: " + s.Cleaning
	}
	return text
}

func askPod(wanted MemoryWanted) MemoryStep {
	return MemoryStep{Act: MemoryAskPod, Bytes: wanted.Pod, Waits: "the kubelet is asked to change the pod's memory"}
}

// has says whether the pod certainly has this limit. The status of an earlier generation is about an earlier
// size, and the limit may have been lowered since.
func (p PodMemory) has(limit int64) bool {
	return p.Observed >= p.Generation && p.Actual == limit && p.Pending == nil && p.InProgress == nil
}

// infeasible: the kubelet does not try the size in the pod's spec again.
func (p PodMemory) infeasible() bool {
	return p.Observed >= p.Generation && p.Pending != nil && p.Pending.Reason == reasonInfeasible
}

// kubeletAnswer is the kubelet's answer about the size in the pod's spec.
func kubeletAnswer(pod PodMemory) MemoryStep {
	switch {
	case pod.Observed < pod.Generation:
		return MemoryStep{Waits: "the kubelet has not answered yet"}
	case pod.infeasible():
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
