package status

import (
	"cmp"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ramcloud.dev/client/adminpb"
	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/brief"
	"ramcloud.dev/operator/internal/coordinator"
)

// maxListed is how many partitions and segments the record of a recovery lists.
const maxListed = 32

// RecoveryInput is what the record of a recovery is computed from.
type RecoveryInput struct {
	// Recovery as the coordinator tells of it; nil: it does not any more.
	Recovery *adminpb.Recovery
	Picture  *coordinator.Picture
	// Before is what was recorded before.
	Before ramcloudv1.RAMCloudRecoveryStatus
}

// phases of a coordinator that does not name states.
var phases = map[string]string{
	"QUERYING": ramcloudv1.RecoveryPlanning, "WAITING": ramcloudv1.RecoveryWaiting, "BLOCKED": ramcloudv1.RecoveryBlocked,
	"REPLAYING": ramcloudv1.RecoveryReplaying, "HANDING_OVER": ramcloudv1.RecoveryReplaying,
}

// Recovery computes the status of a record. What the coordinator no longer tells stays as it was told.
func Recovery(in RecoveryInput) ramcloudv1.RAMCloudRecoveryStatus {
	r := in.Recovery
	if r == nil {
		return unlisted(in)
	}
	out := ramcloudv1.RAMCloudRecoveryStatus{
		ID: coordinator.RecoveryID(r), ServerID: text(r.ServerId), ServerName: r.Name,
		State: cmp.Or(r.State, phases[r.Phase], r.Phase), Outcome: r.Outcome,
		Reason: brief.Clip(r.Reason, brief.Message), Attempt: int64(r.Attempt), CrashedAtMs: int64(r.CrashedAtMs),
		TimelineMs: timeline(r.TimelineMs), Entries: int64(r.Entries),
		Bytes: int64(r.BytesTotal), BytesReplayed: int64(r.BytesDone),
		PartitionsTotal: int32(r.Parts), PartitionsDone: int32(r.PartsDone),
		Memory: ramcloudv1.RecoveryMemory{NeededBytes: int64(r.GetMemory().GetNeededBytes()), FreeBytes: int64(r.GetMemory().GetFreeBytes())},
	}
	if out.State != ramcloudv1.RecoveryDone {
		out.WaitsFor = brief.Clip(in.Picture.WaitsFor(r), brief.Message)
	}
	for _, part := range r.Partitions[:min(len(r.Partitions), maxListed)] {
		out.Partitions = append(out.Partitions, ramcloudv1.RecoveryPartition{ID: text(part.GetId()), RecoveryMaster: text(part.GetRecoveryMaster()),
			State: part.GetState(), Bytes: int64(part.GetBytes())})
	}
	for _, m := range r.Missing[:min(len(r.Missing), maxListed)] {
		segment := ramcloudv1.BlockedSegment{Segment: "unknown"}
		if m.SegmentId != 0 {
			segment.Segment = text(m.SegmentId)
		}
		for _, id := range m.Holders[:min(len(m.Holders), maxListed)] {
			segment.LastHolders = append(segment.LastHolders, in.Picture.ServerName(id))
		}
		out.BlockedSegments = append(out.BlockedSegments, segment)
	}
	summarize(&out, in.Before, int64(r.BegunAtMs))
	return out
}

// unlisted: a coordinator that keeps no history lists a recovery while the server has tablets. It is done when none is left
// that is not served: a leader that has just begun to lead may not list it yet.
func unlisted(in RecoveryInput) ramcloudv1.RAMCloudRecoveryStatus {
	out := *in.Before.DeepCopy()
	if out.State == ramcloudv1.RecoveryDone || in.Picture.Unserved(out.ServerID) > 0 {
		return out
	}
	out.State, out.WaitsFor, out.BlockedSegments = ramcloudv1.RecoveryDone, "", nil
	out.BytesReplayed, out.PartitionsDone = out.Bytes, out.PartitionsTotal
	return out
}

// summarize computes what is for people. A time that was told once stays: a new leader of a coordinator without a timeline
// tells when it began to lead.
func summarize(out *ramcloudv1.RAMCloudRecoveryStatus, before ramcloudv1.RAMCloudRecoveryStatus, begunMs int64) {
	out.Summary.CrashedAt = before.Summary.CrashedAt
	if out.CrashedAtMs > 0 {
		begunMs = out.CrashedAtMs
	}
	if out.Summary.CrashedAt.IsZero() && begunMs > 0 {
		out.Summary.CrashedAt = metav1.NewTime(time.UnixMilli(begunMs).Truncate(time.Second))
	}
	if t := out.TimelineMs; t.Verdict != nil && t.Served != nil {
		out.Summary.Served = (time.Duration(*t.Served-*t.Verdict) * time.Millisecond).String()
	}
	if out.Bytes > 0 {
		out.Summary.Size = memory(uint64(out.Bytes))
	}
}

func timeline(in *adminpb.RecoveryTimeline) (out ramcloudv1.RecoveryTimeline) {
	if in == nil { // of a former coordinator
		return out
	}
	at := func(ms *uint64) *int64 {
		if ms == nil {
			return nil
		}
		signed := int64(*ms)
		return &signed
	}
	return ramcloudv1.RecoveryTimeline{Verdict: at(in.Verdict), Queried: at(in.Queried), Planned: at(in.Planned), FirstKey: at(in.FirstKey),
		Half: at(in.Half), Served: at(in.Served), Replicated: at(in.Replicated)}
}

func text(id uint64) string { return strconv.FormatUint(id, 10) }
