package plan

import (
	"cmp"
	"fmt"
	"time"
)

// Eviction says whether a server may be evicted now, for example by kubectl drain. It becomes the servers'
// PodDisruptionBudget.
type Eviction struct {
	// Keep is how many servers must stay ready. While none may be evicted, it is the number of all servers.
	Keep int32
	// Held says why no server may be evicted; empty: one may.
	Held string
	// Again is when that may change without an event; 0: never.
	Again time.Duration
}

// Evictions allows evictions by the same rule as restarts: one at a time, while the cluster is whole. A
// server without a node (because its node was drained) is an exception: the others are whole without it, and
// the next may be evicted as long as the remaining ones can hold all replicas.
//
// The budget counts ready pods and does not consider data. So evictions are forbidden before anything that
// makes a pod ready. And the first eviction blocks the next: its pod is not ready, and only the operator
// creates it again.
func Evictions(o Observed, d Decision) Eviction {
	out := Eviction{Keep: int32(len(d.Servers))}
	serving, without, why := presence(o, d)
	out.Held = cmp.Or(mayNotEvict(o, d), why)
	if out.Held == "" && o.NotSafe != "" {
		out.Held, out.Again = o.NotSafe, o.SafeAgain
	}
	if needed := o.ReplicationFactor + 1; out.Held == "" && without > 0 && serving-1 < needed {
		out.Held = fmt.Sprintf("%d servers find no node, and without one of the other %d there are too few: replicationFactor %d needs %d",
			without, serving, o.ReplicationFactor, needed)
	}
	if out.Held == "" {
		out.Keep, out.Again = serving-1, o.SafeAgain
	}
	return out
}

// mayNotEvict says why the state of the whole cluster forbids any eviction.
func mayNotEvict(o Observed, d Decision) string {
	switch {
	case o.Paused:
		return "spec.paused is set, so nobody would create its pod again"
	case !o.Connected:
		return "the coordinator does not answer"
	case len(d.Restart)+len(d.Remove)+len(d.Rejoin) > 0:
		return cmp.Or(d.Rolling, "another member is taken away")
	}
	return join(notWell(o, Etcd), notWell(o, Coordinator))
}

// presence counts the servers that serve and those without a node. why: another server is starting or ending,
// or must stay.
func presence(o Observed, d Decision) (serving, without int32, why string) {
	have := map[ID]Member{}
	for _, m := range o.Members {
		have[m.ID] = m
	}
	for _, index := range d.Servers {
		m := have[ID{Server, index}]
		m.ID = ID{Server, index}
		switch {
		case m.Pod.Serves():
			serving++
			why = join(why, mayNotGo(o, m))
		case m.Pod.Exists && !m.Pod.Deleting && !m.Pod.Failed && m.Pod.Node == "":
			without++
		default:
			why = join(why, m.ID.String()+" is not ready")
		}
	}
	return serving, without, why
}

// mayNotGo says why this serving server must stay.
func mayNotGo(o Observed, m Member) string {
	switch why := NeverRestarts(o, m); {
	case why != "":
		return why
	case !m.Up:
		return m.ID.String() + " is not listed as up"
	case m.Volume != VolumePresent:
		return fmt.Sprintf("the volume claim of %s is deleted or its volume is lost, and the server has it open", m.ID)
	case m.Replicas == 0:
		return m.ID.String() + " has not said yet that its log has replicas"
	}
	return ""
}
