package plan

import (
	"fmt"
	"strconv"
	"time"
)

// Volume is a member's volume claim.
type Volume int

// The states of a volume claim.
const (
	// VolumeNone: there is no claim.
	VolumeNone Volume = iota
	// VolumeThere: there is one, bound or waiting to be.
	VolumeThere
	// VolumeGoing: somebody deletes it. A server's stays until it is released.
	VolumeGoing
	// VolumeLost: the volume behind the claim is lost.
	VolumeLost
)

// Claim is a volume claim that a server had before the one that it has now.
type Claim struct {
	// Generation counts a member's claims from 1: the one that takes the place of a lost one has the next.
	Generation int32
	Name       string
	State      Volume
	Bound      bool
	// ServerID is the id under which the server last enlisted with the volume, as it was noted; empty: it never did, or
	// the note is lost.
	ServerID string
	// Release is the coordinator's answer about the volume, if WantsReleaseOf asks for one.
	Release Release
}

// Released is a claim that the coordinator has released.
type Released struct {
	ID         ID
	Generation int32
}

// Release is the coordinator's word on a server's volume.
type Release struct {
	// ServerID is the id that was asked about; empty: nobody was asked.
	ServerID   string
	Releasable bool
	Reason     string // why not
}

// AskReleaseAgain is when the coordinator is asked again about a volume that it did not release.
const AskReleaseAgain = 10 * time.Second

// Enlisted is the id under which a server last enlisted with the volume of its claim: the one that is noted on the claim, or
// the one that the coordinator lists. Ids rise, so one that is not later than those of the server's former claims is theirs.
// And of a claim without any id before it, only a server that is up tells: a crashed one may have had another volume.
func Enlisted(noted string, retired []Claim, listed string, up bool) string {
	last := number(noted)
	for _, c := range retired {
		last = max(last, number(c.ServerID))
	}
	if id := number(listed); id > last && (up || last > 0) {
		return listed
	}
	return noted
}

// number is an id as a number; 0: there is none.
func number(id string) uint64 {
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// WantsRelease says by which id the coordinator is to be asked whether the volume that a pod has may be given up; empty:
// nobody is asked. "Not up" is not "not needed": other servers' replicas are on it. And the id has to be the one that wrote
// them: after a restart that was not noted yet, nothing is known of the former one any more.
func WantsRelease(o Observed, m Member) string {
	unused := m.Pod.Exists && m.Pod.Mounted && !m.Pod.Ready && !m.Up
	lost := m.Volume == VolumeGoing || m.Volume == VolumeLost
	if m.ID.Kind != Server || !o.Connected || o.Paused || !lost || !unused || m.KnownAs != "" && m.KnownAs != m.ServerID {
		return ""
	}
	return m.ServerID
}

// WantsReleaseOf says by which id the coordinator is to be asked about a server's former claim; empty: it is not asked. No
// pod has such a claim: its server got the next one only when none had.
func WantsReleaseOf(o Observed, c Claim) string {
	if !o.Connected || o.Paused {
		return ""
	}
	return c.ServerID
}

// decideCreate: the member has no pod.
func decideCreate(o Observed, m Member, d *Decision) {
	if m.ID.Kind == Coordinator && o.EtcdMembers > 0 && !o.Formed {
		return // it would only fail until the etcd is there
	}
	if o.needsVolume(m.ID) && m.Volume != VolumeThere {
		switch {
		case m.Volume != VolumeNone && m.ID.Kind != Server:
			if m.Volume == VolumeLost { // a claim of the same name can be made once it is deleted
				decideLost(o, m, d)
			}
			return
		case (m.Made || m.Volume != VolumeNone) && !mayReplaceVolume(o, m, d):
			return
		case m.Made && m.ID.Kind == Etcd: // its pod is made once the claim is there
			d.Rejoin = append(d.Rejoin, m.ID)
			return
		}
		if m.Volume != VolumeNone {
			d.Retire = append(d.Retire, m.ID)
		}
		d.Volumes = append(d.Volumes, m.ID)
	}
	d.Create = append(d.Create, m.ID)
}

// decidePodWithoutVolume: the pod does not work, and its claim is missing, going or lost. A claim that is going
// keeps a new pod from starting, and a pod that has it keeps the claim from going.
func decidePodWithoutVolume(o Observed, m Member, d *Decision) {
	switch {
	case m.ID.Kind == Server && m.Volume != VolumeNone:
		if mayGiveUp(o, m, d) {
			d.GiveUp = append(d.GiveUp, m.ID)
		}
	case m.Volume != VolumeNone || m.Made && m.ID.Kind == Etcd: // which rejoins without a pod
		decideLost(o, m, d)
	case !m.Made || mayReplaceVolume(o, m, d):
		d.Volumes = append(d.Volumes, m.ID)
	}
}

// decideLost: a claim of the metadata is there or going, the volume behind it is not to be had.
func decideLost(o Observed, m Member, d *Decision) {
	if !m.Made || mayReplaceVolume(o, m, d) {
		d.DropVolumes = append(d.DropVolumes, m.ID)
	}
}

// mayGiveUp says whether a server's pod is of no use: its volume is lost. One that has the volume mounted may come back with
// what is on it, as long as the coordinator has not released that.
func mayGiveUp(o Observed, m Member, d *Decision) bool {
	if !m.Pod.Mounted {
		return mayReplaceVolume(o, m, d)
	}
	why := ""
	switch {
	case m.Up && o.Connected:
		why = "the coordinator lists the server as up"
	case o.Connected && m.ServerID != "" && m.KnownAs != "" && m.KnownAs != m.ServerID:
		why = "the coordinator lists the server under the id " + m.KnownAs + ", which was not noted yet"
	default:
		why = notReleased(o, Claim{State: m.Volume, Bound: true, ServerID: m.ServerID, Release: m.Release}, d)
	}
	if why != "" {
		d.kept(m.Volume, fmt.Sprintf("%s; its pod has it and may come back with it (delete the pod to go on without it): %s", lossOf(m), why))
	}
	return why == ""
}

// decideRetired lets those former claims go that are released, or tells why they are kept.
func decideRetired(o Observed, m Member, d *Decision) {
	for _, c := range m.Retired {
		why := notReleased(o, c, d)
		if why == "" {
			d.Release = append(d.Release, Released{m.ID, c.Generation})
			continue
		}
		d.kept(c.State, fmt.Sprintf("volume claim %s, which %s had before, is kept: %s", c.Name, m.ID, why))
	}
}

// notReleased says why the claim of a server may not be deleted; empty: it may.
func notReleased(o Observed, c Claim, d *Decision) string {
	switch {
	case !o.Connected:
		return "the coordinator, which says whether its replicas are needed, does not answer"
	case c.ServerID == "" && !c.Bound:
		return "" // there never was a volume
	case c.ServerID == "":
		return "it is not known under which id a server used it, so nobody can be asked; when nothing on it is needed, take its finalizers off"
	case c.Release.ServerID != c.ServerID:
		return "the coordinator was not asked yet"
	case !c.Release.Releasable:
		d.again(AskReleaseAgain)
		return fmt.Sprintf("the coordinator does not release it (server id %s): %s", c.ServerID, c.Release.Reason)
	}
	return ""
}

// kept tells of a claim that is not deleted.
func (d *Decision) kept(state Volume, text string) {
	if state == VolumeGoing {
		d.VolumesTerminating = append(d.VolumesTerminating, text)
	} else {
		d.VolumesLost = append(d.VolumesLost, text)
	}
}

// lossOf says what became of a server's volume.
func lossOf(m Member) string {
	if m.Volume == VolumeGoing {
		return fmt.Sprintf("the volume claim of %s was deleted", m.ID)
	}
	return fmt.Sprintf("the volume of %s is lost", m.ID)
}

// mayReplaceVolume says whether an empty volume may take the place of the lost one of a member that was made.
func mayReplaceVolume(o Observed, m Member, d *Decision) bool {
	switch {
	case m.ID.Kind == Etcd && o.EtcdMembers > 1 && mayNotRejoin(o, m.ID) == "":
		return true
	case m.ID.Kind == Etcd && o.EtcdMembers > 1:
		d.MetadataLost = append(d.MetadataLost, fmt.Sprintf("%s (it is replaced once the others are well: %s)", m.ID, mayNotRejoin(o, m.ID)))
		return false
	case m.ID.Kind != Server:
		d.MetadataLost = append(d.MetadataLost, m.ID.String())
		return false
	case !o.Connected:
		d.kept(m.Volume, lossOf(m)+"; it gets another once the coordinator answers and does not list the server as up")
		return false
	case m.Up:
		d.kept(m.Volume, lossOf(m)+"; it gets another once the coordinator, which lists the server as up, no longer does")
		return false
	}
	return true
}

// mayNotRejoin says why a member of etcd that lost its volume cannot be replaced now: the others have to be a
// majority with all that was ever committed, and able to decide.
func mayNotRejoin(o Observed, lost ID) (why string) {
	have := map[ID]Member{}
	for _, m := range o.Members {
		have[m.ID] = m
	}
	for i := range o.EtcdMembers {
		id := ID{Etcd, i}
		if m := have[id]; id != lost && (m.Volume != VolumeThere || !m.Pod.Serves()) {
			why = join(why, id.String()+" is not ready")
		}
	}
	if !o.Formed {
		why = join(why, "the etcd was never complete")
	}
	return why
}
