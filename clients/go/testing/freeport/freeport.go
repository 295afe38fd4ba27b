// Package freeport finds TCP ports on loopback for programs that tests start.
//
// A test that listens on port 0, closes the listener and hands the number to another program races with every
// outgoing connection of the machine: the kernel takes their ports from the same range. These come from below
// that range (net.ipv4.ip_local_port_range begins at 32768). They are given out in blocks, and a block
// belongs to one process during its lifetime, so that concurrent tests never get the same ports.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

const (
	lowest  = 12000
	highest = 31000
	block   = 100 // ports given out together
)

var (
	mutex sync.Mutex
	taken []*os.File // locked until the process ends
)

// Base returns a port b such that b and b+o, for each of these offsets, are free now and reserved for this
// process. Offsets are 0 to 99.
func Base(offsets ...int) (int, error) {
	for _, offset := range offsets {
		if offset < 0 || offset >= block {
			return 0, fmt.Errorf("offset %d: accepted are 0 to %d", offset, block-1)
		}
	}
	mutex.Lock()
	defer mutex.Unlock()
	for _, i := range rand.Perm((highest - lowest) / block) {
		base := lowest + i*block
		lock, err := reserve(base)
		if err != nil {
			return 0, err
		}
		if lock == nil {
			continue // in use by another process
		}
		if free(base, offsets) {
			taken = append(taken, lock)
			return base, nil
		}
		_ = lock.Close()
	}
	return 0, fmt.Errorf("no block of ports between %d and %d is free at the distances %v", lowest, highest, offsets)
}

// One returns one free port.
func One() (int, error) { return Base() }

// reserve locks the file of a block; nil if another process has it.
func reserve(base int) (*os.File, error) {
	path := filepath.Join(os.TempDir(), fmt.Sprintf("ramcloud-ports-%d.lock", base))
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o666)
	if os.IsPermission(err) {
		return nil, nil // owned by another user
	}
	if err != nil {
		return nil, fmt.Errorf("reserving ports: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, nil
	}
	return file, nil
}

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
