package plan

// Candidate is a template that could become current.
type Candidate struct {
	Template string
	// Refused says why it breaks the skew rule, Waits what must be done first; both empty: it is allowed.
	Refused, Waits string
}

// Role has the templates of a kind of member: the recorded one and the possible ones. Templates are named by
// their content, so equal names mean equal templates.
type Role struct {
	// Current is the recorded template, for new members; empty: nothing is recorded. Request is the restart
	// request that it was accepted under.
	Current, Request string
	// Rolls: servers are restarted for Request. Operators of earlier versions accepted requests without
	// restarting servers; this operator does not restart servers for such an old request.
	Rolls bool
	// Running is the template of the newest existing member; empty: none exists.
	Running string
	// First is this operator's template of the spec, with the version of the other daemons, if there are some.
	First string
	// Fresh is this operator's template of the spec.
	Fresh Candidate
	// Roll is the template that a roll would use now. For servers: with the coordinators' image.
	Roll Candidate
	// Changed: the spec was changed since Current was accepted, so that the template differs. Kept is this
	// operator's template of the spec with the versions of Current.
	Changed bool
	Kept    Candidate
}

// Revision is the decision about a Role.
type Revision struct {
	// Current is the template from now on, and Request the restart request to record with it.
	Current, Request string
	// Rolls: as in Role, for servers.
	Rolls bool
	// Pending is this operator's template of the spec; empty: the same as Current.
	Pending string
	// Refused says why the request is not carried out: it would break the skew rule.
	Refused string
	// Waits says what must be done first.
	Waits string
}

// decideRevisions freezes templates: if a new operator creates other pods from the same spec, neither running
// pods nor later ones change. A template becomes current only on request: by a restart request, or by a
// change of the spec, which keeps the versions (the frozen-template rule).
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

// firstRevision is the revision of a cluster without one: a new cluster, or one of an operator that kept
// none. Running pods are adopted unchanged, and a restart in progress continues with their template.
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

// coordinatorsFirst says why the servers' template cannot be rolled yet: servers enlist only with
// coordinators of their version or a later one.
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

// rollAccepted: members of a kind may be restarted for the request. Until its template is accepted, they
// would be created unchanged, and nothing would show later that they must be restarted again.
func (d *Decision) rollAccepted(o Observed, kind Kind) bool {
	r, known := d.Revisions[kind]
	return !known || r.Request == o.Request
}
