package coordinator

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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
		"the call is not known":                {Unsupported{}, "does not know the call GetVolumeRelease"},
		"a yes with an error":                  {answers{release: yes, err: errors.New("broken")}, "broken"},
		"a coordinator that is not the leader": {answers{err: status.Error(codes.FailedPrecondition, "not the leader")}, "not the leader"},
	} {
		got := AskRelease(context.Background(), test.from, "7", now)
		if got.Releasable != (test.want == "") || !strings.Contains(got.Reason, test.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
