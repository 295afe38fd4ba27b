package plan

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func running() Pod { return Pod{Exists: true, Ready: true, ReadySince: now.Add(-time.Hour)} }

func failed(ago time.Duration) Pod {
	return Pod{Exists: true, Failed: true, Reason: "Evicted", Message: "node was low on memory", FailedAt: now.Add(-ago)}
}

func servers(pods ...Pod) []Member {
	out := make([]Member, len(pods))
	for i, p := range pods {
		out[i] = Member{Index: int32(i), Pod: p, Known: true, Tablets: 2}
	}
	return out
}

func TestDecide(t *testing.T) {
	well := Member{Pod: running()}
	failing := fmt.Sprintf("server 0 failed (Evicted: node was low on memory), made anew %s after it failed", FirstBackoff)
	for _, test := range []struct {
		name string
		in   Observed
		want Decision
	}{
		{"a new cluster gets its coordinator and all servers", Observed{Wanted: 3},
			Decision{Servers: []int32{0, 1, 2}, Create: []int32{Coordinator, 0, 1, 2}}},
		{"a complete cluster needs nothing", Observed{Wanted: 2, Coordinator: well, Servers: servers(running(), running())},
			Decision{Servers: []int32{0, 1}}},
		{"scale out", Observed{Wanted: 3, Coordinator: well, Servers: servers(running(), running())},
			Decision{Servers: []int32{0, 1, 2}, Create: []int32{2}}},
		{"scale out fills the lowest free index",
			Observed{Wanted: 3, Coordinator: well, Servers: []Member{{Index: 2, Pod: running()}, {Index: 0, Pod: running()}}},
			Decision{Servers: []int32{0, 1, 2}, Create: []int32{1}}},
		{"scale in is refused with the arithmetic",
			Observed{Wanted: 1, ReplicationFactor: 2, Coordinator: well, Servers: servers(running(), running(), running())},
			Decision{Servers: []int32{0, 1, 2}, Blocked: "spec.servers.replicas is 1 and 3 servers exist: taking away 2 would " +
				"lose 4 tablets and the replicas on 2 volumes, since moving them (2 replicas of each segment) is not " +
				"supported yet; accepted: 3 or more; spec.servers.replicas is 1 and replicationFactor 2 needs 3 servers, since a " +
				"server keeps no replicas of its own log; accepted: 3 or more"}},
		{"fewer servers than the replicas need are not even begun with", Observed{Wanted: 1, ReplicationFactor: 1, Coordinator: well},
			Decision{Servers: []int32{0, 1}, Create: []int32{0, 1}, Blocked: "spec.servers.replicas is 1 and replicationFactor 1 " +
				"needs 2 servers, since a server keeps no replicas of its own log; accepted: 2 or more"}},
		{"a blocked scale-in does not stop the repair of pods",
			Observed{Wanted: 1, Coordinator: well, Servers: []Member{{Index: 0}, {Index: 1, Pod: running()}}},
			Decision{Servers: []int32{0, 1}, Create: []int32{0}, Blocked: "spec.servers.replicas is 1 and 2 servers exist: taking " +
				"away 1 would lose tablets (how many is not known while the coordinator does not answer) and the replicas " +
				"on 1 volumes, since moving them (0 replicas of each segment) is not supported yet; accepted: 2 or more"}},
		{"a lost pod is created again at once", Observed{Wanted: 2, Coordinator: well, Servers: servers(Pod{}, running())},
			Decision{Servers: []int32{0, 1}, Create: []int32{0}}},
		{"a pod that is going is waited for",
			Observed{Wanted: 1, Coordinator: Member{Pod: Pod{Exists: true, Deleting: true}}, Servers: servers(running())},
			Decision{Servers: []int32{0}}},
		{"a failed pod waits for its back-off", Observed{Wanted: 1, Coordinator: well, Servers: servers(failed(4 * time.Second))},
			Decision{Servers: []int32{0}, Failing: []string{failing}, Again: 6 * time.Second}},
		{"and is then replaced", Observed{Wanted: 1, Coordinator: well, Servers: servers(failed(FirstBackoff))},
			Decision{Servers: []int32{0}, Failing: []string{failing}, Replace: []Replacement{{Index: 0, Failure: Failure{
				Count: 1, Reason: "Evicted", Message: "node was low on memory", Time: now.Add(-FirstBackoff)}}}}},
		{"failures are forgotten", Observed{Wanted: 1, Coordinator: Member{Pod: running(), Failure: Failure{Count: 3}}, Servers: servers(running())},
			Decision{Servers: []int32{0}, Forget: []int32{Coordinator}}},
		{"but not at once", Observed{Wanted: 1, Servers: servers(running()), Coordinator: Member{
			Pod: Pod{Exists: true, Ready: true, ReadySince: now.Add(-time.Minute)}, Failure: Failure{Count: 3}}},
			Decision{Servers: []int32{0}, Again: ForgetAfter - time.Minute}},
		{"a volume of another owner is not taken",
			Observed{Wanted: 1, Coordinator: well, Servers: []Member{{Index: 0}},
				Foreign: map[int32]string{0: "data-x"}}, Decision{Servers: []int32{0}, Foreign: []string{"data-x"}}},
		{"not even by a server that is new", Observed{Wanted: 2, Coordinator: well, Servers: servers(running()),
			Foreign: map[int32]string{1: "data-y"}}, Decision{Servers: []int32{0, 1}, Foreign: []string{"data-y"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.in.Now = now
			if diff := cmp.Diff(test.want, Decide(test.in)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestBackoff(t *testing.T) {
	for failures, want := range map[int32]time.Duration{0: 10 * time.Second, 1: 20 * time.Second, 4: 160 * time.Second, 5: MaxBackoff, 1 << 30: MaxBackoff} {
		if got := Backoff(failures); got != want {
			t.Errorf("Backoff(%d) = %s, want %s", failures, got, want)
		}
	}
}

// world is a model of Kubernetes for the property test: it carries decisions out, possibly only a part
// of them (the operator may be killed between any two steps), and breaks pods.
type world struct {
	t    *testing.T
	rng  *rand.Rand
	o    Observed
	seen map[int32]bool // every server that ever existed
}

func (w *world) member(index int32) *Member {
	if index == Coordinator {
		return &w.o.Coordinator
	}
	for i := range w.o.Servers {
		if w.o.Servers[i].Index == index {
			return &w.o.Servers[i]
		}
	}
	return nil
}

// check asserts what must hold of every decision.
func (w *world) check(d Decision) {
	w.t.Helper()
	if !slices.IsSorted(d.Servers) || len(slices.Compact(slices.Clone(d.Servers))) != len(d.Servers) {
		w.t.Fatalf("servers are not a sorted set: %v", d.Servers)
	}
	for index := range w.seen {
		if !slices.Contains(d.Servers, index) {
			w.t.Fatalf("server %d exists and is planned away: %v", index, d.Servers)
		}
	}
	needed := int(w.o.ReplicationFactor) + 1
	if want := max(int(w.o.Wanted), len(w.seen), needed); len(d.Servers) != want {
		w.t.Fatalf("%d servers planned, want %d", len(d.Servers), want)
	}
	if (d.Blocked != "") != (int(w.o.Wanted) < max(len(w.seen), needed)) {
		w.t.Fatalf("wanted %d, existing %d, blocked %q", w.o.Wanted, len(w.seen), d.Blocked)
	}
	if d.Blocked != "" && !strings.Contains(d.Blocked, fmt.Sprintf("accepted: %d or more", max(len(w.seen), needed))) {
		w.t.Fatalf("no arithmetic in %q", d.Blocked)
	}
	for _, index := range d.Create {
		if m := w.member(index); m != nil && m.Pod.Exists {
			w.t.Fatalf("%s is created although its pod exists: %+v", name(index), m.Pod)
		}
	}
	for _, r := range d.Replace {
		m := w.member(r.Index)
		if m == nil || !m.Pod.Failed || m.Pod.Deleting {
			w.t.Fatalf("%s is replaced although its pod did not fail: %+v", name(r.Index), m)
		}
		if w.o.Now.Sub(m.Pod.FailedAt) < Backoff(m.Failure.Count) {
			w.t.Fatalf("%s is replaced before its back-off is over", name(r.Index))
		}
		if r.Failure.Count != m.Failure.Count+1 {
			w.t.Fatalf("%s: failure %d after %d", name(r.Index), r.Failure.Count, m.Failure.Count)
		}
	}
	if again := Decide(w.o); !cmp.Equal(d, again) {
		w.t.Fatalf("the same input gave two decisions: %s", cmp.Diff(d, again))
	}
}

// carryOut does the decision's steps, and may stop between any two.
func (w *world) carryOut(d Decision, mayStop bool) {
	var steps []func()
	for _, index := range d.Servers {
		steps = append(steps, func() {
			if w.member(index) == nil {
				w.o.Servers = append(w.o.Servers, Member{Index: index})
				w.seen[index] = true
			}
		})
	}
	for _, index := range d.Create {
		steps = append(steps, func() {
			w.member(index).Pod = Pod{Exists: true, Ready: w.rng.IntN(2) == 0, ReadySince: w.o.Now}
		})
	}
	for _, r := range d.Replace {
		steps = append(steps,
			func() { w.member(r.Index).Failure = r.Failure },
			func() { w.member(r.Index).Pod = Pod{} })
	}
	for _, index := range d.Forget {
		steps = append(steps, func() { w.member(index).Failure = Failure{} })
	}
	for _, step := range steps {
		if mayStop && w.rng.IntN(6) == 0 {
			return
		}
		step()
	}
}

// disturb lets something happen that the operator does not control.
func (w *world) disturb() {
	w.o.Now = w.o.Now.Add(time.Duration(w.rng.IntN(60)) * time.Second)
	victim := &w.o.Coordinator
	if n := len(w.o.Servers); n > 0 && w.rng.IntN(4) > 0 {
		victim = &w.o.Servers[w.rng.IntN(n)]
	}
	switch w.rng.IntN(6) {
	case 0:
		w.o.Wanted = 1 + w.rng.Int32N(8)
	case 1:
		victim.Pod = Pod{}
	case 2:
		if victim.Pod.Exists {
			victim.Pod = Pod{Exists: true, Failed: true, Reason: "Evicted", FailedAt: w.o.Now}
		}
	case 3:
		victim.Pod.Deleting = victim.Pod.Exists
	case 4:
		if victim.Pod.Exists && !victim.Pod.Failed && !victim.Pod.Deleting {
			victim.Pod.Ready, victim.Pod.ReadySince = true, w.o.Now
		}
	case 5:
		if victim.Pod.Deleting {
			victim.Pod = Pod{}
		}
	}
}

// TestArbitraryHistories: spec changes, pod deaths and crashes of the operator in any order never make
// it plan a server away or delete a pod that works; and once left alone, it reaches what is wanted.
// PLAN_SEED repeats one history, PLAN_HISTORIES sets how many are tried.
func TestArbitraryHistories(t *testing.T) {
	histories, first := 5_000, uint64(1)
	if text := os.Getenv("PLAN_HISTORIES"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("PLAN_HISTORIES is %q; accepted: a number", text)
		}
		histories = n
	}
	if text := os.Getenv("PLAN_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("PLAN_SEED is %q; accepted: a number", text)
		}
		histories, first = 1, seed
	}
	t.Logf("seeds %d to %d", first, first+uint64(histories)-1)
	for seed := first; seed < first+uint64(histories); seed++ {
		if !t.Run(fmt.Sprintf("PLAN_SEED=%d", seed), func(t *testing.T) { history(t, seed) }) {
			return
		}
	}
}

func history(t *testing.T, seed uint64) {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 0)), seen: map[int32]bool{},
		o: Observed{Now: now, Wanted: 3, ReplicationFactor: 2}}
	for range 30 {
		d := Decide(w.o)
		w.check(d)
		w.carryOut(d, true)
		w.disturb()
	}
	for range 4 { // failed pods need their back-off, then a second decision creates them again
		for i := range w.o.Servers {
			if w.o.Servers[i].Pod.Deleting {
				w.o.Servers[i].Pod = Pod{}
			}
		}
		if w.o.Coordinator.Pod.Deleting {
			w.o.Coordinator.Pod = Pod{}
		}
		w.o.Now = w.o.Now.Add(MaxBackoff)
		d := Decide(w.o)
		w.check(d)
		w.carryOut(d, false)
	}
	d := Decide(w.o)
	if len(d.Create)+len(d.Replace)+len(d.Failing) > 0 {
		t.Fatalf("left alone it did not come to rest: %+v", d)
	}
}
