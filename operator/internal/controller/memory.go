package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"google.golang.org/grpc/status"

	"ramcloud.dev/client/adminpb"
	"ramcloud.dev/operator/internal/brief"
	"ramcloud.dev/operator/internal/coordinator"
	"ramcloud.dev/operator/internal/plan"
	"ramcloud.dev/operator/internal/specs"
)

// memoriesForPlan are the sizes of servers in each template from which the plan may choose.
func (o *observed) memoriesForPlan() map[string]plan.MemoryWanted {
	out := map[string]plan.MemoryWanted{}
	for name, template := range o.roles[plan.Server].templates {
		wanted := specs.MemoryWanted(template)
		if most := o.picture.LargestLog(); most > 0 {
			wanted.LargestLog = most
		}
		out[name] = wanted
	}
	return out
}

// memoryForPlan adds the memory of a server: the pod's, as Kubernetes reports it, and the log's, as the server does.
func (r *ClusterReconciler) memoryForPlan(o *observed, m *plan.Member) {
	pod := o.pods[m.Name]
	if pod == nil {
		return
	}
	m.PodMemory = r.podMemory(o, pod)
	if s := o.server(m.Name); s != nil && m.Up {
		if m.LogMemory = coordinator.LogMemory(s.Stats); m.LogMemory != nil {
			m.LogMemory.Refused = r.refusal(o, logKey(pod, s.Id))
		}
	}
}

func (r *ClusterReconciler) podMemory(o *observed, pod *corev1.Pod) *plan.PodMemory {
	out := specs.PodMemory(pod, o.madeWith(pod.Annotations[specs.AnnotationRevision]))
	out.Refused = r.refusal(o, podKey(pod))
	return &out
}

// server is the coordinator's entry of the server with this name; nil: none.
func (o *observed) server(name string) *adminpb.Server {
	if !o.picture.Connected {
		return nil
	}
	return o.picture.ServerByName(name)
}

// madeWith is the limit of memory in this revision's template; 0: not known.
func (o *observed) madeWith(revision string) int64 {
	limit, known := o.limits[revision]
	if !known && o.revisions[revision] != nil {
		if read, err := specs.ReadRevision(o.revisions[revision]); err == nil {
			limit = specs.MemoryWanted(read.Template).Pod
		}
	}
	o.limits[revision] = limit
	return limit
}

// Refusals are stored by pod; those of a log also by the server's id, which a restart changes.
func podKey(pod *corev1.Pod) types.UID { return pod.UID + "/memory" }
func logKey(pod *corev1.Pod, serverID uint64) types.UID {
	return pod.UID + "/log/" + types.UID(strconv.FormatUint(serverID, 10))
}

// refusal is the last refused size. Each decision that it counts in is made again when it is time to ask again.
func (r *ClusterReconciler) refusal(o *observed, key types.UID) plan.Refusal {
	no := r.notResized.last(key, r.now(), askAgainAfter)
	if no == nil {
		return plan.Refusal{}
	}
	o.lookAgainAfter(no.at.Add(askAgainAfter).Sub(r.now()))
	size, _ := strconv.ParseInt(no.of, 10, 64) // of our own making
	return plan.Refusal{Size: size, Why: no.message}
}

func (r *ClusterReconciler) noteRefusal(key types.UID, size int64, why string) {
	r.notResized.note(key, &refusal{of: strconv.FormatInt(size, 10), message: brief.Clip(why, maxSaid), at: r.now()})
}

// resizer reaches the servers of a cluster.
func (r *ClusterReconciler) resizer(o *observed) coordinator.Resizer {
	return coordinator.Admin(r.adminAddress(o.cluster))
}

// resizeServers does the next step of the server whose memory is to be changed. The decision was made from the cache and
// from the coordinator's stream, and both may be older than the last change. So the step is computed again from fresh
// answers of the API server and of the server itself. Otherwise a limit could be lowered below a log that grows
// (the pod-before-log rule).
func (r *ClusterReconciler) resizeServers(ctx context.Context, o *observed, d plan.Decision, done *steps) {
	for _, id := range d.Resize {
		m := memberOf(o, id)
		if !o.recorded(m) {
			done.wait("memory of "+m.name, "its template is not recorded yet")
			continue
		}
		if why := r.resizeServer(ctx, o, d, m, done); why != "" {
			done.wait("memory of "+m.name, why)
			o.lookAgainAfter(lookAgain)
		}
	}
}

// resizeServer says why it did not do the decided step; empty: it did, or the failure is noted.
func (r *ClusterReconciler) resizeServer(ctx context.Context, o *observed, d plan.Decision, m member, done *steps) (why string) {
	decided, server := d.Memory[m.id], o.server(m.name)
	if server == nil {
		return "the coordinator does not list it any more"
	}
	pod := &corev1.Pod{}
	err := r.Uncached.Get(ctx, client.ObjectKeyFromObject(o.pods[m.name]), pod)
	if err != nil || pod.UID != o.pods[m.name].UID {
		if apierrors.IsNotFound(err) || err == nil {
			return "its pod does not exist any more"
		}
		done.noteOutcome("memory of "+m.name, err)
		return ""
	}
	asking, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	now, err := r.resizer(o).SetMemory(asking, server.Id, 0)
	if err != nil {
		return r.notAnswered(o, d, m, pod, server.Id, err, done)
	}
	now.Refused = r.refusal(o, logKey(pod, server.Id))
	step := plan.NextMemoryStep(d.MemoryWanted, *r.podMemory(o, pod), now)
	switch {
	case now.Most > 0 && d.MemoryWanted.Log > max(now.Most, now.Log): // which only the answer has
		r.noteRefusal(logKey(pod, server.Id), d.MemoryWanted.Log, fmt.Sprintf("it accepts logs of up to %s (--log-memory-max)", quantity(now.Most)))
		d.Memory[m.id] = step
	case step.Act != decided.Act || step.Bytes != decided.Bytes:
		return "it has changed since this was decided"
	case step.Act == plan.MemoryAskPod:
		r.askPod(ctx, o, d, m, pod, step.Bytes, done)
	case step.Act == plan.MemoryAskServer:
		if _, err := r.resizer(o).SetMemory(asking, server.Id, step.Bytes); err != nil {
			return r.notAnswered(o, d, m, pod, server.Id, err, done)
		}
		r.event(o.cluster, corev1.EventTypeNormal, "LogResizes", "Resize", "%s is asked for a log of %s", m.name, quantity(step.Bytes))
	}
	return ""
}

// notAnswered stores a server's refusal, and says what to wait for after a temporary error.
func (r *ClusterReconciler) notAnswered(o *observed, d plan.Decision, m member, pod *corev1.Pod, serverID uint64, err error, done *steps) (why string) {
	message := status.Convert(err).Message()
	switch {
	case coordinator.Refuses(err):
		r.noteRefusal(logKey(pod, serverID), d.MemoryWanted.Log, message)
		d.Memory[m.id] = plan.MemoryStep{Infeasible: "the server says: " + message}
		o.lookAgainAfter(askAgainAfter)
	case coordinator.Passes(err):
		return message
	default:
		done.noteOutcome("memory of "+m.name, err)
	}
	return ""
}

// askPod asks the kubelet for another limit of the server's container, through the pod's subresource resize.
func (r *ClusterReconciler) askPod(ctx context.Context, o *observed, d plan.Decision, m member, pod *corev1.Pod, limit int64, done *steps) {
	patch, err := json.Marshal(specs.ResizePatch(pod, limit))
	if err == nil {
		err = r.SubResource("resize").Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, patch), fieldOwner)
	}
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || noSubresource(err) {
		r.noteRefusal(podKey(pod), limit, err.Error())
		d.Memory[m.id] = plan.MemoryStep{Infeasible: "the API server says: " + brief.Clip(err.Error(), maxSaid)}
		o.lookAgainAfter(askAgainAfter)
		return
	}
	if done.noteOutcome("memory of pod "+m.name, err) {
		r.wrote(o, pod)
		o.pods[m.name] = pod
		r.event(o.cluster, corev1.EventTypeNormal, "PodResizes", "Resize", "pod %s asks for %s of memory", m.name, quantity(limit))
	}
}

// noSubresource says whether the API server has no subresource of this name. Its answer about a missing pod has the name
// of the pod; one about a path that it does not know has none.
func noSubresource(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || !apierrors.IsNotFound(err) {
		return apierrors.IsMethodNotSupported(err)
	}
	details := answer.Status().Details
	return details == nil || details.Name == "" || apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

func quantity(bytes int64) string { return resource.NewQuantity(bytes, resource.BinarySI).String() }

// memoryTells is the text about memory in the status.
func (o *observed) memoryTells(d plan.Decision) (moving, staying []string) {
	return d.MemoryTells(func(id plan.ID) string { return memberOf(o, id).name })
}

// stays is the difference of a server that needs a restart for its memory although its pod has the current template: the
// size was changed and set back.
func stays(step plan.MemoryStep) []string {
	if step.Infeasible == "" {
		return nil
	}
	return []string{fmt.Sprintf("memory: %s", step.Infeasible)}
}
