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
// seconds: without this, the kernel would wait a quarter of an hour for an unreachable peer (its node
// failed, or its address no longer exists). If the option is refused, connecting still works.
func setOptions(_, _ string, connection syscall.RawConn) error {
	return connection.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(userTimeout.Milliseconds()))
	})
}
