package coordinator

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"ramcloud.dev/client/adminpb"
)

// Release is the coordinator's answer about the volume of one server: that no replica on it is needed, or why it must
// be kept.
type Release struct {
	Releasable bool
	Reason     string
	// Token identifies this answer in the coordinator's log; Expires is when it ends.
	Token   string
	Expires time.Time
}

// Releaser asks the coordinator of one cluster whether the volume of a server may be deleted, by the id under which the
// server enlisted. For an unknown id the answer is no.
type Releaser interface {
	VolumeRelease(ctx context.Context, serverID string) (Release, error)
}

// Admin is the Releaser and Resizer of the admin API at these addresses: host:port, or several separated by commas of which one leads.
type Admin string

// VolumeRelease implements Releaser.
func (a Admin) VolumeRelease(ctx context.Context, serverID string) (Release, error) {
	id, err := strconv.ParseUint(serverID, 10, 64)
	if err != nil {
		return Release{}, fmt.Errorf("server id %q is not a number", serverID)
	}
	var release Release
	err = a.ask(ctx, func(admin adminpb.AdminClient) error {
		answer, err := admin.GetVolumeRelease(ctx, &adminpb.GetVolumeReleaseRequest{ServerId: id})
		release = Release{
			Releasable: answer.GetReleasable(), Reason: answer.GetReason(),
			Token: answer.GetToken(), Expires: time.UnixMilli(int64(answer.GetExpiresAtMs())),
		}
		return err
	})
	if err != nil {
		return Release{}, err
	}
	return release, nil
}

// ask asks the coordinators in turn until one answers: standbys are Unavailable. A coordinator of an earlier version
// may not know the call; the others are asked all the same.
func (a Admin) ask(ctx context.Context, call func(adminpb.AdminClient) error) (err error) {
	for address := range strings.SplitSeq(string(a), ",") {
		said := askAt(address, call)
		switch status.Code(said) {
		case codes.OK, codes.InvalidArgument:
			return said
		}
		if !Refuses(err) {
			err = said
		}
		if ctx.Err() != nil {
			break
		}
	}
	return err
}

func askAt(address string, call func(adminpb.AdminClient) error) error {
	connection, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	return call(adminpb.NewAdminClient(connection))
}

// at is the answer at this time: without a token, or expired, it is a no.
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

// AskRelease asks, and treats everything except a clear yes as a no.
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
