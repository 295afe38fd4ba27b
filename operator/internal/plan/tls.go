package plan

import "slices"

// TLSStage is how far an etcd that the operator runs has come from plain connections to TLS. Each stage begins when every
// pod is ready for it, so that at any time everybody reaches everybody; none is ever left for an earlier one.
type TLSStage int

// The stages.
const (
	// TLSUnknown: nothing was noted yet, or the operator runs no etcd.
	TLSUnknown TLSStage = iota
	// TLSOff: plain connections only. An etcd that an earlier operator made.
	TLSOff
	// TLSOffered: members take both kinds from clients, and can reach other members by both.
	TLSOffered
	// TLSUsed: coordinators connect by TLS.
	TLSUsed
	// TLSRequired: members take nothing but TLS, from clients and from each other.
	TLSRequired
)

var tlsNames = [...]string{"", "Off", "Offered", "Used", "Required"}

func (s TLSStage) String() string { return tlsNames[s] }

// ParseTLSStage reads String; what it cannot read is unknown.
func ParseTLSStage(text string) TLSStage {
	for stage, name := range tlsNames {
		if name == text {
			return TLSStage(stage)
		}
	}
	return TLSUnknown
}

// NextTLS is the stage that holds from now on. It has to be noted before anything is made for it.
//
//   - A new etcd requires TLS from the start: nobody ever knew it without.
//   - One that runs without begins to move when a restart is asked for that is not refused, and then moves to the end.
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

// firstTLS finds the stage of an etcd of which none is noted, from what there is of it: volumes outlive their cluster, and an
// earlier operator, which somebody went back to, takes the note away.
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

// askedToRestart: a restart was asked for that some pod has not had, and nothing refuses it: a move to TLS restarts etcd and
// coordinators.
func askedToRestart(o Observed) bool {
	var d Decision
	decideRevisions(o, &d)
	return d.rollAccepted(o, Etcd) && d.rollAccepted(o, Coordinator) && slices.ContainsFunc(o.Members, func(m Member) bool {
		return m.ID.Kind != Server && m.Pod.Exists && d.requested(o, m)
	})
}

// allAt: every member of a kind that is wanted or exists works, and was made for this stage or a later one.
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

// behindTLS: the pod was made for an earlier stage than that which holds.
func behindTLS(o Observed, m Member) bool {
	switch m.ID.Kind {
	case Etcd:
		return o.TLS >= TLSOffered && m.Pod.TLS < TLSOffered || o.TLS == TLSRequired && m.Pod.TLS < TLSRequired
	case Coordinator:
		return o.TLS >= TLSUsed && m.Pod.TLS < TLSUsed
	}
	return false
}

// PodTLS is the stage for which a pod is made now. A member of etcd takes only TLS from others once they were told to
// reach it so (Member.SecurePeer); until then its next pod is as the one before.
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
