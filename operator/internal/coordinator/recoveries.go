package coordinator

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"ramcloud.dev/client/adminpb"
	"ramcloud.dev/operator/internal/brief"
)

// Settled is how long the servers must not have changed before a cluster counts as whole. Masters' statistics about
// replicas are as old as the coordinator's last probe: right after a crash they may not show missing replicas yet.
const Settled = 10 * time.Second

// Momentary is how long segments may lack replicas without a loss: a new segment lacks them until its replicas are
// open. It is shorter than Settled, so a loss of replicas is always noticed in time.
const Momentary = Settled / 2

// NotWhole says why no server may be stopped now: data that is not served or has too few replicas. Empty: the cluster
// is whole. again is when that may change without an event; 0: never.
func (p *Picture) NotWhole(now time.Time) (why string, again time.Duration) {
	if why := p.notServed(); why != "" {
		return why, 0
	}
	if why := p.notReplicated(); why != "" {
		return why, 0
	}
	return p.notSettled(now)
}

// NotSafe is NotWhole without momentary effects of load: a decision that allows evictions must not change whenever a
// segment is opened.
func (p *Picture) NotSafe(now time.Time) (why string, again time.Duration) {
	if why := p.notServed(); why != "" {
		return why, 0
	}
	if why := p.notReplicated(); why != "" {
		since := p.UnderReplicatedSince
		left := since.Add(Momentary).Sub(now)
		if since.IsZero() || left <= 0 || !p.onlyOpening() {
			return why, 0
		}
		again = left
	}
	why, settles := p.notSettled(now)
	if settles > 0 {
		again = settles
	}
	return why, again
}

func (p *Picture) notServed() string {
	status := p.Status
	switch all, served := p.TabletCounts(); {
	case !p.Connected || status == nil:
		return "the coordinator does not answer"
	case len(p.running()) > 0:
		return "recoveries are not done: " + p.Recoveries()
	case served < all || status.TabletsUnavailable > 0:
		return fmt.Sprintf("%d tablets are not served", max(all-served, int(status.TabletsUnavailable)))
	case status.GetDetection().GetState() == "SUSPECT":
		return "failure detection is SUSPECT: the coordinator cannot tell which servers crashed"
	}
	return ""
}

func (p *Picture) notReplicated() string {
	for _, id := range slices.Sorted(maps.Keys(p.Servers)) {
		if s := p.Servers[id]; s.State == adminpb.ServerState_SERVER_UP && s.Stats == nil {
			return fmt.Sprintf("%s has not said yet which replicas it has", s.Name)
		}
	}
	switch r := p.Status.Replication; {
	case r == nil:
		return "no server has said yet which replicas it has"
	case r.SegmentsUnderReplicated+r.SegmentsDegraded > 0:
		return fmt.Sprintf("%d of %d segments lack replicas", max(r.SegmentsUnderReplicated, r.SegmentsDegraded), r.Segments)
	case r.MastersWaiting > 0:
		return fmt.Sprintf("writes of %d servers wait for replicas", r.MastersWaiting)
	}
	return ""
}

// onlyOpening: segments lack replicas, but nothing else shows a loss of replicas.
func (p *Picture) onlyOpening() bool {
	for _, s := range p.Servers {
		if s.State == adminpb.ServerState_SERVER_UP && s.Stats == nil {
			return false
		}
	}
	r := p.Status.Replication
	return r != nil && r.SegmentsDegraded == 0 && r.MastersWaiting == 0
}

func (p *Picture) notSettled(now time.Time) (why string, again time.Duration) {
	if left := p.ChangedAt.Add(Settled).Sub(now); left > 0 {
		return fmt.Sprintf("the servers or tablets changed less than %s ago", Settled), left
	}
	return "", 0
}

// running are the recoveries that are not done.
func (p *Picture) running() (out []*adminpb.Recovery) {
	for _, r := range p.Status.GetRecoveries() {
		if r.State != "DONE" {
			out = append(out, r)
		}
	}
	return out
}

// Recoveries describes the running recoveries: phase, progress, and what they wait for. Empty: there are none.
func (p *Picture) Recoveries() string {
	var all []string
	for _, r := range p.running() {
		all = append(all, p.recovery(r))
	}
	return brief.List(all, "; ")
}

// Blocked says whether a recovery waits for something that no server can be expected to have.
func (p *Picture) Blocked() bool {
	return slices.ContainsFunc(p.running(), func(r *adminpb.Recovery) bool { return r.Phase == "BLOCKED" })
}

func (p *Picture) recovery(r *adminpb.Recovery) string {
	text := fmt.Sprintf("%s is %s", p.label(r.ServerId, r.Name), r.Phase)
	if r.Parts > 0 {
		text += fmt.Sprintf(" (%d of %d parts done, %s of %s read)", r.PartsDone, r.Parts, mebibytes(r.BytesDone), mebibytes(r.BytesTotal))
	}
	if waits := p.WaitsFor(r); waits != "" {
		text += ": " + waits
	}
	return text
}

// WaitsFor says what a recovery waits for, and names each segment once: the coordinator's text already names the first
// few of the missing ones. Empty: it does not wait.
func (p *Picture) WaitsFor(r *adminpb.Recovery) string {
	missing := p.missing(r)
	switch {
	case len(missing) == 0:
		return r.WaitsFor
	case r.WaitsFor == "" || slices.ContainsFunc(r.Missing, func(m *adminpb.MissingSegment) bool { return named(r.WaitsFor, m) }):
		return "needed: " + brief.List(missing, "; ")
	}
	return r.WaitsFor + "; needed: " + brief.List(missing, "; ")
}

// missing are the segments that a recovery needs, each once, with all its holders.
func (p *Picture) missing(r *adminpb.Recovery) (out []string) {
	var texts []string
	holders := map[string][]string{}
	first := map[uint64]string{} // the first text about a segment
	for _, m := range r.Missing {
		text := segmentText(m.SegmentId)
		if m.Why != "" {
			text += " (" + m.Why + ")"
		}
		if earlier, seen := first[m.SegmentId]; seen && m.SegmentId != 0 {
			text = earlier
		}
		first[m.SegmentId] = text
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
		for _, id := range m.Holders {
			if label := p.label(id, ""); !slices.Contains(holders[text], label) {
				holders[text] = append(holders[text], label)
			}
		}
	}
	for _, text := range texts {
		if held := holders[text]; len(held) > 0 {
			text += ", held by " + brief.List(held, ", ")
		}
		out = append(out, text)
	}
	return out
}

// named says whether a text names the segment; for an unknown segment, whether the text says why it is needed.
func named(text string, m *adminpb.MissingSegment) bool {
	if m.SegmentId == 0 {
		return m.Why != "" && strings.Contains(text, m.Why)
	}
	for _, after := range strings.Split(text, segmentText(m.SegmentId))[1:] {
		if after == "" || after[0] < '0' || after[0] > '9' {
			return true
		}
	}
	return false
}

// segmentText names a segment; 0: it is not known which.
func segmentText(id uint64) string {
	if id == 0 {
		return "a segment of the log"
	}
	return fmt.Sprintf("segment %d", id)
}

// WaitsForMemory says whether a recovery waits because the servers that are up have too little memory for the data.
func (p *Picture) WaitsForMemory() bool {
	return slices.ContainsFunc(p.running(), func(r *adminpb.Recovery) bool {
		return r.Phase == "WAITING" && len(r.Missing) == 0 && r.GetMemory().GetNeededBytes() > r.GetMemory().GetFreeBytes()
	})
}

// AllRecoveries are all recoveries that the coordinator lists: ended and running ones.
func (p *Picture) AllRecoveries() []*adminpb.Recovery {
	return slices.Concat(p.Status.GetRecoveriesEnded(), p.Status.GetRecoveries())
}

// RecoveryID is the coordinator's id of a recovery. A server id crashes only once, so the server's id identifies its
// recovery.
func RecoveryID(r *adminpb.Recovery) string { return strconv.FormatUint(r.ServerId, 10) }

// Unserved counts the tablets of the server with this id that are not served.
func (p *Picture) Unserved(serverID string) (n int) {
	for _, table := range p.Tables {
		for _, tablet := range table.Tablets {
			if tablet.State == adminpb.TabletState_TABLET_UNAVAILABLE && strconv.FormatUint(tablet.ServerId, 10) == serverID {
				n++
			}
		}
	}
	return n
}

// ServerName is the name of the server with this id, or the id where it is not known.
func (p *Picture) ServerName(id uint64) string {
	if s := p.Servers[id]; s != nil && s.Name != "" {
		return s.Name
	}
	return strconv.FormatUint(id, 10)
}

// label names a server as people know it.
func (p *Picture) label(id uint64, name string) string {
	if s := p.Servers[id]; name == "" && s != nil {
		name = s.Name
	}
	if name == "" {
		return fmt.Sprintf("server %d", id)
	}
	return fmt.Sprintf("server %d (%s)", id, name)
}

func mebibytes(bytes uint64) string { return fmt.Sprintf("%d MiB", (bytes+(1<<20)-1)>>20) }
