package client

import (
	"syscall"
	"time"
)

const (
	tcpUserTimeout = 18 // TCP_USER_TIMEOUT, which package syscall does not name on every architecture
	userTimeout    = 20 * time.Second
)

// setOptions makes the kernel give up, as in the C++ client, when sent bytes are not acknowledged for twenty
// seconds: a peer that vanished without a word (its node died, its address went) would be believed for a
// quarter of an hour otherwise. Where the option is refused that still holds, and connecting works all the same.
func setOptions(_, _ string, connection syscall.RawConn) error {
	return connection.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(userTimeout.Milliseconds()))
	})
}
