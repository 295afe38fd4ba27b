package plan

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// template is what a member is made from: the version of the spec, of the operator that made it of that, and of the image.
type template struct{ spec, operator, image int }

func (t template) String() string {
	return strconv.Itoa(t.spec) + "/" + strconv.Itoa(t.operator) + "/" + strconv.Itoa(t.image)
}

func parseTemplate(text string) (t template) {
	if text == "" {
		return t
	}
	parts := strings.Split(text, "/")
	for i, to := range []*int{&t.spec, &t.operator, &t.image} {
		*to, _ = strconv.Atoi(parts[i]) // of our own making
	}
	return t
}

// recorded is a revision that was accepted.
type recorded struct {
	template, request string
	rolls             bool
}

// versions are those of a world: what operator is at work, what it has recorded, and what each pod was made from.
type versions struct {
	spec, operator int
	// keeps: the operator keeps revisions. One before did not.
	keeps bool
	// former: the operator restarts no servers, and does not note that they are to be.
	former   bool
	recorded map[Kind]recorded
	from     map[ID]template
	since    map[ID]int // in which the pods were made
	made     int
	mixed    string // what was made wrongly
	chance   *rand.Rand
	exists   func(ID) bool // a pod
}

func newVersions(rng *rand.Rand) versions {
	return versions{spec: 1, operator: 1, keeps: rng.IntN(3) > 0, former: rng.IntN(3) == 0, recorded: map[Kind]recorded{}, from: map[ID]template{}, since: map[ID]int{}, chance: rng}
}

// upgrade puts another operator in the place of the one that works: mostly the next, now and then a later or a former one.
func (w *versions) upgrade() {
	w.keeps, w.former = true, false
	w.operator = max(1, w.operator+[]int{1, 1, 1, 2, -1}[w.chance.IntN(5)])
}

// kinds are those that the cluster has.
func kinds(o Observed) []Kind {
	if o.EtcdMembers == 0 {
		return []Kind{Coordinator, Server}
	}
	return []Kind{Etcd, Coordinator, Server}
}

func image(version int) string { return "registry.example/image:0." + strconv.Itoa(version) + ".0" }

// roles is what the operator would gather.
func (w *versions) roles(o Observed) map[Kind]Role {
	if !w.keeps {
		return nil
	}
	running := Running{Operator: fmt.Sprintf("0.%d.0", w.operator), Processes: map[Kind][]Process{}}
	newest := map[Kind]ID{}
	for id, from := range w.from {
		if !w.exists(id) {
			continue
		}
		running.Processes[id.Kind] = append(running.Processes[id.Kind], Process{Name: id.String(), Image: image(from.image)})
		if other, any := newest[id.Kind]; !any || w.since[id] > w.since[other] {
			newest[id.Kind] = id
		}
	}
	out := map[Kind]Role{}
	for _, kind := range kinds(o) {
		beside := running
		beside.Processes = map[Kind][]Process{}
		for other, list := range running.Processes {
			beside.Processes[other] = list
		}
		for other, r := range w.recorded {
			if other != kind && other != Etcd || other == kind && len(running.Processes[kind]) == 0 {
				beside.Processes[other] = append(beside.Processes[other][:len(beside.Processes[other]):len(beside.Processes[other])],
					Process{Name: "later members", Image: image(parseTemplate(r.template).image)})
			}
		}
		said := map[int]Candidate{}
		candidate := func(t template) Candidate {
			c, any := said[t.image]
			if !any {
				c.Refused, c.Waits = beside.Skew(kind, image(t.image))
				said[t.image] = c
			}
			c.Template = t.String()
			return c
		}
		current := parseTemplate(w.recorded[kind].template)
		role := Role{Current: w.recorded[kind].template, Request: w.recorded[kind].request, Rolls: w.recorded[kind].rolls}
		if id, any := newest[kind]; any {
			role.Running = w.from[id].String()
		}
		fresh := template{w.spec, w.operator, w.operator}
		first := fresh
		for other := range beside.Processes {
			if kind == Etcd || other == Etcd || other == kind {
				continue
			}
			if id, any := newest[other]; any {
				first.image = w.from[id].image
			}
			if r := w.recorded[other]; r.template != "" {
				first.image = parseTemplate(r.template).image
			}
		}
		roll := fresh
		if c := w.recorded[Coordinator]; kind == Server && c.template != "" {
			roll.image = parseTemplate(c.template).image
		}
		role.First = first.String()
		role.Fresh, role.Roll = candidate(fresh), candidate(roll)
		role.Changed, role.Kept = role.Current != "" && current.spec != w.spec, candidate(template{w.spec, w.operator, current.image})
		out[kind] = role
	}
	return out
}

// make makes the pod of a member from what is recorded, or, as operators did that kept no revisions, of the spec. It gives
// the request that is noted on the pod.
func (w *versions) make(id ID, request string) string {
	t := template{w.spec, w.operator, w.operator}
	if w.keeps {
		if w.recorded[id.Kind].template == "" {
			w.mixed = fmt.Sprintf("%s is made and nothing is recorded", id)
			return ""
		}
		t, request = parseTemplate(w.recorded[id.Kind].template), w.recorded[id.Kind].request
	}
	for other, from := range w.from {
		if other == id || !w.exists(other) || other.Kind == Etcd || id.Kind == Etcd {
			continue
		}
		if apart := t.image - from.image; apart < -1 || apart > 1 {
			w.mixed = fmt.Sprintf("%s is made of version %d beside %s of version %d", id, t.image, other, from.image)
		}
	}
	w.made++
	w.from[id], w.since[id] = t, w.made
	return request
}

// wrongRevisions returns the errors in the decided templates.
func (w *world) wrongRevisions(o Observed, d Decision) string {
	if !w.keeps || o.Paused {
		if len(d.Revisions) > 0 {
			return fmt.Sprintf("templates are decided that nobody records: %v", d.Revisions)
		}
		return ""
	}
	for _, kind := range kinds(o) {
		if text := w.wrongRevision(o, kind, d.Revisions[kind]); text != "" {
			return fmt.Sprintf("%s: %s", ID{Kind: kind}, text)
		}
	}
	return ""
}

func (w *world) wrongRevision(o Observed, kind Kind, r Revision) string {
	before, now := parseTemplate(w.recorded[kind].template), parseTemplate(r.Current)
	asked := o.Request != "" && r.Request == o.Request && w.recorded[kind].request != o.Request
	switch {
	case r.Current == "":
		return "members are made from nothing"
	case r.Pending == "" && now != template{w.spec, w.operator, w.operator}:
		return fmt.Sprintf("nothing is pending, and what is current is %s", now)
	case before == template{}:
		return w.wrongFirst(kind, now)
	case asked && (now.operator != w.operator || now.spec != w.spec):
		return fmt.Sprintf("a roll is noted, and what is current stays %s", now)
	case now == before:
		return ""
	case now.image != before.image && !asked:
		return fmt.Sprintf("version %d becomes %d without a roll", before.image, now.image)
	case now.operator != before.operator && !asked && before.spec == w.spec:
		return fmt.Sprintf("%s becomes %s although nobody asked for anything", before, now)
	case now.operator != before.operator && (now.operator != w.operator || now.spec != w.spec):
		return fmt.Sprintf("%s becomes %s, which no operator makes of the spec", before, now)
	case kind != Etcd && (now.image > w.operator || now.image < w.operator-1):
		return fmt.Sprintf("version %d is made by operator %d", now.image, w.operator)
	}
	for id, from := range w.from {
		if w.members[id].Pod.Exists && id.Kind == Coordinator && id.Index < o.Coordinators && kind == Server && now.image > max(from.image, before.image) {
			return fmt.Sprintf("servers become version %d before %s, which is version %d", now.image, id, from.image)
		}
		if w.members[id].Pod.Exists && id.Kind == Etcd && kind == Etcd && now.image < from.image {
			return fmt.Sprintf("version %d follows %d", now.image, from.image)
		}
	}
	return ""
}

// wrongFirst checks that the running pods' templates are adopted, and nothing newer.
func (w *world) wrongFirst(kind Kind, now template) string {
	any := false
	for id, from := range w.from {
		if id.Kind == kind && w.members[id].Pod.Exists {
			any = true
			if from == now {
				return ""
			}
		}
	}
	if any {
		return fmt.Sprintf("%s is adopted, and no member was made from that", now)
	}
	return ""
}

// unrolled: left alone, a roll that was asked for is done unless it was refused.
func (w *world) unrolled(d Decision) string {
	for id, from := range w.from {
		r := d.Revisions[id.Kind]
		if (id.Kind != Server || r.Rolls && w.o.ReplicationFactor > 0) && w.exists(id) && w.o.Request != "" && r.Request == w.o.Request && from.image != parseTemplate(r.Current).image {
			return fmt.Sprintf("%s was not rolled to %s: it is made from %s", id, r.Current, from)
		}
	}
	for _, kind := range kinds(w.o) {
		r, decided := d.Revisions[kind]
		if w.o.Request == "" || !decided || r.Refused != "" || r.Request == w.o.Request {
			continue
		}
		if c := d.Revisions[Coordinator]; kind == Server && (c.Refused != "" || c.Request != w.o.Request || r.Waits != "") {
			continue
		}
		return fmt.Sprintf("a roll of %s was asked for and did not come: %+v", ID{Kind: kind}, r)
	}
	return ""
}
