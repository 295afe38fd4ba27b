package plan

import (
	"fmt"
	"slices"
)

// decideSurplus removes coordinators that are not wanted any more, the highest first, one at a time, and only
// while the remaining ones are ready: any of them can lead, and none holds data (there are several only with
// an etcd).
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

// WantsRestart says why a member must be restarted; empty if it need not, or must not ever (NeverRestarts). A
// stage of TLS and a renewed certificate are not part of a template, so a refused roll does not prevent
// restarts for them.
func (d *Decision) WantsRestart(o Observed, m Member) string {
	switch {
	case !m.Pod.Exists || NeverRestarts(o, m) != "":
		return ""
	case d.requested(o, m):
		return fmt.Sprintf("restart '%s'", o.Request)
	case behindTLS(o, m):
		return "TLS for the etcd"
	}
	return m.Pod.Outdated
}

// requested: the member has not had the requested restart, and its template is accepted for it.
func (d *Decision) requested(o Observed, m Member) bool {
	if r, known := d.Revisions[Server]; m.ID.Kind == Server && known && !r.Rolls {
		return false
	}
	return o.Request != "" && m.Pod.Request != o.Request && d.rollAccepted(o, m.ID.Kind)
}

// decideRestart restarts the next member that must be restarted: first one that does not work anyway, then in
// the order etcd, coordinators, servers.
func decideRestart(o Observed, members map[ID]Member, d *Decision) {
	var todo []Member
	for _, id := range Wanted(o, d.Servers) {
		m := members[id]
		why := d.WantsRestart(o, m)
		switch {
		case why == "":
		case m.Pod.Deleting: // the previous one is still ending
			d.Rolling = fmt.Sprintf("%s: waiting for %s to end", why, id)
		case !m.Pod.Failed:
			todo = append(todo, m)
		}
	}
	if len(todo) == 0 {
		return
	}
	next := todo[0]
	broken := slices.IndexFunc(todo, func(m Member) bool { return !m.Pod.Ready })
	if broken >= 0 && (todo[broken].ID.Kind != Server || next.ID.Kind == Server) { // servers come last, even broken ones
		next = todo[broken]
	}
	d.Rolling = fmt.Sprintf("%s: %d to do, next is %s", d.WantsRestart(o, next), len(todo), next.ID)
	if why := MayNotRestart(o, next); why != "" {
		d.Rolling += ", which waits: " + why
		if next.ID.Kind == Server && o.Again > 0 {
			d.again(o.Again)
		}
		return
	}
	if len(d.Remove) > 0 { // one step at a time
		return
	}
	d.Restart = append(d.Restart, next.ID)
	// An etcd that takes no changes must not prevent the requested restart of a member that does not work.
	heals := !next.Pod.Ready && d.requested(o, next)
	if next.ID.Kind == Etcd && o.TLS == TLSRequired && !next.SecurePeer && !heals {
		d.Secure = append(d.Secure, next.ID)
	}
}

// MayNotRestart says why this member must not be restarted now; empty if it may. A member that is not ready
// serves nobody, and its data is on its volume: restarting it can only help, as long as no other is starting
// or ending.
func MayNotRestart(o Observed, m Member) string {
	switch {
	case o.Paused:
		return "spec.paused is set"
	case m.ID.Kind == Server:
		return mayNotRestartServer(o, m)
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

// missing names the wanted members of a kind that have no pod, or one that is being deleted.
func missing(o Observed, kind Kind) string {
	return without(o, kind, "has no pod", func(p Pod) bool { return p.Exists && !p.Deleting })
}

func without(o Observed, kind Kind, what string, good func(Pod) bool) string {
	have := map[ID]bool{}
	for _, m := range o.Members {
		have[m.ID] = good(m.Pod)
	}
	text := ""
	for _, id := range Wanted(o, o.wantedServers()) {
		if id.Kind == kind && !have[id] {
			text = join(text, id.String()+" "+what)
		}
	}
	return text
}
