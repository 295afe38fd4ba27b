package local

import (
	"context"
	"math/rand/v2"
	"testing"

	"ramcloud.dev/client"
	checked "ramcloud.dev/e2e/load"
)

const (
	fullPercent = 85 // of the memory of all logs, by live objects
	fullValue   = 20_000
	// Headers and key of an object, and its part of the group (docs/formats.md).
	besideValue = 64
)

// overwrites are how many operations are done before the server dies, and again when its data is served: half of them are
// writes. A few minutes in all with RAMCLOUD_SOAK.
func overwrites() int {
	if soak() {
		return 200_000
	}
	return 8000
}

// filled is what `ramcloud servers` says of a log that is full.
type filled struct {
	Name, State string
	Total       uint64 `json:"log_bytes_total"`
	Memory      struct {
		Live uint64 `json:"live_bytes"`
	}
	Cleaner struct{ Mode, Why string }
}

// checkFull: live objects take as much of the memory as they should.
func (c *cluster) checkFull() {
	c.t.Helper()
	var all []filled
	c.ask(&all, "servers")
	live, total := uint64(0), uint64(0)
	for _, one := range all {
		if one.State != "UP" {
			continue
		}
		live, total = live+one.Memory.Live, total+one.Total
		c.t.Logf("%s: %d of %d MB are live; cleaner %s: %s", one.Name, one.Memory.Live>>20, one.Total>>20, one.Cleaner.Mode, one.Cleaner.Why)
	}
	if live < total/100*(fullPercent-1) {
		c.t.Errorf("%d of %d MB are live, want %d %%", live>>20, total>>20, fullPercent)
	}
}

// A table takes 85 % of the memory of all servers, and is overwritten by several clients. One server dies, so for a while
// the others have no room for all of it, and starts again. What clients saw is linearizable, each value is read at the end,
// and no operation fails but writes whose reply went with the server.
func TestAFullTableIsOverwrittenWhileAServerDies(t *testing.T) {
	onlyInSoak(t)
	const servers, memory = 3, 384 << 20
	// Replicas of what the dead server held are made again, and what it has is needed until then: disks are no part of this.
	c := startCluster(t, servers, "--replicas", "1", "--log-memory", "384MiB", "--backup-size", "2GiB")
	ctx, cancel := context.WithTimeout(t.Context(), 8*limit)
	defer cancel()
	work, err := checked.StartShaped(ctx, c.address, "full", checked.Shape{Span: servers, Bytes: fullValue, All: true,
		Keys: servers * memory / 100 * fullPercent / (fullValue + besideValue), Rate: 200, Timeout: 3 * limit}, rand.Uint64())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(work.Close)
	more := func() {
		if err := work.More(ctx, overwrites()); err != nil {
			t.Fatal(err)
		}
	}
	more()
	c.checkFull()
	dead := c.anOwner("full")
	c.kill(dead)
	c.eventually("the verdict", func() bool { return c.status().ServersCrashed == 1 })
	c.restart(dead)
	more()
	c.eventually("tablets that are all available", func() bool {
		s := c.status()
		return s.ServersUp == servers && s.TabletsUnavailable == 0
	})
	c.checkFull()
	verdict := work.Stop(checked.Limits{Expected: func(o checked.Operation) bool {
		return o.Write && client.CodeOf(o.Err) == client.Indeterminate
	}})
	t.Log(verdict)
	if wrong := verdict.Wrong(); wrong != "" {
		t.Error(wrong)
	}
	c.eventually("replicas of all segments", c.whole)
	for _, d := range c.servers() {
		const table, buffered = memory / 8, 64 << 20
		if has := anonymous(t, d.PID); has > memory*11/10+table+buffered+besides {
			t.Errorf("%s has %d MB of anonymous memory", d.Name, has>>20)
		}
		if d != dead && metric(t, d, "ramcloud_cleaner_runs_total") == 0 {
			t.Errorf("%s has cleaned nothing: the load was too small to say anything", d.Name)
		}
	}
}
