package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestFirstTLS(t *testing.T) {
	etcd := func(change func(*Member)) []Member {
		m := Member{ID: ID{Etcd, 0}}
		change(&m)
		return []Member{m, {ID: ID{Etcd, 1}}, {ID: ID{Etcd, 2}}}
	}
	nothing := func(*Member) {}
	for name, test := range map[string]struct {
		members []Member
		formed  bool
		want    TLSStage
	}{
		"a new cluster":                  {etcd(nothing), false, TLSRequired},
		"an earlier operator's":          {etcd(func(m *Member) { m.Pod.Exists, m.Volume = true, VolumePresent }), true, TLSOff},
		"one that it began":              {etcd(func(m *Member) { m.Volume = VolumePresent }), false, TLSOff},
		"all volumes are lost":           {etcd(nothing), true, TLSOff},
		"volumes that were kept":         {etcd(func(m *Member) { m.Volume, m.SecurePeer = VolumePresent, true }), false, TLSRequired},
		"the note was lost at the start": {etcd(func(m *Member) { m.Pod.Exists, m.Pod.TLS, m.Volume = true, TLSOffered, VolumePresent }), true, TLSOffered},
		"the note was lost later": {append(etcd(func(m *Member) { m.Volume = VolumePresent }),
			Member{ID: ID{Coordinator, 0}, Pod: Pod{TLS: TLSUsed, Exists: true}}), true, TLSUsed},
	} {
		if got := NextTLS(Observed{EtcdMembers: 3, Coordinators: 3, Formed: test.formed, Members: test.members}); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	if got := NextTLS(Observed{Coordinators: 1}); got != TLSUnknown {
		t.Errorf("without an etcd: %s", got)
	}
	for stage := TLSUnknown; stage <= TLSRequired; stage++ {
		if ParseTLSStage(stage.String()) != stage {
			t.Errorf("%s", stage)
		}
	}
}

// tlsWorld is a model of the connections between members and coordinators. It carries decisions out step by
// step, may stop between any two, lets pods die and others take their place, and replaces the running
// operator by later ones.
type tlsWorld struct {
	versions
	rng     *rand.Rand
	o       Observed
	members map[ID]*Member
	reached map[ID]bool // by TLS: what etcd's list of members says of each
}

func newTLSWorld(seed uint64) *tlsWorld {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := &tlsWorld{rng: rng, members: map[ID]*Member{}, reached: map[ID]bool{}, versions: newVersions(rng)}
	w.exists = func(id ID) bool { return w.members[id] != nil && w.members[id].Pod.Exists }
	w.o = Observed{Now: now, Wanted: 3, ReplicationFactor: 2, Formed: true, Connected: true,
		EtcdMembers: []int32{1, 3}[rng.IntN(2)], Coordinators: []int32{1, 3}[rng.IntN(2)]}
	for _, id := range Wanted(w.o, nil) {
		m := &Member{ID: id, HadData: true, Pod: Pod{Exists: true, Ready: true}}
		if id.Kind == Etcd {
			m.Volume = VolumePresent
		}
		w.members[id] = m
		w.from[id] = template{w.spec, w.operator, w.operator}
	}
	w.adopt()
	return w
}

func (w *tlsWorld) observe() Observed {
	o := w.o
	for _, id := range Wanted(o, nil) {
		o.Members = append(o.Members, *w.members[id])
	}
	o.Roles = w.roles(o)
	return o
}

// reaches: one member of etcd gets a connection to another, which runs.
func (w *tlsWorld) reaches(from, to ID) bool {
	dials, listens := w.members[from].Pod.TLS, w.members[to].Pod.TLS
	if w.reached[to] {
		return dials >= TLSOffered && listens == TLSRequired
	}
	return listens != TLSRequired
}

// connects: a coordinator gets a connection to a member of etcd, which runs.
func (w *tlsWorld) connects(from, to ID) bool {
	if w.members[from].Pod.TLS >= TLSUsed {
		return w.members[to].Pod.TLS >= TLSOffered
	}
	return w.members[to].Pod.TLS < TLSRequired
}

func (w *tlsWorld) runs(id ID) bool { return w.members[id].Pod.Exists && !w.members[id].Pod.Deleting }

// cutOff names a running program that cannot connect to another running one. One member may be out of reach
// for a moment: it was just told to the others that it is reached by TLS, and its pod is not the next one
// yet.
func (w *tlsWorld) cutOff() string {
	out := map[ID]bool{}
	for _, to := range Wanted(w.o, nil) {
		for _, from := range Wanted(w.o, nil) {
			if to.Kind != Etcd || from == to || !w.runs(from) || !w.runs(to) {
				continue
			}
			if from.Kind == Etcd && !w.reaches(from, to) {
				out[to] = true
			}
			if from.Kind == Coordinator && !w.connects(from, to) {
				return fmt.Sprintf("%s (made for %s) cannot connect to %s (made for %s)", from, w.members[from].Pod.TLS, to, w.members[to].Pod.TLS)
			}
		}
	}
	if len(out) > 1 {
		return fmt.Sprintf("%d members of etcd are out of reach of the others", len(out))
	}
	return ""
}

// steps of a decision, as the operator takes them.
func (w *tlsWorld) steps(d Decision) (out []func() bool) {
	do := func(f func() bool) { out = append(out, f) }
	for _, kind := range []Kind{Server, Coordinator, Etcd} {
		if r, decided := d.Revisions[kind]; decided {
			do(func() bool { w.recorded[kind] = recorded{r.Current, r.Request, false}; return true })
		}
	}
	for _, id := range d.Create {
		do(func() bool {
			m := w.members[id]
			if m == nil {
				return true // a server, which does not speak to the etcd
			}
			m.Pod = Pod{Exists: true, Request: w.make(id, w.o.Request), TLS: PodTLS(w.o.TLS, id.Kind, m.SecurePeer)}
			return true
		})
	}
	for _, id := range d.Secure {
		do(func() bool { // etcd takes the change only with a majority
			if w.rng.IntN(4) == 0 {
				return false
			}
			w.reached[id] = true
			return true
		})
		do(func() bool { w.members[id].SecurePeer = true; return true })
	}
	for _, id := range d.Restart {
		do(func() bool { w.members[id].Pod.Deleting = true; return true })
	}
	return out
}

// settle: pods that were deleted are gone, and those that reach the others are ready.
func (w *tlsWorld) settle() {
	for _, id := range Wanted(w.o, nil) {
		m := w.members[id]
		if m.Pod.Deleting && w.rng.IntN(2) == 0 {
			m.Pod = Pod{}
		}
		if !m.Pod.Exists {
			continue
		}
		m.Pod.Ready = true
		for _, from := range Wanted(w.o, nil) {
			if id.Kind == Etcd && from.Kind == Etcd && from != id && w.runs(from) && w.runs(id) && !w.reaches(from, id) {
				m.Pod.Ready = false
			}
		}
	}
}

func (w *tlsWorld) complete() bool {
	for _, m := range w.members {
		if !m.Pod.Serves() {
			return false
		}
	}
	return true
}

// disturb lets a pod die, or another operator come.
func (w *tlsWorld) disturb() {
	all := Wanted(w.o, nil)
	switch w.rng.IntN(8) {
	case 0, 1:
		w.members[all[w.rng.IntN(len(all))]].Pod.Deleting = true
	case 2:
		adopt := !w.keeps
		if adopt && !w.complete() { // of a kind without pods nothing can be adopted
			return
		}
		w.upgrade()
		if adopt {
			w.adopt()
		}
	}
}

// adopt records what runs, as an operator does first that keeps templates.
func (w *tlsWorld) adopt() {
	for kind, r := range Decide(w.observe()).Revisions {
		w.recorded[kind] = recorded{r.Current, r.Request, false}
	}
}

// accepts sees to an operator that a roll is not refused by: the one that made what runs.
func (w *tlsWorld) accepts() {
	if r, known := w.recorded[Etcd]; known {
		w.operator = parseTemplate(r.template).image
	}
}

// TestMovingToTLS: whoever asks for restarts, whichever pod dies, whatever operator follows and wherever it is killed, no two
// programs are ever made such that they cannot talk; and once a restart is asked for it comes to the end by itself. All the
// while members are made from the templates that are recorded.
func TestMovingToTLS(t *testing.T) {
	for seed := range uint64(3000) {
		w := newTLSWorld(seed)
		w.o.Request = "go"
		before := TLSUnknown
		for round := 0; ; round++ {
			if round >= 100 && w.o.TLS == TLSOff && w.complete() { // all pods died, and so had what was asked for, or it was refused
				w.accepts()
				w.o.Request = "again"
			}
			if round == 400 {
				t.Fatalf("seed %d: at %s it goes no further: %+v", seed, w.o.TLS, Decide(w.observe()))
			}
			o := w.observe()
			stage := NextTLS(o)
			if stage < before {
				t.Fatalf("seed %d: from %s back to %s", seed, before, stage)
			}
			w.o.TLS, o.TLS, before = stage, stage, stage
			d := Decide(o)
			if len(d.Restart) > 1 || len(d.Secure) > 0 && !slices.Equal(d.Secure, d.Restart) {
				t.Fatalf("seed %d: %+v", seed, d)
			}
			for _, step := range w.steps(d) {
				if round < 100 && w.rng.IntN(6) == 0 || !step() {
					break
				}
				if text := w.cutOff(); text != "" {
					t.Fatalf("seed %d, at %s: %s", seed, stage, text)
				}
			}
			if round < 100 {
				w.disturb()
			}
			w.settle()
			if w.mixed != "" {
				t.Fatalf("seed %d, at %s: %s", seed, stage, w.mixed)
			}
			if text := w.cutOff(); text != "" {
				t.Fatalf("seed %d, at %s: %s", seed, stage, text)
			}
			if round > 100 && stage == TLSRequired && w.complete() && Decide(w.observe()).Rolling == "" {
				break
			}
		}
		for id, m := range w.members {
			if id.Kind == Etcd && (m.Pod.TLS != TLSRequired || !w.reached[id] || !m.SecurePeer) || id.Kind == Coordinator && m.Pod.TLS != TLSUsed {
				t.Fatalf("seed %d: at the end %+v", seed, m)
			}
		}
	}
}

// round lets the operator do its work once.
func (w *tlsWorld) round() Decision {
	o := w.observe()
	o.TLS = NextTLS(o)
	w.o.TLS = o.TLS
	d := Decide(o)
	for _, step := range w.steps(d) {
		step()
	}
	return d
}

// An upgrade of the operator restarts nothing, neither one from an operator that knew no TLS and kept no templates nor a later
// one; and it changes nothing of an etcd that has moved.
func TestTLSWaitsForARequest(t *testing.T) {
	for seed := range uint64(20) {
		w := newTLSWorld(seed)
		w.keeps = false
		for _, request := range []string{"", "old"} {
			w.o.Request = request
			for id, m := range w.members {
				m.Pod.Request = request
				if r, known := w.recorded[id.Kind]; known {
					w.recorded[id.Kind] = recorded{r.template, request, false}
				}
			}
			for range 5 {
				if d := w.round(); w.o.TLS != TLSOff || len(d.Restart) != 0 || d.Rolling != "" {
					t.Errorf("seed %d, request %q: at %s, %+v", seed, request, w.o.TLS, d)
				}
				w.upgrade()
			}
		}
		w.o.Paused, w.o.Request = true, "new"
		if o := w.observe(); NextTLS(o) != TLSOff {
			t.Errorf("seed %d: a paused cluster moves", seed)
		}
	}
}

// A roll that is refused for one of the kinds starts no move to TLS, which would restart both. One that has begun goes on, and
// its pods do not count as rolled.
func TestARefusedRollStartsNoTLS(t *testing.T) {
	w := newTLSWorld(1)
	w.keeps = true
	w.round()
	w.operator, w.o.Request = 5, "roll"
	for range 3 {
		if d := w.round(); w.o.TLS != TLSOff || len(d.Restart) > 0 || d.Revisions[Etcd].Refused == "" {
			t.Fatalf("at %s: %+v", w.o.TLS, d)
		}
	}
	w.o.TLS = TLSOffered
	for range 200 {
		w.round()
		w.settle()
	}
	for id, m := range w.members {
		if m.Pod.TLS < TLSUsed || m.Pod.Request != "" || w.from[id].image != 1 {
			t.Errorf("%+v, made from %s", m, w.from[id])
		}
	}
	w.o.TLS = TLSOff
	for id := range w.members {
		if id.Kind == Coordinator { // they would be rolled, and etcd would not
			w.from[id] = template{1, 5, 5}
		}
	}
	w.recorded[Coordinator], w.recorded[Server] = recorded{"1/5/5", "", false}, recorded{"1/5/5", "", false}
	o := w.observe()
	if d := Decide(o); NextTLS(o) != TLSOff || d.Revisions[Etcd].Refused == "" || d.Revisions[Coordinator].Request != "roll" {
		t.Errorf("%s: %+v", NextTLS(o), d)
	}
	w.o.TLS = TLSUsed
	for id := range w.members {
		w.from[id] = template{1, 1, 1}
	}
	w.recorded[Coordinator], w.recorded[Server] = recorded{"1/1/1", "", false}, recorded{"1/1/1", "", false}
	w.accepts() // and the request stands
	if d := w.round(); len(d.Restart) != 1 {
		t.Errorf("%+v", d)
	}
}

// A pod that reads its certificates only at its start is restarted before they end, with nobody asking.
func TestOutdatedPodsAreRestarted(t *testing.T) {
	w := newTLSWorld(1)
	w.o.TLS = TLSRequired
	for _, m := range w.members {
		m.SecurePeer, m.Pod.TLS = true, PodTLS(TLSRequired, m.ID.Kind, true)
	}
	if d := Decide(w.observe()); len(d.Restart) != 0 {
		t.Fatalf("%+v", d)
	}
	w.keeps = true
	w.round()
	w.operator, w.o.Request = 7, "refused" // which keeps no pod from a certificate
	if d := w.round(); len(d.Restart) != 0 || d.Revisions[Coordinator].Refused == "" {
		t.Fatalf("%+v", d)
	}
	w.members[ID{Coordinator, 0}].Pod.Outdated = "a certificate that ends"
	if d := Decide(w.observe()); !slices.Equal(d.Restart, []ID{{Coordinator, 0}}) {
		t.Errorf("%+v", d)
	}
	w.members[ID{Etcd, 0}].Pod.Ready = false
	if d := Decide(w.observe()); len(d.Restart) != 0 {
		t.Errorf("restarted while a member of etcd is away: %+v", d)
	}
}
