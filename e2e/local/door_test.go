package local

import (
	"net"
	"sync"
	"testing"
)

// door accepts connections for a test, until it is closed: then all of them end.
type door struct {
	listener net.Listener
	mutex    sync.Mutex
	closed   bool
	open     []net.Conn
}

// openDoor listens; the door is closed when the test ends.
func openDoor(t *testing.T, address string, serve func(d *door, in net.Conn)) *door {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	d := &door{listener: listener}
	t.Cleanup(d.close)
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			d.keep(in)
			go serve(d, in)
		}
	}()
	return d
}

// keep closes a connection when the door is closed.
func (d *door) keep(c net.Conn) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.closed {
		_ = c.Close()
	}
	d.open = append(d.open, c)
}

func (d *door) close() {
	_ = d.listener.Close()
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.closed = true
	for _, c := range d.open {
		_ = c.Close()
	}
}
