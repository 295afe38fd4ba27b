package plan

// Candidate is a template that could become the one that members are made from.
type Candidate struct {
	Template string
	// Refused says why it breaks the skew rule, Waits what has to be done before; both empty: it does not.
	Refused, Waits string
}

// Role is what the members of a kind are made from, as it is recorded and as it could be. Templates are named by their
// content: equal names are equal templates.
type Role struct {
	// Current is recorded, and new members are made from it; empty: nothing is recorded. Request is the restart request that
	// it was accepted under.
	Current, Request string
	// Rolls: servers are restarted for Request. Operators of earlier versions accepted requests and restarted no server; what
	// was asked of them is not done by the next one unasked.
	Rolls bool
	// Running is what the newest member that exists was made from; empty: none exists.
	Running string
	// First is what this operator makes of the spec with the version of the other daemons, where there are some.
	First string
	// Fresh is what this operator makes of the spec.
	Fresh Candidate
	// Roll is what a roll brings now. Of servers: with the image that the coordinators have.
	Roll Candidate
	// Changed: somebody has changed the spec since Current was accepted, so that members differ. Kept is what this operator
	// makes of the spec with the versions of Current.
	Changed bool
	Kept    Candidate
}

// Revision is what is decided of a Role.
type Revision struct {
	// Current is what members are made from, from now on, and Request the restart request to note with it.
	Current, Request string
	// Rolls: of servers, as in Role.
	Rolls bool
	// Pending is what this operator would make of the spec; empty: Current is that.
	Pending string
	// Refused says why what was asked for is not done: it would break the skew rule.
	Refused string
	// Waits says what has to be done before.
	Waits string
}

// decideRevisions freezes templates: an operator that makes other pods of the same spec changes neither what runs nor what
// is made later. A template becomes current when somebody asks for it: by a restart request, or by a change of the spec,
// which keeps the versions (the frozen-template rule).
func decideRevisions(o Observed, d *Decision) {
	if len(o.Roles) == 0 {
		return
	}
	d.Revisions = make(map[Kind]Revision, len(o.Roles))
	for kind, role := range o.Roles {
		r := decideRevision(o, kind, role)
		if role.Fresh.Template != r.Current {
			r.Pending = role.Fresh.Template
		}
		d.Revisions[kind] = r
	}
}

func decideRevision(o Observed, kind Kind, role Role) Revision {
	r := Revision{Current: role.Current, Request: role.Request, Rolls: role.Rolls}
	if role.Current == "" {
		return firstRevision(o, role)
	}
	if o.Request != "" && o.Request != role.Request {
		switch waits := join(role.Roll.Waits, coordinatorsFirst(o, kind)); {
		case role.Roll.Refused != "":
			r.Refused = role.Roll.Refused
		case waits != "":
			r.Waits = waits
		default:
			r.Current, r.Request, r.Rolls = role.Roll.Template, o.Request, kind == Server
			return r
		}
	}
	if role.Changed {
		switch {
		case role.Kept.Refused != "":
			r.Refused = role.Kept.Refused
		case role.Kept.Waits != "":
			r.Waits = role.Kept.Waits
		default:
			r.Current = role.Kept.Template
		}
	}
	return r
}

// firstRevision is that of a cluster that has none: a new one, or one of an operator that kept none. What runs is adopted
// as it is, and a restart that is in progress goes on with that.
func firstRevision(o Observed, role Role) Revision {
	if role.Running == "" {
		return Revision{Current: role.First, Request: o.Request}
	}
	r := Revision{Current: role.Running}
	for _, m := range o.Members {
		if m.Pod.Exists && m.Pod.Request == o.Request {
			r.Request = o.Request
		}
	}
	return r
}

// coordinatorsFirst says what keeps the servers' template from being rolled: servers enlist with coordinators of their
// version or of a later one.
func coordinatorsFirst(o Observed, kind Kind) string {
	if kind != Server {
		return ""
	}
	text := without(o, Coordinator, "is not restarted yet, and coordinators go before servers", func(p Pod) bool {
		return p.Request == o.Request && p.Serves()
	})
	if role, known := o.Roles[Coordinator]; known && role.Request != o.Request {
		text = join(text, "the coordinators' template is not rolled yet")
	}
	return text
}

// rollAccepted: members of a kind may be restarted for what is asked for. Until its template is accepted they would be made
// as they are, and nobody would see later that they have to be restarted again.
func (d *Decision) rollAccepted(o Observed, kind Kind) bool {
	r, known := d.Revisions[kind]
	return !known || r.Request == o.Request
}
