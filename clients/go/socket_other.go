//go:build !linux

package client

import "syscall"

// setOptions does nothing: only Linux has an option for when to give up a peer that does not acknowledge.
func setOptions(_, _ string, _ syscall.RawConn) error { return nil }
