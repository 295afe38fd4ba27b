package plan

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// sizing is a cluster of three servers with logs of 256 MiB, whose template has the given size.
func sizing(log int64) (Observed, func(int32) *Member) {
	o := Observed{Now: now, Wanted: 3, ReplicationFactor: 2, Coordinators: 1, CoordinatorVolume: true, Connected: true,
		Roles:  map[Kind]Role{Server: {Current: "t", Fresh: Candidate{Template: "t"}}, Coordinator: {Current: "c", Fresh: Candidate{Template: "c"}}},
		Memory: map[string]MemoryWanted{"t": memoryFor(log)}}
	well := Pod{Exists: true, Ready: true, Mounted: true}
	o.Members = []Member{{ID: ID{Coordinator, 0}, Pod: well, Volume: VolumePresent}}
	for i := range int32(3) {
		pod, server := resting(256 * mi)
		o.Members = append(o.Members, Member{ID: ID{Server, i}, Pod: well, Volume: VolumePresent, Up: true, Replicas: 2, PodMemory: &pod, LogMemory: &server})
	}
	return o, func(i int32) *Member { return &o.Members[1+i] }
}

func TestOneServerAfterTheOther(t *testing.T) {
	const large, small = 512 * mi, 128 * mi
	grown := func(m *Member) {
		m.PodMemory.Asked, m.PodMemory.Actual, m.LogMemory.Log, m.LogMemory.Target = need(large), need(large), large, large
	}
	for name, test := range map[string]struct {
		log    int64
		change func(o *Observed, server func(int32) *Member)
		want   []int32 // servers whose step is done
		says   map[int32]string
	}{
		"nothing":         {256 * mi, nil, nil, map[int32]string{0: "", 1: "", 2: ""}},
		"the first grows": {large, nil, []int32{0}, map[int32]string{0: "the kubelet is asked", 1: "its turn comes after server 0", 2: "its turn comes after server 0"}},
		"and then the next": {large, func(_ *Observed, server func(int32) *Member) { grown(server(0)) },
			[]int32{1}, map[int32]string{0: "", 1: "the kubelet is asked", 2: "its turn comes after server 1"}},
		"one whose log changes holds the others up": {large, func(_ *Observed, server func(int32) *Member) {
			server(2).LogMemory.Target, server(2).PodMemory.Asked, server(2).PodMemory.Actual = large, need(large), need(large)
		}, nil, map[int32]string{0: "its turn comes after server 2", 2: "the server's log is 256Mi, and becomes 512Mi"}},
		"one that the kubelet puts off holds them up": {large, func(_ *Observed, server func(int32) *Member) {
			server(0).PodMemory.Asked, server(0).PodMemory.Pending = need(large), &Said{"Deferred", "full"}
		}, nil, map[int32]string{0: "the kubelet says Deferred: full", 1: "its turn comes after server 0"}},
		"one that the kubelet refuses does not": {large, func(_ *Observed, server func(int32) *Member) {
			server(0).PodMemory.Asked, server(0).PodMemory.Pending = need(large), &Said{"Infeasible", "never"}
		}, []int32{1}, map[int32]string{0: "the kubelet says Infeasible: never", 1: "the kubelet is asked"}},
		"nor one whose pod shrinks late": {256 * mi, func(_ *Observed, server func(int32) *Member) {
			grown(server(1))
			server(0).PodMemory.Actual, server(0).PodMemory.InProgress = need(large), &Said{"Error", "below current usage"}
		}, []int32{1}, map[int32]string{0: "below current usage", 1: "the server is asked"}},
		"nor one that is not up": {large, func(o *Observed, server func(int32) *Member) {
			server(0).Up, server(0).LogMemory, server(0).Pod.Ready = false, nil, false
			o.NotSafe = "recoveries are not done"
		}, []int32{1}, map[int32]string{0: "the server is not up, and then gets another size", 1: "the kubelet is asked"}},
		"one that is not up and was made with it": {large, func(_ *Observed, server func(int32) *Member) {
			p := server(0).PodMemory
			p.StartLog, p.Asked, p.Actual, p.Observed = large, need(large), 0, 0
			server(0).Up, server(0).LogMemory = false, nil
		}, []int32{1}, map[int32]string{0: ""}},
		"one that is not up, on a node that cannot": {large, func(_ *Observed, server func(int32) *Member) {
			server(0).PodMemory.HugePages, server(0).LogMemory = true, nil
		}, []int32{1}, map[int32]string{0: "the log is in huge pages"}},
		"one that is not up, and too large for its node": {large, func(_ *Observed, server func(int32) *Member) {
			server(0).PodMemory.Asked, server(0).PodMemory.Pending, server(0).LogMemory = need(large), &Said{"Infeasible", "never"}, nil
		}, []int32{1}, map[int32]string{0: "the kubelet says Infeasible: never"}},
		"one that found no node": {256 * mi, func(_ *Observed, server func(int32) *Member) {
			p := server(0).PodMemory
			p.StartLog, p.Asked, p.Floor, p.Actual, p.Observed = 1<<40, need(1<<40), need(1<<40), 0, 0
			server(0).Pod, server(0).Up, server(0).LogMemory = Pod{Exists: true}, false, nil
		}, nil, map[int32]string{0: "its pod has no node yet, and would begin with a log of 1048576Mi"}},
		"none shrinks during a recovery": {small, func(o *Observed, _ func(int32) *Member) { o.NotSafe = "recoveries are not done" },
			nil, map[int32]string{0: "recoveries are not done", 1: "its turn comes after server 0"}},
		"nor while one is not up": {small, func(_ *Observed, server func(int32) *Member) { server(2).Up, server(2).LogMemory = false, nil },
			nil, map[int32]string{0: "server 2 is not listed as up"}},
		"but a shrink can be given up then": {192 * mi, func(o *Observed, server func(int32) *Member) {
			server(0).LogMemory.Target = small
			o.NotSafe = "recoveries are not done"
		}, []int32{0}, map[int32]string{0: "the server is asked"}},
		"but otherwise": {small, nil, []int32{0}, map[int32]string{0: "the server is asked"}},
		"nobody while the cluster is paused": {large, func(o *Observed, _ func(int32) *Member) { o.Paused = true },
			nil, map[int32]string{0: "spec.paused is set"}},
		"nobody beside a restart": {large, func(o *Observed, server func(int32) *Member) {
			o.Request = "now"
			role := o.Roles[Server]
			role.Request, role.Rolls = "now", true
			o.Roles[Server] = role
			o.Roles[Coordinator] = Role{Current: "c", Request: "now", Fresh: Candidate{Template: "c"}}
			o.Members[0].Pod.Request = "now"
		}, nil, map[int32]string{0: "a restart goes first"}},
		"none without its pod": {large, func(_ *Observed, server func(int32) *Member) {
			server(0).PodMemory, server(0).Pod, server(1).Pod.Deleting = nil, Pod{}, true
		}, []int32{2}, map[int32]string{2: "the kubelet is asked"}},
	} {
		o, server := sizing(test.log)
		if test.change != nil {
			test.change(&o, server)
		}
		d := Decide(o)
		var got []int32
		for _, id := range d.Resize {
			got = append(got, id.Index)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: the memory of %v is changed, want %v: %+v", name, got, test.want, d.Memory)
		}
		for index, says := range test.says {
			step := d.Memory[ID{Server, index}]
			text := step.Waits + step.Infeasible
			if (text == "") != (says == "") || !strings.Contains(text, says) || d.ResizableInPlace(ID{Server, index}) != (step.Infeasible == "") {
				t.Errorf("%s: of server %d is said %q, want %q", name, index, text, says)
			}
		}
	}
}

func TestAShrinkIsDecidedAgain(t *testing.T) {
	o, _ := sizing(128 * mi)
	o.NotSafe, o.SafeAgain = "the servers or tablets changed less than 10s ago", 7*time.Second
	if d := Decide(o); d.Again != 7*time.Second {
		t.Errorf("in %s", d.Again)
	}
}

// A size that is not accepted yet is not said to be there.
func TestASizeThatIsNotAcceptedYet(t *testing.T) {
	for name, test := range map[string]struct {
		paused bool
		kept   Candidate
		want   string
	}{
		"paused":  {true, Candidate{Template: "t2"}, "logs of 512Mi wait: spec.paused is set"},
		"refused": {false, Candidate{Template: "t2", Refused: "two versions"}, "logs of 512Mi wait: two versions"},
		"waits":   {false, Candidate{Template: "t2", Waits: "the coordinators"}, "logs of 512Mi wait: the coordinators"},
		"taken":   {false, Candidate{Template: "t2"}, "0 of 3 servers have logs of 512Mi"},
		"another": {true, Candidate{Template: "t3"}, ""},
	} {
		o, _ := sizing(256 * mi)
		o.Paused, o.Memory["t2"], o.Memory["t3"] = test.paused, memoryFor(512*mi), memoryFor(256*mi)
		role := o.Roles[Server]
		role.Changed, role.Kept = true, test.kept
		o.Roles[Server] = role
		d := Decide(o)
		moving, staying := d.MemoryTells(func(id ID) string { return id.String() })
		if first := append(moving, "")[0]; first != test.want || staying != nil {
			t.Errorf("%s: %q, %q", name, moving, staying)
		}
	}
}

func TestMemoryTells(t *testing.T) {
	o, server := sizing(512 * mi)
	server(1).PodMemory.HugePages = true
	d := Decide(o)
	name := func(id ID) string { return id.String() }
	moving, staying := d.MemoryTells(name)
	if want := []string{"0 of 3 servers have logs of 512Mi", "server 0: the kubelet is asked to change the pod's memory", "server 2: its turn comes after server 0"}; !slices.Equal(moving, want) {
		t.Errorf("moving: %q", moving)
	}
	if want := []string{"server 1 keeps its memory until it is restarted: the log is in huge pages, whose number cannot change while the pod runs"}; !slices.Equal(staying, want) {
		t.Errorf("staying: %q", staying)
	}
	o, _ = sizing(256 * mi)
	d = Decide(o)
	if moving, staying = d.MemoryTells(name); moving != nil || staying != nil {
		t.Errorf("all have it, and told is %q, %q", moving, staying)
	}
}
