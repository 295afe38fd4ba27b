package status

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/brief"
)

// Revision describes the template of a component's members.
type Revision struct {
	Component, Current string
	// Pending is this operator's template of the same spec, and Differs lists the differences.
	Pending string
	Differs []string
	// Refused says why the request is not carried out, Waits what must be done first.
	Refused, Waits string
}

// revisions are the entries in the status. While nothing is decided, because the cluster is paused, they do
// not change.
func revisions(in Input) (out []ramcloudv1.RevisionStatus) {
	if len(in.Revisions) == 0 {
		return in.Cluster.Status.Revisions
	}
	for _, r := range in.Revisions {
		out = append(out, ramcloudv1.RevisionStatus{Component: r.Component, Current: r.Current, Pending: r.Pending})
	}
	return out
}

// upToDate compares running pods, and the template of new ones, with this operator's template of the spec. No
// reason: unchanged.
func upToDate(in Input) (metav1.ConditionStatus, string, string) {
	var refused, pending []string
	for _, r := range in.Revisions {
		if r.Refused != "" {
			refused = append(refused, r.Component+": "+r.Refused)
		}
		if r.Pending != "" {
			pending = append(pending, r.waits())
		}
	}
	if n := len(in.Pending); n > 0 {
		pending = append(pending, fmt.Sprintf("%d pods have earlier templates", n))
	}
	const how = "; kubectl ramcloud diff shows the differences, and a new text in spec.update.restartRequest asks for a rolling restart"
	switch {
	case len(in.Revisions) == 0:
		return "", "", ""
	case len(refused) > 0:
		return metav1.ConditionFalse, ramcloudv1.ReasonRollRefused, "the restart or change that was asked for is not done: " + brief.List(refused, "; ")
	case in.Decision.Rolling != "":
		return metav1.ConditionFalse, ramcloudv1.ReasonRolling, in.Decision.Rolling
	case len(pending) > 0:
		return metav1.ConditionFalse, ramcloudv1.ReasonRollPending, brief.List(pending, "; ") + how
	}
	return metav1.ConditionTrue, ramcloudv1.ReasonUpToDate, "every pod has the template that this operator computes from spec"
}

// waits says how a component's pods would change.
func (r Revision) waits() string {
	text := fmt.Sprintf("new pods of %s would have another template: %s", r.Component, strings.Join(r.Differs, ", "))
	if r.Waits != "" {
		text += " (" + r.Waits + ")"
	}
	return text
}
