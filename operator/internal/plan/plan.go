// Package plan decides what to do next for a cluster. It is pure: it computes a decision from an observation,
// without clock, network or Kubernetes, so that tests can try arbitrary histories.
//
// Rules it never breaks:
//   - a server that exists is never planned away;
//   - a pod is deleted only after Kubernetes gave it up, or, for one member at a time, in a rolling restart that was
//     asked for, while all others are well;
//   - a server that serves is restarted only while the cluster is whole: every server is up, every tablet is served,
//     nothing is being recovered and every segment has all replicas (the whole-cluster rule);
//   - a server may be evicted only then, too, one at a time (Evictions);
//   - a server's volume is deleted only when the coordinator has released it, by the id that the server had on it
//     (the release-token rule), and never under a pod;
//   - a server gets an empty volume in place of a lost one only when the coordinator answers and does not list the
//     server as up, by a claim of a new name, and never under a pod that has the lost one mounted;
//   - a lost volume of metadata is never replaced by an empty one, with one exception: that of a member of the etcd,
//     while all other members are ready. It is removed from the etcd and added again as a new member;
//   - the limit of a server's pod is never below what its log needs, and no container is restarted for its memory (the
//     pod-before-log rule);
//   - spec is never corrected;
//   - what members are made from changes only when somebody asks for it (the frozen-template rule), and never so that
//     versions run together that must not (the skew rule).
package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Kind is the kind of a member.
type Kind int

// The kinds, in the order in which they are restarted.
const (
	Etcd Kind = iota
	Coordinator
	Server
)

// ID names a member.
type ID struct {
	Kind  Kind
	Index int32
}

func (id ID) String() string {
	switch id.Kind {
	case Etcd:
		return fmt.Sprintf("etcd member %d", id.Index)
	case Coordinator:
		return fmt.Sprintf("coordinator %d", id.Index)
	}
	return fmt.Sprintf("server %d", id.Index)
}

// Compare orders members.
func Compare(a, b ID) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Index, b.Index))
}

// Waits before a failed pod is re-created: doubled with each failure in a row.
const (
	FirstBackoff = 10 * time.Second
	MaxBackoff   = 5 * time.Minute
	// ForgetAfter is how long a pod must have been ready for its failures to be forgotten.
	ForgetAfter = 10 * time.Minute
)

// Pod is the part of a pod's state that matters here.
type Pod struct {
	Exists   bool
	Deleting bool
	// Failed: Kubernetes gave the pod up (phase Failed) and will not start it again.
	Failed          bool
	Reason, Message string
	FailedAt        time.Time
	Ready           bool
	ReadySince      time.Time
	// Mounted: a container of the pod has run, so the pod has its volume, even if the claim is deleted.
	Mounted   bool
	CreatedAt time.Time
	Node      string // where it runs
	// Request is the restart request that was in force when the pod was created.
	Request string
	// TLS is the stage for which the pod was created (PodTLS).
	TLS TLSStage
	// Outdated says why the pod must be restarted without a request: a certificate or authority that it read at
	// its start will expire. Empty: no need.
	Outdated string
}

// Serves says whether the pod works and stays. For Kubernetes, a pod that is being deleted is still ready
// until it ends.
func (p Pod) Serves() bool { return p.Exists && p.Ready && !p.Deleting && !p.Failed }

// Failure is the record of a member's failures in a row.
type Failure struct {
	Count           int32
	Reason, Message string
	Time            time.Time
}

// Member is a coordinator, etcd member or server that exists in any form: record, pod or volume.
type Member struct {
	ID   ID
	Name string // of its pod
	Pod  Pod
	// Problem says in Kubernetes' words why the pod does not run; empty if it does.
	Problem string
	Failure Failure
	// Volume is the state of its pod's claim; without a pod, of the newest claim.
	Volume Volume
	// Generation is the generation of that claim; 0: there is none.
	Generation int32
	// HadData: it had a volume with data: it has enlisted, or its metadata was in use.
	HadData bool
	// Up: the coordinator lists the server of this name as up; Tablets are those it serves. Both are known only
	// while the coordinator answers (Observed.Connected).
	Up      bool
	Tablets int
	// Bound: the claim has a volume, which may have data.
	Bound bool
	// ServerID is the id under which the server last enlisted with the volume, if known (Enlisted). KnownAs is
	// the id of the server with this name in the coordinator's list; empty: none, or the coordinator does not
	// answer.
	ServerID, KnownAs string
	// Release is the coordinator's answer about the volume, if WantsRelease required one.
	Release Release
	// Replicas is the server's R, as it reports; 0: none, or not known.
	Replicas uint32
	// Retired are the server's earlier claims, by rising generation.
	Retired []Claim
	// PodMemory is the memory of a server's pod as Kubernetes reports it; nil: there is no pod. LogMemory is the
	// server's own report; nil: it is not up, or the coordinator does not answer.
	PodMemory *PodMemory
	LogMemory *ServerMemory
	// SecurePeer: the other members of etcd reach this one by TLS. It is noted on the claim, because the etcd's
	// data has the address.
	SecurePeer bool
}

// Observed is the input of Decide.
type Observed struct {
	Now               time.Time
	Wanted            int32 // spec.servers.replicas
	Coordinators      int32
	EtcdMembers       int32
	ReplicationFactor int32
	// CoordinatorVolume: the coordinator keeps the metadata on a volume, not in an etcd.
	CoordinatorVolume bool
	// Formed: the etcd was complete once.
	Formed bool
	// TLS is the recorded stage of the etcd.
	TLS TLSStage
	// Connected: the coordinator answers.
	Connected bool
	// NotWhole says which data is not served or has too few replicas, so that no server may be stopped; empty:
	// the cluster is whole. Again is when that may change without an event; 0: never.
	NotWhole string
	Again    time.Duration
	// NotSafe and SafeAgain are the same without momentary effects of load: why no server may be evicted.
	NotSafe   string
	SafeAgain time.Duration
	// Paused: nothing shall be changed.
	Paused bool
	// Request is spec.update.restartRequest.
	Request string
	Members []Member // those that exist, in any order
	// Roles are the templates of each kind of member.
	Roles map[Kind]Role
	// Memory are the sizes of servers, by the name of their template.
	Memory map[string]MemoryWanted
	// Foreign names, by member, volume claims that have the name of ours but belong to something else. It covers
	// every member without a pod, including those that do not exist yet.
	Foreign map[ID]string
}

func (o *Observed) needsVolume(id ID) bool { return id.Kind != Coordinator || o.CoordinatorVolume }

// Replacement is a failed pod that is deleted now, to be created again.
type Replacement struct {
	ID      ID
	Failure Failure // to be recorded before the pod is deleted
}

// Decision is what shall be done now.
type Decision struct {
	// Servers that shall exist, ascending. Always includes all existing servers.
	Servers []int32
	// Volumes: create claims for these members.
	Volumes []ID
	// Retire the lost claims of these servers first; they are kept as earlier claims. The servers are in
	// Volumes, too.
	Retire []ID
	// Rejoin: this member of etcd lost its volume; remove it from the etcd, add it again, then create a claim
	// for it. At most one.
	Rejoin []ID
	// Create these pods.
	Create []ID
	// Replace these failed pods.
	Replace []Replacement
	// Restart: delete this working pod; a later decision creates it again. At most one.
	Restart []ID
	// Secure: before this member of etcd is restarted, make the others reach it by TLS, and note that on its
	// claim. It is in Restart, too, and is not restarted if this fails.
	Secure []ID
	// Remove these pods of coordinators that are not wanted any more. At most one.
	Remove []ID
	// DropVolumes: delete these claims, whose volumes are lost, and the pods that wait for them. Never a
	// server's.
	DropVolumes []ID
	// GiveUp: delete the pods of these servers: they wait for a lost volume, or have a released one.
	GiveUp []ID
	// Release: delete these earlier claims of servers.
	Release []Released
	// Forget the failures of these members: they have been well for long enough.
	Forget []ID
	// Failing members, with a text about each.
	Failing []string
	// Foreign volumes that are in the way.
	Foreign []string
	// MetadataLost names lost volumes of metadata.
	MetadataLost []string
	// VolumesLost names lost volumes of servers, and what each waits for.
	VolumesLost []string
	// VolumesTerminating names servers' volumes that somebody has deleted, and why they are kept.
	VolumesTerminating []string
	// Blocked says why spec.servers.replicas is not applied; empty if it is.
	Blocked string
	// Rolling is the progress of a requested restart; empty if none is in progress.
	Rolling string
	// Revisions are the templates of each kind of member. They are stored before any pod is created.
	Revisions map[Kind]Revision
	// MemoryWanted are the sizes that each server is to have. Memory is the step of each server that has a pod.
	// Resize: do the step of this server. At most one. MemoryHeld says why the size in spec is not that of the accepted
	// template yet; empty: it is.
	MemoryWanted MemoryWanted
	Memory       map[ID]MemoryStep
	Resize       []ID
	MemoryHeld   string
	// Again is when to decide again without an event; 0: not needed.
	Again time.Duration
}

// Decide computes what to do next.
func Decide(o Observed) Decision {
	var d Decision
	members := make(map[ID]Member, len(o.Members))
	var servers []Member
	for _, m := range o.Members {
		members[m.ID] = m
		if m.ID.Kind == Server {
			servers = append(servers, m)
		}
	}
	slices.SortFunc(servers, func(a, b Member) int { return Compare(a.ID, b.ID) })
	d.Servers = wantedServers(max(o.Wanted, o.ReplicationFactor+1), servers)
	d.Blocked = blocked(o, servers)

	for _, id := range Wanted(o, d.Servers) {
		m, exists := members[id]
		if !exists {
			m = Member{ID: id}
		}
		decideMember(o, m, &d)
	}
	decideSurplus(o, &d)
	decideRevisions(o, &d)
	decideRestart(o, members, &d)
	decideMemory(o, members, &d)
	if o.Paused {
		d.Volumes, d.Create, d.Replace, d.Restart, d.Remove, d.DropVolumes, d.Forget = nil, nil, nil, nil, nil, nil, nil
		d.Rejoin, d.Secure, d.Revisions, d.Retire, d.GiveUp, d.Release, d.Resize = nil, nil, nil, nil, nil, nil, nil
	}
	return d
}

// Wanted are the members that shall exist, given the servers that shall.
func Wanted(o Observed, servers []int32) []ID {
	var out []ID
	for i := range o.EtcdMembers {
		out = append(out, ID{Etcd, i})
	}
	for i := range o.Coordinators {
		out = append(out, ID{Coordinator, i})
	}
	for _, index := range servers {
		out = append(out, ID{Server, index})
	}
	return out
}

// Servers are the indices of the servers that shall exist, given the existing ones.
func Servers(wanted, replicationFactor int32, existing []int32) []int32 {
	members := make([]Member, len(existing))
	for i, index := range existing {
		members[i].ID = ID{Server, index}
	}
	return wantedServers(max(wanted, replicationFactor+1), members)
}

// wantedServers keeps all existing servers and adds the lowest free indices.
func wantedServers(wanted int32, existing []Member) []int32 {
	used := make(map[int32]bool, len(existing))
	for _, m := range existing {
		used[m.ID.Index] = true
	}
	for next := int32(0); int32(len(used)) < wanted; next++ {
		used[next] = true
	}
	indices := make([]int32, 0, len(used))
	for index := range used {
		indices = append(indices, index)
	}
	slices.Sort(indices)
	return indices
}

func decideMember(o Observed, m Member, d *Decision) {
	decideRetired(o, m, d)
	switch {
	case o.Foreign[m.ID] != "" && !m.Pod.Exists:
		d.Foreign = append(d.Foreign, o.Foreign[m.ID])
	case !m.Pod.Exists:
		decideCreate(o, m, d)
	case m.Pod.Deleting: // created again once it is deleted
	case m.Pod.Failed:
		decideFailed(o.Now, m, d)
	case o.needsVolume(m.ID) && m.Volume != VolumePresent && !m.Pod.Ready:
		decidePodWithoutVolume(o, m, d)
	case m.ID.Kind == Server && m.Volume == VolumeDeleting:
		d.VolumesTerminating = append(d.VolumesTerminating, fmt.Sprintf("the volume claim of %s was deleted; it is kept while the server runs", m.ID))
	case m.Pod.Ready && m.Failure.Count > 0:
		if well := o.Now.Sub(m.Pod.ReadySince); well >= ForgetAfter {
			d.Forget = append(d.Forget, m.ID)
		} else {
			d.again(ForgetAfter - well)
		}
	}
}

func decideFailed(now time.Time, m Member, d *Decision) {
	failure := Failure{Count: m.Failure.Count + 1, Reason: m.Pod.Reason, Message: m.Pod.Message, Time: m.Pod.FailedAt}
	if m.Failure.Count > 0 && m.Failure.Time.Equal(m.Pod.FailedAt) {
		failure = m.Failure // recorded already, and the pod is not deleted yet: it is the same failure
	}
	wait := Backoff(failure.Count - 1)
	left := m.Pod.FailedAt.Add(wait).Sub(now)
	d.Failing = append(d.Failing, fmt.Sprintf("%s failed (%s%s), re-created %s after it failed",
		m.ID, m.Pod.Reason, colon(m.Pod.Message), wait))
	if left > 0 {
		d.again(left)
		return
	}
	d.Replace = append(d.Replace, Replacement{ID: m.ID, Failure: failure})
}

// Backoff is the wait before a pod is re-created that failed `failures` times in a row.
func Backoff(failures int32) time.Duration {
	wait := FirstBackoff
	for ; failures > 0 && wait < MaxBackoff; failures-- {
		wait *= 2
	}
	return min(wait, MaxBackoff)
}

func (d *Decision) again(after time.Duration) {
	if d.Again == 0 || after < d.Again {
		d.Again = after
	}
}

func blocked(o Observed, existing []Member) string {
	text := ""
	if surplus := len(existing) - int(o.Wanted); surplus > 0 {
		tablets := 0
		for _, m := range existing[len(existing)-surplus:] {
			tablets += m.Tablets
		}
		what := fmt.Sprintf("%d tablets", tablets)
		if !o.Connected {
			what = "tablets (how many is not known while the coordinator does not answer)"
		}
		text = fmt.Sprintf("spec.servers.replicas is %d and %d servers exist: taking away %d would lose %s and the "+
			"replicas on %d volumes, since moving them (%d replicas of each segment) is not supported yet; "+
			"accepted: %d or more", o.Wanted, len(existing), surplus, what, surplus, o.ReplicationFactor, len(existing))
	}
	if needed := o.ReplicationFactor + 1; o.Wanted < needed { // a server keeps no replicas of its own log
		text = join(text, fmt.Sprintf("spec.servers.replicas is %d and replicationFactor %d needs %d servers, "+
			"since a server keeps no replicas of its own log; accepted: %d or more", o.Wanted, o.ReplicationFactor, needed, needed))
	}
	return text
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

func colon(message string) string {
	if message == "" {
		return ""
	}
	return ": " + message
}
