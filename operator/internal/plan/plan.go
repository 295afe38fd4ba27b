// Package plan decides what to do next for a cluster. It is pure: from what was observed to what shall
// be done, without clock, network or Kubernetes, so that arbitrary histories can be tried in tests.
//
// Rules it never breaks:
//   - a server that exists is never planned away, and a server's pod that runs is never deleted: its
//     memory is the only copy that can be read;
//   - a pod is deleted only after Kubernetes gave it up, or, for one coordinator or etcd member at a time,
//     in a rolling restart that was asked for, while all others are well;
//   - a server's volume is deleted only when the coordinator has released it, by the id that the server had on it
//     (the release-token rule), and never under a server that runs;
//   - a server gets an empty volume in place of one that is gone only when the coordinator answers and does not
//     list the server as up;
//   - a lost volume of metadata is never replaced by an empty one, save that of an etcd member which all others can
//     do without: it is put out of the etcd and in again as a new member;
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

// Kind is what a member is.
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

// Pod is what matters of a pod.
type Pod struct {
	Exists   bool
	Deleting bool
	// Failed: Kubernetes gave the pod up (phase Failed) and will not start it again.
	Failed          bool
	Reason, Message string
	FailedAt        time.Time
	Ready           bool
	ReadySince      time.Time
	CreatedAt       time.Time
	Node            string // where it runs
	// Request is the restart request that the pod was made under.
	Request string
	// TLS is the stage that the pod was made for (PodTLS).
	TLS TLSStage
	// Outdated says why the pod has to start again although nobody asked: what it read at its start ends. Empty: it has not.
	Outdated string
}

// Serves says whether the pod works and stays. One that is being deleted is still ready for Kubernetes, for as long as
// it takes to end.
func (p Pod) Serves() bool { return p.Exists && p.Ready && !p.Deleting && !p.Failed }

// Volume is a member's volume claim.
type Volume int

// The states of a volume claim.
const (
	// VolumeNone: there is no claim.
	VolumeNone Volume = iota
	// VolumeThere: there is one, bound or waiting to be.
	VolumeThere
	// VolumeGoing: somebody deletes it. A server's stays until it is released.
	VolumeGoing
	// VolumeLost: the volume behind the claim is lost.
	VolumeLost
)

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
	// Problem says in Kubernetes' words why the pod does not run; empty when it does.
	Problem string
	Failure Failure
	Volume  Volume
	// Made: it had a volume with something on it: it has enlisted, or its metadata was in use.
	Made bool
	// Up: the coordinator lists the server of this name as up; Tablets are those it serves. Both are only
	// known while the coordinator answers (Observed.Connected).
	Up      bool
	Tablets int
	// Bound: the claim has a volume, so there may be something on it.
	Bound bool
	// ServerID is the id under which the server last enlisted, as it was noted; empty: it never did, or the note is lost.
	// KnownAs is the id of the server of this name that the coordinator lists; empty: none, or it does not answer.
	ServerID, KnownAs string
	// Release is the coordinator's answer about the volume, if WantsRelease asks for one.
	Release Release
	// SecurePeer: the other members of etcd reach this one by TLS. It is noted on the claim, because it is so in the data.
	SecurePeer bool
}

// Release is the coordinator's word on a server's volume.
type Release struct {
	// ServerID is the id that was asked about; empty: nobody was asked.
	ServerID   string
	Releasable bool
	Reason     string // why not
}

// WantsRelease says by which id the coordinator is to be asked whether the member's volume may be deleted, now that
// nothing uses it; empty: nobody is asked. "Not up" is not "not needed": other servers' replicas are on it. And the id has to
// be the one that wrote them: after a restart that was not noted yet, nothing is known of the former one any more.
func WantsRelease(o Observed, m Member) string {
	unused := !m.Pod.Ready && !m.Up
	wanted := m.Volume == VolumeGoing || m.Volume == VolumeLost
	if m.ID.Kind != Server || !o.Connected || o.Paused || !wanted || !unused || m.KnownAs != "" && m.KnownAs != m.ServerID {
		return ""
	}
	return m.ServerID
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
	// TLS is the stage that was noted for the etcd.
	TLS TLSStage
	// Connected: the coordinator answers.
	Connected bool
	// Paused: nothing shall be changed.
	Paused bool
	// Request is spec.update.restartRequest.
	Request string
	Members []Member // those that exist, in any order
	// Roles are what the members of each kind are made from.
	Roles map[Kind]Role
	// Foreign names, by member, volume claims that are in the way: they have the name of ours and belong
	// to something else. It covers every member without a pod, also those that do not exist yet.
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
	// Servers that shall exist, ascending. Always contains all that exist.
	Servers []int32
	// Volumes: make claims for these members.
	Volumes []ID
	// Rejoin: this member of etcd lost its volume; put it out of the etcd and in again, then make a claim for it.
	// At most one.
	Rejoin []ID
	// Create these pods.
	Create []ID
	// Replace these failed pods.
	Replace []Replacement
	// Restart: delete this pod that works, to be created again by a later decision. At most one.
	Restart []ID
	// Secure: before this member of etcd is restarted, tell the others to reach it by TLS, and note that on its claim. It is
	// in Restart, too, and is not restarted if this fails.
	Secure []ID
	// Remove these pods of coordinators that are not wanted any more. At most one.
	Remove []ID
	// DropVolumes: delete these claims (and the pods that wait for them), whose volumes are lost.
	DropVolumes []ID
	// Forget the failures of these members: they have been well for long enough.
	Forget []ID
	// Failing members, with what to tell about each.
	Failing []string
	// Foreign volumes that are in the way.
	Foreign []string
	// MetadataLost tells of volumes of metadata that are lost.
	MetadataLost []string
	// VolumesLost tells of servers' volumes that are lost and what is waited for.
	VolumesLost []string
	// VolumesTerminating tells of servers' volumes that somebody deletes, and why they are kept.
	VolumesTerminating []string
	// Blocked says why spec.servers.replicas is not followed; empty when it is.
	Blocked string
	// Rolling says how far a restart that was asked for is, empty when none is in progress.
	Rolling string
	// Revisions say what the members of each kind are made from. They are recorded before any pod is made.
	Revisions map[Kind]Revision
	// Again is when to decide again although nothing changed; 0: not needed.
	Again time.Duration
}

// Decide says what to do next.
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
	if o.Paused {
		d.Volumes, d.Create, d.Replace, d.Restart, d.Remove, d.DropVolumes, d.Forget = nil, nil, nil, nil, nil, nil, nil
		d.Rejoin, d.Secure, d.Revisions = nil, nil, nil
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

// Servers are the indices of the servers that shall exist, given those that do.
func Servers(wanted, replicationFactor int32, existing []int32) []int32 {
	members := make([]Member, len(existing))
	for i, index := range existing {
		members[i].ID = ID{Server, index}
	}
	return wantedServers(max(wanted, replicationFactor+1), members)
}

// wantedServers keeps all that exist and fills up with the lowest free indices.
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
	switch {
	case o.Foreign[m.ID] != "" && !m.Pod.Exists:
		d.Foreign = append(d.Foreign, o.Foreign[m.ID])
	case !m.Pod.Exists:
		decideCreate(o, m, d)
	case m.Pod.Deleting: // created again once it is gone
	case m.Pod.Failed:
		decideFailed(o.Now, m, d)
	case o.needsVolume(m.ID) && m.Volume != VolumeThere && !m.Pod.Ready:
		decidePodWithoutVolume(o, m, d)
	case m.ID.Kind == Server && m.Volume == VolumeGoing:
		d.VolumesTerminating = append(d.VolumesTerminating, fmt.Sprintf("the volume claim of %s was deleted; it is kept while the server runs", m.ID))
	case m.Pod.Ready && m.Failure.Count > 0:
		if well := o.Now.Sub(m.Pod.ReadySince); well >= ForgetAfter {
			d.Forget = append(d.Forget, m.ID)
		} else {
			d.again(ForgetAfter - well)
		}
	}
}

// decideCreate: the member has no pod.
func decideCreate(o Observed, m Member, d *Decision) {
	if m.ID.Kind == Coordinator && o.EtcdMembers > 0 && !o.Formed {
		return // it would only fail until the etcd is there
	}
	if o.needsVolume(m.ID) {
		switch m.Volume {
		case VolumeNone:
			if m.Made && !mayReplaceVolume(o, m, d) {
				return
			}
			if m.Made && m.ID.Kind == Etcd { // its pod is made once the claim is there
				d.Rejoin = append(d.Rejoin, m.ID)
				return
			}
			d.Volumes = append(d.Volumes, m.ID)
		case VolumeLost:
			decideLost(o, m, d)
			return
		case VolumeGoing: // a claim of the same name can be made once it is gone
			if m.ID.Kind == Server {
				decideLost(o, m, d)
			}
			return
		}
	}
	d.Create = append(d.Create, m.ID)
}

// decidePodWithoutVolume: the pod does not work, and its claim is missing, going or lost. A claim that is going
// keeps a new pod from starting, and a pod that has it keeps the claim from going.
func decidePodWithoutVolume(o Observed, m Member, d *Decision) {
	if m.Volume != VolumeNone || m.Made && m.ID.Kind == Etcd { // which rejoins without a pod
		decideLost(o, m, d)
		return
	}
	if !m.Made || mayReplaceVolume(o, m, d) {
		d.Volumes = append(d.Volumes, m.ID)
	}
}

// decideLost: the claim is there or going, the volume behind it is not to be had.
func decideLost(o Observed, m Member, d *Decision) {
	if m.ID.Kind == Server && mayRelease(o, m, d) || m.ID.Kind != Server && (!m.Made || mayReplaceVolume(o, m, d)) {
		d.DropVolumes = append(d.DropVolumes, m.ID)
	}
}

// mayRelease says whether a server's volume may be deleted, or tells why it is kept.
func mayRelease(o Observed, m Member, d *Decision) bool {
	keep := func(why string) bool {
		if m.Volume == VolumeGoing {
			d.VolumesTerminating = append(d.VolumesTerminating, fmt.Sprintf("the volume claim of %s was deleted; it is kept: %s", m.ID, why))
		} else {
			d.VolumesLost = append(d.VolumesLost, fmt.Sprintf("the volume of %s is lost; its claim is kept: %s", m.ID, why))
		}
		return false
	}
	switch {
	case !o.Connected:
		return keep("the coordinator, which says whether its replicas are needed, does not answer")
	case m.Up:
		return keep("the coordinator lists the server as up")
	case m.KnownAs != m.ServerID && m.KnownAs != "":
		return keep("the coordinator lists the server under the id " + m.KnownAs + ", which was not noted yet")
	case m.ServerID == "" && !m.Bound:
		return true // there never was a volume
	case m.ServerID == "":
		return keep("it is not known under which id a server used it, so nobody can be asked; when nothing on it is needed, take its finalizers off")
	case m.Release.ServerID != m.ServerID:
		return keep("the coordinator was not asked yet")
	case !m.Release.Releasable:
		return keep(fmt.Sprintf("the coordinator does not release it (server id %s): %s", m.ServerID, m.Release.Reason))
	}
	return true
}

// mayReplaceVolume says whether an empty volume may take the place of the lost one of a member that was made.
func mayReplaceVolume(o Observed, m Member, d *Decision) bool {
	switch {
	case m.ID.Kind == Etcd && o.EtcdMembers > 1 && mayNotRejoin(o, m.ID) == "":
		return true
	case m.ID.Kind == Etcd && o.EtcdMembers > 1:
		d.MetadataLost = append(d.MetadataLost, fmt.Sprintf("%s (it is replaced once the others are well: %s)", m.ID, mayNotRejoin(o, m.ID)))
		return false
	case m.ID.Kind != Server:
		d.MetadataLost = append(d.MetadataLost, m.ID.String())
		return false
	case !o.Connected:
		d.VolumesLost = append(d.VolumesLost, fmt.Sprintf(
			"the volume of %s is lost; it is replaced once the coordinator answers and says that the server is gone", m.ID))
		return false
	case m.Up:
		d.VolumesLost = append(d.VolumesLost, fmt.Sprintf(
			"the volume of %s is lost; it is replaced once the coordinator, which lists the server as up, says that it is gone", m.ID))
		return false
	}
	return true
}

// mayNotRejoin says why a member of etcd that lost its volume cannot be replaced now: the others have to be a
// majority with all that was ever committed, and able to decide.
func mayNotRejoin(o Observed, lost ID) (why string) {
	have := map[ID]Member{}
	for _, m := range o.Members {
		have[m.ID] = m
	}
	for i := range o.EtcdMembers {
		id := ID{Etcd, i}
		if m := have[id]; id != lost && (m.Volume != VolumeThere || !m.Pod.Serves()) {
			why = join(why, id.String()+" is not ready")
		}
	}
	if !o.Formed {
		why = join(why, "the etcd was never complete")
	}
	return why
}

func decideFailed(now time.Time, m Member, d *Decision) {
	failure := Failure{Count: m.Failure.Count + 1, Reason: m.Pod.Reason, Message: m.Pod.Message, Time: m.Pod.FailedAt}
	if m.Failure.Count > 0 && m.Failure.Time.Equal(m.Pod.FailedAt) {
		failure = m.Failure // recorded already, and the pod not gone yet: it is still the same failure
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

// Backoff is the wait before a pod that failed `failures` times in a row already is re-created.
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
