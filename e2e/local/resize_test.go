package local

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// resize is the answer of `ramcloud server set ID log-memory=SIZE`.
type resize struct {
	Target uint64 `json:"target_bytes"`
	Held   uint64 `json:"held_bytes"`
	Least  uint64 `json:"least_bytes"`
	Done   bool
	Notes  []string
}

// resized is the part of `ramcloud servers` about a log's memory.
type resized struct {
	ID     uint64
	Name   string
	State  string
	Total  uint64 `json:"log_bytes_total"`
	Target uint64 `json:"log_bytes_target"`
	Held   uint64 `json:"log_bytes_held"`
	Done   bool   `json:"log_resized"`
}

func (c *cluster) setMemory(id uint64, size string) resize {
	c.t.Helper()
	r := run(c.t, "ramcloud", "--cluster", c.address, "-o", "json", "server", "set", fmt.Sprint(id), "log-memory="+size)
	var answer resize
	if r.code != 0 || json.Unmarshal([]byte(r.stdout), &answer) != nil {
		c.t.Fatalf("server set %d log-memory=%s: exit code %d: %s%s", id, size, r.code, r.stdout, r.stderr)
	}
	return answer
}

func (c *cluster) memoryOf(name string) resized {
	c.t.Helper()
	var list []resized
	c.ask(&list, "servers")
	found := resized{}
	for _, one := range list {
		if one.Name == name && one.ID >= found.ID {
			found = one
		}
	}
	return found
}

// A server grows and shrinks under load, by the command alone. Nothing that was acknowledged is lost, and the system has
// the memory again.
func TestAServerGrowsAndShrinksUnderLoad(t *testing.T) {
	const mib = 1 << 20
	c := startCluster(t, 4, "--replicas", "2")
	of := c.client()
	l := startLoadOf(t, of, c.table(of, "load", 4), 0, 100_000, deadline)
	l.more(2000)
	d := c.servers()[1]
	id := c.serverViews()[d.Name].ID
	before := anonymous(t, d.PID)

	if answer := c.setMemory(id, "256MiB"); answer.Target != 256*mib || len(answer.Notes) == 0 {
		t.Errorf("the answer is %+v, want the target, and that the hash table stays as it is", answer)
	}
	c.eventually("growth", func() bool { return c.memoryOf(d.Name).Done && c.memoryOf(d.Name).Total == 256*mib })
	l.more(2000)
	grown := anonymous(t, d.PID)
	if grown < before+180*mib {
		t.Errorf("%d MB of anonymous memory, before it grew from 64 to 256 MiB %d MB", grown>>20, before>>20)
	}

	c.setMemory(id, "80MiB")
	if answer := c.setMemory(id, "80MiB"); answer.Target != 80*mib {
		t.Errorf("the same again is answered by %+v", answer)
	}
	l.more(2000)
	c.eventually("that it has shrunk", func() bool { return c.memoryOf(d.Name).Done && c.memoryOf(d.Name).Total == 80*mib })
	if now := anonymous(t, d.PID); now > grown-150*mib {
		t.Errorf("%d MB of anonymous memory, before it shrank from 256 to 80 MiB %d MB", now>>20, grown>>20)
	}
	l.more(1000)
	l.finish()
	l.verify()

	for _, c2 := range []struct{ size, says string }{
		{"8MiB", "log-memory 8MiB: accepted are"},
		{"1TiB", "(--log-memory-max)"},
		{"much", "size 'much'"},
	} {
		r := run(t, "ramcloud", "--cluster", c.address, "server", "set", fmt.Sprint(id), "log-memory="+c2.size)
		if r.code == 0 || !strings.Contains(r.stderr, c2.says) {
			t.Errorf("log-memory=%s: exit code %d, %q; want %q", c2.size, r.code, r.stderr, c2.says)
		}
	}
	if now := c.memoryOf(d.Name); now.Target != 80*mib || !now.Done {
		t.Errorf("what was refused has changed it: %+v", now)
	}
}

// One that dies while it grows starts with its flag's size again; the resize is stored nowhere else.
func TestAServerThatDiesWhileItGrowsStartsWithItsFlag(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	c := startCluster(t, 4, "--replicas", "2")
	d := c.servers()[0]
	id := c.serverViews()[d.Name].ID
	if answer := c.setMemory(id, "1GiB"); answer.Done {
		t.Logf("it has grown already: %+v", answer)
	}
	c.kill(d)
	c.restart(d)
	c.eventually("the server with its flag's memory", func() bool {
		now := c.memoryOf(d.Name)
		return now.ID > id && now.State == "UP" && now.Total == 64*mib && now.Done
	})
	r := run(t, "ramcloud", "--cluster", c.address, "server", "set", fmt.Sprint(id), "log-memory=128MiB")
	if r.code == 0 || !strings.Contains(r.stderr, fmt.Sprintf("server %d", id)) {
		t.Errorf("the memory of a dead server: exit code %d, %q", r.code, r.stderr)
	}
}
