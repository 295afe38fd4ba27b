package client

import (
	"net"
	"syscall"
	"testing"

	"ramcloud.dev/client/internal/wire"
)

// TestAVanishedPeerIsNoticed: only the socket option is checked, because the kernel's reaction cannot be
// tested here.
func TestAVanishedPeerIsNoticed(t *testing.T) {
	f, _, _, ctx := setUp(t, 1, 1)
	s, err := open(ctx, net.DefaultResolver.LookupHost, place{f.servers[0].Addr().String(), 1}, uuid{})
	want(t, err, OK)
	t.Cleanup(func() { s.end(net.ErrClosed) })
	raw, err := s.conn.(*net.TCPConn).SyscallConn()
	want(t, err, OK)
	ms := 0
	want(t, raw.Control(func(fd uintptr) {
		ms, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout)
	}), OK)
	if err != nil || ms != 20_000 {
		t.Errorf("TCP_USER_TIMEOUT is %d ms, %v", ms, err)
	}
	_, err = s.call(ctx, wire.OpPing, nil)
	want(t, err, Unsupported) // the fake has none, but it answers
}
