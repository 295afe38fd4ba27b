// Package freeport finds TCP ports on loopback for programs that tests start.
//
// A test that listens on port 0, closes the listener and hands the number to another program races with
// every outgoing connection of the machine: the kernel takes their ports from the same range. These come
// from below that range (net.ipv4.ip_local_port_range begins at 32768), and are drawn at random, so that
// tests running side by side seldom meet.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
)

const (
	lowest   = 20000
	highest  = 31000
	attempts = 200
)

// Base returns a port b such that b and b+o, for each of these offsets, can be listened on now.
func Base(offsets ...int) (int, error) {
	for range attempts {
		base := lowest + rand.IntN(highest-lowest)
		if free(base, offsets) {
			return base, nil
		}
	}
	return 0, fmt.Errorf("no port between %d and %d has free ports at the distances %v: %d were tried", lowest, highest, offsets, attempts)
}

// One returns one free port.
func One() (int, error) { return Base() }

func free(base int, offsets []int) bool {
	for _, offset := range append([]int{0}, offsets...) {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", base+offset))
		if err != nil {
			return false
		}
		_ = listener.Close()
	}
	return true
}
