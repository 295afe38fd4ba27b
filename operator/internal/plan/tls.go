package plan

import "slices"

// TLSStage is the progress of a managed etcd from plain connections to TLS. Each stage begins when every pod
// is ready for it, so that all pods can always reach each other; it never goes back to an earlier stage.
type TLSStage int

// The stages.
const (
	// TLSUnknown: nothing is recorded yet, or the operator runs no etcd.
	TLSUnknown TLSStage = iota
	// TLSOff: plain connections only: an etcd that an earlier operator created.
	TLSOff
	// TLSOffered: members accept both kinds from clients, and can reach other members by both.
	TLSOffered
	// TLSUsed: coordinators connect by TLS.
	TLSUsed
	// TLSRequired: members accept only TLS, from clients and from each other.
	TLSRequired
)

var tlsNames = [...]string{"", "Off", "Offered", "Used", "Required"}

func (s TLSStage) String() string { return tlsNames[s] }

// ParseTLSStage parses the result of String; other texts are TLSUnknown.
func ParseTLSStage(text string) TLSStage {
	for stage, name := range tlsNames {
		if name == text {
			return TLSStage(stage)
		}
	}
	return TLSUnknown
}

// NextTLS is the stage from now on. It must be recorded before any pod is created for it.
//
//   - A new etcd requires TLS from the start, because no client ever used it without.
//   - An etcd without TLS begins to move at a restart request that is not refused, and then goes through all
//     stages.
//   - Coordinators use TLS only when every member offers it (the offer-before-use rule).
//   - Members refuse plain connections, and are reached by TLS from each other, only when every coordinator uses TLS and
//     every member has certificates (the use-before-require rule).
func NextTLS(o Observed) TLSStage {
	switch {
	case o.EtcdMembers == 0:
		return TLSUnknown
	case o.TLS == TLSUnknown:
		return firstTLS(o)
	case o.Paused:
	case o.TLS == TLSOff && askedToRestart(o):
		return TLSOffered
	case o.TLS == TLSOffered && allAt(o, Etcd, TLSOffered):
		return TLSUsed
	case o.TLS == TLSUsed && allAt(o, Etcd, TLSOffered) && allAt(o, Coordinator, TLSUsed):
		return TLSRequired
	}
	return o.TLS
}

// firstTLS infers the stage of an etcd without a recorded one from its pods and volumes: volumes may outlive
// their cluster, and an earlier operator, after a downgrade, removes the record.
func firstTLS(o Observed) TLSStage {
	stage := TLSRequired
	if o.Formed {
		stage = TLSOff
	}
	for _, m := range o.Members {
		if m.ID.Kind == Etcd && (m.Pod.Exists || m.Volume != VolumeNone) {
			stage = TLSOff
		}
	}
	for _, m := range o.Members {
		switch {
		case m.ID.Kind == Etcd && m.SecurePeer:
			return TLSRequired
		case m.ID.Kind == Etcd && m.Pod.TLS >= TLSOffered:
			stage = max(stage, TLSOffered)
		case m.ID.Kind == Coordinator && m.Pod.TLS >= TLSUsed:
			stage = max(stage, TLSUsed)
		}
	}
	return stage
}

// askedToRestart: some pod has not had the requested restart, and it is not refused. (Moving to TLS restarts
// etcd and coordinators.)
func askedToRestart(o Observed) bool {
	var d Decision
	decideRevisions(o, &d)
	return d.rollAccepted(o, Etcd) && d.rollAccepted(o, Coordinator) && slices.ContainsFunc(o.Members, func(m Member) bool {
		return m.ID.Kind != Server && m.Pod.Exists && d.requested(o, m)
	})
}

// allAt: every wanted or existing member of a kind works, and its pod was created for this stage or a later
// one.
func allAt(o Observed, kind Kind, stage TLSStage) bool {
	good := map[ID]bool{}
	for _, m := range o.Members {
		good[m.ID] = m.Pod.Serves() && m.Pod.TLS >= stage
		if m.ID.Kind == kind && m.Pod.Exists && !good[m.ID] {
			return false
		}
	}
	for _, id := range Wanted(o, nil) {
		if id.Kind == kind && !good[id] {
			return false
		}
	}
	return true
}

// behindTLS: the pod was created for an earlier stage than the present one.
func behindTLS(o Observed, m Member) bool {
	switch m.ID.Kind {
	case Etcd:
		return o.TLS >= TLSOffered && m.Pod.TLS < TLSOffered || o.TLS == TLSRequired && m.Pod.TLS < TLSRequired
	case Coordinator:
		return o.TLS >= TLSUsed && m.Pod.TLS < TLSUsed
	}
	return false
}

// PodTLS is the stage for which a pod is created now. A member of etcd accepts only TLS from others after
// they were told to reach it by TLS (Member.SecurePeer); until then its next pod is like the previous one.
func PodTLS(stage TLSStage, kind Kind, securePeer bool) TLSStage {
	switch {
	case kind == Etcd && stage == TLSRequired && securePeer:
		return TLSRequired
	case kind == Etcd && stage >= TLSOffered:
		return TLSOffered
	case kind == Coordinator && stage >= TLSUsed:
		return TLSUsed
	}
	return TLSOff
}
