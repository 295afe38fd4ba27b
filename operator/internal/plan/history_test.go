package plan

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// world is a model of Kubernetes, of volumes and of the coordinator's knowledge. It carries decisions out,
// possibly only a part of them (the operator may be killed between any two steps), and breaks things.
type world struct {
	rng     *rand.Rand
	o       Observed
	members map[ID]*Member
	order   []ID           // of members, as they came
	seen    map[int32]bool // every server that ever existed
	// Of servers, what is true, whatever was noted of it: the id under which the one on a volume last enlisted, and
	// of which ids the volumes have replicas that others need.
	enlisted map[volumeKey]string
	needed   map[string]bool
	unlisted map[string]bool // crashed servers leave the coordinator's list after a while
	// recovering: a server that served crashed, and what it had is not served again, or lacks replicas.
	recovering bool
	evictionWorld
	memories
	nextID   int
	requests int
	versions
}

func newWorld(seed uint64) *world {
	rng := rand.New(rand.NewPCG(seed, 0))
	w := &world{rng: rng, members: map[ID]*Member{}, seen: map[int32]bool{}, enlisted: map[volumeKey]string{}, needed: map[string]bool{},
		unlisted: map[string]bool{}, versions: newVersions(rng),
		memories: memories{machines: map[ID]*machine{}},
		o:        Observed{Now: now, Wanted: 3, ReplicationFactor: 2, Coordinators: 1, Connected: true}}
	w.exists = func(id ID) bool { return w.members[id] != nil && w.members[id].Pod.Exists }
	if rng.IntN(2) == 0 {
		w.o.EtcdMembers = []int32{1, 3}[rng.IntN(2)]
		w.o.Coordinators = []int32{1, 3}[rng.IntN(2)]
	}
	w.o.CoordinatorVolume = w.o.EtcdMembers == 0
	w.o.ReplicationFactor = []int32{2, 2, 1, 0}[rng.IntN(4)]
	return w
}

// observe gives the operator's view: what exists, in any order.
func (w *world) observe() Observed {
	o := w.o
	o.Roles = w.roles(o)
	o.Memory = memoriesOf(o.Roles)
	if w.recovering {
		o.NotWhole = "the recovery of a server is REPLAYING"
		o.NotSafe = o.NotWhole
	}
	o.Members = make([]Member, 0, len(w.order))
	for _, id := range w.order {
		m := *w.members[id]
		if id.Kind == Server {
			w.askAbout(o, &m)
			if m.Up {
				m.Replicas = uint32(o.ReplicationFactor)
			}
			w.tellMemory(&o, &m)
		}
		o.Members = append(o.Members, m)
	}
	w.rng.Shuffle(len(o.Members), func(i, j int) { o.Members[i], o.Members[j] = o.Members[j], o.Members[i] })
	return o
}

func (w *world) member(id ID) *Member {
	m := w.members[id]
	if m == nil {
		m = &Member{ID: id}
		w.members[id] = m
		w.order = append(w.order, id)
		if id.Kind == Server {
			w.seen[id.Index] = true
		}
	}
	return m
}

// wrong says what is wrong with a decision; empty: nothing.
func (w *world) wrong(o Observed, d Decision) string {
	say := fmt.Sprintf
	needed := int(o.ReplicationFactor) + 1
	if want := max(int(o.Wanted), len(w.seen), needed); len(d.Servers) != want || !slices.IsSorted(d.Servers) {
		return say("%d servers planned (%v), want %d, sorted", len(d.Servers), d.Servers, want)
	}
	for index := range w.seen {
		if !slices.Contains(d.Servers, index) {
			return say("server %d exists and is planned away: %v", index, d.Servers)
		}
	}
	if (d.Blocked != "") != (int(o.Wanted) < max(len(w.seen), needed)) ||
		d.Blocked != "" && !strings.Contains(d.Blocked, say("accepted: %d or more", max(len(w.seen), needed))) {
		return say("wanted %d, existing %d, blocked %q", o.Wanted, len(w.seen), d.Blocked)
	}
	if text := w.wrongRejoin(o, d); text != "" {
		return text
	}
	if o.Paused && len(d.Rejoin)+len(d.Volumes)+len(d.Create)+len(d.Replace)+len(d.Restart)+len(d.Remove)+len(d.DropVolumes)+len(d.GiveUp)+len(d.Release)+len(d.Forget) > 0 {
		return "a paused cluster is changed"
	}
	for _, id := range d.Create {
		m := w.members[id]
		if m == nil {
			continue
		}
		if m.Pod.Exists {
			return say("%s is created although its pod exists: %+v", id, m.Pod)
		}
		if w.o.needsVolume(m.ID) && m.Volume != VolumePresent && !slices.Contains(d.Volumes, id) {
			return say("%s is created without a volume: %+v", id, m)
		}
	}
	for _, id := range d.Volumes {
		if text := w.wrongVolume(o, d, id); text != "" {
			return text
		}
	}
	if text := w.wrongDeletion(o, d); text != "" {
		return text
	}
	for _, r := range d.Replace {
		m := w.members[r.ID]
		if m == nil || !m.Pod.Failed || m.Pod.Deleting {
			return say("%s is replaced although its pod did not fail: %+v", r.ID, m)
		}
		count := m.Failure.Count + 1
		if m.Failure.Time.Equal(m.Pod.FailedAt) { // recorded by an operator that was killed before it deleted the pod
			count = m.Failure.Count
		}
		if r.Failure.Count != count || o.Now.Sub(m.Pod.FailedAt) < Backoff(count-1) {
			return say("%s: failure %d after %+v, %s after it failed", r.ID, r.Failure.Count, m.Failure, o.Now.Sub(m.Pod.FailedAt))
		}
	}
	if text := w.wrongRestart(o, d); text != "" {
		return text
	}
	if text := w.wrongResize(o, d); text != "" {
		return text
	}
	if text := w.wrongEviction(o, d, Evictions(o, d)); text != "" {
		return text
	}
	return w.wrongRevisions(o, d)
}

// othersWell: every other member of the etcd has its volume and is ready.
func (w *world) othersWell(o Observed, id ID) bool {
	for i := range o.EtcdMembers {
		m := w.members[ID{Etcd, i}]
		if i != id.Index && (m == nil || !m.Pod.Ready || m.Pod.Deleting || m.Volume != VolumePresent) {
			return false
		}
	}
	return o.EtcdMembers > 1 && o.Formed
}

func (w *world) wrongRejoin(o Observed, d Decision) string {
	if len(d.Rejoin) > 1 {
		return fmt.Sprintf("several rejoin at once: %v", d.Rejoin)
	}
	for _, id := range d.Rejoin {
		m := w.members[id]
		if id.Kind != Etcd || m == nil || m.Volume != VolumeNone || m.Pod.Exists || !m.HadData || !w.othersWell(o, id) {
			return fmt.Sprintf("%s rejoins: %+v", id, m)
		}
	}
	return ""
}

func (w *world) wrongRestart(o Observed, d Decision) string {
	taken := slices.Concat(d.Restart, d.Remove)
	if len(taken) > 1 {
		return fmt.Sprintf("several at once: %v", taken)
	}
	for _, id := range taken {
		m := w.members[id]
		if m == nil || !m.Pod.Exists || m.Pod.Deleting {
			return fmt.Sprintf("%s is restarted: %+v", id, m)
		}
		if id.Kind == Server {
			if text := w.wrongServerRestart(o, m); text != "" {
				return text
			}
		}
		if slices.Contains(d.Restart, id) && (o.Request == "" || m.Pod.Request == o.Request) {
			return fmt.Sprintf("%s is restarted although nobody asked for it", id)
		}
		if slices.Contains(d.Remove, id) && id.Index < o.Coordinators {
			return fmt.Sprintf("%s is removed although it is wanted", id)
		}
		if m.Pod.Ready && slices.Contains(d.Restart, id) && !o.Connected {
			return fmt.Sprintf("%s is restarted while the coordinator is silent", id)
		}
		for _, other := range Wanted(o, nil) { // a majority of etcd, and a coordinator, are always there
			n := w.members[other]
			gone := n == nil || !n.Pod.Exists || n.Pod.Deleting
			if other != id && (gone || m.Pod.Ready && !n.Pod.Ready) {
				return fmt.Sprintf("%s is taken away while %s is not well", id, other)
			}
		}
	}
	return ""
}

// wrongServerRestart: what the server has is on replicas, and nothing else is away, by our hand or not.
func (w *world) wrongServerRestart(o Observed, m *Member) string {
	if r := w.recorded[Server]; w.keeps && r.request == o.Request && !r.rolls {
		return fmt.Sprintf("%s is restarted for what an earlier operator was asked for", m.ID)
	}
	if o.ReplicationFactor == 0 || m.Volume != VolumePresent {
		return fmt.Sprintf("%s is restarted with %d replicas: %+v", m.ID, o.ReplicationFactor, m)
	}
	serves := m.Up || m.Pod.Ready
	if serves && w.recovering {
		return fmt.Sprintf("%s is restarted while the cluster is not whole", m.ID)
	}
	for id, n := range w.members {
		gone := !n.Pod.Exists || n.Pod.Deleting
		if id.Kind == Server && id != m.ID && (gone || serves && (!n.Pod.Ready || !n.Up)) {
			return fmt.Sprintf("%s is restarted while %s is away: %+v", m.ID, id, n)
		}
	}
	return ""
}

// carryOut does the decision's steps, and may stop between any two.
func (w *world) carryOut(d Decision, evictions Eviction, mayStop bool) {
	var steps []func()
	step := func(f func()) { steps = append(steps, f) }
	if evictions.Held != "" {
		step(func() { w.setBudget(evictions) })
	}
	for _, kind := range []Kind{Server, Coordinator, Etcd} {
		if r, decided := d.Revisions[kind]; decided {
			step(func() { w.recorded[kind] = recorded{r.Current, r.Request, r.Rolls && !w.former} })
		}
	}
	for _, index := range d.Servers {
		if !w.o.Paused {
			step(func() { w.member(ID{Server, index}) })
		}
	}
	for _, id := range d.Retire {
		step(func() { w.retire(w.member(id)) })
	}
	for _, id := range slices.Concat(d.Rejoin, d.Volumes) {
		step(func() { w.freshVolume(w.member(id)) })
	}
	for _, id := range d.Create {
		step(func() {
			m := w.member(id)
			m.Pod = Pod{Exists: true, Request: w.make(id, w.o.Request)}
			switch w.rng.IntN(4) {
			case 0, 1:
				w.becomeReady(m)
			case 2: // it starts, and ends again
				m.Pod.Mounted, m.Pod.Node = m.Volume == VolumePresent, "node"
				m.Bound = m.Bound || m.Pod.Mounted
			}
		})
	}
	for _, r := range d.Replace {
		step(func() { w.member(r.ID).Failure = r.Failure })
		step(func() { w.podGone(w.member(r.ID)) })
	}
	for _, id := range slices.Concat(d.Restart, d.Remove) {
		step(func() { w.member(id).Pod.Deleting = true })
	}
	for _, id := range d.DropVolumes {
		step(func() { // the pod first: what it has open cannot go
			if m := w.member(id); m.Pod.Exists {
				m.Pod.Deleting = true
			} else {
				m.Volume = VolumeNone
			}
		})
	}
	for _, id := range d.GiveUp {
		step(func() { w.member(id).Pod.Deleting = true })
	}
	for _, r := range d.Release {
		step(func() {
			m := w.member(r.ID)
			m.Retired = slices.DeleteFunc(m.Retired, func(c Claim) bool { return c.Generation == r.Generation })
		})
	}
	for _, id := range d.Resize {
		step(func() { w.resize(d, id) })
	}
	for _, index := range d.Servers {
		step(func() { // ids are noted, if the operator comes that far
			if m := w.members[ID{Server, index}]; m != nil && w.o.Connected {
				seen := *m
				w.askAbout(w.o, &seen)
				m.ServerID = seen.ServerID
				m.HadData = m.HadData || seen.KnownAs != ""
			}
		})
	}
	for _, id := range d.Forget {
		step(func() { w.member(id).Failure = Failure{} })
	}
	if !w.o.Paused {
		step(func() { w.setBudget(evictions) })
	}
	for _, step := range steps {
		if mayStop && w.rng.IntN(6) == 0 {
			return
		}
		step()
	}
}

func (w *world) becomeReady(m *Member) {
	mounted := m.ID.Kind == Server && m.Pod.Mounted && m.Volume == VolumeDeleting // the pod keeps it
	if w.o.needsVolume(m.ID) && m.Volume != VolumePresent && !mounted {
		return
	}
	if !m.Pod.Ready {
		w.starts(m.ID)
	}
	m.Pod.Ready, m.Pod.Mounted, m.Pod.ReadySince, m.Bound = true, true, w.o.Now, true
	if m.ID.Kind == Server {
		m.Up = true
		w.enlist(m)
	} else {
		m.HadData = true
	}
	w.form()
}

// form notes that etcd was complete once, which the status remembers.
func (w *world) form() {
	for i := range w.o.EtcdMembers {
		if m := w.members[ID{Etcd, i}]; m == nil || !m.Pod.Ready {
			return
		}
	}
	w.o.Formed = w.o.EtcdMembers > 0
}

// away: what a server had has to be recovered.
func (w *world) away(m *Member) {
	w.recovering = w.recovering || m.ID.Kind == Server && (m.Up || m.Pod.Ready)
}

// podGone: the pod is gone, and with it a claim that was only waiting for that, which a server's is not. The coordinator
// still takes the server for up.
func (w *world) podGone(m *Member) {
	w.away(m)
	m.Pod = Pod{}
	if m.Volume == VolumeDeleting && m.ID.Kind != Server {
		m.Volume = VolumeNone
	}
}

// disturb lets something happen that the operator does not control.
func (w *world) disturb() {
	w.o.Now = w.o.Now.Add(time.Duration(w.rng.IntN(60)) * time.Second)
	for _, id := range w.order {
		w.replicate(w.members[id])
	}
	w.runMachines()
	w.recovering = w.recovering && w.rng.IntN(3) > 0
	switch w.rng.IntN(14) {
	case 12, 13:
		w.evict()
		w.evict()
		return
	case 10:
		w.upgrade()
		return
	case 11:
		w.spec++
		return
	case 0:
		w.o.Wanted = 1 + w.rng.Int32N(8)
		return
	case 1:
		w.o.Connected = !w.o.Connected
		return
	case 2:
		w.requests++ // a text that was used before asks for nothing of pods that have it
		w.o.Request = []string{"", strconv.Itoa(w.requests), strconv.Itoa(w.requests)}[w.rng.IntN(3)]
		return
	case 3:
		w.o.Paused = w.rng.IntN(3) == 0
		return
	case 4:
		if w.o.EtcdMembers > 0 {
			w.o.Coordinators = []int32{1, 3}[w.rng.IntN(2)]
		}
		return
	}
	if len(w.order) > 0 {
		w.breakMember(w.members[w.order[w.rng.IntN(len(w.order))]])
	}
}

func (w *world) breakMember(m *Member) {
	switch w.rng.IntN(12) {
	case 0:
		w.podGone(m)
	case 1:
		if m.Pod.Exists {
			w.away(m)
			m.Pod = Pod{Exists: true, Failed: true, Reason: "Evicted", FailedAt: w.o.Now, Request: m.Pod.Request, Mounted: m.Pod.Mounted}
		}
	case 2:
		m.Pod.Deleting = m.Pod.Exists
	case 3, 4:
		if m.Pod.Exists && !m.Pod.Failed && !m.Pod.Deleting {
			w.becomeReady(m)
			w.cameBy++
		}
	case 5:
		if m.Pod.Deleting {
			w.podGone(m)
		}
	case 6: // the disk dies; so does what ran on it
		if w.o.needsVolume(m.ID) && m.Volume == VolumePresent {
			w.away(m)
			m.Volume, m.Pod.Ready = VolumeLost, false
		}
	case 7: // somebody deletes the claim
		if w.o.needsVolume(m.ID) && m.Volume != VolumeNone {
			m.Volume = VolumeDeleting
			if !m.Pod.Exists && m.ID.Kind != Server {
				m.Volume = VolumeNone
			}
		}
	case 8: // the coordinator notices
		if m.Up && !m.Pod.Ready {
			m.Up = false
		}
	case 9: // what it had was copied elsewhere
		if m.ID.Kind == Server && !m.Up {
			delete(w.needed, w.enlisted[m.now()])
		}
		for _, c := range m.Retired {
			if w.rng.IntN(2) == 0 {
				delete(w.needed, w.enlisted[volumeKey{m.ID, c.Generation}])
			}
		}
	case 10: // the process ends and starts again, under the same pod
		if m.ID.Kind == Server && m.Pod.Ready && m.Volume != VolumeLost {
			w.away(m)
			m.Pod.Ready = w.rng.IntN(2) == 0
			w.starts(m.ID)
			w.enlist(m)
			m.Up = m.Pod.Ready
		}
	case 11: // somebody deletes the record, or the coordinator does not list it any more, or both
		if m.ID.Kind == Server && w.rng.IntN(2) == 0 {
			m.ServerID, m.HadData = "", false
		}
		if m.ID.Kind == Server && !m.Up && w.rng.IntN(3) > 0 {
			w.unlisted[w.enlisted[m.now()]] = true
		}
	}
}

// settle lets Kubernetes and the coordinator catch up, without new trouble.
func (w *world) settle() {
	w.o.Now = w.o.Now.Add(MaxBackoff)
	w.o.Connected, w.o.Paused = true, false
	w.settleMachines()
	defer func() { w.recovering = false }()
	for _, id := range w.order {
		m := w.members[id]
		switch {
		case m.Pod.Deleting:
			w.podGone(m)
		case m.Pod.Exists && !m.Pod.Failed && !m.Pod.Ready:
			w.becomeReady(m)
		}
		if m.Up && !m.Pod.Ready {
			m.Up = false
		}
		if id.Kind == Server && !m.Up { // and the coordinator copies what it had
			delete(w.needed, w.enlisted[m.now()])
		}
		for _, c := range m.Retired {
			delete(w.needed, w.enlisted[volumeKey{id, c.Generation}])
		}
		if m.Volume == VolumeDeleting && !m.Pod.Exists && id.Kind != Server {
			m.Volume = VolumeNone
		}
	}
}

// history runs one history and says what went wrong; empty: nothing.
func history(seed uint64) string {
	w := newWorld(seed)
	for range 24 {
		o := w.observe()
		d := Decide(o)
		if text := w.wrong(o, d); text != "" {
			return text
		}
		w.carryOut(d, Evictions(o, d), true)
		if w.mixed != "" {
			return w.mixed
		}
		w.disturb()
		if text := cmp.Or(w.evictedTwo, w.tooSmall); text != "" {
			return text
		}
	}
	o := w.observe()
	first := Decide(o)
	o.Members = w.observe().Members // the same in another order
	if again := Decide(o); !reflect.DeepEqual(first, again) {
		return fmt.Sprintf("the same input gave two decisions:\n%+v\n%+v", first, again)
	}
	return w.comesToRest()
}

// comesToRest: once left alone it reaches what is wanted, save for metadata that was lost.
func (w *world) comesToRest() string {
	var d Decision
	busy := func() bool {
		kept := len(d.VolumesLost) + len(d.VolumesTerminating)
		for _, m := range w.members {
			for _, c := range m.Retired {
				if w.nobodyToAsk(m, c) {
					kept--
				}
			}
			runs := m.Volume == VolumeDeleting && m.Pod.Ready && m.ID.Kind == Server // which keeps it
			if (w.stuck(m) || runs) && !m.Pod.Deleting && !m.Pod.Failed {
				kept--
			}
		}
		return len(d.Rejoin)+len(d.Volumes)+len(d.Create)+len(d.Replace)+len(d.Failing)+len(d.Restart)+len(d.Remove)+len(d.DropVolumes)+
			len(d.GiveUp)+len(d.Release)+len(d.Resize)+max(kept, 0) > 0
	}
	for quiet, round := 0, 0; quiet < 2 && round < 120; round++ { // what is noted in one round counts in the next
		w.settle()
		o := w.observe()
		d = Decide(o)
		if text := w.wrong(o, d); text != "" {
			return text
		}
		quiet++
		if busy() {
			quiet = 0
		}
		w.carryOut(d, Evictions(o, d), false)
		if text := cmp.Or(w.mixed, w.tooSmall); text != "" {
			return text
		}
	}
	if busy() {
		return fmt.Sprintf("left alone it did not come to rest: %+v", d)
	}
	if len(d.MetadataLost) > 0 || d.Rolling != "" && (w.metadataTrouble() || w.volumeTrouble()) {
		return ""
	}
	for _, id := range Wanted(w.o, d.Servers) {
		m := w.members[id]
		if m == nil || !m.Pod.Ready {
			if m != nil && w.stuck(m) || id.Kind == Coordinator && !w.o.Formed && w.o.EtcdMembers > 0 {
				continue
			}
			return fmt.Sprintf("left alone, %s did not come up: %+v", id, m)
		}
	}
	if d.Rolling != "" {
		return "a restart that was asked for did not happen: " + d.Rolling
	}
	if text := w.unrolled(d); text != "" || w.volumeTrouble() || w.metadataTrouble() {
		return text
	}
	return w.unresized(d)
}

// metadataTrouble: an etcd member or coordinator will not come up, so a restart waits rightly.
func (w *world) metadataTrouble() bool {
	for _, m := range w.members {
		if m.ID.Kind != Server && !m.Pod.Ready {
			return true
		}
	}
	return false
}

// volumeTrouble: a server has a volume that is lost or was deleted, so it waits rightly, and so do others while it is not up.
func (w *world) volumeTrouble() bool {
	for _, m := range w.members {
		if m.ID.Kind == Server && m.Volume != VolumePresent {
			return true
		}
	}
	return false
}

// TestArbitraryHistories: changes of spec, deaths of pods, losses of volumes, upgrades and crashes of the operator in
// any order never make it decide what the coordinator's state does not allow; and once left alone, it
// reaches what is wanted. PLAN_SEED repeats one history, PLAN_HISTORIES sets how many are tried.
func TestArbitraryHistories(t *testing.T) {
	number := func(name string, otherwise uint64) uint64 {
		text := os.Getenv(name)
		if text == "" {
			return otherwise
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s is %q; accepted: a number", name, text)
		}
		return n
	}
	histories, first := number("PLAN_HISTORIES", 40_000), uint64(1)
	if os.Getenv("PLAN_SEED") != "" {
		histories, first = 1, number("PLAN_SEED", 0)
	}
	t.Logf("seeds %d to %d", first, first+histories-1)
	for seed := first; seed < first+histories; seed++ {
		if text := history(seed); text != "" {
			t.Fatalf("PLAN_SEED=%d: %s", seed, text)
		}
	}
}
