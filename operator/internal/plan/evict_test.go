package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// evictionWorld is what evictions add to the model: the budget as it was written last, and what was evicted by it.
type evictionWorld struct {
	budget Eviction
	// evicted: what an eviction took away is not served again, or lacks replicas.
	evicted bool
	// cameBy counts the pods that became ready without the operator since the budget was written. The budget knows them, and
	// the operator not yet.
	cameBy     int
	evictedTwo string
}

func (w *world) setBudget(e Eviction) { w.budget, w.cameBy = e, 0 }

// evict asks Kubernetes to evict a server: it counts ready pods, and knows nothing else.
func (w *world) evict() {
	w.evicted = w.evicted && w.recovering
	var ready []*Member
	for _, id := range w.order {
		if m := w.members[id]; id.Kind == Server && m.Pod.Serves() {
			ready = append(ready, m)
		}
	}
	if w.budget.Keep == 0 || len(ready)-1 < int(w.budget.Keep) { // 0: there is no budget yet, and no server either
		return
	}
	m := ready[w.rng.IntN(len(ready))]
	if w.evicted && w.cameBy == 0 {
		w.evictedTwo = fmt.Sprintf("%s is evicted by %+v while what an eviction took is not recovered", m.ID, w.budget)
	}
	w.evicted = true
	w.away(m)
	m.Pod.Deleting = true
}

// wrongEviction: a server may go only while the others have all, and can keep it.
func (w *world) wrongEviction(o Observed, d Decision, e Eviction) string {
	if e.Held != "" {
		if int(e.Keep) != len(d.Servers) {
			return fmt.Sprintf("evictions are held (%s), and %d of %d servers are kept", e.Held, e.Keep, len(d.Servers))
		}
		return ""
	}
	if o.Paused || !o.Connected || w.recovering || o.ReplicationFactor == 0 || len(d.Restart)+len(d.Remove) > 0 {
		return fmt.Sprintf("a server may be evicted while none may be restarted: %+v", d)
	}
	serving := 0
	for _, index := range d.Servers {
		switch m := w.members[ID{Server, index}]; {
		case m != nil && m.Pod.Serves() && m.Up && m.Volume == VolumePresent:
			serving++
		case m == nil || !m.Pod.Exists || m.Pod.Deleting || m.Pod.Failed || m.Pod.Ready || m.Pod.Node != "":
			return fmt.Sprintf("a server may be evicted while server %d is on its way: %+v", index, m)
		}
	}
	for _, id := range Wanted(o, nil) {
		if m := w.members[id]; m == nil || !m.Pod.Serves() {
			return fmt.Sprintf("a server may be evicted while %s is not well", id)
		}
	}
	if int(e.Keep) != serving-1 || serving < len(d.Servers) && serving-1 < int(o.ReplicationFactor)+1 {
		return fmt.Sprintf("%d servers serve, and %d are kept", serving, e.Keep)
	}
	return ""
}

// whole is a cluster of four servers, R = 2, of which one may go.
func whole() Observed {
	o := Observed{Now: now, Wanted: 4, Coordinators: 1, CoordinatorVolume: true, ReplicationFactor: 2, Connected: true,
		Members: made(running(), running(), running(), running())}
	for i := range o.Members {
		o.Members[i].Replicas = 2
	}
	return o
}

// TestEvictions: a drain takes one server at a time, while the cluster is whole, and says otherwise what it waits for.
func TestEvictions(t *testing.T) {
	pod := func(i int, pod Pod) func(*Observed) {
		return func(o *Observed) { o.Members[1+i].Pod, o.Members[1+i].Up = pod, false }
	}
	noNode := Pod{Exists: true}
	for name, test := range map[string]struct {
		change func(*Observed)
		keep   int32
		held   string // a part of it
	}{
		"whole":                         {func(*Observed) {}, 3, ""},
		"not whole":                     {func(o *Observed) { o.NotSafe, o.SafeAgain = "recoveries are not done", time.Second }, 4, "recoveries are not done"},
		"silent":                        {func(o *Observed) { o.Connected = false }, 4, "does not answer"},
		"paused":                        {func(o *Observed) { o.Paused = true }, 4, "spec.paused"},
		"no coordinator":                {func(o *Observed) { o.Members[0].Pod.Ready = false }, 4, "coordinator 0 is not ready"},
		"one has no pod":                {pod(1, Pod{}), 4, "server 1 is not ready"},
		"one starts":                    {pod(1, Pod{Exists: true, Node: "n"}), 4, "server 1 is not ready"},
		"one ends":                      {pod(1, Pod{Exists: true, Ready: true, Deleting: true}), 4, "server 1 is not ready"},
		"one failed":                    {pod(1, Pod{Exists: true, Failed: true}), 4, "server 1 is not ready"},
		"one is not listed":             {func(o *Observed) { o.Members[2].Up = false }, 4, "server 1 is not listed as up"},
		"one's claim was deleted":       {func(o *Observed) { o.Members[2].Volume = VolumeDeleting }, 4, "the volume claim of server 1"},
		"one has no replicas":           {func(o *Observed) { o.Members[2].Replicas = 0 }, 4, "server 1 has not said yet"},
		"R = 0":                         {func(o *Observed) { o.ReplicationFactor = 0 }, 4, "without replicas"},
		"a restart was asked for":       {func(o *Observed) { o.Request = "again" }, 4, "restart 'again'"},
		"one finds no node, too few":    {pod(1, noNode), 4, "1 servers find no node, and without one of the other 3 there are too few: replicationFactor 2 needs 3"},
		"one finds no node, and R = 1":  {func(o *Observed) { pod(1, noNode)(o); o.ReplicationFactor = 1 }, 2, ""},
		"two find none, and R = 1":      {func(o *Observed) { pod(1, noNode)(o); pod(2, noNode)(o); o.ReplicationFactor = 1 }, 4, "there are too few"},
		"it was not whole for a moment": {func(o *Observed) { o.SafeAgain = time.Second }, 3, ""},
	} {
		o := whole()
		test.change(&o)
		e := Evictions(o, Decide(o))
		if e.Keep != test.keep || (e.Held == "") != (test.held == "") || !strings.Contains(e.Held, test.held) || e.Again != o.SafeAgain {
			t.Errorf("%s: %+v", name, e)
		}
	}
}
