package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// Waits between attempts; doubled each time, and each shortened by chance (jittered).
const (
	firstWait = 2 * time.Millisecond
	lastWait  = 250 * time.Millisecond
)

// How long the first attempt waits of a call that may be sent again.
const firstPatience = time.Second

// patience is how long an attempt waits, counted from 0, of a call that may be sent again: a lost message
// costs this, not the whole deadline. It rises, so that an overloaded server is not asked ever more.
func patience(number int) time.Duration { return firstPatience << min(number, 3) }

// jittered is between half of a wait and the whole: many clients that met the same failure do not come back together.
func jittered(wait time.Duration) time.Duration { return wait/2 + rand.N(wait/2+1) }

// notThere: a server of another cluster that has taken the address of one of ours says no more than that ours is not
// there. Whether the cluster is another one is for its coordinators to say.
func notThere(err error) error {
	var e *Error
	if !errors.As(err, &e) || e.Code != WrongCluster {
		return err
	}
	return &Error{Code: Unavailable, Message: e.Message, notSent: true}
}

// mayHaveHappened says whether a request that failed so may have been executed.
func mayHaveHappened(err error) bool {
	var e *Error
	if !errors.As(err, &e) || e.notSent {
		return false
	}
	switch e.Code {
	case ConnectionLost, DeadlineExceeded, Cancelled, ProtocolError, Indeterminate:
		return true
	}
	return false
}

// retry decides, after an attempt, whether to try again, or what to return.
func retry(err error, repeatable bool) (again bool, result error) {
	if err == nil {
		return false, nil
	}
	var e *Error
	if !errors.As(err, &e) {
		return false, err
	}
	switch e.Code {
	case UnknownTablet, WrongServer, Retry, NotLeader, Unavailable, StaleTerm, Crashed:
		return true, err // certainly not executed
	case ConnectionLost, DeadlineExceeded:
		if e.notSent || repeatable {
			return true, err // it is the attempt's deadline, or pause sees that it is the call's
		}
		return false, &Error{Code: Indeterminate, Message: "the reply was lost: " + e.Message}
	case ProtocolError:
		if e.notSent || repeatable {
			return false, err
		}
		return false, &Error{Code: Indeterminate, Message: "the reply does not decode: " + e.Message}
	case Cancelled:
		if e.notSent || repeatable {
			return false, err
		}
		return false, &Error{Code: Indeterminate, Message: e.Message}
	}
	return false, err
}

// wantsNewMap says whether a new tablet map may cure a failure. The first lost connection is just made again:
// most often the server is still there. One that was silent may have lost its tablets meanwhile.
func wantsNewMap(err error, number int) bool {
	switch CodeOf(err) {
	case OK, Retry:
		return false
	case ConnectionLost:
		return number > 0
	}
	return true
}

// pause waits before the next attempt, as long as the server asked at least; false: there is no time for one.
func pause(ctx context.Context, wait time.Duration, last error) bool {
	wait = jittered(wait)
	var e *Error
	if errors.As(last, &e) {
		wait = max(wait, min(e.retryAfter(), time.Second))
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
		return false // what was said last says more than another attempt that is cut short
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// outOfTime is what the caller gets whose context ended before an answer came.
func outOfTime(ctx context.Context, last error, where string) error {
	code := Unavailable
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		code = Cancelled
	case CodeOf(last) == Retry:
		code = DeadlineExceeded // somebody is there, and not ready
	}
	return failure(code, "%s: no answer in time; the last attempt said: %v", where, last)
}

func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, DefaultTimeout)
}
