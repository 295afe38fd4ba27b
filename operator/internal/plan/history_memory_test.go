package plan

import "fmt"

// machine is the node and the process of one server's pod.
type machine struct {
	memoryWorld
	made int          // number of the pod
	said ServerMemory // last report to the coordinator
}

// memories are the machines of a world's servers. The size of a log is a part of the template, and follows from
// the version of the spec.
type memories struct {
	machines map[ID]*machine
	tooSmall string // a pod whose limit was below the memory that its log needs
}

func logOf(template string) int64 { return (256 + 64*int64(parseTemplate(template).spec*5%7)) * mi }

// machine is the machine of a server's pod. It begins with the sizes in the pod's template.
func (w *world) machine(id ID) *machine {
	have := w.machines[id]
	if have == nil || have.made != w.since[id] {
		log := logOf(w.from[id].String())
		have = &machine{made: w.since[id], memoryWorld: memoryWorld{limit: need(log), flags: log, capacity: max(need(log), need((384+128*w.rng.Int64N(4))*mi))}}
		have.pod = PodMemory{Asked: need(log), StartLog: log, HashTable: table, Floor: need(log), Generation: 1}
		w.machines[id] = have
	}
	return have
}

// starts starts the server's container, with the sizes in its command line. The kubelet reports the limit.
func (w *world) starts(id ID) {
	if id.Kind != Server || w.since[id] == 0 {
		return
	}
	m := w.machine(id)
	m.server = ServerMemory{Log: m.flags, Target: m.flags}
	m.said = m.server
	if m.pod.Observed == 0 {
		m.pod.Observed, m.pod.Actual = 1, m.limit
	}
}

// tellMemory adds the operator's view of the memory.
func (w *world) tellMemory(o *Observed, m *Member) {
	if !m.Pod.Exists || w.since[m.ID] == 0 {
		return
	}
	box := w.machine(m.ID)
	pod, said := box.pod, box.said
	m.PodMemory = &pod
	if o.Connected && m.Up && m.Pod.Ready {
		m.LogMemory = &said
	}
}

// memoriesOf are the sizes in all templates from which the plan may choose.
func memoriesOf(roles map[Kind]Role) map[string]MemoryWanted {
	out := map[string]MemoryWanted{}
	for _, name := range []string{roles[Server].Current, roles[Server].Running, roles[Server].First, roles[Server].Fresh.Template, roles[Server].Roll.Template, roles[Server].Kept.Template} {
		if name != "" {
			out[name] = memoryFor(logOf(name))
		}
	}
	return out
}

// wrongResize checks that one server is changed at a time, and that no log shrinks during a recovery.
func (w *world) wrongResize(o Observed, d Decision) string {
	if len(d.Resize) > 1 || len(d.Resize) > 0 && (o.Paused || len(d.Restart) > 0) {
		return fmt.Sprintf("the memory of %v is changed; paused: %t, restarted: %v", d.Resize, o.Paused, d.Restart)
	}
	for _, id := range d.Resize {
		m, step := w.members[id], d.Memory[id]
		if !m.Pod.Exists || m.Pod.Deleting || !m.Pod.Ready {
			return fmt.Sprintf("the memory of %s is changed, which does not serve: %+v", id, m)
		}
		said := w.machine(id).said
		shrinks := step.Act == MemoryAskServer && step.Bytes < min(said.Log, said.Target)
		if shrinks && w.recovering {
			return fmt.Sprintf("%s gives memory away during a recovery", id)
		}
		for other, n := range w.members {
			if other.Kind != Server || other == id || !n.Pod.Exists || w.since[other] == 0 {
				continue
			}
			box := w.machine(other)
			if n.Pod.Ready && n.Up && !n.Pod.Deleting && !n.Pod.Failed && box.said.Target == d.MemoryWanted.Log && box.said.Log != d.MemoryWanted.Log {
				return fmt.Sprintf("the memory of %s is changed while that of %s changes", id, other)
			}
		}
	}
	return ""
}

// resize does the decided step, as the controller does: only if the present facts lead to the same step.
func (w *world) resize(d Decision, id ID) {
	m := w.members[id]
	if m == nil || !m.Pod.Exists || !m.Pod.Ready || w.since[id] == 0 {
		return
	}
	box := w.machine(id)
	step, decided := NextMemoryStep(d.MemoryWanted, box.pod, box.server), d.Memory[id]
	switch {
	case step.Act != decided.Act || step.Bytes != decided.Bytes:
	case step.Act == MemoryAskPod:
		box.pod.Asked = step.Bytes
		box.pod.Generation++
	case step.Act == MemoryAskServer:
		box.server.Target = step.Bytes
	}
}

// runMachines lets kubelets and servers do some of their work, and sends some reports to the coordinator.
func (w *world) runMachines() {
	for _, id := range w.order {
		m := w.members[id]
		if id.Kind != Server || !m.Pod.Exists || w.since[id] == 0 {
			continue
		}
		box := w.machine(id)
		if box.pod.Observed > 0 && w.rng.IntN(2) == 0 {
			box.kubelet(w.rng)
		}
		switch w.rng.IntN(3) {
		case 0:
			box.moveLog()
		case 1:
			box.said = box.server
		}
		w.checkLimit(id, box)
	}
}

func (w *world) checkLimit(id ID, box *machine) {
	if most := max(box.server.Log, box.server.Target, box.flags); box.limit < need(most) && w.tooSmall == "" {
		w.tooSmall = fmt.Sprintf("the pod of %s may have %s, and its log of %s needs %s: %+v", id, mebibytes(box.limit), mebibytes(most), mebibytes(need(most)), box)
	}
}

// settleMachines completes all requests.
func (w *world) settleMachines() {
	for _, id := range w.order {
		m := w.members[id]
		if id.Kind != Server || !m.Pod.Exists || w.since[id] == 0 {
			continue
		}
		box := w.machine(id)
		if box.pod.Observed > 0 {
			if box.pod.Asked <= box.capacity {
				box.limit = box.pod.Asked
			}
			box.kubeletTells(w.rng)
		}
		box.server.Log = box.server.Target
		box.said = box.server
		w.checkLimit(id, box)
	}
}

// unresized checks that, without new trouble, each server has the memory in its template, or a message says why
// not.
func (w *world) unresized(d Decision) string {
	for id, step := range d.Memory {
		box := w.machine(id)
		switch {
		case step.Act != MemoryUnchanged || step.Waits != "":
			return fmt.Sprintf("left alone, %s did not get its memory: %+v, %+v", id, step, box)
		case step.Infeasible != "" && need(logOf(d.Revisions[Server].Current)) <= box.capacity:
			return fmt.Sprintf("%s can have its memory, and %s", id, step.Infeasible)
		case step.Infeasible == "" && box.server.Log != d.MemoryWanted.Log:
			return fmt.Sprintf("%s has another log and nothing is said: %+v", id, box)
		}
	}
	return ""
}
