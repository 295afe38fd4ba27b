package plan

import (
	"fmt"
	"slices"
)

// decideSurplus takes away coordinators that are not wanted any more, the highest first, one at a time and
// only while those that stay are well: any of them can lead, and none holds data (they are more than one
// only with an etcd).
func decideSurplus(o Observed, d *Decision) {
	var surplus []Member
	for _, m := range o.Members {
		if m.ID.Kind == Coordinator && m.ID.Index >= o.Coordinators && m.Pod.Exists {
			surplus = append(surplus, m)
		}
	}
	if len(surplus) == 0 {
		return
	}
	last := slices.MaxFunc(surplus, func(a, b Member) int { return Compare(a.ID, b.ID) })
	if slices.ContainsFunc(surplus, func(m Member) bool { return m.Pod.Deleting }) || join(notWell(o, Etcd), notWell(o, Coordinator)) != "" {
		return
	}
	d.Remove = append(d.Remove, last.ID)
}

// decideRestart restarts the next etcd member or coordinator that was not restarted for the request: first
// one that does not work anyway, then in order.
func decideRestart(o Observed, members map[ID]Member, d *Decision) {
	if o.Request == "" {
		return
	}
	var todo []Member
	for _, id := range Wanted(o, nil) {
		m := members[id]
		switch {
		case !m.Pod.Exists || m.Pod.Request == o.Request:
		case m.Pod.Deleting: // the last one is away for as long as it takes to end
			d.Rolling = fmt.Sprintf("restart '%s': waiting for %s to end", o.Request, id)
		case !m.Pod.Failed:
			todo = append(todo, m)
		}
	}
	if len(todo) == 0 {
		return
	}
	next := todo[0]
	if broken := slices.IndexFunc(todo, func(m Member) bool { return !m.Pod.Ready }); broken >= 0 {
		next = todo[broken]
	}
	d.Rolling = fmt.Sprintf("restart '%s': %d to do, next is %s", o.Request, len(todo), next.ID)
	if why := MayNotRestart(o, next); why != "" {
		d.Rolling += ", which waits: " + why
		return
	}
	if len(d.Remove) == 0 { // one thing at a time
		d.Restart = append(d.Restart, next.ID)
	}
}

// MayNotRestart says why this member must not be restarted now; empty when it may. A member that is not
// ready serves nobody, and its data is on its volume: restarting it can only help, as long as no other is
// on its way.
func MayNotRestart(o Observed, m Member) string {
	switch {
	case o.Paused:
		return "spec.pause is set"
	case m.ID.Kind == Server:
		return "a server that restarts loses what it holds in memory, since recovery from replicas is not supported yet"
	case !m.Pod.Ready:
		return join(missing(o, Etcd), missing(o, Coordinator))
	case !o.Connected:
		return "the coordinator does not answer"
	}
	return join(notWell(o, Etcd), notWell(o, Coordinator))
}

// notWell names the wanted members of a kind that are not ready.
func notWell(o Observed, kind Kind) string {
	return without(o, kind, "is not ready", Pod.Serves)
}

// missing names the wanted members of a kind that have no pod, or one that is going.
func missing(o Observed, kind Kind) string {
	return without(o, kind, "has no pod", func(p Pod) bool { return p.Exists && !p.Deleting })
}

func without(o Observed, kind Kind, what string, good func(Pod) bool) string {
	have := map[ID]bool{}
	for _, m := range o.Members {
		have[m.ID] = good(m.Pod)
	}
	text := ""
	for _, id := range Wanted(o, nil) {
		if id.Kind == kind && !have[id] {
			text = join(text, id.String()+" "+what)
		}
	}
	return text
}
