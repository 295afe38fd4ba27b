// Package plan decides what to do next for a cluster. It is pure: from what was observed to what shall
// be done, without clock, network or Kubernetes, so that arbitrary histories can be tried in tests.
//
// Rules it never breaks: a server that exists is never planned away (its memory is the only copy that
// can be read); a pod is deleted only after Kubernetes gave it up; spec is never corrected.
package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Coordinator is the Member that is not a server.
const Coordinator int32 = -1

// Waits before a failed pod is made anew: doubled with each failure in a row.
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
}

// Failure is the record of a member's failures in a row.
type Failure struct {
	Count           int32
	Reason, Message string
	Time            time.Time
}

// Member is the coordinator or a server that exists in any form: record or pod.
type Member struct {
	Index   int32
	Pod     Pod
	Failure Failure
	// Tablets that the coordinator says it serves; Known says whether the coordinator could be asked.
	Tablets int
	Known   bool
}

// Observed is the input of Decide.
type Observed struct {
	Now               time.Time
	Wanted            int32 // spec.servers.replicas
	ReplicationFactor int32
	Coordinator       Member
	Servers           []Member // those that exist, in any order
	// Foreign names, by member, volume claims that are in the way: they have the name of ours and belong
	// to something else. It covers every member without a pod, also those that do not exist yet.
	Foreign map[int32]string
}

// Replacement is a failed pod that is deleted now, to be created again.
type Replacement struct {
	Index   int32
	Failure Failure // to be recorded before the pod is deleted
}

// Decision is what shall be done now.
type Decision struct {
	// Servers that shall exist, ascending. Always contains all that exist.
	Servers []int32
	// Create these pods (Coordinator or a server's index).
	Create []int32
	// Replace these failed pods.
	Replace []Replacement
	// Forget the failures of these members: they have been well for long enough.
	Forget []int32
	// Failing members, with what to tell about each.
	Failing []string
	// Foreign volumes that are in the way.
	Foreign []string
	// Blocked says why spec.servers.replicas is not followed; empty when it is.
	Blocked string
	// Again is when to decide anew although nothing changed; 0: not needed.
	Again time.Duration
}

// Decide says what to do next.
func Decide(o Observed) Decision {
	var d Decision
	existing := slices.Clone(o.Servers)
	slices.SortFunc(existing, func(a, b Member) int { return cmp.Compare(a.Index, b.Index) })

	needed := o.ReplicationFactor + 1 // a server keeps no replicas of its own log
	d.Servers = wantedServers(max(o.Wanted, needed), existing)
	if surplus := len(existing) - int(o.Wanted); surplus > 0 {
		d.Blocked = blocked(o, existing, surplus)
	}
	if o.Wanted < needed {
		d.Blocked = join(d.Blocked, fmt.Sprintf("spec.servers.replicas is %d and replicationFactor %d needs %d servers, "+
			"since a server keeps no replicas of its own log; accepted: %d or more", o.Wanted, o.ReplicationFactor, needed, needed))
	}

	o.Coordinator.Index = Coordinator
	decideMember(o, o.Coordinator, &d)
	for _, index := range d.Servers {
		at := slices.IndexFunc(existing, func(m Member) bool { return m.Index == index })
		if at < 0 {
			decideMember(o, Member{Index: index}, &d)
			continue
		}
		decideMember(o, existing[at], &d)
	}
	return d
}

// Servers are the indices of the servers that shall exist, given those that do.
func Servers(wanted, replicationFactor int32, existing []int32) []int32 {
	members := make([]Member, len(existing))
	for i, index := range existing {
		members[i].Index = index
	}
	return wantedServers(max(wanted, replicationFactor+1), members)
}

// wantedServers keeps all that exist and fills up with the lowest free indices.
func wantedServers(wanted int32, existing []Member) []int32 {
	used := make(map[int32]bool, len(existing))
	for _, m := range existing {
		used[m.Index] = true
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
	now := o.Now
	switch {
	case o.Foreign[m.Index] != "" && !m.Pod.Exists:
		d.Foreign = append(d.Foreign, o.Foreign[m.Index])
	case !m.Pod.Exists:
		d.Create = append(d.Create, m.Index)
	case m.Pod.Deleting: // created again once it is gone
	case m.Pod.Failed:
		decideFailed(now, m, d)
	case m.Pod.Ready && m.Failure.Count > 0:
		if well := now.Sub(m.Pod.ReadySince); well >= ForgetAfter {
			d.Forget = append(d.Forget, m.Index)
		} else {
			d.again(ForgetAfter - well)
		}
	}
}

func decideFailed(now time.Time, m Member, d *Decision) {
	wait := Backoff(m.Failure.Count)
	left := m.Pod.FailedAt.Add(wait).Sub(now)
	d.Failing = append(d.Failing, fmt.Sprintf("%s failed (%s%s), made anew %s after it failed",
		name(m.Index), m.Pod.Reason, colon(m.Pod.Message), wait))
	if left > 0 {
		d.again(left)
		return
	}
	d.Replace = append(d.Replace, Replacement{Index: m.Index, Failure: Failure{
		Count: m.Failure.Count + 1, Reason: m.Pod.Reason, Message: m.Pod.Message, Time: m.Pod.FailedAt,
	}})
}

// Backoff is the wait before a pod that failed `failures` times in a row already is made anew.
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

func blocked(o Observed, existing []Member, surplus int) string {
	tablets, known := 0, true
	for _, m := range existing[len(existing)-surplus:] {
		tablets += m.Tablets
		known = known && m.Known
	}
	what := fmt.Sprintf("%d tablets", tablets)
	if !known {
		what = "tablets (how many is not known while the coordinator does not answer)"
	}
	return fmt.Sprintf("spec.servers.replicas is %d and %d servers exist: taking away %d would lose %s and the "+
		"replicas on %d volumes, since moving them (%d replicas of each segment) is not supported yet; "+
		"accepted: %d or more", o.Wanted, len(existing), surplus, what, surplus, o.ReplicationFactor, len(existing))
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

func name(index int32) string {
	if index == Coordinator {
		return "coordinator"
	}
	return fmt.Sprintf("server %d", index)
}

func colon(message string) string {
	if message == "" {
		return ""
	}
	return ": " + message
}
