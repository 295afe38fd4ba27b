package local

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"ramcloud.dev/client"
)

// tableOn makes tables of one tablet until one is on the wanted server.
func tableOn(c *cluster, of *client.Client, server uint64) *client.Table {
	c.t.Helper()
	for i := range 40 {
		table := c.table(of, fmt.Sprintf("on %d, try %d", server, i), 1)
		if table.Tablets[0].ServerID == server {
			return table
		}
	}
	c.t.Fatalf("none of 40 tables lies on server %d", server)
	return nil
}

func write(c *cluster, of *client.Client, table *client.Table, key, value string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if _, err := of.Write(ctx, table.ID, []byte(key), []byte(value)); err != nil {
		c.t.Fatalf("write of %q: %v", key, err)
	}
}

// Tables of other servers stay available, and the dead server's tables are served by others with all their
// data.
func TestAKilledServersTablesAreServedByOthers(t *testing.T) {
	c := startCluster(t, 4, "--replicas", "2")
	of := c.client()
	ids := c.serverViews()
	victim, other := holder(c), c.servers()[2]
	if victim == other {
		other = c.servers()[1]
	}
	dead, living := tableOn(c, of, ids[victim.Name].ID), tableOn(c, of, ids[other.Name].ID)
	for i := range 500 {
		write(c, of, dead, fmt.Sprint(i), "outlives its server")
	}
	l := startLoad(t, of, living)
	l.more(1000)
	c.kill(victim)
	l.more(1000) // segments lose replicas on the dead server and get others
	c.eventually("another owner of the dead server's table", func() bool {
		s := c.status()
		return s.ServersCrashed == 1 && s.ServersUp == 3 && s.TabletsUnavailable == 0
	})
	for i := range 500 {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		value, _, err := of.Read(ctx, dead.ID, []byte(fmt.Sprint(i)))
		cancel()
		if err != nil || string(value) != "outlives its server" {
			t.Fatalf("key %d of the dead server's table is %q, %v", i, value, err)
		}
	}
	l.more(1000)
	c.eventually("new replicas of every segment", func() bool { return c.status().Replication.AllSegmentsReplicated })
	l.finish()
	l.verify()

	c.restart(victim)
	c.eventually("the restarted server", func() bool { return c.status().ServersUp == 4 })
	if view := c.serverViews()[victim.Name]; view.ID <= ids[victim.Name].ID {
		t.Errorf("%s was server %d and came back as %d", victim.Name, ids[victim.Name].ID, view.ID)
	}
	l.verify()
}

// holder is a server whose folder holds replicas: placement is random, so a server may have none.
func holder(c *cluster) *daemon {
	c.t.Helper()
	var found *daemon
	c.eventually("a server that holds replicas", func() bool {
		views := c.serverViews()
		for _, server := range c.servers() {
			if views[server.Name].FramesUsed > 0 {
				found = server
				return true
			}
		}
		return false
	})
	return found
}

// A server that does not run for two seconds is slow, not dead.
func TestPausedServerIsNotCondemned(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 4, "--replicas", "2")
	of := c.client()
	before := c.serverViews()
	l := startLoad(t, of, c.table(of, "load", 4))
	l.more(1000)
	paused := c.servers()[0]
	if err := syscall.Kill(paused.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second) // the length of the pause is what is tested
	if err := syscall.Kill(paused.PID, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	l.more(2000)
	l.finish()
	l.verify()
	c.eventually("HEALTHY", func() bool { return c.status().Health == "HEALTHY" })
	for name, view := range c.serverViews() {
		if view.ID != before[name].ID || view.State != "UP" {
			t.Errorf("%s is server %d, %s; it was %d", name, view.ID, view.State, before[name].ID)
		}
	}
}

// A server that the cluster gave up while it was suspended answers nothing stale, and starts again by itself:
// the same process with another server id.
func TestGivenUpServerStartsAgainByItself(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 4, "--replicas", "2")
	of := c.client()
	before := c.serverViews()
	victim := c.servers()[0]
	table := tableOn(c, of, before[victim.Name].ID)
	write(c, of, table, "key", "value")
	if err := syscall.Kill(victim.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	c.eventually("the verdict", func() bool { return c.status().ServersCrashed == 1 })
	c.resume(victim)
	c.eventually("another server in the same process", func() bool {
		view := c.serverViews()[victim.Name]
		return view.ID > before[victim.Name].ID && view.State == "UP"
	})
	if err := syscall.Kill(victim.PID, 0); err != nil {
		t.Errorf("the process of %s: %v", victim.Name, err)
	}
	c.eventually("four servers", func() bool { return c.status().ServersUp == 4 })
}
