package coordinator

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ramcloud.dev/client/adminpb"
)

type answers struct {
	release Release
	err     error
}

func (a answers) VolumeRelease(context.Context, string) (Release, error) { return a.release, a.err }

// The release-token rule: only a clear yes is one.
func TestOnlyAYesIsAYes(t *testing.T) {
	now := time.Unix(1000, 0)
	yes := Release{Releasable: true, Token: "t", Expires: now.Add(time.Second)}
	with := func(change func(*Release)) answers {
		r := yes
		change(&r)
		return answers{release: r}
	}
	for name, test := range map[string]struct {
		from Releaser
		want string // part of the reason; empty: released
	}{
		"yes":                                  {answers{release: yes}, ""},
		"no":                                   {with(func(r *Release) { r.Releasable, r.Reason = false, "replicas" }), "replicas"},
		"no, without a reason":                 {with(func(r *Release) { r.Releasable = false }), "no reason"},
		"without a token":                      {with(func(r *Release) { r.Token = "" }), "no token"},
		"expired":                              {with(func(r *Release) { r.Expires = now }), "expired"},
		"an empty answer":                      {answers{}, "no reason"},
		"the call is not known":                {answers{err: status.Error(codes.Unimplemented, "unknown method")}, "does not know the call GetVolumeRelease"},
		"a yes with an error":                  {answers{release: yes, err: errors.New("broken")}, "broken"},
		"a coordinator that is not the leader": {answers{err: status.Error(codes.FailedPrecondition, "not the leader")}, "not the leader"},
	} {
		got := AskRelease(context.Background(), test.from, "7", now)
		if got.Releasable != (test.want == "") || !strings.Contains(got.Reason, test.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

type releasing struct {
	adminpb.UnimplementedAdminServer
	asked  uint64
	leads  bool
	expire time.Time
}

func (r *releasing) GetVolumeRelease(_ context.Context, request *adminpb.GetVolumeReleaseRequest) (*adminpb.GetVolumeReleaseResponse, error) {
	r.asked = request.GetServerId()
	if !r.leads {
		return nil, status.Error(codes.FailedPrecondition, "not the leader")
	}
	return &adminpb.GetVolumeReleaseResponse{Releasable: true, Reason: "nobody needs it", Token: "t", ExpiresAtMs: uint64(r.expire.UnixMilli())}, nil
}

// Of several coordinators the one that leads is believed; without one, and of what is no id, the answer is no.
func TestTheLeaderIsAskedByID(t *testing.T) {
	serve := func(from *releasing) string {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		server := grpc.NewServer()
		adminpb.RegisterAdminServer(server, from)
		go func() { _ = server.Serve(listener) }()
		t.Cleanup(server.Stop)
		return listener.Addr().String()
	}
	now := time.Now()
	standby, leader := &releasing{}, &releasing{leads: true, expire: now.Add(time.Minute)}
	standbyAddress, leaderAddress := serve(standby), serve(leader)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if got := AskRelease(ctx, Admin(standbyAddress+","+leaderAddress), "7", now); !got.Releasable || got.Token != "t" || leader.asked != 7 {
		t.Errorf("%+v, asked for %d", got, leader.asked)
	}
	if got := AskRelease(ctx, Admin(standbyAddress), "7", now); got.Releasable || !strings.Contains(got.Reason, "not the leader") {
		t.Errorf("%+v", got)
	}
	if got := AskRelease(ctx, Admin(leaderAddress), "demo-server-7", now); got.Releasable || !strings.Contains(got.Reason, "not a number") {
		t.Errorf("%+v", got)
	}
}
