package coordinator

import (
	"fmt"
	"time"

	"ramcloud.dev/client/adminpb"
	"ramcloud.dev/operator/internal/brief"
)

// Settled is how long the servers must have been as they are before a cluster counts as whole. What masters say of their
// replicas is as old as the coordinator's last probe: after a server's end they may not have said yet what they lack.
const Settled = 10 * time.Second

// NotWhole says why no server may be taken away now: what is not served, or has too few replicas. Empty: the cluster is
// whole. again is when that may change although nothing is heard; 0: never.
func (p *Picture) NotWhole(now time.Time) (why string, again time.Duration) {
	status := p.Status
	switch all, served := p.TabletCounts(); {
	case !p.Connected || status == nil:
		return "the coordinator does not answer", 0
	case len(status.Recoveries) > 0:
		return "recoveries are not done: " + p.Recoveries(), 0
	case served < all || status.TabletsUnavailable > 0:
		return fmt.Sprintf("%d tablets are not served", max(all-served, int(status.TabletsUnavailable))), 0
	case status.GetDetection().GetState() == "SUSPECT":
		return "the coordinator hears too few servers to tell who is dead", 0
	}
	for _, s := range p.Servers {
		if s.State == adminpb.ServerState_SERVER_UP && s.Stats == nil {
			return fmt.Sprintf("%s has not said yet which replicas it has", s.Name), 0
		}
	}
	switch r := status.Replication; {
	case r == nil:
		return "no server has said yet which replicas it has", 0
	case r.SegmentsUnderReplicated+r.SegmentsDegraded > 0:
		return fmt.Sprintf("%d of %d segments lack replicas", max(r.SegmentsUnderReplicated, r.SegmentsDegraded), r.Segments), 0
	case r.MastersWaiting > 0:
		return fmt.Sprintf("writes of %d servers wait for replicas", r.MastersWaiting), 0
	}
	if left := p.ChangedAt.Add(Settled).Sub(now); left > 0 {
		return fmt.Sprintf("the servers have been as they are for less than %s", Settled), left
	}
	return "", 0
}

// Recoveries tells of those that are not done: their phase, how far they are and what they wait for. Empty: there are none.
func (p *Picture) Recoveries() string {
	var all []string
	for _, r := range p.Status.GetRecoveries() {
		all = append(all, p.recovery(r))
	}
	return brief.List(all, "; ")
}

// Blocked says whether a recovery waits for what nobody can be expected to bring.
func (p *Picture) Blocked() bool {
	for _, r := range p.Status.GetRecoveries() {
		if r.Phase == "BLOCKED" {
			return true
		}
	}
	return false
}

func (p *Picture) recovery(r *adminpb.Recovery) string {
	text := fmt.Sprintf("%s is %s", p.label(r.ServerId, r.Name), r.Phase)
	if r.Parts > 0 {
		text += fmt.Sprintf(" (%d of %d parts done, %s of %s read)", r.PartsDone, r.Parts, mebibytes(r.BytesDone), mebibytes(r.BytesTotal))
	}
	if r.WaitsFor != "" {
		text += ": " + r.WaitsFor
	}
	var missing []string
	for _, m := range r.Missing {
		what := fmt.Sprintf("segment %d", m.SegmentId)
		if m.SegmentId == 0 {
			what = "a segment of the log"
		}
		if m.Why != "" {
			what += " (" + m.Why + ")"
		}
		var holders []string
		for _, id := range m.Holders {
			holders = append(holders, p.label(id, ""))
		}
		if len(holders) > 0 {
			what += ", held by " + brief.List(holders, ", ")
		}
		missing = append(missing, what)
	}
	if len(missing) > 0 {
		text += "; needed: " + brief.List(missing, "; ")
	}
	return text
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
