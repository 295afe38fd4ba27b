package status

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
)

func TestUpToDate(t *testing.T) {
	both := []Revision{{Component: "coordinator", Current: "c-1"}, {Component: "server", Current: "s-1"}}
	with := func(change func(*Revision)) []Revision {
		out := append([]Revision(nil), both...)
		change(&out[1])
		return out
	}
	waits := func(r *Revision) { r.Pending, r.Differs = "s-2", []string{"image: a, wanted b"} }
	for name, test := range map[string]struct {
		change       func(*Input)
		want, needle string // + for True and the reason; a part of the message
	}{
		"nothing waits":    {func(in *Input) { in.Revisions = both }, "+UpToDate", "every pod"},
		"a later operator": {func(in *Input) { in.Revisions = with(waits) }, "-RollPending", "new pods of server would have another template: image: a, wanted b; kubectl ramcloud diff"},
		"it waits for coordinators": {func(in *Input) {
			in.Revisions = with(func(r *Revision) { waits(r); r.Waits = "coordinator 0 first" })
		}, "-RollPending", "(coordinator 0 first)"},
		"a changed spec": {func(in *Input) {
			in.Revisions, in.Pending = both, []ramcloudv1.PendingRestart{{Pod: "demo-coordinator-0"}}
		}, "-RollPending", "1 pods have earlier templates"},
		"only servers": {func(in *Input) {
			in.Revisions, in.Pending = both, []ramcloudv1.PendingRestart{{Pod: "demo-server-0"}}
			in.Servers[0].Status.PendingRestart = true
		}, "-RollPending", "1 pods have earlier templates"},
		"a roll": {func(in *Input) {
			in.Revisions, in.Decision.Rolling = with(waits), "restart 'a': 1 to do"
		}, "-Rolling", "restart 'a'"},
		"refused": {func(in *Input) {
			in.Revisions, in.Decision.Rolling = with(func(r *Revision) { waits(r); r.Refused = "two versions at once" }), "restart 'a'"
		}, "-RollRefused", "server: two versions at once"},
	} {
		in := input()
		test.change(&in)
		out := Cluster(in)
		c := meta.FindStatusCondition(out.Conditions, ramcloudv1.ConditionUpToDate)
		if c == nil || sign(string(c.Status))+c.Reason != test.want || !strings.Contains(c.Message, test.needle) {
			t.Errorf("%s: %+v", name, c)
		}
		if len(out.Revisions) != 2 || out.Revisions[0].Current != "c-1" || out.Revisions[1].Pending != in.Revisions[1].Pending {
			t.Errorf("%s: %+v", name, out.Revisions)
		}
	}
}

func sign(status string) string {
	if status == "True" {
		return "+"
	}
	return "-"
}

// While the cluster is paused nothing is decided, and what was reported stays.
func TestUpToDateStaysWhileNothingIsDecided(t *testing.T) {
	in := input()
	in.Revisions = []Revision{{Component: "server", Current: "s-1", Pending: "s-2"}}
	in.Cluster.Status = Cluster(in)
	before := meta.FindStatusCondition(in.Cluster.Status.Conditions, ramcloudv1.ConditionUpToDate)
	in.Revisions, in.Cluster.Spec.Paused = nil, true
	out := Cluster(in)
	if c := meta.FindStatusCondition(out.Conditions, ramcloudv1.ConditionUpToDate); c == nil || *c != *before {
		t.Errorf("%+v, was %+v", c, before)
	}
	if len(out.Revisions) != 1 || out.Revisions[0].Pending != "s-2" {
		t.Errorf("%+v", out.Revisions)
	}
}
