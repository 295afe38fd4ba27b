package client

import (
	"context"
	"errors"
	"time"
)

// Waits between attempts; doubled each time.
const (
	firstWait = 2 * time.Millisecond
	lastWait  = 250 * time.Millisecond
)

// How long one attempt of a call to a coordinator waits that may be sent again.
const (
	firstPatience = time.Second
	lastPatience  = 8 * time.Second
)

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
	case UnknownTablet, WrongServer, Retry, NotLeader, Unavailable:
		return true, err
	case ConnectionLost:
		if e.notSent || repeatable {
			return true, err
		}
		return false, &Error{Code: Indeterminate, Message: "the reply was lost: " + e.Message}
	case ProtocolError:
		if e.notSent || repeatable {
			return false, err
		}
		return false, &Error{Code: Indeterminate, Message: "the reply does not decode: " + e.Message}
	case DeadlineExceeded, Cancelled:
		if e.notSent || repeatable {
			return false, err
		}
		return false, &Error{Code: Indeterminate, Message: e.Message}
	}
	return false, err
}

// pause waits before the next attempt; at the deadline it returns what the last attempt met.
func pause(ctx context.Context, wait time.Duration, last error) error {
	var e *Error
	if errors.As(last, &e) && e.Code == Retry && e.retryAfterUS > 0 {
		wait = min(time.Duration(e.retryAfterUS)*time.Microsecond, time.Second)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.Canceled) {
			return failure(Cancelled, "last attempt: %v", last)
		}
		switch {
		case e == nil || e.Code == Retry || e.Code == UnknownTablet:
			return failure(DeadlineExceeded, "last attempt: %v", last)
		case e.Code == ConnectionLost || e.Code == WrongServer || e.Code == NotLeader:
			return failure(Unavailable, "last attempt: %v", last)
		}
		return last
	}
}

func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, DefaultTimeout)
}
