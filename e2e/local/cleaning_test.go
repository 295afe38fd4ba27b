package local

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ramcloud.dev/client"
)

// A table of 70 MB, overwritten until more than the memory of all servers was written, twice; one of them
// dies meanwhile. Memory is used again, all acknowledged values are there, and the daemons' memory stays
// within their limits.
func TestMemoryOfOverwrittenValuesIsUsedAgain(t *testing.T) {
	for _, cleans := range []struct{ levels, threads, kind string }{
		{"two-level", "1", "compaction"},
		{"one-level", "0", "combined"},
	} {
		t.Run(cleans.levels+", cleaner threads "+cleans.threads, func(t *testing.T) {
			c := startCluster(t, 4, "--replicas", "2", "--cleaning", cleans.levels, "--cleaner-threads", cleans.threads)
			of := c.client()
			l := startLoadOf(t, of, c.table(of, "load", 4), 0, 100_000, deadline)
			l.more(3000)
			dead := c.anOwner("load")
			c.kill(dead)
			l.more(3000)
			l.finish()
			l.verify()
			passes := 0.0
			for _, d := range c.servers() {
				if d == dead {
					continue
				}
				passes += metric(t, d, `ramcloud_cleaner_runs_total{kind="`+cleans.kind+`"}`)
				const memory, table, buffered = 64 << 20, 8 << 20, 64 << 20
				if has := anonymous(t, d.PID); has > memory*11/10+table+buffered+besides {
					t.Errorf("%s has %d MB of anonymous memory", d.Name, has>>20)
				}
			}
			if passes == 0 {
				t.Error("nothing was cleaned: the load was too small to say anything")
			}
		})
	}
}

// Survivors of cleaning need replicas. One backup has room for eight of them, and one stands still four fifths of the time:
// memory is used again all the same, and nothing that was acknowledged is lost.
func TestMemoryIsUsedAgainWithAFullBackupAndASlowOne(t *testing.T) {
	onlyInSoak(t)
	c := startCluster(t, 5, "--replicas", "2", "--backup-size", "1GiB")
	small, slow := c.servers()[3], c.servers()[4]
	c.kill(small)
	c.eventually("the verdict", func() bool { return c.status().ServersCrashed == 1 })
	small.arguments = replaceFlag(replaceFlag(small.arguments, "--backup-size", "64MiB"), "--dir", t.TempDir())
	c.restart(small)
	c.eventually("the small server", func() bool { return c.status().ServersUp == 5 })
	stop := make(chan struct{})
	var slowing sync.WaitGroup
	slowing.Go(func() {
		for stops := false; ; stops = !stops {
			signal, length := syscall.SIGCONT, 10*time.Millisecond
			if stops {
				signal, length = syscall.SIGSTOP, 40*time.Millisecond
			}
			_ = syscall.Kill(slow.PID, signal)
			select {
			case <-stop:
				_ = syscall.Kill(slow.PID, syscall.SIGCONT)
				return
			case <-time.After(length):
			}
		}
	})
	resume := sync.OnceFunc(func() { close(stop); slowing.Wait() })
	t.Cleanup(resume)

	of := c.client()
	l := startLoadOf(t, of, c.table(of, "load", 5), 0, 150_000, deadline)
	l.more(1500)
	full := false
	for range 35 { // frames come and go: it is full for moments
		l.more(100)
		now := c.serverViews()[small.Name]
		full = full || now.FramesTotal == 8 && now.FramesUsed >= now.FramesTotal-1 // the last one is kept for heads
	}
	l.finish()
	resume()
	l.verify()
	if !full {
		t.Errorf("the small backup was never full: %+v", c.serverViews()[small.Name])
	}
	for _, d := range c.servers() {
		if metric(t, d, "ramcloud_cleaner_runs_total") == 0 {
			t.Errorf("%s has cleaned nothing: the load was too small to say anything", d.Name)
		}
	}
	c.eventually("replicas of all segments", c.whole)
}

// Values that nobody overwrites fill the memory. Reads are served then, deletes make room, and the room is used.
func TestAFullServerServesReadsAndRecoversByDeletes(t *testing.T) {
	t.Parallel()
	for _, levels := range []string{"one-level", "two-level"} {
		t.Run(levels, func(t *testing.T) { fullServer(t, levels) })
	}
}

func fullServer(t *testing.T, levels string) {
	c := startCluster(t, 1, "--replicas", "0", "--cleaning", levels)
	of := c.client()
	table := c.table(of, "full", 1)
	value := []byte(strings.Repeat("x", 10_000))
	key := func(i int) []byte { return fmt.Append(nil, "key ", i) }
	fill := func(from int) int {
		for i := from; ; i++ {
			if i > from+20_000 {
				t.Fatal("it is never full")
			}
			_, err := of.Write(context.Background(), table.ID, key(i), value)
			if errors.Is(err, client.OutOfMemory) {
				return i
			}
			if err != nil {
				t.Fatalf("write %d: %v", i, err)
			}
		}
	}
	full := fill(0)
	if least := 64 << 20 / len(value) * 6 / 10; full < least {
		t.Errorf("full with %d values, want at least %d", full, least)
	}
	live := full
	for round := range 3 {
		for i := range full {
			if i%3 != round {
				continue
			}
			if got, _, err := of.Read(context.Background(), table.ID, key(i)); err != nil || len(got) != len(value) {
				t.Fatalf("read %d of a full server: %d bytes, %v", i, len(got), err)
			}
			if _, err := of.Delete(context.Background(), table.ID, key(i)); err != nil {
				t.Fatalf("delete %d of a full server: %v", i, err)
			}
			live--
		}
		from := 1_000_000 * (round + 1)
		live += fill(from) - from
		// Cleaning frees a segment at a time, which is an eighth of this memory.
		if live < full*7/10 {
			t.Errorf("round %d: full with %d values, at first it was with %d", round, live, full)
		}
	}
}

// A dropped table's memory comes back by itself.
func TestMemoryOfADroppedTableIsUsedAgain(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1, "--replicas", "0", "--cleaning", "one-level")
	of := c.client()
	value := []byte(strings.Repeat("x", 10_000))
	for round := range 5 {
		name := fmt.Sprint("table ", round)
		table := c.table(of, name, 1)
		for i := range 3500 { // 35 of 64 MB
			if _, err := of.Write(context.Background(), table.ID, fmt.Append(nil, "key ", i), value); err != nil {
				t.Fatalf("table %d, write %d: %v", round, i, err)
			}
		}
		if err := of.DropTable(context.Background(), name); err != nil {
			t.Fatal(err)
		}
	}
}
