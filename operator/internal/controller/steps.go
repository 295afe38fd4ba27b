package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ramcloud.dev/operator/internal/brief"
)

// outcome is how a step of a reconcile ended.
type outcome string

const (
	// complete: nothing is left to do.
	complete outcome = "Complete"
	// wait: it waits for something that will cause an event.
	wait outcome = "Wait"
	// retry: something was read too early or asked too often. That is not a failure; it is tried again soon.
	retry outcome = "Retry"
	// fail: an error that a retry probably does not repair. It is shown in the condition Degraded.
	fail outcome = "Fail"
)

// step is how one step ended, and why.
type step struct {
	name    string
	outcome outcome
	message string
	err     error
}

// steps are the steps of one reconcile. A failure of one member does not stop the others, so the result of each step is
// kept.
type steps []step

// noteOutcome notes the outcome of a step by its error. True: the step was completed.
func (s *steps) noteOutcome(name string, err error) bool {
	how := outcomeOf(err)
	noted := step{name: name, outcome: how, err: err}
	if err != nil {
		noted.message = err.Error()
	}
	*s = append(*s, noted)
	return how == complete
}

// wait notes what a step waits for.
func (s *steps) wait(name, message string) {
	*s = append(*s, step{name: name, outcome: wait, message: message})
}

// outcomeOf distinguishes failures that a retry repairs from others.
func outcomeOf(err error) outcome {
	switch {
	case err == nil:
		return complete
	case outdated(err), errors.Is(err, context.Canceled), apierrors.IsNotFound(err), apierrors.IsTooManyRequests(err), apierrors.IsServerTimeout(err), apierrors.IsTimeout(err):
		return retry
	}
	return fail
}

// outdated says whether a write failed because the object has changed since it was read. (A conflict about the
// ownership of a field is different: a retry does not help.)
func outdated(err error) bool {
	return apierrors.IsConflict(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict)
}

// of are texts about the steps with this outcome.
func (s *steps) of(how outcome) (out []string) {
	for _, one := range *s {
		if one.outcome == how {
			out = append(out, one.name+": "+one.message)
		}
	}
	return out
}

// err joins the failed steps into one error; nil if none failed.
func (s *steps) err() error {
	if failed := s.of(fail); len(failed) > 0 {
		return errors.New(brief.List(failed, "; "))
	}
	return nil
}

// summary is one line about all steps.
func (s *steps) summary() string {
	var counts []string
	for _, how := range []outcome{complete, wait, retry, fail} {
		if how == complete {
			n := 0
			for _, one := range *s {
				if one.outcome == how {
					n++
				}
			}
			counts = append(counts, fmt.Sprintf("%d %s", n, how))
			continue
		}
		if list := s.of(how); len(list) > 0 {
			counts = append(counts, fmt.Sprintf("%d %s (%s)", len(list), how, brief.List(list, "; ")))
		}
	}
	return strings.Join(counts, ", ")
}
