package coordinator

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ramcloud.dev/client/adminpb"
	"ramcloud.dev/operator/internal/plan"
)

// Resizer changes the size of the logs of one cluster's servers.
type Resizer interface {
	// SetMemory asks a server for another size of its log, in bytes; 0 changes nothing. The answer is the server's
	// present state.
	SetMemory(ctx context.Context, serverID uint64, bytes int64) (plan.ServerMemory, error)
}

// SetMemory implements Resizer. The leader answers.
func (a Admin) SetMemory(ctx context.Context, serverID uint64, bytes int64) (out plan.ServerMemory, err error) {
	err = a.ask(ctx, func(admin adminpb.AdminClient) error {
		answer, err := admin.SetServerMemory(ctx, &adminpb.SetServerMemoryRequest{ServerId: serverID, LogBytes: uint64(bytes)})
		out = plan.ServerMemory{Log: int64(max(answer.GetLimitBytes(), answer.GetHeldBytes())),
			Target: int64(answer.GetTargetBytes()), Most: int64(answer.GetMostBytes())}
		return err
	})
	return out, err
}

// Refuses says whether an error means that the size is not accepted, so that a retry does not help.
func Refuses(err error) bool {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.Unimplemented:
		return true
	}
	return false
}

// Passes says whether a retry may help.
func Passes(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.NotFound, codes.Canceled:
		return true
	}
	return false
}

// LogMemory is the size of a server's log in its last report; nil: it has sent none.
func LogMemory(stats *adminpb.ServerStats) *plan.ServerMemory {
	if stats == nil {
		return nil
	}
	out := &plan.ServerMemory{Log: int64(max(stats.LogBytesTotal, stats.LogBytesHeld)), Target: int64(stats.LogBytesTarget),
		Cleaning: stats.GetCleaner().GetWhy()}
	if out.Target == 0 { // a server of an earlier version, which cannot resize
		out.Target, out.Most = out.Log, out.Log
	}
	return out
}

// frameBytes is the size of a frame on a volume, which holds one replica of a segment.
const frameBytes = 8 << 20

// LargestLog is the largest log of each server for which the volumes have room for all replicas; 0: the size of the
// volumes is not known, or there are no replicas.
func (p *Picture) LargestLog() int64 {
	var frames, servers, replicas int64
	for _, s := range p.Servers {
		if s.State == adminpb.ServerState_SERVER_UP && s.GetStats().GetBackupFramesTotal() > 0 {
			frames, servers = frames+int64(s.Stats.BackupFramesTotal), servers+1
			replicas = max(replicas, int64(s.Stats.ReplicasWanted))
		}
	}
	if servers == 0 || replicas == 0 {
		return 0
	}
	return frames / (servers * replicas) * frameBytes
}
