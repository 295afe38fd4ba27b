package local

import (
	"encoding/json"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"
)

// saturation is how often, and how long each time, a cluster gets more work than its machine can do: two minutes in all
// with RAMCLOUD_SOAK.
func saturation() (rounds int, length time.Duration) {
	if soak() {
		return 6, 20 * time.Second
	}
	return 1, 4 * time.Second
}

// Eight servers overload one machine: a slow server is not a dead one. No server is condemned, no replica is
// given up, and every server keeps its id.
func TestASaturatedClusterGivesNobodyUp(t *testing.T) {
	for _, durability := range []string{"buffered", "synced"} {
		t.Run(durability, func(t *testing.T) { saturatedClusterGivesNobodyUp(t, durability) })
	}
}

func saturatedClusterGivesNobodyUp(t *testing.T, durability string) {
	const servers = 8
	c := startCluster(t, servers, "--replicas", "3", "--log-memory", "128MiB", "--durability", durability)
	before := c.serverViews()
	rounds, length := saturation()
	for range rounds {
		c.saturate(length)
	}
	c.allAsBefore(before)
	for _, name := range []string{condemned, `ramcloud_coordinator_verdicts_total{evidence="silent"}`,
		`ramcloud_coordinator_verdicts_total{evidence="refused"}`} {
		if n := counterOf(c.coordinator(), name); n != 0 {
			t.Errorf("%s is %d", name, n)
		}
	}
	for _, d := range c.servers() {
		if n := counterOf(d, "ramcloud_replication_epoch"); n != 0 {
			t.Errorf("%s gave up replicas of open segments %d times", d.Name, n)
		}
	}
	c.eventually("a cluster that is whole", c.whole)
}

// saturate lets twice as many load generators as there are processors write as fast as they can.
func (c *cluster) saturate(length time.Duration) {
	c.t.Helper()
	var loads sync.WaitGroup
	for range 2 * runtime.NumCPU() {
		loads.Add(1)
		go func() {
			defer loads.Done()
			done := run(c.t, "ramcloud", "--cluster", c.address, "bench", "write", "--clients", "128", "--span",
				fmt.Sprint(len(c.servers())), "--warm-up", "0s", "--duration", length.String(), "--json")
			var said struct{ Operations uint64 }
			if err := json.Unmarshal([]byte(done.stdout), &said); done.code != 0 || err != nil || said.Operations == 0 {
				c.t.Errorf("exit code %d, %v: %s%s", done.code, err, done.stdout, done.stderr)
			}
		}()
	}
	loads.Wait()
}
