package local

import (
	"slices"
	"strings"
	"testing"

	"ramcloud.dev/client"
)

// splitByTable gives the server that has the only tablet of the table, and the others: the others can be
// killed without killing the table's master.
func (c *cluster) splitByTable(of *client.Client, table *client.Table) (owner *daemon, others []*daemon) {
	c.t.Helper()
	var id uint64
	for _, tablet := range table.Tablets {
		id = tablet.ServerID
	}
	views := c.serverViews()
	for _, server := range c.servers() {
		if views[server.Name].ID == id {
			owner = server
		} else {
			others = append(others, server)
		}
	}
	if owner == nil {
		c.t.Fatalf("nobody has the table: %+v", table)
	}
	return owner, others
}

func (c *cluster) whole() bool {
	s := c.status()
	return s.Replication.AllSegmentsReplicated && s.Replication.SegmentsDegraded == 0 && s.Replication.MastersWaiting == 0
}

// Two of four servers are killed one after the other, with time to re-replicate in between: writes go on, and
// the remaining folders hold every acknowledged write.
func TestLostBackupsAreReplacedUnderLoad(t *testing.T) {
	c := startCluster(t, 4, "--replicas", "2")
	of := c.client()
	table := c.table(of, "load", 1)
	_, others := c.splitByTable(of, table)
	l := startLoad(t, of, table)
	l.more(2000)
	c.kill(others[0])
	c.eventually("the verdict on the first", func() bool { return c.status().ServersCrashed == 1 })
	l.more(500)
	c.eventually("all segments whole again", c.whole)
	c.kill(others[1])
	c.eventually("the verdict on the second", func() bool { return c.status().ServersCrashed == 2 })
	l.more(500)
	l.finish()
	l.verify()
	c.killAll()
	rest := slices.DeleteFunc(slices.Clone(c.servers()), func(d *daemon) bool { return d == others[0] || d == others[1] })
	checkRebuilt(t, l, rebuild(t, rest))
	// The dead servers' folders, which lack the end of the log, may be given as well.
	checkRebuilt(t, l, rebuild(t, c.servers()))
}

// With R = 2 and one other server left writes go on with one replica each, and say so; when the third comes
// back every segment gets its second. Then its former replicas are not needed any more.
func TestWritesGoOnDegradedUntilABackupReturns(t *testing.T) {
	c := startCluster(t, 3, "--replicas", "2")
	of := c.client()
	table := c.table(of, "load", 1)
	owner, others := c.splitByTable(of, table)
	l := startLoad(t, of, table)
	l.more(2000)
	c.kill(others[0])
	c.eventually("segments with fewer replicas", func() bool {
		s := c.status()
		return s.Replication.SegmentsDegraded > 0 && strings.Contains(strings.Join(s.Reasons, "\n"), "and writes go on")
	})
	l.more(500)
	c.restart(others[0])
	c.eventually("all segments whole again", func() bool { return c.status().ServersUp == 3 && c.whole() })
	c.eventually("the frames of its earlier incarnation to be free", func() bool { return c.serverViews()[others[0].Name].Quarantined == 0 })
	l.more(200)
	l.finish()
	l.verify()
	c.killAll()
	for _, lost := range append(others, owner) {
		rest := slices.DeleteFunc(slices.Clone(c.servers()), func(d *daemon) bool { return d == lost })
		checkRebuilt(t, l, rebuild(t, rest))
	}
}

// Below the minimum nothing is acknowledged, and the status says why.
func TestWritesWaitBelowTheMinimum(t *testing.T) {
	t.Setenv("RAMCLOUD_MIN_REPLICAS", "2")
	c := startCluster(t, 3, "--replicas", "2")
	of := c.client()
	table := c.table(of, "load", 1)
	_, others := c.splitByTable(of, table)
	l := startLoad(t, of, table)
	l.more(2000)
	c.kill(others[0])
	c.eventually("masters that wait", func() bool {
		s := c.status()
		return s.Replication.MastersWaiting == 2 && strings.Contains(strings.Join(s.Reasons, "\n"), "writes wait")
	})
	c.restart(others[0])
	c.eventually("all segments whole again", func() bool { return c.status().ServersUp == 3 && c.whole() })
	l.more(200)
	l.finish()
	l.verify()
	c.killAll()
	checkRebuilt(t, l, rebuild(t, c.servers()))
}
