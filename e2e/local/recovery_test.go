package local

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"ramcloud.dev/client"
)

// servers that hold tablets of a table, by id.
func (c *cluster) owners(table string) map[uint64]bool {
	c.t.Helper()
	var tablets []struct {
		Table    string
		ServerID uint64 `json:"server_id"`
	}
	c.ask(&tablets, "tablets")
	owners := map[uint64]bool{}
	for _, tablet := range tablets {
		if tablet.Table == table {
			owners[tablet.ServerID] = true
		}
	}
	return owners
}

// byID finds the daemon that has this server id now.
func (c *cluster) byID(id uint64) *daemon {
	c.t.Helper()
	for name, view := range c.serverViews() {
		for _, d := range c.servers() {
			if view.ID == id && d.Name == name {
				return d
			}
		}
	}
	c.t.Fatalf("no server has id %d", id)
	return nil
}

// anOwner is one of the servers that hold tablets of the table.
func (c *cluster) anOwner(table string) *daemon {
	c.t.Helper()
	for id := range c.owners(table) {
		return c.byID(id)
	}
	c.t.Fatalf("nobody has table %s", table)
	return nil
}

// killAndRead kills servers at the same moment under load, waits until others serve what they had, and reads everything.
func (c *cluster) killAndRead(l *load, victims ...*daemon) {
	c.t.Helper()
	killed := time.Now()
	for _, victim := range victims {
		if err := syscall.Kill(victim.PID, syscall.SIGKILL); err != nil {
			c.t.Fatalf("kill -9 of %s: %v", victim.Name, err)
		}
	}
	c.eventually("tablets that are all available", func() bool {
		s := c.status()
		return s.ServersCrashed == len(victims) && s.TabletsUnavailable == 0
	})
	c.t.Logf("%.2f s from the kill until every tablet had an owner", time.Since(killed).Seconds())
	l.more(3000)
	l.finish()
	l.verify()
}

// A server dies under load: what it had is served again without anybody's help, and nothing is lost.
func TestADeadServersDataIsServedAgain(t *testing.T) {
	t.Parallel()
	for _, shape := range []struct {
		servers, replicas int
		flags             []string
	}{
		{5, 3, nil},
		{4, 2, []string{"--durability", "synced"}},
	} {
		t.Run(fmt.Sprintf("%d servers, R=%d %v", shape.servers, shape.replicas, shape.flags), func(t *testing.T) {
			c := startCluster(t, shape.servers, append([]string{"--replicas", fmt.Sprint(shape.replicas)}, shape.flags...)...)
			of := c.client()
			l := startLoad(t, of, c.table(of, "load", uint32(shape.servers)))
			l.more(3000)
			c.killAndRead(l, c.anOwner("load"))
		})
	}
}

// Two servers die within 10 ms.
func TestTwoDeadServersDataIsServedAgain(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 6, "--replicas", "3")
	of := c.client()
	l := startLoad(t, of, c.table(of, "load", 6))
	l.more(3000)
	victims := []*daemon{}
	for id := range c.owners("load") {
		if len(victims) < 2 {
			victims = append(victims, c.byID(id))
		}
	}
	c.killAndRead(l, victims...)
}

// Every server dies, again and again, each time a recovery master of the one before among them.
func TestServersDieInTurn(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 4, "--replicas", "3")
	of := c.client()
	l := startLoad(t, of, c.table(of, "load", 4))
	for round := range 6 {
		l.more(1000)
		victim := c.servers()[round%4]
		c.kill(victim)
		c.eventually("tablets that are all available", func() bool { return c.status().TabletsUnavailable == 0 })
		c.restart(victim)
		c.wholeAgain(4)
	}
	l.finish()
	l.verify()
}

// All servers die and start again: nobody has to do anything.
func TestAColdStartServesEverything(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 4, "--replicas", "3")
	of := c.client()
	l := startLoad(t, of, c.table(of, "load", 4))
	l.more(4000)
	for _, d := range c.servers() {
		if err := syscall.Kill(d.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	l.finish()
	for _, d := range c.servers() {
		c.eventually("the end of "+d.Name, func() bool { return !alive(d.PID) })
	}
	started := time.Now()
	for _, d := range c.servers() {
		c.restart(d)
	}
	c.eventually("tablets that are all available", func() bool {
		s := c.status()
		return s.ServersUp == 4 && s.TabletsUnavailable == 0
	})
	t.Logf("%.2f s from the start until every tablet had an owner", time.Since(started).Seconds())
	l.verify()
}

// A master is suspended while others take its tablets over; when it goes on it answers nothing that is stale.
func TestASuspendedMasterAnswersNothingStale(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 4, "--replicas", "3")
	of := c.client()
	table := c.table(of, "counter", 1)
	ctx, cancel := context.WithTimeout(context.Background(), 2*limit)
	defer cancel()
	// A call to the suspended server ends soon, and is made again.
	soon := func() (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, 2*time.Second) }
	// One writer counts up; readers must never see less than what was acknowledged before they asked.
	var acknowledged sync.Map
	acknowledged.Store("n", uint64(0))
	stop := make(chan struct{})
	var workers sync.WaitGroup
	key := []byte("n")
	workers.Add(1)
	go func() {
		defer workers.Done()
		for n := uint64(1); ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			for {
				short, end := soon()
				_, err := of.Write(short, table.ID, key, fmt.Appendf(nil, "%d", n))
				end()
				if err == nil {
					break
				}
				if ctx.Err() != nil {
					t.Errorf("write: %v", err)
					return
				}
			}
			acknowledged.Store("n", n)
		}
	}()
	reads := make([]int, 8)
	for i := range reads {
		reader := c.client()
		workers.Add(1)
		go func() {
			defer workers.Done()
			for {
				select {
				case <-stop:
					return
				default:
				}
				before, _ := acknowledged.Load("n")
				short, end := soon()
				value, _, err := reader.Read(short, table.ID, key)
				end()
				if err != nil {
					if errors.Is(err, client.NotFound) && before.(uint64) == 0 {
						continue
					}
					if ctx.Err() == nil {
						continue // it ends when the limit is reached
					}
					t.Errorf("read: %v", err)
					return
				}
				var seen uint64
				if _, err := fmt.Sscan(string(value), &seen); err != nil || seen < before.(uint64) {
					t.Errorf("read %q, and %d was acknowledged before", value, before)
					return
				}
				reads[i]++
			}
		}()
	}
	c.eventually("the first writes", func() bool { n, _ := acknowledged.Load("n"); return n.(uint64) > 100 })
	master := c.anOwner("counter")
	if err := syscall.Kill(master.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	c.eventually("another owner", func() bool {
		s := c.status()
		return s.ServersCrashed >= 1 && s.TabletsUnavailable == 0
	})
	at, _ := acknowledged.Load("n")
	c.eventually("writes at the new owner", func() bool { n, _ := acknowledged.Load("n"); return n.(uint64) > at.(uint64)+100 })
	if err := syscall.Kill(master.PID, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	at, _ = acknowledged.Load("n")
	c.eventually("further writes", func() bool { n, _ := acknowledged.Load("n"); return n.(uint64) > at.(uint64)+500 })
	c.eventually("the suspended server as a new one", func() bool { return c.status().ServersUp == 4 })
	close(stop)
	workers.Wait()
	for i, n := range reads {
		if n < 50 {
			t.Errorf("reader %d read only %d times", i, n)
		}
	}
}
