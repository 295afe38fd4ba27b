package client

import (
	"errors"
	"fmt"
	"time"

	"ramcloud.dev/client/internal/wire"
)

// Code is an error code: the same values and names as on the wire and in the C++ client. A Code is itself an
// error, so errors.Is(err, client.NotFound) works on every error of this package.
type Code uint16

// The codes. OK is never returned as an error.
const (
	OK               Code = 0
	NotFound         Code = 1
	Exists           Code = 2
	WrongVersion     Code = 3
	InvalidArgument  Code = 4
	UnknownTablet    Code = 5
	OutOfMemory      Code = 6
	Retry            Code = 7
	Unavailable      Code = 8
	DeadlineExceeded Code = 9
	Indeterminate    Code = 10
	Cancelled        Code = 11
	NotLeader        Code = 12
	StaleTerm        Code = 13
	WrongCluster     Code = 14
	WrongServer      Code = 15
	Unsupported      Code = 16
	ProtocolError    Code = 17
	Corrupt          Code = 18
	NoSpace          Code = 19
	IOError          Code = 20
	ConnectionLost   Code = 21
	Internal         Code = 22
	Crashed          Code = 23
)

var codeNames = [...]string{"OK", "NOT_FOUND", "EXISTS", "WRONG_VERSION", "INVALID_ARGUMENT", "UNKNOWN_TABLET",
	"OUT_OF_MEMORY", "RETRY", "UNAVAILABLE", "DEADLINE_EXCEEDED", "INDETERMINATE", "CANCELLED", "NOT_LEADER",
	"STALE_TERM", "WRONG_CLUSTER", "WRONG_SERVER", "UNSUPPORTED", "PROTOCOL_ERROR", "CORRUPT", "NO_SPACE",
	"IO_ERROR", "CONNECTION_LOST", "INTERNAL", "CRASHED"}

// String is the upper-case name.
func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("UNKNOWN_%d", uint16(c))
}

// Error makes a Code an error, for errors.Is.
func (c Code) Error() string { return c.String() }

// Error is a Code with a message.
type Error struct {
	Code    Code
	Message string
	// retryAfterUS is the server's requested wait with Retry.
	retryAfterUS uint32
	details      wire.ErrorDetails // none from peers of version 1
	// notSent: the request never left, so it was not executed.
	notSent bool
}

func (e *Error) Error() string {
	if e.Message == "" {
		return e.Code.String()
	}
	return e.Code.String() + ": " + e.Message
}

// Term is the term in a coordinator's error; 0 if there is none.
func (e *Error) Term() uint64 { return e.details.Term }

// retryAfter is the wait that the peer requests; 0 if none.
func (e *Error) retryAfter() time.Duration {
	us := e.details.RetryAfterUS
	if us == 0 && e.Code == Retry {
		us = e.retryAfterUS
	}
	return time.Duration(us) * time.Microsecond
}

// Is matches the Code.
func (e *Error) Is(target error) bool {
	code, ok := target.(Code)
	return ok && code == e.Code
}

// CodeOf is the code of an error of this package; Internal for others.
func CodeOf(err error) Code {
	var e *Error
	var code Code
	switch {
	case err == nil:
		return OK
	case errors.As(err, &e):
		return e.Code
	case errors.As(err, &code):
		return code
	}
	return Internal
}

func failure(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}
