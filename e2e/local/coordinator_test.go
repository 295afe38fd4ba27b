package local

import (
	"testing"
	"time"
)

// Data operations do not need the coordinator, and the next coordinator has all its metadata.
func TestKilledCoordinatorLosesNothing(t *testing.T) {
	c := startCluster(t, 4, "--replicas", "2")
	before := c.serverViews()
	of := c.client()
	l := startLoad(t, of, c.table(of, "load", 4))
	l.more(1500)
	c.kill(c.coordinator())
	l.more(1500) // all of them while there is no coordinator
	c.restart(c.coordinator())
	c.table(c.client(), "made by the successor", 4)
	l.more(1500)
	l.finish()
	l.verify()
	c.eventually("HEALTHY", func() bool { return c.status().Health == "HEALTHY" })
	after := c.serverViews()
	for name, view := range before {
		if after[name].ID != view.ID || after[name].State != "UP" {
			t.Errorf("%s was server %d, and is server %d, %s", name, view.ID, after[name].ID, after[name].State)
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d servers, want %d", len(after), len(before))
	}
	if _, err := of.GetTable(t.Context(), "load"); err != nil {
		t.Errorf("the table is unknown after the restart: %v", err)
	}
}

// So has the one after that, while clients go on.
func TestCoordinatorIsReplacedTwiceWithinOneLoad(t *testing.T) {
	c := startCluster(t, 3, "--replicas", "1")
	of := c.client()
	l := startLoad(t, of, c.table(of, "load", 3))
	for range 2 {
		l.more(500)
		c.kill(c.coordinator())
		c.restart(c.coordinator())
		c.table(of, "t"+time.Now().Format("150405.000000"), 1)
	}
	l.more(500)
	l.finish()
	l.verify()
}
