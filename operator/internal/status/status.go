// Package status computes what the operator reports. Each condition is decided here and nowhere else.
// Facts about servers, tables and data come from the coordinator's picture only.
package status

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ramcloud.dev/client/adminpb"
	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/brief"
	"ramcloud.dev/operator/internal/coordinator"
	"ramcloud.dev/operator/internal/plan"
	"ramcloud.dev/operator/internal/specs"
)

// Input is everything from which the status is computed.
type Input struct {
	Cluster  *ramcloudv1.RAMCloudCluster
	Picture  *coordinator.Picture
	Decision plan.Decision
	// Servers as they are reported (Server below), in order of their index.
	Servers []ramcloudv1.RAMCloudServer
	// Members are all members that shall exist, as in the plan's input.
	Members []plan.Member
	// Revisions are the templates by component; empty while nothing is decided.
	Revisions []Revision
	// Pending are the pods that differ from the spec.
	Pending []ramcloudv1.PendingRestart
	// Refused says why the spec is refused.
	Refused string
	// Former lists the remaining objects of a former cluster of the same name; nothing is created before they
	// are deleted.
	Former []string
	// Stranger says why the answering store is not this cluster's.
	Stranger string
	// Growing has texts about volumes that grow, NotGrowing about those that cannot get the size in the spec.
	Growing, NotGrowing []string
	// MemoryMoving lists servers that get another size of memory while they run, MemoryStaying the servers that
	// get it only by a restart. Both are empty while the coordinator does not answer.
	MemoryMoving, MemoryStaying []string
	// Deprecated lists old fields and values in the spec, and what to write instead.
	Deprecated []string
	// EvictionsHeld says why no server may be evicted now; empty: one may.
	EvictionsHeld string
	// Failed are the steps of this reconcile that failed, with their messages.
	Failed []string
	Now    metav1.Time
}

// Graces: how long a state may last before it counts as a problem.
const (
	// SilenceGrace: a starting operator has not heard the coordinator yet.
	SilenceGrace = 30 * time.Second
	// StartGrace: a pod that was just created is not ready.
	StartGrace = time.Minute
)

// Silence is how long nothing may be reported, because this operator knows nothing yet of a cluster that was
// heard before (the silence rule): the status of the previous operator stays. 0: report.
func Silence(c *ramcloudv1.RAMCloudCluster, p *coordinator.Picture, now time.Time) time.Duration {
	if p.Heard || p.Since.IsZero() || !wasReady(c) {
		return 0
	}
	return max(0, p.Since.Add(SilenceGrace).Sub(now))
}

// neverHeard: the grace is over, and this operator still has not heard the coordinator.
func neverHeard(in Input) bool {
	return !in.Picture.Heard && !in.Picture.Since.IsZero() && wasReady(in.Cluster)
}

// maxPending is how many pods status.pendingRestart lists.
const maxPending = 20

// Cluster computes the status of a cluster.
func Cluster(in Input) ramcloudv1.RAMCloudClusterStatus {
	c := in.Cluster
	out := ramcloudv1.RAMCloudClusterStatus{
		ObservedGeneration: c.Generation,
		Selector:           specs.ServerSelectorText(c.Name),
		Coordinator:        c.Status.Coordinator, // identity and version are kept while it does not answer
		Data:               data(in.Picture),
	}
	for i := range c.Status.Conditions {
		out.Conditions = append(out.Conditions, *c.Status.Conditions[i].DeepCopy())
	}
	members(in, &out)
	out.Revisions = revisions(in)
	out.PendingRestart = in.Pending[:min(len(in.Pending), maxPending)]
	if s := in.Picture.Status; in.Picture.Connected && s != nil {
		// Written once (the pinned-identity rule); a different one never gets here, see Input.Stranger.
		out.Coordinator.ClusterUUID = cmp.Or(out.Coordinator.ClusterUUID, s.ClusterUuid)
		out.Coordinator.Version = s.Version
		out.Coordinator.Term = int64(s.Term)
	}
	out.Servers.Replicas = int32(len(in.Servers))
	for i := range in.Servers {
		if in.Servers[i].Status.State == ramcloudv1.ServerUp {
			out.Servers.Ready++
		}
		if in.Servers[i].Status.PendingRestart {
			out.Servers.PendingRestart++
		}
	}
	out.Servers.EvictionsHeld = brief.Clip(in.EvictionsHeld, brief.Message)
	out.Servers.Crashed = int32(in.Picture.Crashed())
	out.Servers.Summary = fmt.Sprintf("%d/%d", out.Servers.Ready, out.Servers.Replicas)
	setConditions(in, &out)
	return out
}

// members counts the coordinators and the members of etcd, and records when etcd is complete.
func members(in Input, out *ramcloudv1.RAMCloudClusterStatus) {
	out.Coordinator.Replicas, out.Coordinator.Ready, out.Coordinator.LastFailures = 0, 0, nil
	out.Etcd = ramcloudv1.EtcdStatus{Formed: in.Cluster.Status.Etcd.Formed, TLS: in.Cluster.Status.Etcd.TLS}
	for _, m := range in.Members {
		replicas, ready, failures := &out.Coordinator.Replicas, &out.Coordinator.Ready, &out.Coordinator.LastFailures
		before := in.Cluster.Status.Coordinator.LastFailures
		switch m.ID.Kind {
		case plan.Server:
			continue
		case plan.Etcd:
			replicas, ready, failures = &out.Etcd.Replicas, &out.Etcd.Ready, &out.Etcd.LastFailures
			before = in.Cluster.Status.Etcd.LastFailures
		}
		if m.Pod.Exists {
			*replicas++
		}
		if m.Pod.Serves() {
			*ready++
		}
		if at := slices.IndexFunc(before, func(f ramcloudv1.MemberFailure) bool { return f.Pod == m.Name }); at >= 0 {
			*failures = append(*failures, before[at])
		}
	}
	if wanted := specs.WantedEtcd(in.Cluster); wanted > 0 && out.Etcd.Ready == wanted {
		out.Etcd.Formed = true
	}
}

func data(p *coordinator.Picture) ramcloudv1.DataStatus {
	if !p.Connected {
		return ramcloudv1.DataStatus{State: ramcloudv1.DataUnknown}
	}
	all, served := p.TabletCounts()
	out := ramcloudv1.DataStatus{
		State: ramcloudv1.DataComplete, Tables: int32(len(p.Tables)), Tablets: int32(all), TabletsUnavailable: int32(all - served),
	}
	if served < all {
		out.State = ramcloudv1.DataPartial
	}
	if s := p.Status; s != nil {
		out.Objects = int64(s.Objects)
		out.MemoryUsed = memory(s.LogBytesUsed)
		if coordinator.TellsLive(s.GetMemory().GetHashTableBytes()) {
			out.MemoryLive = memory(s.Memory.LiveBytes)
		}
		out.MemoryTotal = memory(s.LogBytesTotal)
		if n := int32(s.SurvivesServers); n > 0 { // 0: none, or the coordinator does not tell
			out.SurvivesServers = &n
		}
		if r := s.Replication; r != nil {
			out.Replication = ramcloudv1.ReplicationStatus{
				Factor: int32(r.ReplicasWanted), Segments: int64(r.Segments), FullyReplicated: int64(r.SegmentsFullyReplicated),
				UnderReplicated: int64(r.SegmentsUnderReplicated),
			}
		}
	}
	return out
}

// memory rounds for people; the exact value is a metric.
func memory(bytes uint64) *resource.Quantity {
	const kib, mib = 1 << 10, 1 << 20
	unit := uint64(mib)
	if bytes < 10*mib {
		unit = kib
	}
	q := resource.NewQuantity(int64((bytes+unit-1)/unit*unit), resource.BinarySI)
	_ = q.String() // caches the text, so that equal quantities are equal deeply
	return q
}

// set sets one condition.
func set(c *ramcloudv1.RAMCloudCluster, out *ramcloudv1.RAMCloudClusterStatus, now metav1.Time, kind string, value metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&out.Conditions, metav1.Condition{
		Type: kind, Status: value, Reason: reason, Message: brief.Clip(message, brief.Message),
		ObservedGeneration: c.Generation, LastTransitionTime: now,
	})
}

func truth(yes bool) metav1.ConditionStatus {
	if yes {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

func setConditions(in Input, out *ramcloudv1.RAMCloudClusterStatus) {
	set := func(kind string, value metav1.ConditionStatus, reason, message string) {
		set(in.Cluster, out, in.Now, kind, value, reason, message)
	}
	ready, reason, message := readiness(in, out)
	set(ramcloudv1.ConditionReady, ready, reason, message)
	troubles := degradation(in, out)
	set(ramcloudv1.ConditionDegraded, truth(len(troubles) > 0), troubles.reason(), troubles.message())
	progressing, pReason, pMessage := progress(in, out, ready == metav1.ConditionTrue)
	set(ramcloudv1.ConditionProgressing, truth(progressing), pReason, pMessage)
	identity := meta.FindStatusCondition(in.Cluster.Status.Conditions, ramcloudv1.ConditionConsistentIdentity)
	switch uuid := out.Coordinator.ClusterUUID; {
	case in.Stranger != "":
		set(ramcloudv1.ConditionConsistentIdentity, metav1.ConditionFalse, ramcloudv1.ReasonIdentityChanged, in.Stranger)
	case uuid == "":
		set(ramcloudv1.ConditionConsistentIdentity, metav1.ConditionUnknown, ramcloudv1.ReasonIdentityNotKnown, "the coordinator has not answered yet")
	case !in.Picture.Connected && identity != nil: // the last known value
		set(identity.Type, identity.Status, identity.Reason, identity.Message)
	default:
		set(ramcloudv1.ConditionConsistentIdentity, metav1.ConditionTrue, ramcloudv1.ReasonIdentityPinned, "the coordinator leads the cluster "+uuid)
	}
	if in.Decision.Blocked != "" {
		set(ramcloudv1.ConditionScaleBlocked, metav1.ConditionTrue, ramcloudv1.ReasonScaleInNotSupported, in.Decision.Blocked)
	} else {
		set(ramcloudv1.ConditionScaleBlocked, metav1.ConditionFalse, ramcloudv1.ReasonNotBlocked, "spec.servers.replicas is applied")
	}
	resizing(in, out)
	value, rReason, rMessage := recovering(in)
	set(ramcloudv1.ConditionRecovering, value, rReason, rMessage)
	if value, reason, message := upToDate(in); reason != "" {
		set(ramcloudv1.ConditionUpToDate, value, reason, message)
	}
	if in.Cluster.Spec.Paused {
		set(ramcloudv1.ConditionPaused, metav1.ConditionTrue, ramcloudv1.ReasonPaused, "spec.paused is set: the operator changes nothing of this cluster")
	} else {
		set(ramcloudv1.ConditionPaused, metav1.ConditionFalse, ramcloudv1.ReasonNotPaused, "the operator manages this cluster")
	}
	if len(in.Deprecated) > 0 {
		set(ramcloudv1.ConditionDeprecatedFields, metav1.ConditionTrue, ramcloudv1.ReasonDeprecatedFieldsUsed,
			"spec has old fields or values, which version 0.2 refuses: "+brief.List(in.Deprecated, "; "))
	} else {
		set(ramcloudv1.ConditionDeprecatedFields, metav1.ConditionFalse, ramcloudv1.ReasonNoDeprecatedFields, "spec has no old fields or values")
	}
}

// resizing sets the condition about volumes, and about memory of servers, that do not have the size in the spec. A
// cluster without any resize has no such condition.
func resizing(in Input, out *ramcloudv1.RAMCloudClusterStatus) {
	before := meta.FindStatusCondition(in.Cluster.Status.Conditions, ramcloudv1.ConditionResizing)
	set := func(value bool, reason, message string) {
		set(in.Cluster, out, in.Now, ramcloudv1.ConditionResizing, truth(value), reason, message)
	}
	known := in.Cluster.Status.Resizing
	out.Resizing = ramcloudv1.ResizingStatus{VolumesInfeasible: int32(len(in.NotGrowing)), ServersInfeasible: int32(len(in.MemoryStaying))}
	if !in.Picture.Connected { // only the coordinator knows the sizes of logs
		out.Resizing.ServersInfeasible = known.ServersInfeasible
	}
	moving, staying := slices.Concat(in.MemoryMoving, in.Growing), slices.Concat(in.NotGrowing, in.MemoryStaying)
	switch {
	case !in.Picture.Connected && before != nil && slices.Contains(memoryReasons, before.Reason):
		// The condition stays unchanged, too.
	case len(staying) > 0:
		set(len(moving) > 0, ramcloudv1.ReasonResizeInfeasible, brief.List(slices.Concat(staying, moving), "; "))
	case len(in.MemoryMoving) > 0:
		set(true, ramcloudv1.ReasonMemoryResizing, brief.List(moving, "; "))
	case len(in.Growing) > 0:
		set(true, ramcloudv1.ReasonVolumesGrowing, brief.List(moving, "; "))
	case before == nil:
	case before.Reason == ramcloudv1.ReasonMemoryResizing || before.Reason == ramcloudv1.ReasonMemoryAsWanted || known.ServersInfeasible > 0:
		set(false, ramcloudv1.ReasonMemoryAsWanted, "every server has the memory that spec asks for, and every volume the size")
	default:
		set(false, ramcloudv1.ReasonVolumesAsWanted, "every volume has the size that spec asks for; a server uses a larger one when it starts next")
	}
}

// memoryReasons are the reasons that may be about memory.
var memoryReasons = []string{ramcloudv1.ReasonMemoryResizing, ramcloudv1.ReasonMemoryAsWanted, ramcloudv1.ReasonResizeInfeasible}

// Unread is the status of a cluster whose objects could not be read: the previous status with that error.
func Unread(c *ramcloudv1.RAMCloudCluster, failed []string, now metav1.Time) ramcloudv1.RAMCloudClusterStatus {
	out := *c.Status.DeepCopy()
	set(c, &out, now, ramcloudv1.ConditionDegraded, metav1.ConditionTrue, ramcloudv1.ReasonReconcileFailed, reconcileFailed(failed))
	return out
}

func reconcileFailed(failed []string) string {
	return "a step of the operator failed, and is retried: " + brief.List(failed, "; ")
}

func readiness(in Input, out *ramcloudv1.RAMCloudClusterStatus) (metav1.ConditionStatus, string, string) {
	no := func(reason, message string) (metav1.ConditionStatus, string, string) {
		return metav1.ConditionFalse, reason, message
	}
	coordinators, etcd := down(in, plan.Coordinator), down(in, plan.Etcd)
	switch {
	case len(in.Former) > 0:
		return no(ramcloudv1.ReasonFormerClusterNotGone, former(in))
	case in.Stranger != "":
		return no(ramcloudv1.ReasonIdentityChanged, in.Stranger)
	case !in.Picture.Connected && neverHeard(in):
		return metav1.ConditionUnknown, ramcloudv1.ReasonCoordinatorNotAnswering, in.Picture.Problem
	case !in.Picture.Connected:
		return no(ramcloudv1.ReasonCoordinatorNotAnswering, in.Picture.Problem)
	case out.Data.TabletsUnavailable > 0:
		return no(ramcloudv1.ReasonTabletsUnavailable, unavailable(in.Picture))
	case out.Servers.Ready < out.Servers.Replicas || out.Servers.Replicas < int32(len(in.Decision.Servers)):
		return no(ramcloudv1.ReasonServersNotUp, notUp(in, out))
	case len(etcd) > 0:
		return no(ramcloudv1.ReasonEtcdMembersDown, etcdMembersDown(in, etcd))
	case len(coordinators) > 0:
		return no(ramcloudv1.ReasonCoordinatorsDown, coordinatorsDown(in, coordinators))
	}
	return metav1.ConditionTrue, ramcloudv1.ReasonAllServersUp,
		fmt.Sprintf("%d servers up, %d of %d tablets served", out.Servers.Ready, out.Data.Tablets, out.Data.Tablets)
}

// down are the coordinators or members of etcd that do not work. The store's answer is preferred: a single
// coordinator that answers is not down, even if its pod is not ready.
func down(in Input, kind plan.Kind) (out []plan.Member) {
	if kind == plan.Coordinator && in.Picture.Connected && specs.WantedCoordinators(in.Cluster) == 1 {
		return nil
	}
	for _, m := range in.Members {
		if m.ID.Kind == kind && !m.Pod.Serves() {
			out = append(out, m)
		}
	}
	return out
}

// lost are the down members that are not just starting, as after a scale-out or in a requested restart.
func lost(in Input, kind plan.Kind) (out []plan.Member) {
	for _, m := range down(in, kind) {
		restarts := in.Decision.Rolling != "" && (m.Pod.Deleting || !m.Pod.Exists)
		if !restarts && startsFor(m, in.Now.Time) == 0 {
			out = append(out, m)
		}
	}
	return out
}

// startsFor is how much longer a pod that is not ready counts as starting.
func startsFor(m plan.Member, now time.Time) time.Duration {
	if !m.Pod.Exists || m.Pod.Deleting || m.Pod.Failed || m.Pod.Ready {
		return 0
	}
	return max(0, m.Pod.CreatedAt.Add(StartGrace).Sub(now))
}

func etcdMembersDown(in Input, members []plan.Member) string {
	return fmt.Sprintf("%d of %d members of etcd are not ready: %s", len(members), specs.WantedEtcd(in.Cluster), withProblems(members))
}

func coordinatorsDown(in Input, members []plan.Member) string {
	return fmt.Sprintf("%d of %d coordinators are not ready: %s", len(members), specs.WantedCoordinators(in.Cluster), withProblems(members))
}

// withProblems names members and why they do not run.
func withProblems(members []plan.Member) string {
	var out []string
	for _, m := range members {
		problem := m.Problem
		if problem == "" {
			problem = "the pod is not ready"
		}
		out = append(out, m.Name+" ("+problem+")")
	}
	return brief.List(out, ", ")
}

// trouble is a problem that does not end when a start is complete.
type trouble struct{ reason, message string }

type troubles []trouble

// reason is the reason of the worst trouble, which comes first.
func (t troubles) reason() string {
	if len(t) == 0 {
		return ramcloudv1.ReasonAsExpected
	}
	return t[0].reason
}

// message describes all troubles.
func (t troubles) message() string {
	if len(t) == 0 {
		return "the operator knows of no problem"
	}
	var out []string
	for _, one := range t {
		out = append(out, one.message)
	}
	return strings.Join(out, "; ")
}

// degradation are all troubles, the worst first.
func degradation(in Input, out *ramcloudv1.RAMCloudClusterStatus) (all troubles) {
	add := func(bad bool, reason string, message func() string) {
		if bad {
			all = append(all, trouble{reason, message()})
		}
	}
	list := func(items []string) func() string { return func() string { return brief.List(items, "; ") } }
	text := func(message string) func() string { return func() string { return message } }
	add(in.Stranger != "", ramcloudv1.ReasonIdentityChanged, text(in.Stranger))
	add(len(in.Decision.Foreign) > 0, ramcloudv1.ReasonVolumeNotOurs, func() string {
		return fmt.Sprintf("volume claims %s exist and belong to something else; rename or delete them, or give this cluster another name",
			brief.List(in.Decision.Foreign, ", "))
	})
	add(in.Refused != "", ramcloudv1.ReasonNetworkNotSupported, text(in.Refused))
	add(len(in.Decision.MetadataLost) > 0, ramcloudv1.ReasonMetadataVolumeLost, func() string {
		return fmt.Sprintf("the volume with the metadata of %s is lost, and an empty one in its place would be another cluster: bring the "+
			"volume back, or rebuild the data from the servers' volumes into a new cluster (docs/operating/storage.md)",
			brief.List(in.Decision.MetadataLost, ", "))
	})
	add(recoveryLasts(in, out), ramcloudv1.ReasonTabletsUnavailable, func() string { return unavailable(in.Picture) })
	// Until etcd was complete once, and a coordinator has answered once, they count as starting.
	etcd, coordinators := lost(in, plan.Etcd), lost(in, plan.Coordinator)
	add(len(etcd) > 0 && out.Etcd.Formed, ramcloudv1.ReasonEtcdMembersDown, func() string { return etcdMembersDown(in, etcd) })
	add(len(coordinators) > 0 && wasReady(in.Cluster), ramcloudv1.ReasonCoordinatorsDown, func() string { return coordinatorsDown(in, coordinators) })
	add(len(in.Decision.VolumesTerminating) > 0, ramcloudv1.ReasonVolumeTerminating, list(in.Decision.VolumesTerminating))
	add(len(in.Failed) > 0, ramcloudv1.ReasonReconcileFailed, func() string { return reconcileFailed(in.Failed) })
	add(len(in.Decision.Failing) > 0, ramcloudv1.ReasonPodsFailing, list(in.Decision.Failing))
	add(len(in.Decision.VolumesLost) > 0, ramcloudv1.ReasonVolumeLost, list(in.Decision.VolumesLost))
	detection := in.Picture.Status.GetDetection()
	add(in.Picture.Connected && detection.GetState() == "SUSPECT", ramcloudv1.ReasonServersSilent, func() string { return serversSilent(detection) })
	add(withoutDomain(in) != "", ramcloudv1.ReasonFailureDomainMissing, func() string { return withoutDomain(in) })
	add(tooFewDomains(in, out) != "", ramcloudv1.ReasonTooFewFailureDomains, func() string { return tooFewDomains(in, out) })
	add(replicasLack(in), ramcloudv1.ReasonUnderReplicated, func() string {
		return fmt.Sprintf("%d of %d segments have fewer replicas than the replication factor %d",
			out.Data.Replication.UnderReplicated, out.Data.Replication.Segments, cmp.Or(out.Data.Replication.Factor, specs.ReplicationFactor(in.Cluster)))
	})
	add(!in.Picture.Connected && in.Stranger == "" && len(in.Former) == 0 && wasReady(in.Cluster), ramcloudv1.ReasonCoordinatorNotAnswering, text(in.Picture.Problem))
	return all
}

// serversSilent describes servers that do not answer the coordinator but are not marked as crashed: the
// coordinator itself may be cut off.
func serversSilent(d *adminpb.Detection) string {
	message := fmt.Sprintf("failure detection is SUSPECT: %d of %d servers are accounted for; until it ends, the coordinator marks no silent server as crashed", d.GetAccounted(), d.GetExpected())
	if waits := d.GetWaitsFor(); len(waits) > 0 {
		message += ": " + brief.List(waits, "; ")
	}
	return message
}

// withoutDomain names servers without a failure domain: a pod without the label counts as a domain of its
// own, and replicas are placed accordingly.
func withoutDomain(in Input) string {
	label := in.Cluster.Spec.TopologyKey
	if label == "" || label == corev1.LabelHostname {
		return ""
	}
	var names []string
	for i := range in.Servers {
		s := &in.Servers[i]
		if s.Status.State == ramcloudv1.ServerUp && (s.Status.Placement.FailureDomain == "" || s.Status.Placement.FailureDomain == s.Name) {
			names = append(names, s.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("spec.topologyKey is %s and the pods of %s have no such label, so each counts as a domain of its own; "+
		"label the nodes, see that Kubernetes copies the label to pods, and delete these pods when their data may go",
		label, brief.List(names, ", "))
}

// tooFewDomains compares the number of failure domains with what replicas need, once all servers are up.
func tooFewDomains(in Input, out *ramcloudv1.RAMCloudClusterStatus) string {
	if !in.Picture.Connected || out.Servers.Ready < int32(len(in.Decision.Servers)) {
		return ""
	}
	domains := map[string]bool{}
	for i := range in.Servers {
		domains[in.Servers[i].Status.Placement.FailureDomain] = true
	}
	needed := int(specs.ReplicationFactor(in.Cluster)) + 1
	if len(domains) >= needed {
		return ""
	}
	return fmt.Sprintf("replicationFactor %d needs %d failure domains (spec.topologyKey is %s) and the servers are in %d: %s",
		needed-1, needed, cmp.Or(in.Cluster.Spec.TopologyKey, "not set"), len(domains), brief.List(slices.Sorted(maps.Keys(domains)), ", "))
}

// RecoveryGrace is how long tablets may be not served before that counts as a problem: a crashed server is
// recovered within seconds, and conditions and alerts must not flap with each crash. The condition Ready
// changes at once.
const RecoveryGrace = 5 * time.Second

// recoveryLasts: tablets are not served for longer than the grace, or it was reported before, or a recovery
// is blocked. A starting operator does not begin another grace.
func recoveryLasts(in Input, out *ramcloudv1.RAMCloudClusterStatus) bool {
	if out.Data.TabletsUnavailable == 0 {
		return false
	}
	p := in.Picture
	return p.Blocked() || was(in, ramcloudv1.ReasonTabletsUnavailable) || !p.UnavailableSince.IsZero() && in.Now.Sub(p.UnavailableSince) >= RecoveryGrace
}

// was says whether this reason was reported before.
func was(in Input, reason string) bool {
	before := meta.FindStatusCondition(in.Cluster.Status.Conditions, ramcloudv1.ConditionDegraded)
	return before != nil && before.Status == metav1.ConditionTrue && before.Reason == reason
}

// UnderReplicatedGrace is how long segments may lack replicas before that counts as a problem: every new
// segment lacks them for a moment.
const UnderReplicatedGrace = 30 * time.Second

// replicasLack: segments lack replicas for longer than the grace, or it was reported before. A starting
// operator does not begin another grace.
func replicasLack(in Input) bool {
	p := in.Picture
	if !p.Connected || p.UnderReplicatedSince.IsZero() {
		return false
	}
	return in.Now.Sub(p.UnderReplicatedSince) >= UnderReplicatedGrace || was(in, ramcloudv1.ReasonUnderReplicated)
}

// LookAgain is when the status may change without an event; 0: never.
func LookAgain(in Input) (after time.Duration) {
	sooner := func(left time.Duration) {
		if left > 0 && (after == 0 || left < after) {
			after = left
		}
	}
	if p := in.Picture; p.Connected && !p.UnderReplicatedSince.IsZero() && !replicasLack(in) {
		sooner(p.UnderReplicatedSince.Add(UnderReplicatedGrace).Sub(in.Now.Time))
	}
	if p := in.Picture; p.Connected && !p.UnavailableSince.IsZero() {
		sooner(p.UnavailableSince.Add(RecoveryGrace).Sub(in.Now.Time))
	}
	for _, kind := range []plan.Kind{plan.Etcd, plan.Coordinator} {
		for _, m := range down(in, kind) {
			sooner(startsFor(m, in.Now.Time))
		}
	}
	return after
}

// wasReady: the coordinator has answered before, so it is not just starting.
func wasReady(c *ramcloudv1.RAMCloudCluster) bool { return c.Status.Coordinator.ClusterUUID != "" }

func progress(in Input, out *ramcloudv1.RAMCloudClusterStatus, ready bool) (bool, string, string) {
	if len(in.Former) > 0 {
		return true, ramcloudv1.ReasonFormerClusterNotGone, former(in)
	}
	if in.Decision.Rolling != "" {
		return true, ramcloudv1.ReasonRollingRestart, in.Decision.Rolling
	}
	etcd, coordinators := down(in, plan.Etcd), down(in, plan.Coordinator)
	switch {
	case in.Stranger != "":
		return false, ramcloudv1.ReasonIdentityChanged, in.Stranger
	case !in.Picture.Connected:
		problems := []string{"waiting for the coordinator"}
		for _, m := range in.Members {
			if m.Problem != "" {
				problems = append(problems, m.Name+": "+m.Problem)
			}
		}
		return true, ramcloudv1.ReasonStarting, brief.List(problems, "; ")
	case out.Servers.Ready < int32(len(in.Decision.Servers)):
		return true, ramcloudv1.ReasonStarting, notUp(in, out)
	case len(etcd) > 0 && !ready:
		return true, ramcloudv1.ReasonStarting, etcdMembersDown(in, etcd)
	case len(coordinators) > 0 && !ready:
		return true, ramcloudv1.ReasonStarting, coordinatorsDown(in, coordinators)
	}
	return false, ramcloudv1.ReasonSettled, pending(in)
}

func former(in Input) string {
	return "waiting until all objects of a deleted cluster of this name are gone; there still are " + brief.List(in.Former, ", ")
}

func pending(in Input) string {
	if len(in.Pending) == 0 {
		return "everything is as spec asks for"
	}
	return fmt.Sprintf("%d pods differ from spec; set spec.update.restartRequest to restart them one at a time "+
		"(status.pendingRestart says what differs)", len(in.Pending))
}

func notUp(in Input, out *ramcloudv1.RAMCloudClusterStatus) string {
	text := fmt.Sprintf("%d of %d servers are up", out.Servers.Ready, len(in.Decision.Servers))
	var missing []string
	for i := range in.Servers {
		if s := &in.Servers[i]; s.Status.State != ramcloudv1.ServerUp {
			missing = append(missing, s.Name+" ("+s.Status.StateReason+")")
		}
	}
	if len(missing) > 0 {
		text += ", waiting for " + brief.List(missing, ", ")
	}
	return text
}

// unavailable names tables that cannot be read, and the servers that held them.
func unavailable(p *coordinator.Picture) string {
	bad := 0
	owners := map[uint64]bool{}
	var where []string
	for _, name := range p.TableNames() {
		n := 0
		for _, tablet := range p.Tables[name].Tablets {
			if tablet.State != adminpb.TabletState_TABLET_UNAVAILABLE {
				continue
			}
			n++
			owners[tablet.ServerId] = true
		}
		if n > 0 {
			bad += n
			where = append(where, fmt.Sprintf("%d of table '%s'", n, name))
		}
	}
	return fmt.Sprintf("%d tablets are not served (%s), of %d servers; %s", bad, brief.List(where, ", "), len(owners),
		cmp.Or(p.Recoveries(), "the coordinator has not begun their recovery"))
}

// recovering describes crashed servers whose data is being recovered.
func recovering(in Input) (metav1.ConditionStatus, string, string) {
	switch text := in.Picture.Recoveries(); {
	case !in.Picture.Connected:
		return metav1.ConditionUnknown, ramcloudv1.ReasonCoordinatorNotAnswering, in.Picture.Problem
	case in.Picture.Blocked():
		return metav1.ConditionTrue, ramcloudv1.ReasonRecoveryBlocked, text
	case in.Picture.WaitsForMemory():
		return metav1.ConditionTrue, ramcloudv1.ReasonRecoveryWaitsForMemory, text
	case text != "":
		return metav1.ConditionTrue, ramcloudv1.ReasonRecoveryRunning, text
	}
	return metav1.ConditionFalse, ramcloudv1.ReasonNoRecovery, "all tablets of crashed servers are served again"
}

// ServerInput is the input for a server's status.
type ServerInput struct {
	Member  plan.Member
	Picture *coordinator.Picture
	Pending bool
	// Before is the previous status.
	Before ramcloudv1.RAMCloudServerStatus
	// Generation of the record.
	Generation int64
	Now        metav1.Time
}

// Server computes the status of a server.
func Server(in ServerInput) ramcloudv1.RAMCloudServerStatus {
	out := serverState(in)
	out.VolumeGeneration = max(in.Before.VolumeGeneration, in.Member.Generation)
	out.ObservedGeneration = in.Generation
	ready := metav1.Condition{Type: ramcloudv1.ConditionReady, Reason: string(out.State), Message: out.StateReason,
		ObservedGeneration: in.Generation, LastTransitionTime: in.Now}
	switch out.State {
	case ramcloudv1.ServerUp:
		ready.Status, ready.Message = metav1.ConditionTrue, "the coordinator lists it as up"
	case ramcloudv1.ServerUnknown:
		ready.Status, ready.Reason = metav1.ConditionUnknown, ramcloudv1.ReasonCoordinatorNotAnswering
	default:
		ready.Status = metav1.ConditionFalse
	}
	for i := range in.Before.Conditions {
		out.Conditions = append(out.Conditions, *in.Before.Conditions[i].DeepCopy())
	}
	meta.SetStatusCondition(&out.Conditions, ready)
	return out
}

func serverState(in ServerInput) ramcloudv1.RAMCloudServerStatus {
	out := ramcloudv1.RAMCloudServerStatus{
		PendingRestart: in.Pending, LastFailure: in.Before.LastFailure,
		Placement:   ramcloudv1.ServerPlacement{Node: in.Member.Pod.Node},
		Incarnation: in.Before.Incarnation, // keeps that it once enlisted
	}
	s := in.Picture.ServerByName(in.Member.Name)
	switch {
	case !in.Picture.Connected:
		out.State, out.StateReason = ramcloudv1.ServerUnknown, "the coordinator does not answer"
		return out
	case s == nil:
		out.State, out.StateReason = ramcloudv1.ServerNotEnlisted, "not enlisted with the coordinator"
	case s.State == adminpb.ServerState_SERVER_UP:
		out.State = ramcloudv1.ServerUp
	default:
		out.State, out.StateReason = ramcloudv1.ServerCrashed, s.StateReason
		if out.StateReason == "" {
			out.StateReason = "the coordinator marked it as crashed"
		}
	}
	if out.State != ramcloudv1.ServerUp && in.Member.Problem != "" {
		out.StateReason += "; " + in.Member.Problem
	}
	out.StateReason = brief.Clip(out.StateReason, brief.Message)
	if s == nil {
		return out
	}
	out.Incarnation = strconv.FormatUint(s.Id, 10)
	out.Locator, out.LocatorOutside = s.Locator, s.LocatorOutside
	out.Version = s.Version
	out.Tablets = int32(in.Picture.Tablets(s.Id))
	out.Placement.FailureDomain = s.FailureDomain
	if stats := s.Stats; stats != nil && out.State == ramcloudv1.ServerUp {
		out.Objects = int64(stats.Objects)
		out.MemoryUsed, out.MemoryTotal = memory(stats.LogBytesUsed), memory(stats.LogBytesTotal)
		if coordinator.TellsLive(stats.HashTableBytes) {
			out.MemoryLive = memory(stats.LogBytesLive)
		}
	}
	return out
}
