package plan

import (
	"fmt"
	"slices"
	"strconv"
)

// volumeKey is the volume of one claim of a member.
type volumeKey struct {
	id         ID
	generation int32
}

// now is the volume that the member has.
func (m *Member) now() volumeKey { return volumeKey{m.ID, m.Generation} }

// askAbout fills in what the coordinator says of a server.
func (w *world) askAbout(o Observed, m *Member) {
	m.Retired = slices.Clone(m.Retired)
	m.KnownAs = ""
	if !o.Connected {
		return
	}
	for generation := range m.Generation + 1 { // later ones are newer
		if id := w.enlisted[volumeKey{m.ID, generation}]; id != "" && !w.unlisted[id] {
			m.KnownAs = id
		}
	}
	m.ServerID = Enlisted(m.ServerID, m.Retired, m.KnownAs, m.Up)
	answer := func(key volumeKey, asked string) (out Release) {
		if asked != "" {
			out = Release{ServerID: asked, Releasable: w.releasable(key, asked), Reason: "its replicas are needed, or it is not known"}
		}
		return out
	}
	m.Release = answer(m.now(), WantsRelease(o, *m))
	for i, c := range m.Retired {
		m.Retired[i].Release = answer(volumeKey{m.ID, c.Generation}, WantsReleaseOf(o, c))
	}
}

func (w *world) wrongVolume(o Observed, d Decision, id ID) string {
	m := w.members[id]
	if m == nil {
		return ""
	}
	switch {
	case !w.o.needsVolume(m.ID) || m.Volume == VolumePresent || m.Volume != VolumeNone && id.Kind != Server:
		return fmt.Sprintf("%s gets a volume although it has or needs none: %+v", id, m)
	case m.Volume != VolumeNone && (m.Pod.Exists || !slices.Contains(d.Retire, id)):
		return fmt.Sprintf("%s gets another volume under a pod: %+v", id, m)
	case m.HadData && id.Kind != Server:
		return fmt.Sprintf("%s gets an empty volume in place of its metadata", id)
	case (m.HadData || m.Volume != VolumeNone) && !o.Connected:
		return fmt.Sprintf("%s gets an empty volume while the coordinator is silent", id)
	case (m.HadData || m.Volume != VolumeNone) && m.Up:
		return fmt.Sprintf("%s gets an empty volume while the coordinator lists it as up", id)
	}
	return ""
}

// wrongDeletion says what is wrong with the claims that are deleted and the pods that are given up.
func (w *world) wrongDeletion(o Observed, d Decision) string {
	for _, id := range d.DropVolumes {
		m := w.members[id]
		if m == nil || id.Kind == Server || m.Volume == VolumePresent || m.Pod.Ready {
			return fmt.Sprintf("the volume of %s is dropped although it is not lost, in use, or a server's: %+v", id, m)
		}
		rejoins := id.Kind == Etcd && w.othersWell(o, id)
		if m.HadData && !rejoins {
			return fmt.Sprintf("the volume of %s is dropped, connected %t, %+v", id, o.Connected, m)
		}
	}
	for _, id := range d.GiveUp {
		m := w.members[id]
		if m == nil || id.Kind != Server || !m.Pod.Exists || m.Pod.Ready || m.Up || !o.Connected || m.Volume == VolumePresent || m.Volume == VolumeNone {
			return fmt.Sprintf("the pod of %s is given up: connected %t, %+v", id, o.Connected, m)
		}
		if m.Pod.Mounted && w.needed[w.enlisted[m.now()]] {
			return fmt.Sprintf("%s is given up and the replicas on the volume that it has are needed: %+v", id, m)
		}
	}
	for _, r := range d.Release {
		if text := w.wrongRelease(o, r); text != "" {
			return text
		}
	}
	return ""
}

// wrongRelease: a claim is deleted only with the coordinator's word on its own id, and never under a pod.
func (w *world) wrongRelease(o Observed, r Released) string {
	m := w.members[r.ID]
	if m == nil || r.Generation >= m.Generation {
		return fmt.Sprintf("the claim of generation %d of %s is deleted, and it has it: %+v", r.Generation, r.ID, m)
	}
	id := w.enlisted[volumeKey{r.ID, r.Generation}]
	if w.needed[id] {
		return fmt.Sprintf("the claim of generation %d of %s is deleted and its replicas are needed (it is server id %s): %+v", r.Generation, r.ID, id, m)
	}
	for _, c := range m.Retired {
		if c.Generation == r.Generation && c.Bound && (!o.Connected || c.ServerID == "" || !w.releasable(volumeKey{r.ID, r.Generation}, c.ServerID)) {
			return fmt.Sprintf("the claim of generation %d of %s is deleted without a release: %+v", r.Generation, r.ID, c)
		}
	}
	return ""
}

// retire makes the claim that the server has a former one, with its id noted.
func (w *world) retire(m *Member) {
	seen := *m
	w.askAbout(w.o, &seen)
	m.Retired = append(slices.Clone(m.Retired), Claim{Generation: m.Generation, State: m.Volume, Bound: m.Bound, ServerID: seen.ServerID})
	m.Generation++
	m.Volume, m.ServerID, m.Bound, m.HadData = VolumeNone, "", false, true
}

// freshVolume makes a claim for the member. One that it has stays as it is.
func (w *world) freshVolume(m *Member) {
	if m.Volume != VolumeNone {
		return
	}
	delete(w.enlisted, m.now())
	m.Generation = max(m.Generation, 1)
	m.Volume, m.ServerID, m.Bound = VolumePresent, "", false // an empty one, and that was allowed
	m.HadData = m.HadData && m.ID.Kind == Server
}

// enlist gives a server that starts a new id. What its volume has of others is known under that from now on.
func (w *world) enlist(m *Member) {
	before := w.enlisted[m.now()]
	w.nextID++
	id := strconv.Itoa(w.nextID)
	w.enlisted[m.now()], w.needed[id] = id, w.needed[before]
	delete(w.needed, before)
}

// releasable is the coordinator's answer about an id. Of one that has enlisted again it knows nothing that is needed, and
// once the later id has left its list it does not know the earlier one at all.
func (w *world) releasable(volume volumeKey, asked string) bool {
	if now := w.enlisted[volume]; asked != now && w.unlisted[now] {
		return false
	}
	return !w.needed[asked]
}

// replicate lets a server that is up write, so that the others' volumes are needed.
func (w *world) replicate(m *Member) {
	if !m.Up || w.rng.IntN(2) == 0 {
		return
	}
	for _, id := range w.order {
		if other := w.members[id]; id.Kind == Server && id != m.ID && other.Up && w.rng.IntN(2) == 0 {
			w.needed[w.enlisted[other.now()]] = true
		}
	}
}

// nobodyToAsk: a server's former claim, of which nobody knows any more who used it. It stays.
func (w *world) nobodyToAsk(m *Member, c Claim) bool {
	now := w.enlisted[volumeKey{m.ID, c.Generation}]
	return c.Bound && (c.ServerID == "" || c.ServerID != now && w.unlisted[now])
}

// stuck: a pod has a volume that is lost, of which nobody knows any more who used it. Somebody has to delete the pod.
func (w *world) stuck(m *Member) bool {
	now := w.enlisted[m.now()]
	return m.ID.Kind == Server && m.Pod.Mounted && m.Volume == VolumeLost && (m.ServerID == "" || m.ServerID != now && w.unlisted[now])
}
