package local

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// The tools for looking at a running cluster: log levels, the time of each step of an operation, the work of
// each server.
func TestSeeing(t *testing.T) {
	c := startCluster(t, 3, "--replicas", "2")
	of := c.client()
	write(c, of, c.table(of, "seen", 1), "key", "value")
	ramcloud := func(arguments ...string) string {
		t.Helper()
		r := run(t, "ramcloud", append([]string{"--cluster", c.address, "-o", "json"}, arguments...)...)
		if r.code != 0 {
			t.Fatalf("%v: exit code %d\n%s", arguments, r.code, r.stderr)
		}
		return r.stdout
	}

	t.Run("log levels change while running", func(t *testing.T) {
		one := c.servers()[0]
		if said := ramcloud("log-level", "debug", "--server", one.Name); strings.TrimSpace(said) !=
			fmt.Sprintf(`[{"daemon":%q,"level":"debug"}]`, one.Name) {
			t.Errorf("log-level debug says %s", said)
		}
		var levels []struct{ Daemon, Level string }
		if err := json.Unmarshal([]byte(ramcloud("log-level")), &levels); err != nil || len(levels) != 3 {
			t.Fatalf("%v: %v", levels, err)
		}
		for _, l := range levels {
			if want := map[bool]string{true: "debug", false: "info"}[l.Daemon == one.Name]; l.Level != want {
				t.Errorf("%s writes %s, want %s", l.Daemon, l.Level, want)
			}
		}
		ramcloud("log-level", "--at", fmt.Sprintf("127.0.0.1:%d", c.coordinator().Ports.HTTP))
	})

	t.Run("a trace shows every step of a write", func(t *testing.T) {
		var events []struct {
			At               int64 `json:"at_ns"`
			Where            string
			Event, Operation string
		}
		if err := json.Unmarshal([]byte(ramcloud("trace", "write", "seen", "key", "value", "--times", "20")), &events); err != nil {
			t.Fatal(err)
		}
		// The client's request, the master's two copies, the backups' answers, the reply: by whom and how often.
		seen, places := map[string]int{}, map[string]bool{}
		for i, e := range events {
			seen[e.Event+" "+e.Operation]++
			places[e.Where] = true
			if i > 0 && e.At < events[i-1].At {
				t.Errorf("event %d is %d ns after the begin, the one before %d", i, e.At, events[i-1].At)
			}
		}
		for event, count := range map[string]int{
			"request sent write": 1, "request received write": 1, "reply held until durable write": 1, "reply sent write": 1,
			"reply received write": 1, "request sent replica write": 2, "request received replica write": 2,
		} {
			if seen[event] < count {
				t.Errorf("%q is there %d times, want at least %d", event, seen[event], count)
			}
		}
		if len(places) != 4 || events[0].Where != "client" {
			t.Errorf("places %v, the first %s; want the client and three servers", places, events[0].Where)
		}
	})

	t.Run("top counts what is done", func(t *testing.T) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			run(t, "ramcloud", "--cluster", c.address, "bench", "read", "--keys", "10", "--ops", "20000", "--warm-up", "0s")
		}()
		reads := 0.0
		for running := true; running; {
			select {
			case <-done:
				running = false
			default:
			}
			var rows []struct {
				Server string
				State  string
				Reads  float64 `json:"reads_per_second"`
				P99    float64 `json:"p99_us"`
				Live   *float64
			}
			if err := json.Unmarshal([]byte(ramcloud("top", "--count", "1", "--interval", "100ms")), &rows); err != nil || len(rows) != 3 {
				t.Fatalf("%v: %v", rows, err)
			}
			for _, row := range rows {
				reads += row.Reads
				if row.State != "UP" || (row.Reads > 0 && row.P99 == 0) || row.Live == nil || *row.Live > 1 {
					t.Errorf("%+v", row)
				}
			}
		}
		if reads == 0 {
			t.Error("no interval saw a read")
		}
	})
}
