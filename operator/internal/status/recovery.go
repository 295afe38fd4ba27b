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

// RecoveryInput is the input for the record of a recovery.
type RecoveryInput struct {
	// Recovery as the coordinator reports it; nil: it does not list it any more.
	Recovery *adminpb.Recovery
	Picture  *coordinator.Picture
	// Before is the previous status of the record.
	Before ramcloudv1.RAMCloudRecoveryStatus
}

// phases of a coordinator of an earlier version, which does not name states.
var phases = map[string]string{
	"QUERYING": ramcloudv1.RecoveryPlanning, "WAITING": ramcloudv1.RecoveryWaiting, "BLOCKED": ramcloudv1.RecoveryBlocked,
	"REPLAYING": ramcloudv1.RecoveryReplaying, "HANDING_OVER": ramcloudv1.RecoveryReplaying,
}

// Recovery computes the status of a record. Values that the coordinator no longer reports are kept.
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

// unlisted is the status of a recovery that the coordinator does not list. A coordinator without history
// lists a recovery only while the server has tablets. It is done if all its tablets are served; a new leader
// may not list it yet.
func unlisted(in RecoveryInput) ramcloudv1.RAMCloudRecoveryStatus {
	out := *in.Before.DeepCopy()
	if out.State == ramcloudv1.RecoveryDone || in.Picture.Unserved(out.ServerID) > 0 {
		return out
	}
	out.State, out.WaitsFor, out.BlockedSegments = ramcloudv1.RecoveryDone, "", nil
	out.BytesReplayed, out.PartitionsDone = out.Bytes, out.PartitionsTotal
	return out
}

// summarize computes the fields for people. A time that was reported once is kept, because a new leader
// without a timeline reports when it began to lead.
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
	if in == nil { // from a coordinator of an earlier version
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
