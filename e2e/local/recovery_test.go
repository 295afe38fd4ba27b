package local

import (
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"
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

// killAndRead kills servers at the same moment under load, waits until others serve their data, and reads
// everything.
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

// A server dies under load: its data is served again without help, and nothing is lost.
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

// All servers die and start again: everything is served without help, even if one of them has lost its folder
// meanwhile.
func TestAColdStartServesEverything(t *testing.T) {
	t.Parallel()
	for _, lost := range []int{0, 1} {
		t.Run(fmt.Sprintf("%d folders lost", lost), func(t *testing.T) {
			t.Parallel()
			c := startCluster(t, 4, "--replicas", "3")
			of := c.client()
			l := startLoad(t, of, c.table(of, "load", 4))
			l.more(4000)
			before := c.serverViews()
			for _, d := range c.servers() {
				if err := syscall.Kill(d.PID, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
			l.finish()
			for _, d := range c.servers() {
				c.eventually("the end of "+d.Name, func() bool { return !alive(d.PID) })
			}
			for _, d := range c.servers()[:lost] {
				if !c.owners("load")[before[d.Name].ID] {
					t.Fatalf("%s had nothing to lose", d.Name)
				}
				if err := os.Rename(d.Dir, d.Dir+"-away"); err != nil {
					t.Fatal(err)
				}
			}
			started := time.Now()
			for _, d := range c.servers() {
				c.restart(d)
			}
			// The coordinator has not detected the former servers' deaths yet.
			c.eventually("four new servers", func() bool {
				now := c.serverViews()
				return !slices.ContainsFunc(c.servers(), func(d *daemon) bool {
					return now[d.Name].State != "UP" || now[d.Name].ID <= uint64(len(before))
				})
			})
			c.eventually("tablets that are all available", func() bool {
				s := c.status()
				return s.ServersUp == 4 && s.TabletsUnavailable == 0
			})
			t.Logf("%.2f s from the start until every tablet had an owner", time.Since(started).Seconds())
			l.verify()
		})
	}
}
