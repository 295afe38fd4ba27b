package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// Waits between attempts; doubled each time, with random jitter.
const (
	firstWait = 2 * time.Millisecond
	lastWait  = 250 * time.Millisecond
)

// The timeout of the first attempt of a call that may be repeated.
const firstPatience = time.Second

// patience is the timeout of an attempt (counted from 0) of a call that may be repeated: a lost message costs
// this, not the whole deadline. It rises, so that an overloaded server does not get more and more requests.
func patience(number int) time.Duration { return firstPatience << min(number, 3) }

// jittered is a random time between half of a wait and all of it, so that clients that saw the same failure
// do not all retry at the same time.
func jittered(wait time.Duration) time.Duration { return wait/2 + rand.N(wait/2+1) }

// notThere: WrongCluster from a server only means that its address was reused by another cluster; only
// coordinators decide whether the cluster is wrong.
func notThere(err error) error {
	var e *Error
	if !errors.As(err, &e) || e.Code != WrongCluster {
		return err
	}
	return &Error{Code: Unavailable, Message: e.Message, notSent: true}
}

// mayHaveHappened says whether a request with this error may have been executed.
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

// retry decides after an attempt whether to try again or what to return.
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
			return true, err // only the attempt's deadline passed; pause notices if it was the call's
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

// Of so many refusals in a row, the last one asks for a new tablet map.
const refusalsBeforeNewMap = 16

// wantsNewMap says whether a new tablet map may help. After the first lost connection the client only
// reconnects, because the server is usually still there. A silent server may have lost its tablets meanwhile.
// RETRY mostly means that the server is busy, so it asks seldom, about every two seconds of a call. But a server
// that is cut off from its backups says RETRY to every change, and its tablets may have another owner.
//
// number counts the attempts of the call before this one, inVain those in a row in which the server did nothing.
func wantsNewMap(err error, number, inVain int) bool {
	switch CodeOf(err) {
	case OK:
		return false
	case Retry:
		return inVain%refusalsBeforeNewMap == refusalsBeforeNewMap-1
	case ConnectionLost:
		return number > 0
	}
	return true
}

// pause waits before the next attempt, at least as long as the server requested; false: there is no time for
// another attempt.
func pause(ctx context.Context, wait time.Duration, last error) bool {
	wait = jittered(wait)
	var e *Error
	if errors.As(last, &e) {
		wait = max(wait, min(e.retryAfter(), time.Second))
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
		return false // the last error is more useful than that of an attempt that is cut short
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// outOfTime is the caller's error if its context ended before an answer came.
func outOfTime(ctx context.Context, last error, where string) error {
	code := Unavailable
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		code = Cancelled
	case CodeOf(last) == Retry:
		code = DeadlineExceeded // a server is there, but not ready
	}
	return failure(code, "%s: no answer in time; the last attempt said: %v", where, last)
}

func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, DefaultTimeout)
}
