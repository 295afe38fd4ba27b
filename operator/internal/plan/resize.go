package plan

import (
	"cmp"
	"fmt"
)

// decideMemory brings running servers to the memory in their template without a restart: one after the other, in
// the order of their indices. A server that is not up does not block the others, because its recovery may wait
// until another server has more memory.
func decideMemory(o Observed, members map[ID]Member, d *Decision) {
	wanted, known := o.Memory[d.serversTemplate(o)]
	if !known {
		return
	}
	d.MemoryHeld = d.sizeNotAccepted(o, wanted)
	d.MemoryWanted, d.Memory = wanted, map[ID]MemoryStep{}
	var next, busy []ID
	for _, id := range Wanted(Observed{}, d.Servers) {
		m := members[id]
		if m.PodMemory == nil || m.Pod.Deleting || m.Pod.Failed { // the next pod is created with the memory
			continue
		}
		step := memoryStep(wanted, m)
		d.Memory[id] = step
		switch {
		case step.Act != MemoryUnchanged:
			next = append(next, id)
		case step.Waits != "" && m.changesLog(wanted):
			busy = append(busy, id)
		}
	}
	for i, id := range next {
		why := ""
		switch {
		case len(busy) > 0:
			why = fmt.Sprintf("its turn comes after %s", busy[0])
		case i > 0:
			why = fmt.Sprintf("its turn comes after %s", next[0])
		default:
			why = mayNotResize(o, d, members[id])
		}
		if why == "" {
			d.Resize = append(d.Resize, id)
			continue
		}
		d.Memory[id] = MemoryStep{Waits: why}
	}
}

// serversTemplate is the name of the template that new servers get.
func (d *Decision) serversTemplate(o Observed) string {
	if o.Paused { // no new template is accepted
		return o.Roles[Server].Current
	}
	return d.Revisions[Server].Current
}

// sizeNotAccepted says why the template that spec asks for now, with another size of the log, is not accepted yet; empty:
// it is, or has the same size.
func (d *Decision) sizeNotAccepted(o Observed, accepted MemoryWanted) string {
	role := o.Roles[Server]
	asked, known := o.Memory[role.Kept.Template]
	if !role.Changed || !known || asked.Log == accepted.Log {
		return ""
	}
	why := cmp.Or(d.Revisions[Server].Refused, d.Revisions[Server].Waits)
	if o.Paused {
		why = "spec.paused is set"
	}
	return fmt.Sprintf("logs of %s wait: %s", mebibytes(asked.Log), why)
}

func memoryStep(wanted MemoryWanted, m Member) MemoryStep {
	if m.LogMemory == nil || !m.Pod.Serves() {
		step := withoutServer(wanted, *m.PodMemory)
		if step != (MemoryStep{}) && m.Pod.Node == "" && !m.Pod.Mounted {
			return MemoryStep{Infeasible: fmt.Sprintf("its pod has no node yet, and would begin with a log of %s", mebibytes(m.PodMemory.StartLog))}
		}
		return step
	}
	return NextMemoryStep(wanted, *m.PodMemory, *m.LogMemory)
}

// changesLog: the server is up and its log does not have the wanted size. When only the pod's limit is missing,
// the next server need not wait.
func (m Member) changesLog(wanted MemoryWanted) bool {
	return m.LogMemory != nil && m.Pod.Serves() && (m.LogMemory.Log != wanted.Log || m.LogMemory.Target != wanted.Log)
}

// mayNotResize says why the memory of this server must not be changed now; empty: it may. A log shrinks only
// while the cluster is whole, because a recovery may need the memory. It grows at any time, and so does the target of
// a shrink.
func mayNotResize(o Observed, d *Decision, m Member) string {
	step := d.Memory[m.ID]
	switch {
	case o.Paused:
		return "spec.paused is set"
	case len(d.Restart)+len(d.Remove) > 0:
		return "a restart goes first"
	case step.Act != MemoryAskServer || step.Bytes >= min(m.LogMemory.Log, m.LogMemory.Target):
		return ""
	}
	if o.NotSafe == "" {
		return notUp(o)
	}
	if o.SafeAgain > 0 {
		d.again(o.SafeAgain)
	}
	return o.NotSafe
}

// ResizableInPlace says whether a member needs no restart for its memory: it has the memory in its template, or gets
// it while it runs.
func (d *Decision) ResizableInPlace(id ID) bool {
	step, known := d.Memory[id]
	return known && step.Infeasible == ""
}

// MemoryTells is the text of the condition Resizing about memory: moving lists the servers that wait, staying
// the ones that get the memory only by a restart.
func (d *Decision) MemoryTells(name func(ID) string) (moving, staying []string) {
	for _, index := range d.Servers {
		id := ID{Server, index}
		step, known := d.Memory[id]
		if !known {
			continue
		}
		moves, stays := step.Tell(name(id))
		if moves != "" {
			moving = append(moving, moves)
		}
		if stays != "" {
			staying = append(staying, stays)
		}
	}
	if len(moving) > 0 {
		have := len(d.Memory) - len(moving) - len(staying)
		moving = append([]string{fmt.Sprintf("%d of %d servers have logs of %s", have, len(d.Memory), mebibytes(d.MemoryWanted.Log))}, moving...)
	}
	if d.MemoryHeld != "" {
		moving = append([]string{d.MemoryHeld}, moving...)
	}
	return moving, staying
}
