// Package status computes what the operator reports. Each condition is decided here and nowhere else.
// Facts about servers, tables and data come from the coordinator's picture only.
package status

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/coordinator"
	"ramcloud.dev/operator/internal/plan"
	"ramcloud.dev/operator/internal/specs"
	"ramcloud.dev/operator/pkg/adminpb"
)

// Input is all that status is computed from.
type Input struct {
	Cluster  *ramcloudv1.RAMCloudCluster
	Picture  *coordinator.Picture
	Decision plan.Decision
	// Servers as they are reported (Server below), in order of their index.
	Servers []ramcloudv1.RAMCloudServer
	// Members are the coordinators and the members of etcd.
	Members []Member
	// Pending are the pods that differ from what spec asks for.
	Pending []ramcloudv1.PendingRestart
	// Refused says why the spec cannot be followed.
	Refused string
	// Former is what is left of a former cluster of the same name; nothing is made before it is gone.
	Former []string
	// PodProblems says of pods that do not run why, in Kubernetes' words.
	PodProblems []string
	Now         metav1.Time
}

// Member is a coordinator's or etcd member's pod.
type Member struct {
	Kind          plan.Kind
	Pod           string
	Exists, Ready bool
	Failure       *ramcloudv1.PodFailure
}

// maxPending is how many pods status.pendingRestart lists.
const maxPending = 20

// Cluster computes the status of a cluster.
func Cluster(in Input) ramcloudv1.RAMCloudClusterStatus {
	c := in.Cluster
	out := ramcloudv1.RAMCloudClusterStatus{
		ObservedGeneration: c.Generation,
		Selector:           specs.ServerSelectorText(c.Name),
		Coordinator:        c.Status.Coordinator, // identity and version stay known while it is away
		Data:               data(in.Picture),
	}
	for i := range c.Status.Conditions {
		out.Conditions = append(out.Conditions, *c.Status.Conditions[i].DeepCopy())
	}
	members(in, &out)
	out.PendingRestart = in.Pending[:min(len(in.Pending), maxPending)]
	if s := in.Picture.Status; in.Picture.Connected && s != nil {
		out.Coordinator.ClusterUUID = s.ClusterUuid
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
	out.Servers.Crashed = int32(in.Picture.Crashed())
	out.Servers.Summary = fmt.Sprintf("%d/%d", out.Servers.Ready, out.Servers.Replicas)
	setConditions(in, &out)
	return out
}

// members counts the coordinators and the members of etcd, and notes when etcd is complete.
func members(in Input, out *ramcloudv1.RAMCloudClusterStatus) {
	out.Coordinator.Replicas, out.Coordinator.Ready, out.Coordinator.LastFailures = 0, 0, nil
	out.Etcd = ramcloudv1.EtcdStatus{Formed: in.Cluster.Status.Etcd.Formed}
	for _, m := range in.Members {
		replicas, ready, failures := &out.Coordinator.Replicas, &out.Coordinator.Ready, &out.Coordinator.LastFailures
		if m.Kind == plan.Etcd {
			replicas, ready, failures = &out.Etcd.Replicas, &out.Etcd.Ready, &out.Etcd.LastFailures
		}
		if m.Exists {
			*replicas++
		}
		if m.Ready {
			*ready++
		}
		if m.Failure != nil {
			*failures = append(*failures, ramcloudv1.MemberFailure{Pod: m.Pod, PodFailure: *m.Failure})
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
		out.MemoryTotal = memory(s.LogBytesTotal)
		if r := s.Replication; r != nil {
			out.Replication = ramcloudv1.ReplicationStatus{
				Segments: int64(r.Segments), FullyReplicated: int64(r.SegmentsFullyReplicated),
				UnderReplicated: int64(r.SegmentsUnderReplicated),
			}
		}
	}
	return out
}

// memory rounds to what a person reads; the exact figure is a metric.
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

func setConditions(in Input, out *ramcloudv1.RAMCloudClusterStatus) {
	set := func(kind string, yes bool, reason, message string) {
		value := metav1.ConditionFalse
		if yes {
			value = metav1.ConditionTrue
		}
		condition := metav1.Condition{
			Type: kind, Status: value, Reason: reason, Message: message, ObservedGeneration: in.Cluster.Generation,
		}
		condition.LastTransitionTime = in.Now
		meta.SetStatusCondition(&out.Conditions, condition)
	}
	ready, reason, message := readiness(in, out)
	set(ramcloudv1.ConditionReady, ready, reason, message)
	degraded, dReason, dMessage := degradation(in, out)
	set(ramcloudv1.ConditionDegraded, degraded, dReason, dMessage)
	progressing, pReason, pMessage := progress(in, out, ready)
	set(ramcloudv1.ConditionProgressing, progressing, pReason, pMessage)
	if in.Decision.Blocked != "" {
		set(ramcloudv1.ConditionScaleBlocked, true, ramcloudv1.ReasonScaleInNotSupported, in.Decision.Blocked)
	} else {
		set(ramcloudv1.ConditionScaleBlocked, false, ramcloudv1.ReasonNotBlocked, "spec.servers.replicas is followed")
	}
	if in.Cluster.Spec.Pause {
		set(ramcloudv1.ConditionPaused, true, ramcloudv1.ReasonPaused, "spec.pause is set: the operator changes nothing of this cluster")
	} else {
		set(ramcloudv1.ConditionPaused, false, ramcloudv1.ReasonNotPaused, "the operator looks after this cluster")
	}
}

func readiness(in Input, out *ramcloudv1.RAMCloudClusterStatus) (bool, string, string) {
	switch {
	case len(in.Former) > 0:
		return false, ramcloudv1.ReasonFormerClusterNotGone, former(in)
	case !in.Picture.Connected:
		return false, ramcloudv1.ReasonCoordinatorNotAnswering, in.Picture.Problem
	case out.Data.TabletsUnavailable > 0:
		return false, ramcloudv1.ReasonTabletsUnavailable, unavailable(in.Picture)
	case out.Servers.Ready < out.Servers.Replicas || out.Servers.Replicas < int32(len(in.Decision.Servers)):
		return false, ramcloudv1.ReasonServersNotUp, notUp(in, out)
	}
	return true, ramcloudv1.ReasonAllServersUp,
		fmt.Sprintf("%d servers up, %d of %d tablets served", out.Servers.Ready, out.Data.Tablets, out.Data.Tablets)
}

func degradation(in Input, out *ramcloudv1.RAMCloudClusterStatus) (bool, string, string) {
	switch {
	case len(in.Decision.Foreign) > 0:
		return true, ramcloudv1.ReasonVolumeNotOurs, fmt.Sprintf(
			"volume claims %s exist and belong to something else; rename or delete them, or name this cluster otherwise",
			strings.Join(in.Decision.Foreign, ", "))
	case in.Refused != "":
		return true, ramcloudv1.ReasonNetworkNotSupported, in.Refused
	case len(in.Decision.MetadataLost) > 0:
		return true, ramcloudv1.ReasonMetadataVolumeLost, fmt.Sprintf(
			"the volume with the metadata of %s is lost, and an empty one in its place would be another cluster: bring the "+
				"volume back, or rebuild the data from the servers' volumes into a new cluster (docs/operating/storage.md)",
			strings.Join(in.Decision.MetadataLost, ", "))
	case out.Data.TabletsUnavailable > 0:
		return true, ramcloudv1.ReasonTabletsUnavailable, unavailable(in.Picture)
	case len(in.Decision.Failing) > 0:
		return true, ramcloudv1.ReasonPodsFailing, strings.Join(in.Decision.Failing, "; ")
	case len(in.Decision.VolumesLost) > 0:
		return true, ramcloudv1.ReasonVolumeLost, strings.Join(in.Decision.VolumesLost, "; ")
	case withoutDomain(in) != "":
		return true, ramcloudv1.ReasonFailureDomainMissing, withoutDomain(in)
	case tooFewDomains(in, out) != "":
		return true, ramcloudv1.ReasonTooFewFailureDomains, tooFewDomains(in, out)
	case replicasLack(in.Picture, in.Now.Time):
		return true, ramcloudv1.ReasonUnderReplicated, fmt.Sprintf(
			"%d of %d segments have fewer replicas than replicationFactor %d",
			out.Data.Replication.UnderReplicated, out.Data.Replication.Segments, specs.ReplicationFactor(in.Cluster))
	case !in.Picture.Connected && wasReady(in.Cluster):
		return true, ramcloudv1.ReasonCoordinatorNotAnswering, in.Picture.Problem
	}
	return false, ramcloudv1.ReasonAsExpected, "nothing is broken that the operator knows of"
}

// withoutDomain names servers that do not know their failure domain: a pod without the label takes itself
// for a domain of its own, and replicas are placed as if that were so.
func withoutDomain(in Input) string {
	var label string
	switch in.Cluster.Spec.FailureDomain {
	case ramcloudv1.FailureDomainZone:
		label = "topology.kubernetes.io/zone"
	case ramcloudv1.FailureDomainLabel:
		label = in.Cluster.Spec.FailureDomainLabel
	default:
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
	return fmt.Sprintf("spec.failureDomain is %s and the pods of %s have no label %s, so each counts as a domain of its own; "+
		"label the nodes, see that Kubernetes copies the label to pods, and delete these pods when their data may go",
		in.Cluster.Spec.FailureDomain, shorten(names), label)
}

// tooFewDomains compares what the replicas need with where the servers are, once all are up.
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
	return fmt.Sprintf("replicationFactor %d needs %d failure domains (spec.failureDomain is %s) and the servers are in %d: %s",
		needed-1, needed, in.Cluster.Spec.FailureDomain, len(domains), shorten(slices.Sorted(maps.Keys(domains))))
}

// UnderReplicatedGrace is how long segments may lack replicas before that is called a trouble: every
// segment that is opened does for a moment.
const UnderReplicatedGrace = 30 * time.Second

func replicasLack(p *coordinator.Picture, now time.Time) bool {
	return p.Connected && !p.UnderReplicatedSince.IsZero() && now.Sub(p.UnderReplicatedSince) >= UnderReplicatedGrace
}

// LookAgain is when the status may change although nothing new is heard; 0: never.
func LookAgain(p *coordinator.Picture, now time.Time) time.Duration {
	if !p.Connected || p.UnderReplicatedSince.IsZero() || replicasLack(p, now) {
		return 0
	}
	return p.UnderReplicatedSince.Add(UnderReplicatedGrace).Sub(now)
}

// wasReady: the coordinator has answered before, so its silence is not the wait for a start.
func wasReady(c *ramcloudv1.RAMCloudCluster) bool { return c.Status.Coordinator.ClusterUUID != "" }

func progress(in Input, out *ramcloudv1.RAMCloudClusterStatus, ready bool) (bool, string, string) {
	if len(in.Former) > 0 {
		return true, ramcloudv1.ReasonFormerClusterNotGone, former(in)
	}
	if in.Decision.Rolling != "" {
		return true, ramcloudv1.ReasonRollingRestart, in.Decision.Rolling
	}
	if ready || (in.Picture.Connected && out.Servers.Ready == int32(len(in.Decision.Servers))) {
		return false, ramcloudv1.ReasonSettled, pending(in, out)
	}
	if !in.Picture.Connected {
		return true, ramcloudv1.ReasonStarting, strings.Join(append([]string{"waiting for the coordinator"}, in.PodProblems...), "; ")
	}
	return true, ramcloudv1.ReasonStarting, notUp(in, out)
}

func former(in Input) string {
	return "waiting until nothing is left of a former cluster of this name; there still are " + shorten(in.Former)
}

func pending(in Input, out *ramcloudv1.RAMCloudClusterStatus) string {
	servers := int(out.Servers.PendingRestart)
	others := len(in.Pending) - servers
	var parts []string
	if servers > 0 {
		parts = append(parts, fmt.Sprintf("pods of %d servers differ from spec; they are not restarted, because a server that "+
			"restarts loses what it holds in memory", servers))
	}
	if others > 0 {
		parts = append(parts, fmt.Sprintf("%d pods of coordinators or etcd differ from spec; set spec.update.restartRequest to "+
			"restart them one at a time", others))
	}
	if len(parts) == 0 {
		return "everything is as spec asks for"
	}
	return strings.Join(parts, "; ") + " (status.pendingRestart says what differs)"
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
		text += ", waiting for " + shorten(missing)
	}
	return text
}

// unavailable names what cannot be read and which servers held it.
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
	return fmt.Sprintf("%d tablets are not served (%s), of %d servers; a restarted server is a new one, and "+
		"recovery of the former one's data from its replicas is not supported yet", bad, shorten(where), len(owners))
}

func shorten(items []string) string {
	const most = 5
	if len(items) > most {
		return strings.Join(items[:most], ", ") + fmt.Sprintf(" and %d more", len(items)-most)
	}
	return strings.Join(items, ", ")
}

// ServerInput is what a server's status is computed from.
type ServerInput struct {
	Name        string
	Picture     *coordinator.Picture
	Node        string // where the pod runs
	PodProblem  string // why it does not run, if so
	Pending     bool
	LastFailure *ramcloudv1.PodFailure
	// Before is what was reported before.
	Before ramcloudv1.RAMCloudServerStatus
}

// Server computes the status of a server.
func Server(in ServerInput) ramcloudv1.RAMCloudServerStatus {
	out := ramcloudv1.RAMCloudServerStatus{
		PendingRestart: in.Pending, LastFailure: in.LastFailure,
		Placement:   ramcloudv1.ServerPlacement{Node: in.Node},
		Incarnation: in.Before.Incarnation, // that it once enlisted is not forgotten
	}
	s := in.Picture.ServerByName(in.Name)
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
			out.StateReason = "the coordinator took it for dead"
		}
	}
	if out.State != ramcloudv1.ServerUp && in.PodProblem != "" {
		out.StateReason += "; " + in.PodProblem
	}
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
	}
	return out
}
