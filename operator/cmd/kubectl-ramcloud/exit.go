package main

import (
	"errors"
	"fmt"
)

// exitCodes is the help text for codeOf.
const exitCodes = `Exit codes: 0 done, 1 failed, 2 a command, flag or argument is not accepted, 3 --wait timed out. "cli" ends with the
exit code of the command that it ran. "diff" ends with 1 if a rolling restart would change
something, and with 2 on an error.`

const (
	exitFailed   = 1
	exitUsage    = 2
	exitTimedOut = 3
)

// exitCode is the exit code of a command that printed its result itself: one that ran in the cluster, or
// diff.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("the command ended with exit code %d", int(e)) }

// usageError is an error about a flag or an argument that is not accepted.
type usageError struct{ error }

func notAccepted(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// timedOut is an error about a wait that timed out.
type timedOut struct{ error }

// codeOf is the program's exit code. began: the command line was accepted, and the command began.
func codeOf(err error, began bool) int {
	var ran exitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &ran):
		return int(ran)
	case !began || errors.As(err, new(usageError)):
		return exitUsage
	case errors.As(err, new(timedOut)):
		return exitTimedOut
	}
	return exitFailed
}
