//go:build !linux

package client

import "syscall"

// setOptions has nothing to set: only Linux can be told when to give up a peer that does not acknowledge.
func setOptions(_, _ string, _ syscall.RawConn) error { return nil }
