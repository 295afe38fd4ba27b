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
	// VolumePresent: there is a claim, bound or pending.
	VolumePresent
	// VolumeDeleting: somebody has deleted it. A server's claim stays until it is released.
	VolumeDeleting
	// VolumeLost: the volume behind the claim is lost.
	VolumeLost
)

// Claim is an earlier volume claim of a server.
type Claim struct {
	// Generation counts a member's claims from 1: a claim that replaces a lost one has the next number.
	Generation int32
	Name       string
	State      Volume
	Bound      bool
	// ServerID is the noted id under which the server last enlisted with the volume; empty: it never did, or the
	// note is lost.
	ServerID string
	// Release is the coordinator's answer about the volume, if WantsReleaseOf required one.
	Release Release
}

// Released is a claim that the coordinator has released.
type Released struct {
	ID         ID
	Generation int32
}

// Release is the coordinator's answer about a server's volume.
type Release struct {
	// ServerID is the id that was asked about; empty: it was not asked.
	ServerID   string
	Releasable bool
	Reason     string // why not
}

// AskReleaseAgain is when the coordinator is asked again after a refusal.
const AskReleaseAgain = 10 * time.Second

// Enlisted is the id under which a server last enlisted with the volume of its claim: the id noted on the
// claim, or the one in the coordinator's list. Ids rise, so an id that is not above those of the server's
// earlier claims belongs to them. If no earlier claim has an id, the listed id counts only if the server is
// up: a crashed one may have had another volume.
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

// WantsRelease is the id with which the coordinator must be asked whether the volume of a pod may be given
// up; empty: it is not asked. "Not up" does not mean "not needed", because other servers' replicas are on the
// volume. The id must be the one that wrote them: after a restart that is not noted yet, the earlier id is
// not known.
func WantsRelease(o Observed, m Member) string {
	unused := m.Pod.Exists && m.Pod.Mounted && !m.Pod.Ready && !m.Up
	lost := m.Volume == VolumeDeleting || m.Volume == VolumeLost
	if m.ID.Kind != Server || !o.Connected || o.Paused || !lost || !unused || m.KnownAs != "" && m.KnownAs != m.ServerID {
		return ""
	}
	return m.ServerID
}

// WantsReleaseOf is the id with which the coordinator must be asked about an earlier claim of a server;
// empty: it is not asked. No pod uses such a claim: its server got the next claim only when none did.
func WantsReleaseOf(o Observed, c Claim) string {
	if !o.Connected || o.Paused {
		return ""
	}
	return c.ServerID
}

// decideCreate: the member has no pod.
func decideCreate(o Observed, m Member, d *Decision) {
	if m.ID.Kind == Coordinator && o.EtcdMembers > 0 && !o.Formed {
		return // it would only fail until the etcd is up
	}
	if o.needsVolume(m.ID) && m.Volume != VolumePresent {
		switch {
		case m.Volume != VolumeNone && m.ID.Kind != Server:
			if m.Volume == VolumeLost { // a claim of the same name can be created once it is deleted
				decideLost(o, m, d)
			}
			return
		case (m.HadData || m.Volume != VolumeNone) && !mayReplaceVolume(o, m, d):
			return
		case m.HadData && m.ID.Kind == Etcd: // its pod is created once the claim exists
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

// decidePodWithoutVolume: the pod does not work, and its claim is missing, being deleted or lost. A new pod
// cannot start with a claim that is being deleted, and such a claim stays as long as a pod uses it.
func decidePodWithoutVolume(o Observed, m Member, d *Decision) {
	switch {
	case m.ID.Kind == Server && m.Volume != VolumeNone:
		if mayGiveUp(o, m, d) {
			d.GiveUp = append(d.GiveUp, m.ID)
		}
	case m.Volume != VolumeNone || m.HadData && m.ID.Kind == Etcd: // which rejoins without a pod
		decideLost(o, m, d)
	case !m.HadData || mayReplaceVolume(o, m, d):
		d.Volumes = append(d.Volumes, m.ID)
	}
}

// decideLost: a claim of metadata exists or is being deleted, but its volume is lost.
func decideLost(o Observed, m Member, d *Decision) {
	if !m.HadData || mayReplaceVolume(o, m, d) {
		d.DropVolumes = append(d.DropVolumes, m.ID)
	}
}

// mayGiveUp says whether a server's pod is useless because its volume is lost. A pod that has the volume
// mounted may still return with its data, as long as the coordinator has not released the volume.
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
		d.kept(m.Volume, fmt.Sprintf("%s; its pod still has it and may continue with it (delete the pod to continue without it): %s", lossOf(m), why))
	}
	return why == ""
}

// decideRetired deletes the earlier claims that are released, and tells why others are kept.
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
		return "it is not known under which id a server used it, so the coordinator cannot be asked; if nothing on it is needed, remove its finalizers"
	case c.Release.ServerID != c.ServerID:
		return "the coordinator was not asked yet"
	case !c.Release.Releasable:
		d.again(AskReleaseAgain)
		return fmt.Sprintf("the coordinator does not release it (server id %s): %s", c.ServerID, c.Release.Reason)
	}
	return ""
}

// kept records the text about a claim that is not deleted.
func (d *Decision) kept(state Volume, text string) {
	if state == VolumeDeleting {
		d.VolumesTerminating = append(d.VolumesTerminating, text)
	} else {
		d.VolumesLost = append(d.VolumesLost, text)
	}
}

// lossOf says what happened to a server's volume.
func lossOf(m Member) string {
	if m.Volume == VolumeDeleting {
		return fmt.Sprintf("the volume claim of %s was deleted", m.ID)
	}
	return fmt.Sprintf("the volume of %s is lost", m.ID)
}

// mayReplaceVolume says whether an empty volume may replace the lost one of a member that had data.
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

// mayNotRejoin says why a member of etcd that lost its volume cannot be replaced now: the others must be a
// working majority with everything that was ever committed.
func mayNotRejoin(o Observed, lost ID) (why string) {
	have := map[ID]Member{}
	for _, m := range o.Members {
		have[m.ID] = m
	}
	for i := range o.EtcdMembers {
		id := ID{Etcd, i}
		if m := have[id]; id != lost && (m.Volume != VolumePresent || !m.Pod.Serves()) {
			why = join(why, id.String()+" is not ready")
		}
	}
	if !o.Formed {
		why = join(why, "the etcd was never complete")
	}
	return why
}
