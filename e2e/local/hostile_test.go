package local

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// How much a daemon may grow during the whole attack; its own limit of buffered bytes is half of this.
const mayGrow = 64 << 20

// rss is the resident memory of a process, in bytes.
func rss(t *testing.T, pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "VmRSS:"); found {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatalf("process %d has no VmRSS", pid)
	return 0
}

// measured is the result of a run of `ramcloud bench`.
type measured struct {
	Operations uint64
	Latency    struct{ P50, P99 float64 } `json:"latency_ns"`
}

// bench runs a steady client, half reads and half writes, each of which must succeed.
func (c *cluster) bench(table, duration string) measured {
	c.t.Helper()
	r := run(c.t, "ramcloud", "--cluster", c.address, "bench", "ycsb-a", "--table", table, "--keys", "1000",
		"--clients", "8", "--rate", "200", "--warm-up", "500ms", "--duration", duration, "--json")
	if r.code != 0 {
		c.t.Errorf("the steady client failed: exit code %d: %s", r.code, r.stderr)
		return measured{}
	}
	var m measured
	if err := json.Unmarshal([]byte(r.stdout), &m); err != nil {
		c.t.Fatalf("%v in %q", err, r.stdout)
	}
	return m
}

// numberFrom is the number in an environment variable, or `otherwise` if it is not set.
func numberFrom(t *testing.T, variable string, least, otherwise int) int {
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least {
		t.Fatalf("%s is %q; accepted is a number of %d or more", variable, text, least)
	}
	return n
}

// Thousands of hostile connections send garbage, halves of messages, one byte now and then, or nothing, on
// every port: no daemon dies or grows, and no operation of a normal client fails. The slowdown of the normal
// client is printed; `make accept` compares several rounds with the target, because the 99th percentile of
// one round depends as much on the machine.
func TestTenThousandHostileConnections(t *testing.T) {
	total := numberFrom(t, "RAMCLOUD_HOSTILE_CONNECTIONS", waveSize, 10_000)
	rounds := numberFrom(t, "RAMCLOUD_HOSTILE_ROUNDS", 1, 1)
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	if files.Cur < waveSize+500 {
		t.Skipf("SKIP: %d file descriptors, and the attackers need %d; raise the hard limit (ulimit -Hn)", files.Cur, waveSize+500)
	}
	c := startCluster(t, 2, "--replicas", "1", "--max-buffered", "32MiB",
		"--log-memory", fmt.Sprintf("%dMiB", 64*(1+rounds))) // enough memory without cleaning
	of := c.client()
	table := c.table(of, "steady", 2)
	l := startLoad(t, of, c.table(of, "load", 2))
	l.more(500)
	probed := c.probe()

	before := map[*daemon]int64{} // memory before the first round, so that growth which stays is counted, too
	for _, d := range c.daemons {
		before[d] = rss(t, d.PID)
	}
	var quiet, attacked, grown []float64 // microseconds, microseconds, MiB
	for range rounds {
		r := c.round(table.Name, before, assault{Targets: c.ports(), Greeting: hello(t)[:64] /* the first request is behind it */, Total: total})
		quiet, attacked, grown = append(quiet, r.quiet), append(attacked, r.attacked), append(grown, r.grown)
	}

	t.Logf("%d rounds of probes; the load: %d operations acknowledged, %d without an answer within their two seconds",
		probed(), l.acked.Load(), l.lost.Load())
	l.finish()
	l.verify()
	c.eventually("HEALTHY", func() bool { return c.status().Health == "HEALTHY" })
	if path := os.Getenv("RAMCLOUD_HOSTILE_REPORT"); path != "" {
		report := fmt.Sprintf(`{"connections":%d,"rounds":%d,"quiet_p99_us":%.1f,"attacked_p99_us":%.1f,"grown_mib":%.1f}`+"\n",
			total*rounds, rounds, median(quiet), median(attacked), slices.Max(grown))
		if err := os.WriteFile(path, []byte(report), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// median of a list that is not empty.
func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// round is the result of one attack: the steady client's p99 before and meanwhile, in microseconds, and the
// growth of the daemon that grew most since before the first round, in MiB.
type round struct{ quiet, attacked, grown float64 }

// round measures the steady client, once alone and once during the attack.
func (c *cluster) round(table string, before map[*daemon]int64, of assault) round {
	t := c.t
	quiet := c.bench(table, "10s")
	began := time.Now()
	over, made := of.begin(t)
	under := make(chan measured, 1)
	var meanwhile int64
	go func() {
		defer close(under) // also when bench gives up
		m := c.bench(table, "10s")
		meanwhile = made.Load()
		under <- m
	}()
	t.Cleanup(func() {
		for range under {
		}
	})
	grown := c.growth(before, over)
	took := time.Since(began)
	attacked := <-under
	if meanwhile == 0 {
		t.Error("no hostile connection was made while the steady client was measured")
	}
	worst := int64(0)
	for _, d := range c.daemons {
		worst = max(worst, grown[d])
		if grown[d] >= mayGrow {
			t.Errorf("%s grew by %d MiB, accepted is less than %d", d.Name, grown[d]>>20, mayGrow>>20)
		}
	}
	t.Logf("%d hostile connections in %s (%d while the client was measured), a daemon grew by %.1f MiB at most; the steady client's p99: quiet %.0f us, under attack %.0f us",
		of.Total, took.Round(100*time.Millisecond), meanwhile, float64(worst)/(1<<20), quiet.Latency.P99/1e3, attacked.Latency.P99/1e3)
	return round{quiet.Latency.P99 / 1e3, attacked.Latency.P99 / 1e3, float64(worst) / (1 << 20)}
}

// ports are all ports on which the cluster listens.
func (c *cluster) ports() []target {
	var all []target
	for _, d := range c.daemons {
		all = append(all, target{fmt.Sprintf("127.0.0.1:%d", d.Ports.RPC), dataPort},
			target{fmt.Sprintf("127.0.0.1:%d", d.Ports.HTTP), httpPort})
		if d.Ports.Admin != 0 {
			all = append(all, target{fmt.Sprintf("127.0.0.1:%d", d.Ports.Admin), grpcPort})
		}
	}
	return all
}

// probe asks for health and status again and again, as Kubernetes and people do. The returned function ends
// that and returns the number of rounds; the end of the test ends it, too.
func (c *cluster) probe() func() int64 {
	t := c.t
	stop := make(chan struct{})
	var running sync.WaitGroup
	var rounds atomic.Int64
	running.Go(func() {
		of := &http.Client{Timeout: 10 * time.Second}
		for {
			for _, d := range c.daemons {
				response, err := of.Get(fmt.Sprintf("http://127.0.0.1:%d/healthz", d.Ports.HTTP))
				if err != nil || response.StatusCode != http.StatusOK {
					t.Errorf("/healthz of %s: %v %v", d.Name, response, err)
				}
				if err == nil {
					_ = response.Body.Close()
				}
			}
			if s := c.status(); s.ServersUp != 2 {
				t.Errorf("status: %+v", s)
			}
			rounds.Add(1)
			select {
			case <-stop:
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	})
	end := sync.OnceValue(func() int64 { close(stop); running.Wait(); return rounds.Load() })
	t.Cleanup(func() { end() })
	return end
}

// growth is the largest increase of each daemon's memory until `over`. No daemon may end meanwhile, and the
// attacker, which gets only idle processor time, must end in time.
func (c *cluster) growth(before map[*daemon]int64, over <-chan struct{}) map[*daemon]int64 {
	grown := map[*daemon]int64{}
	patience := time.After(4 * time.Minute)
	for {
		for _, d := range c.daemons {
			if !alive(d.PID) {
				c.t.Fatalf("%s ended", d.Name)
			}
			grown[d] = max(grown[d], rss(c.t, d.PID)-before[d])
		}
		select {
		case <-over:
			return grown
		case <-patience:
			c.t.Fatal("the attack did not end within 4 minutes")
		case <-time.After(100 * time.Millisecond):
		}
	}
}
