package freeport

import (
	"fmt"
	"net"
	"testing"
)

func TestPortsCanBeListenedOn(t *testing.T) {
	base, err := Base(1, 2, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, offset := range []int{0, 1, 2, 10} {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", base+offset))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = listener.Close() }()
	}
	if free(base, nil) || free(base+50, []int{-40}) {
		t.Errorf("port %d or %d is said to be free while it is listened on", base, base+10)
	}
	if _, err := Base(100); err == nil {
		t.Error("an offset beyond the block was accepted")
	}
}

func TestPortsAreInTheRange(t *testing.T) {
	seen := map[int]bool{}
	for range 50 {
		port, err := One()
		if err != nil {
			t.Fatal(err)
		}
		if port < lowest || port >= highest {
			t.Fatalf("port %d is not in %d…%d", port, lowest, highest-1)
		}
		if seen[port] {
			t.Fatalf("port %d was given out twice", port)
		}
		seen[port] = true
	}
}
