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
	// wait: for something that an event will tell.
	wait outcome = "Wait"
	// retry: something was read too early or asked too often; it is no fault, and looked at again soon.
	retry outcome = "Retry"
	// fail: it does not get better by itself, as far as the operator knows. It reaches the condition Degraded.
	fail outcome = "Fail"
)

// step is how one step ended, and why.
type step struct {
	name    string
	outcome outcome
	message string
	err     error
}

// steps are those of one reconcile. One member's trouble does not keep the others from going on, so each is noted.
type steps []step

// attempt notes how a step ended, by its error, and says whether it was completed.
func (s *steps) attempt(name string, err error) bool {
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

// outcomeOf tells failures that a retry repairs from those that it does not.
func outcomeOf(err error) outcome {
	switch {
	case err == nil:
		return complete
	case outdated(err), errors.Is(err, context.Canceled), apierrors.IsNotFound(err), apierrors.IsTooManyRequests(err), apierrors.IsServerTimeout(err), apierrors.IsTimeout(err):
		return retry
	}
	return fail
}

// outdated says whether something was not written because it has changed since it was read. (A conflict about
// who owns a field is another thing, which does not go away by looking again.)
func outdated(err error) bool {
	return apierrors.IsConflict(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict)
}

// of are the steps that ended in this way, in words.
func (s *steps) of(how outcome) (out []string) {
	for _, one := range *s {
		if one.outcome == how {
			out = append(out, one.name+": "+one.message)
		}
	}
	return out
}

// err is what failed, as one error; nil when nothing did.
func (s *steps) err() error {
	if failed := s.of(fail); len(failed) > 0 {
		return errors.New(brief.List(failed, "; "))
	}
	return nil
}

// summary is one line about all of them.
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
