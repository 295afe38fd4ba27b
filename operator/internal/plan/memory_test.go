package plan

import (
	"math/rand/v2"
	"testing"
)

const (
	mi = int64(1) << 20
	// table is the size of all hash tables in this model.
	table = 32 * mi
)

// need is what a pod needs for a log of this size.
func need(log int64) int64 { return log + log/16 + 224*mi }

func memoryFor(log int64) MemoryWanted {
	return MemoryWanted{Log: log, HashTable: table, Pod: need(log), Least: need(log), LargestLog: 1 << 40}
}

// resting are a pod and a server that have a log of this size.
func resting(log int64) (PodMemory, ServerMemory) {
	return PodMemory{Asked: need(log), Actual: need(log), StartLog: 256 * mi, HashTable: table, Floor: need(256 * mi), Generation: 3, Observed: 3},
		ServerMemory{Log: log, Target: log, Most: 16 << 30}
}

func TestNextMemoryStep(t *testing.T) {
	const small, large = 256 * mi, 512 * mi
	const waits, asksPod, asksServer = "the kubelet changes the pod's memory", "the kubelet is asked to change the pod's memory", "the server is asked to change its log"
	const uneven = "the pod's memory request and limit differ, and they can be changed only if they are equal"
	const cannot = "this Kubernetes cannot change the memory of a running pod, or its node does not tell how large it is"
	for name, test := range map[string]struct {
		from, to int64
		change   func(*MemoryWanted, *PodMemory, *ServerMemory)
		want     MemoryStep
	}{
		"nothing": {small, small, nil, MemoryStep{}},
		"a pod grows first": {small, large, nil,
			MemoryStep{Act: MemoryAskPod, Bytes: need(large), Waits: asksPod}},
		"until the kubelet has seen it": {small, large, func(_ *MemoryWanted, p *PodMemory, _ *ServerMemory) {
			p.Asked, p.Generation = need(large), 4
		}, MemoryStep{Waits: "the kubelet has not answered yet"}},
		// It was large once, became small, and is to be large again: the status is of the first time.
		"a status of an earlier size": {small, large, func(_ *MemoryWanted, p *PodMemory, _ *ServerMemory) {
			p.Asked, p.Actual, p.Generation = need(large), need(large), 5
		}, MemoryStep{Waits: "the kubelet has not answered yet"}},
		"while it is at it": {small, large, func(_ *MemoryWanted, p *PodMemory, _ *ServerMemory) { p.Asked, p.InProgress = need(large), &Said{} },
			MemoryStep{Waits: waits}},
		"while its node is full": {small, large, func(_ *MemoryWanted, p *PodMemory, _ *ServerMemory) {
			p.Asked, p.Pending = need(large), &Said{"Deferred", "Node didn't have enough resource: memory"}
		}, MemoryStep{Waits: "the kubelet says Deferred: Node didn't have enough resource: memory"}},
		"after an error": {small, large, func(_ *MemoryWanted, p *PodMemory, _ *ServerMemory) {
			p.Asked, p.InProgress = need(large), &Said{"Error", "cgroup"}
		}, MemoryStep{Waits: "the kubelet says Error: cgroup"}},
		"a later change than the one in progress": {small, large, func(_ *MemoryWanted, p *PodMemory, _ *ServerMemory) {
			p.Asked, p.InProgress, p.Pending = need(large), &Said{"", "the one before"}, &Said{"Infeasible", "Node didn't have enough capacity"}
		}, MemoryStep{Infeasible: "the kubelet says Infeasible: Node didn't have enough capacity"}},
		"the static memory manager": {small, large, func(_ *MemoryWanted, p *PodMemory, _ *ServerMemory) {
			p.Asked, p.Pending = need(large), &Said{"Infeasible", `Resize is infeasible for Guaranteed Pods alongside Memory Manager policy "Static"`}
		}, MemoryStep{Infeasible: `the kubelet says Infeasible: Resize is infeasible for Guaranteed Pods alongside Memory Manager policy "Static"`}},
		"the static CPU manager": {small, large, func(_ *MemoryWanted, p *PodMemory, _ *ServerMemory) {
			p.Asked, p.Pending = need(large), &Said{"Infeasible", "Resize is infeasible for Guaranteed Pods alongside CPU Manager static policy"}
		}, MemoryStep{Infeasible: "the kubelet says Infeasible: Resize is infeasible for Guaranteed Pods alongside CPU Manager static policy"}},
		"then the server grows": {small, large, func(_ *MemoryWanted, p *PodMemory, _ *ServerMemory) { p.Asked, p.Actual = need(large), need(large) },
			MemoryStep{Act: MemoryAskServer, Bytes: large, Waits: asksServer}},
		"which takes a while": {small, large, func(_ *MemoryWanted, p *PodMemory, s *ServerMemory) {
			p.Asked, p.Actual, s.Target = need(large), need(large), large
		}, MemoryStep{Waits: "the server's log is 256Mi, and becomes 512Mi"}},
		"or is refused": {small, large, func(_ *MemoryWanted, p *PodMemory, s *ServerMemory) {
			p.Asked, p.Actual, s.Refused = need(large), need(large), Refusal{large, "accepted are 64MiB to 384MiB"}
		}, MemoryStep{Infeasible: "the server says: accepted are 64MiB to 384MiB"}},
		"another size was refused": {small, large, func(_ *MemoryWanted, _ *PodMemory, s *ServerMemory) { s.Refused = Refusal{1 << 40, "no"} },
			MemoryStep{Act: MemoryAskPod, Bytes: need(large), Waits: asksPod}},
		"more than --log-memory-max": {small, large, func(_ *MemoryWanted, _ *PodMemory, s *ServerMemory) { s.Most = 384 * mi },
			MemoryStep{Infeasible: "the log is to be 512Mi, and the server accepts logs of up to 384Mi (--log-memory-max)"}},
		"huge pages": {small, large, func(_ *MemoryWanted, p *PodMemory, _ *ServerMemory) { p.HugePages = true },
			MemoryStep{Infeasible: "the log is in huge pages, whose number cannot change while the pod runs"}},
		"a container that would be restarted": {small, large, func(_ *MemoryWanted, p *PodMemory, _ *ServerMemory) { p.Restarts = true },
			MemoryStep{Infeasible: "the container's resizePolicy asks for a restart when its memory changes"}},
		"a request that is not the limit": {small, large, func(w *MemoryWanted, _ *PodMemory, _ *ServerMemory) { w.Uneven = true },
			MemoryStep{Infeasible: uneven}},
		"no limit any more": {small, large, func(w *MemoryWanted, _ *PodMemory, _ *ServerMemory) { w.Pod = 0 },
			MemoryStep{Infeasible: "the log is to be 512Mi, and the pod's limit of 496Mi is too small for it: it needs 768Mi"}},
		"a pod without a limit": {small, large, func(w *MemoryWanted, p *PodMemory, _ *ServerMemory) {
			w.Pod, p.Asked, p.Actual, p.Floor, p.Uneven = 0, 0, 0, 0, true
		}, MemoryStep{Act: MemoryAskServer, Bytes: large, Waits: asksServer}},
		"a limit of one's own that stays": {small, large, func(w *MemoryWanted, p *PodMemory, _ *ServerMemory) {
			w.Pod, p.Asked, p.Actual, w.Uneven, p.Uneven = 4<<30, 4<<30, 4<<30, true, true
		}, MemoryStep{Act: MemoryAskServer, Bytes: large, Waits: asksServer}},
		"a limit of one's own that is too small": {small, large, func(w *MemoryWanted, _ *PodMemory, _ *ServerMemory) { w.Pod = need(small) },
			MemoryStep{Infeasible: "the log is to be 512Mi, and the pod's limit of 496Mi is too small for it: it needs 768Mi"}},
		"which does not matter to a smaller log": {large, small, func(w *MemoryWanted, p *PodMemory, _ *ServerMemory) {
			w.Pod, p.Asked, p.Actual = 400*mi, 400*mi, 400*mi
		}, MemoryStep{Act: MemoryAskServer, Bytes: small, Waits: asksServer}},
		"a limit of one's own that has room for the hash table": {large, small, func(w *MemoryWanted, p *PodMemory, _ *ServerMemory) {
			w.Pod, p.Asked, p.Actual, w.Uneven, p.Uneven = 4<<30, 4<<30, 4<<30, true, true
			p.HashTable += 64 * mi
		}, MemoryStep{Act: MemoryAskServer, Bytes: small, Waits: asksServer}},
		"a limit of the namespace": {small, small, func(w *MemoryWanted, _ *PodMemory, _ *ServerMemory) { w.Pod = 0 }, MemoryStep{}},
		"a limit of the namespace that has room": {small, large, func(w *MemoryWanted, p *PodMemory, _ *ServerMemory) {
			w.Pod, p.Asked, p.Actual = 0, 4<<30, 4<<30
		}, MemoryStep{Act: MemoryAskServer, Bytes: large, Waits: asksServer}},
		"an API server that refuses": {small, large, func(_ *MemoryWanted, p *PodMemory, _ *ServerMemory) {
			p.Refused = Refusal{need(large), "exceeded quota"}
		},
			MemoryStep{Infeasible: "the API server says: exceeded quota"}},
		"a larger hash table than wanted, which stays": {small, large, func(_ *MemoryWanted, p *PodMemory, _ *ServerMemory) { p.HashTable += 64 * mi },
			MemoryStep{Act: MemoryAskPod, Bytes: need(large) + 64*mi, Waits: asksPod}},
		"volumes that are too small": {small, large, func(w *MemoryWanted, _ *PodMemory, _ *ServerMemory) { w.LargestLog = 400 * mi },
			MemoryStep{Infeasible: "the log is to be 512Mi, and the volumes, as servers knew them when they started, have room for logs of 400Mi"}},
		"a kubelet that says of no generation what it tells": {small, large, func(_ *MemoryWanted, p *PodMemory, _ *ServerMemory) { p.Observed = 0 },
			MemoryStep{Infeasible: cannot}},
		"a kubelet that tells of no limit": {small, large, func(_ *MemoryWanted, p *PodMemory, _ *ServerMemory) { p.Actual = 0 },
			MemoryStep{Infeasible: cannot}},
		"nor is there anything to do": {small, small, func(_ *MemoryWanted, p *PodMemory, _ *ServerMemory) { p.Actual, p.Observed = 0, 0 },
			MemoryStep{}},
		"a server shrinks first": {large, small, nil, MemoryStep{Act: MemoryAskServer, Bytes: small, Waits: asksServer}},
		"while it cleans": {large, small, func(_ *MemoryWanted, _ *PodMemory, s *ServerMemory) {
			s.Target, s.Log, s.Cleaning = small, 300*mi, "no segment has anything to win"
		}, MemoryStep{Waits: "the server's log is 300Mi, and becomes 256Mi, as cleaning frees memory: no segment has anything to win"}},
		"what is live does not fit": {large, small, func(_ *MemoryWanted, _ *PodMemory, s *ServerMemory) {
			s.Refused = Refusal{small, "accepted are 400MiB to 16GiB"}
		}, MemoryStep{Infeasible: "the server says: accepted are 400MiB to 16GiB"}},
		"then the pod shrinks": {large, small, func(_ *MemoryWanted, _ *PodMemory, s *ServerMemory) { s.Log, s.Target = small, small },
			MemoryStep{Act: MemoryAskPod, Bytes: need(small), Waits: asksPod}},
		"but not below what the server is started with": {large, small, func(_ *MemoryWanted, p *PodMemory, s *ServerMemory) {
			s.Log, s.Target, p.StartLog, p.Floor = small, small, large, need(large)
		}, MemoryStep{}},
		"which uses more still": {large, small, func(_ *MemoryWanted, p *PodMemory, s *ServerMemory) {
			s.Log, s.Target, p.Asked, p.InProgress = small, small, need(small), &Said{"Error", "below current usage"}
		}, MemoryStep{Waits: "the kubelet says Error: below current usage"}},
		"less is to be grown by, since the node is full": {small, 384 * mi, func(_ *MemoryWanted, p *PodMemory, _ *ServerMemory) {
			p.Asked, p.Pending = need(large), &Said{"Deferred", "full"}
		}, MemoryStep{Act: MemoryAskPod, Bytes: need(384 * mi), Waits: asksPod}},
		"growing is taken back": {small, small, func(_ *MemoryWanted, p *PodMemory, _ *ServerMemory) {
			p.Asked, p.Pending = need(large), &Said{"Deferred", "full"}
		}, MemoryStep{Act: MemoryAskPod, Bytes: need(small), Waits: asksPod}},
		"shrinking is taken back": {large, large, func(_ *MemoryWanted, _ *PodMemory, s *ServerMemory) { s.Log, s.Target = 300*mi, small },
			MemoryStep{Act: MemoryAskServer, Bytes: large, Waits: asksServer}},
		"the server was restarted with its former flags": {small, large, func(_ *MemoryWanted, p *PodMemory, _ *ServerMemory) {
			p.Asked, p.Actual = need(large), need(large)
		}, MemoryStep{Act: MemoryAskServer, Bytes: large, Waits: asksServer}},
	} {
		wanted := memoryFor(test.to)
		pod, server := resting(test.from)
		if test.change != nil {
			test.change(&wanted, &pod, &server)
		}
		if got := NextMemoryStep(wanted, pod, server); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

func TestWhatIsToldOfMemory(t *testing.T) {
	for _, test := range []struct {
		step                MemoryStep
		growing, infeasible string
	}{
		{MemoryStep{}, "", ""},
		{MemoryStep{Act: MemoryAskPod, Bytes: 1, Waits: "w"}, "demo-server-1: w", ""},
		{MemoryStep{Infeasible: "no"}, "", "demo-server-1 keeps its memory until it is restarted: no"},
	} {
		if growing, infeasible := test.step.Tell("demo-server-1"); growing != test.growing || infeasible != test.infeasible {
			t.Errorf("%+v: %q, %q", test.step, growing, infeasible)
		}
	}
}

// memoryWorld has one server whose spec is changed at any time, a kubelet that is late, defers and refuses,
// and statuses that are older than the state.
type memoryWorld struct {
	wanted MemoryWanted
	pod    PodMemory // with the status that was written last
	server ServerMemory
	limit  int64 // that holds on the node
	flags  int64 // the log that the container begins with
	// capacity of the node: no pod can have more.
	capacity int64
	asked    int
}

func (w *memoryWorld) kubelet(r *rand.Rand) {
	if r.IntN(2) == 0 { // what it does is written into the status later
		if w.pod.Asked <= w.capacity {
			w.limit = w.pod.Asked
		}
		return
	}
	w.kubeletTells(r)
}

// kubeletTells writes the status.
func (w *memoryWorld) kubeletTells(r *rand.Rand) {
	w.pod.Observed, w.pod.Actual, w.pod.Pending, w.pod.InProgress = w.pod.Generation, w.limit, nil, nil
	switch {
	case w.pod.Asked > w.capacity:
		w.pod.Pending = &Said{reasonInfeasible, "Node didn't have enough capacity"}
	case w.limit != w.pod.Asked && r.IntN(2) == 0:
		w.pod.Pending = &Said{"Deferred", "later"}
	case w.limit != w.pod.Asked:
		w.pod.InProgress = &Said{}
	}
}

func (w *memoryWorld) operator() MemoryStep {
	step := NextMemoryStep(w.wanted, w.pod, w.server)
	switch step.Act {
	case MemoryAskPod:
		w.pod.Asked = step.Bytes
		w.pod.Generation++
		w.asked++
	case MemoryAskServer:
		w.server.Target = step.Bytes
		w.asked++
	}
	return step
}

// moveLog: the log moves towards its target. It grows at once, and shrinks bit by bit.
func (w *memoryWorld) moveLog() {
	if w.server.Target > w.server.Log {
		w.server.Log = w.server.Target
	} else {
		w.server.Log = max(w.server.Target, w.server.Log-32*mi)
	}
}

// step does something.
func (w *memoryWorld) step(r *rand.Rand) {
	switch r.IntN(4) {
	case 0:
		w.kubelet(r)
	case 1:
		w.moveLog()
	case 2:
		w.operator()
	case 3:
		if r.IntN(20) == 0 { // the container is started again, with the flags that it was made with
			w.server = ServerMemory{Log: w.flags, Target: w.flags}
		}
	}
}

// The pod-before-log rule holds whatever is asked for in between, and in the end the server has what was asked for last, or it
// is said why not, and nobody is asked for ever.
func TestAPodIsNeverSmallerThanItsLog(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 0))
		flags := (256 + 64*r.Int64N(4)) * mi
		w := memoryWorld{wanted: memoryFor(flags), limit: need(flags), flags: flags, capacity: need((512 + 64*r.Int64N(16)) * mi)}
		w.pod, w.server = resting(flags)
		w.pod.StartLog, w.pod.Floor = flags, need(flags)
		for n := range 400 {
			if r.IntN(40) == 0 && n < 200 {
				w.wanted = memoryFor((256 + 64*r.Int64N(16)) * mi)
			}
			w.step(r)
			if most := max(w.server.Log, w.server.Target, w.flags); w.limit < need(most) {
				t.Fatalf("seed %d, step %d: the pod may have %s, and the log of %s needs %s: %+v", seed, n, mebibytes(w.limit), mebibytes(most), mebibytes(need(most)), w)
			}
		}
		for range 200 {
			w.kubelet(r)
			w.server.Log = w.server.Target
			w.operator()
		}
		before := w.asked
		last := w.operator()
		feasible := w.wanted.Pod <= w.capacity
		if feasible && (w.server.Log != w.wanted.Log || w.limit != max(w.wanted.Pod, w.pod.Floor)) || !feasible && last.Infeasible == "" || w.asked != before {
			t.Fatalf("seed %d: %+v, %+v", seed, last, w)
		}
	}
}
