package controller

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ramcloud.dev/client/adminpb"
	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/brief"
	"ramcloud.dev/operator/internal/certs"
	"ramcloud.dev/operator/internal/coordinator"
	"ramcloud.dev/operator/internal/network"
	"ramcloud.dev/operator/internal/plan"
	"ramcloud.dev/operator/internal/specs"
)

// observed is everything of a cluster that exists in Kubernetes, by name, and its coordinator's picture.
type observed struct {
	cluster *ramcloudv1.RAMCloudCluster
	picture *coordinator.Picture
	pods    map[string]*corev1.Pod
	claims  map[string]*corev1.PersistentVolumeClaim
	// generations are the rising generations of the existing claims, by the name of their pod.
	generations map[string][]int32
	services    map[string]*corev1.Service
	configMaps  map[string]*corev1.ConfigMap
	budgets     map[string]*policyv1.PodDisruptionBudget
	servers     map[string]*ramcloudv1.RAMCloudServer
	recoveries  map[string]*ramcloudv1.RAMCloudRecovery
	revisions   map[string]*appsv1.ControllerRevision
	// roles are the templates of each kind of member.
	roles map[plan.Kind]*role
	// read is every object that was read from the cache, by objectKey.
	read map[string]client.Object
	// tokens are the coordinator's release tokens, by the claim's name.
	tokens map[string]string
	// notGrown has the API server's refusals to let volumes grow, by the pod's name; again is when to ask again, 0: never.
	notGrown map[string]string
	again    time.Duration
	// limits are the limits of memory in the templates of servers' pods, by the revision's name.
	limits map[string]int64
	// orphans are objects without a controller, which are adopted. Volume claims are not included, because they may
	// outlive their cluster.
	orphans []client.Object
	// deprecated lists the old fields and values in the spec. Their values are also in the new fields.
	deprecated []string
	// refused says why the spec cannot be followed, empty when it can.
	refused string
	// stranger says why the answering store is not this cluster's (the pinned-identity rule); empty if it is.
	stranger string
	// certificates are the etcd's, and trust is what pods get of them; nil: it has none, or they were not read.
	certificates *certs.Set
	trust        specs.Trust
	// former are the remaining objects of a former cluster of the same name. They are not in the other fields.
	former []string
}

// observe reads from the cache.
func (r *ClusterReconciler) observe(ctx context.Context, cluster *ramcloudv1.RAMCloudCluster) (*observed, error) {
	o := &observed{cluster: cluster, read: map[string]client.Object{objectKey(cluster): cluster}, tokens: map[string]string{}, notGrown: map[string]string{},
		limits:     map[string]int64{},
		deprecated: cluster.Spec.Modernize()}
	var (
		pods       corev1.PodList
		claims     corev1.PersistentVolumeClaimList
		services   corev1.ServiceList
		configMaps corev1.ConfigMapList
		budgets    policyv1.PodDisruptionBudgetList
		servers    ramcloudv1.RAMCloudServerList
		recoveries ramcloudv1.RAMCloudRecoveryList
		revisions  appsv1.ControllerRevisionList
	)
	for _, list := range []client.ObjectList{&pods, &claims, &services, &configMaps, &budgets, &servers, &recoveries, &revisions} {
		if err := r.List(ctx, list, client.InNamespace(cluster.Namespace), client.MatchingLabels{specs.LabelCluster: cluster.Name}); err != nil {
			return nil, fmt.Errorf("listing %T: %w", list, err)
		}
	}
	o.pods = byName(o, "pod", pods.Items)
	o.claims = byName(o, "volume claim", claims.Items)
	o.generations = generationsOf(o.claims)
	o.services = byName(o, "Service", services.Items)
	o.configMaps = byName(o, "ConfigMap", configMaps.Items)
	o.budgets = byName(o, "PodDisruptionBudget", budgets.Items)
	o.servers = byName(o, "RAMCloudServer", servers.Items)
	o.recoveries = byName(o, "RAMCloudRecovery", recoveries.Items)
	o.revisions = byName(o, "ControllerRevision", revisions.Items)

	slices.SortFunc(o.orphans, func(a, b client.Object) int { return strings.Compare(objectKey(a), objectKey(b)) })
	if _, err := network.For(cluster.Spec.Network); err != nil {
		o.refused = err.Error()
	}
	key := client.ObjectKeyFromObject(cluster)
	if len(o.former) > 0 { // the coordinator that answers may be that cluster's
		r.Watchers.Forget(key)
		o.picture = &coordinator.Picture{Problem: "the coordinator is not asked while a former cluster of this name may answer for it"}
		return o, nil
	}
	o.picture = r.Watchers.Get(key, cluster.UID, r.adminAddress(cluster))
	pinned, found := cluster.Status.Coordinator.ClusterUUID, o.picture.Status.GetClusterUuid()
	if o.picture.Connected && pinned != "" && found != "" && found != pinned {
		o.stranger = fmt.Sprintf("the coordinator leads the cluster %s, but this is cluster %s: its metadata was replaced, or is read from "+
			"another place; the operator changes nothing until it leads %s again", found, pinned, pinned)
		o.picture = &coordinator.Picture{Problem: o.stranger, Heard: true, Since: o.picture.Since}
	}
	return o, nil
}

// byName are the objects by name. Objects of a former cluster are added to o.former instead. Objects that something
// else controls are left out (the owner rule), except volume claims, which the plan must know.
func byName[T any, P interface {
	*T
	client.Object
}](o *observed, kind string, items []T) map[string]P {
	out := make(map[string]P, len(items))
	var former []string
	for i := range items {
		p := P(&items[i])
		o.read[objectKey(p)] = p
		if specs.OfFormer(o.cluster, p) {
			former = append(former, kind+" "+p.GetName())
			continue
		}
		_, claim := any(p).(*corev1.PersistentVolumeClaim)
		owner := metav1.GetControllerOfNoCopy(p)
		switch {
		case claim:
		case owner == nil:
			o.orphans = append(o.orphans, p)
		case owner.UID != o.cluster.UID:
			continue
		}
		out[p.GetName()] = p
	}
	slices.Sort(former)
	o.former = append(o.former, former...)
	return out
}

// forPlan converts the observation to the plan's input.
func (r *ClusterReconciler) forPlan(ctx context.Context, o *observed) (plan.Observed, error) {
	c := o.cluster
	out := plan.Observed{
		Now: r.now(), Wanted: specs.WantedServers(c), ReplicationFactor: specs.ReplicationFactor(c),
		Coordinators: specs.WantedCoordinators(c), EtcdMembers: specs.WantedEtcd(c),
		CoordinatorVolume: specs.MetadataOnVolume(c), Formed: c.Status.Etcd.Formed, TLS: specs.TLSStage(c),
		Connected: o.picture.Connected, Request: c.Spec.Update.RestartRequest,
		// Nothing is created from a spec that is refused, nor while objects of a former cluster remain: its pods have the
		// same names and addresses.
		Paused: c.Spec.Paused || o.refused != "" || o.stranger != "" || len(o.former) > 0,
	}
	out.NotWhole, out.Again = o.picture.NotWhole(out.Now)
	out.NotSafe, out.SafeAgain = o.picture.NotSafe(out.Now)
	existing := o.existing()
	var servers []int32
	for _, id := range existing {
		m := o.memberForPlan(memberOf(o, id))
		if id.Kind == plan.Server {
			r.memoryForPlan(o, &m)
		}
		out.Members = append(out.Members, m)
		if id.Kind == plan.Server {
			servers = append(servers, id.Index)
		}
	}
	var err error
	if out.Roles, err = r.rolesForPlan(o); err != nil {
		return out, err
	}
	out.Memory = o.memoriesForPlan()
	r.askReleases(ctx, o, &out)
	if len(o.former) > 0 {
		return out, nil // its claims are in the way until they are deleted
	}
	out.Foreign = map[plan.ID]string{}
	for _, id := range plan.Wanted(out, plan.Servers(out.Wanted, out.ReplicationFactor, servers)) {
		m := memberOf(o, id)
		if o.pods[m.name] != nil || !m.hasVolume(o) {
			continue
		}
		for _, name := range m.claimNames(o) {
			foreign, err := r.foreignVolume(ctx, o, name)
			if err != nil {
				return out, err
			}
			if foreign {
				out.Foreign[id] = name
			}
		}
	}
	return out, nil
}

// existing are the members that exist: servers with a record or a pod, and coordinators and etcd members that have a
// pod or shall have one (their volumes matter before the pod exists).
func (o *observed) existing() []plan.ID {
	wanted := plan.Observed{EtcdMembers: specs.WantedEtcd(o.cluster), Coordinators: specs.WantedCoordinators(o.cluster)}
	out := plan.Wanted(wanted, nil)
	for _, pod := range o.pods {
		if index, ok := specs.ServerIndex(pod.Labels); ok {
			out = append(out, plan.ID{Kind: plan.Server, Index: index})
		}
		if index, ok := specs.MemberIndex(pod.Labels, specs.ComponentCoordinator); ok {
			out = append(out, plan.ID{Kind: plan.Coordinator, Index: index})
		}
	}
	for _, record := range o.servers {
		out = append(out, plan.ID{Kind: plan.Server, Index: record.Spec.Index})
	}
	slices.SortFunc(out, plan.Compare)
	return slices.Compact(out)
}

func (o *observed) memberForPlan(m member) plan.Member {
	out := plan.Member{ID: m.id, Name: m.name, Problem: podProblem(o.pods[m.name]), Failure: failureForPlan(m.failure(o)),
		Volume: volumeOf(m.claim(o)), Generation: m.generation(o), Retired: m.retired(o)}
	out.HadData = m.hadData(o) || len(out.Retired) > 0
	claim := m.claim(o)
	if claim != nil {
		out.Bound, out.SecurePeer = claim.Spec.VolumeName != "", claim.Annotations[specs.AnnotationPeerTLS] != ""
	}
	if pod := o.pods[m.name]; pod != nil {
		out.Pod = podForPlan(pod)
	} else if service := m.waitsForAddress(o); service != "" {
		out.Problem = "the pod waits for the address of the load balancer of Service " + service
	}
	if m.id.Kind != plan.Server {
		return out
	}
	if o.picture.Connected {
		if s := o.picture.ServerByName(m.name); s != nil {
			out.KnownAs = strconv.FormatUint(s.Id, 10)
			out.Up = s.State == adminpb.ServerState_SERVER_UP
			out.Tablets, out.Replicas = o.picture.Tablets(s.Id), s.GetStats().GetReplicasWanted()
		}
	}
	if claim != nil {
		out.ServerID = plan.Enlisted(m.noted(o, claim), out.Retired, out.KnownAs, out.Up)
	}
	return out
}

func volumeOf(claim *corev1.PersistentVolumeClaim) plan.Volume {
	switch {
	case claim == nil:
		return plan.VolumeNone
	case claim.DeletionTimestamp != nil:
		return plan.VolumeDeleting
	case claim.Status.Phase == corev1.ClaimLost:
		return plan.VolumeLost
	}
	return plan.VolumePresent
}

// foreignVolume says whether a volume claim of this name exists that this cluster must not use. A claim that is not in
// the cache, because it lacks our labels, is looked up, so that it is never taken over.
func (r *ClusterReconciler) foreignVolume(ctx context.Context, o *observed, name string) (bool, error) {
	claim := o.claims[name]
	if claim == nil {
		var uncached corev1.PersistentVolumeClaim
		err := r.Uncached.Get(ctx, types.NamespacedName{Namespace: o.cluster.Namespace, Name: name}, &uncached)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("looking for volume claim %s: %w", name, err)
		}
		claim = &uncached
	}
	owner := metav1.GetControllerOf(claim)
	if claim.DeletionTimestamp != nil && (owner == nil || owner.UID == o.cluster.UID) {
		return false, nil // ours, and being deleted
	}
	ours := claim.Labels[specs.LabelCluster] == o.cluster.Name && claim.Labels[specs.LabelManagedBy] == specs.ManagedBy
	// A claim that another object controls is foreign, too.
	return !ours || owner != nil && owner.UID != o.cluster.UID, nil
}

func podForPlan(pod *corev1.Pod) plan.Pod {
	out := plan.Pod{
		Exists: true, Deleting: pod.DeletionTimestamp != nil,
		Failed: pod.Status.Phase == corev1.PodFailed, Reason: pod.Status.Reason, Message: brief.Clip(pod.Status.Message, maxSaid),
		Request: pod.Annotations[specs.AnnotationRestart], CreatedAt: pod.CreationTimestamp.Time, Node: pod.Spec.NodeName,
		TLS: plan.ParseTLSStage(pod.Annotations[specs.AnnotationTLS]), Mounted: hasRun(pod),
	}
	if out.Failed {
		out.FailedAt = failedAt(pod)
		if out.Reason == "" {
			out.Reason = "Failed"
		}
	}
	if ready := podCondition(pod, corev1.PodReady); ready != nil && ready.Status == corev1.ConditionTrue {
		out.Ready, out.ReadySince = true, ready.LastTransitionTime.Time
	}
	return out
}

// hasRun says whether a container of the pod runs or ran: then its volumes are mounted.
func hasRun(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil || c.RestartCount > 0
	})
}

// failedAt is the latest time in the pod's status; after some failures (a node that refuses the pod) that is only its
// start.
func failedAt(pod *corev1.Pod) time.Time {
	at := pod.CreationTimestamp.Time
	later := func(t time.Time) {
		if t.After(at) {
			at = t
		}
	}
	if pod.Status.StartTime != nil {
		later(pod.Status.StartTime.Time)
	}
	for _, c := range pod.Status.Conditions {
		later(c.LastTransitionTime.Time)
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Terminated != nil {
			later(c.State.Terminated.FinishedAt.Time)
		}
	}
	return at
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// maxSaid limits the text about one pod.
const maxSaid = 500

// podProblem says in Kubernetes' words why a pod does not run; empty when it does.
func podProblem(pod *corev1.Pod) string { return brief.Clip(podTrouble(pod), maxSaid) }

func podTrouble(pod *corev1.Pod) string {
	switch {
	case pod == nil:
		return "the pod does not exist yet"
	case pod.DeletionTimestamp != nil:
		return "the pod is being deleted"
	case pod.Status.Phase == corev1.PodFailed:
		return "the pod failed: " + strings.TrimSpace(pod.Status.Reason+" "+pod.Status.Message)
	}
	if c := podCondition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		return "the pod is not scheduled: " + c.Message
	}
	for _, c := range pod.Status.ContainerStatuses {
		if waiting := c.State.Waiting; waiting != nil {
			text := "the container waits: " + strings.TrimSpace(waiting.Reason)
			if last := c.LastTerminationState.Terminated; last != nil {
				text += fmt.Sprintf(" (it ended with exit code %d)", last.ExitCode)
			}
			return text
		}
		if !c.Ready {
			return "the container runs and is not ready"
		}
	}
	if len(pod.Status.ContainerStatuses) == 0 {
		return "the pod is starting"
	}
	return ""
}

func failureForPlan(f *ramcloudv1.PodFailure) plan.Failure {
	if f == nil {
		return plan.Failure{}
	}
	return plan.Failure{Count: f.Count, Reason: f.Reason, Message: f.Message, Time: f.Time.Time}
}

func failureForStatus(f plan.Failure) *ramcloudv1.PodFailure {
	return &ramcloudv1.PodFailure{Count: f.Count, Reason: f.Reason, Message: f.Message, Time: metav1.NewTime(f.Time.Truncate(time.Second))}
}
