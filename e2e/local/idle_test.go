package local

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A cluster that nobody uses leaves the machine alone: below 2 % of a core for each daemon.
func TestIdleDaemonsAreIdle(t *testing.T) {
	c := startCluster(t, 4, "--replicas", "2")
	of := c.client()
	write(c, of, c.table(of, "something", 4), "key", "value")
	began := time.Now()
	before := map[int]float64{}
	for _, d := range c.daemons {
		before[d.PID] = cpuSeconds(t, d.PID)
	}
	time.Sleep(10 * time.Second) // the span that is measured
	for _, d := range c.daemons {
		share := (cpuSeconds(t, d.PID) - before[d.PID]) / time.Since(began).Seconds()
		t.Logf("%s: %.2f %% of a core", d.Name, share*100)
		if share >= 0.02 {
			t.Errorf("%s uses %.2f %% of a core while idle, accepted is less than 2 %%", d.Name, share*100)
		}
	}
}

// cpuSeconds is the processor time of a process, of users and the system.
func cpuSeconds(t *testing.T, pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	ticks := 0.0
	for _, field := range fields[11:13] { // utime and stime
		n, err := strconv.ParseFloat(field, 64)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return ticks / 100 // USER_HZ, which Linux fixes for user space
}
