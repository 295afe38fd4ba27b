package coordinator

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Release is the coordinator's word on the volume of one server: that no replica on it is needed, or why not.
type Release struct {
	Releasable bool
	Reason     string
	// Token names this answer in the coordinator's log, and Expires is until when it counts.
	Token   string
	Expires time.Time
}

// Releaser asks the coordinator of one cluster whether the volume of a server may be deleted, by the id under which the
// server enlisted. Of an id that the coordinator does not know, the answer is no.
type Releaser interface {
	VolumeRelease(ctx context.Context, serverID string) (Release, error)
}

// Unsupported is the Releaser of an admin API that has no such call. Its volumes are kept.
type Unsupported struct{}

// VolumeRelease implements Releaser.
func (Unsupported) VolumeRelease(context.Context, string) (Release, error) {
	return Release{}, status.Error(codes.Unimplemented, "GetVolumeRelease")
}

// at is the answer as it counts at this time: one without a token, or that has expired, is a no.
func (r Release) at(now time.Time) Release {
	switch {
	case !r.Releasable && r.Reason == "":
		r.Reason = "it gives no reason"
	case r.Releasable && r.Token == "":
		return Release{Reason: "its answer has no token"}
	case r.Releasable && !now.Before(r.Expires):
		return Release{Reason: "its answer has expired"}
	}
	return r
}

// AskRelease asks, and takes everything but a clear yes for a no.
func AskRelease(ctx context.Context, from Releaser, serverID string, now time.Time) Release {
	answer, err := from.VolumeRelease(ctx, serverID)
	switch status.Code(err) {
	case codes.OK:
		return answer.at(now)
	case codes.Unimplemented:
		return Release{Reason: "it does not know the call GetVolumeRelease, so every volume is kept"}
	}
	return Release{Reason: "asking it failed: " + err.Error()}
}
