package local

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	// Of every daemon, over all of the attack; its own limit of buffered bytes is half of it.
	mayGrow = 64 << 20
	// So many hostile connections are open at once.
	waveSize = 2000
	// How long a wave's connections are held and dripped into, once all of them are open.
	waveTime = 2 * time.Second
)

// What a hostile connection does after its opening bytes.
type manner int

const (
	leaves manner = iota // closes at once
	resets               // is gone without a FIN
	holds                // says nothing more and reads nothing
	drips                // sends a byte now and then
)

// opening is what a hostile connection begins with, and what it does then.
type opening struct {
	name  string
	bytes []byte
	then  manner
}

// stranger makes the openings for the kinds of ports.
type stranger struct{ greeting, noise []byte }

func (s stranger) request(length uint32, body int) []byte {
	header := make([]byte, 48)
	binary.LittleEndian.PutUint32(header, length)
	header[4] = 1 // a request
	header[6] = 17
	return append(append(append([]byte{}, s.greeting...), header...), s.noise[:body]...)
}

// requests are of clients, with bodies that mean nothing, and unknown ones. (Not of servers and coordinators: whoever
// makes those up well can do what they can, until there is authentication.)
func (s stranger) requests(random *rand.Rand) []byte {
	var all []byte
	for i := range 300 {
		body := s.noise[:random.IntN(200)]
		header := make([]byte, 48)
		binary.LittleEndian.PutUint32(header, uint32(len(body)))
		header[4] = 1 // a request
		binary.LittleEndian.PutUint16(header[6:], uint16(random.IntN(64)))
		binary.LittleEndian.PutUint64(header[16:], uint64(i)+1) // the call's id
		all = append(append(all, header...), body...)
	}
	return all
}

func (s stranger) data(random *rand.Rand) []opening {
	return []opening{
		{"garbage", s.noise[:1+random.IntN(4096)], leaves},
		{"silence", nil, holds},
		{"half a hello", s.greeting[:1+random.IntN(len(s.greeting)-1)], holds},
		{"half a message", s.request(1000, 500), leaves},
		{"an oversized length", s.request(0xffffffff, 100), holds},
		{"half of a big message", s.request(1<<20, 32<<10), holds},
		{"a slow hello", s.greeting[:1], drips},
		{"a slow message", s.request(1<<20, 0), drips},
		{"half open", s.request(1000, 500), resets},
		{"requests without reading", append(append([]byte{}, s.greeting...), s.requests(random)...), holds},
	}
}

func (s stranger) http(random *rand.Rand) []opening {
	return []opening{
		{"garbage", s.noise[:1+random.IntN(4096)], leaves},
		{"silence", nil, holds},
		{"half a request", []byte("GET /metr"), holds},
		{"a slow request", []byte("GET /metrics HTTP/1.1\r\nX: "), drips},
		{"endless headers", append([]byte("GET / HTTP/1.1\r\nX: "), bytes.Repeat([]byte("x"), 32<<10)...), holds},
		{"an oversized length", []byte("PUT /log-level HTTP/1.1\r\nContent-Length: 999999999999\r\n\r\n"), holds},
		{"a body that does not come", []byte("PUT /log-level HTTP/1.1\r\nContent-Length: 100\r\n\r\n"), drips},
		{"a request without reading", []byte("GET /trace HTTP/1.1\r\n\r\n"), holds},
		{"half open", []byte("GET /metrics HT"), resets},
	}
}

func (s stranger) grpc(random *rand.Rand) []opening {
	preface := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	return []opening{
		{"garbage", s.noise[:1+random.IntN(4096)], leaves},
		{"silence", nil, holds},
		{"half a preface", []byte(preface[:1+random.IntN(len(preface)-1)]), holds},
		{"a preface alone", []byte(preface), holds},
		{"an oversized frame", []byte(preface + "\xff\xff\xff\x01\x04\x00\x00\x00\x01"), holds},
		{"a slow frame", []byte(preface + "\x00\x40\x00\x00\x00\x00\x00\x00\x01"), drips},
		{"a slow preface", []byte("P"), drips},
		{"another protocol", []byte("GET / HTTP/1.1\r\n\r\n"), holds},
		{"half open", []byte(preface), resets},
	}
}

// attack makes the one hostile connection and leaves it when told to.
func attack(address string, o opening, random *rand.Rand, opened func(), leave <-chan struct{}) error {
	connection, err := net.DialTimeout("tcp", address, limit)
	if err != nil {
		opened()
		return err
	}
	defer func() { _ = connection.Close() }()
	_ = connection.SetDeadline(time.Now().Add(limit))
	_, _ = connection.Write(o.bytes) // the daemon may hang up in the middle of it: that is its right
	opened()
	switch o.then {
	case leaves:
	case resets:
		_ = connection.(*net.TCPConn).SetLinger(0)
	case holds:
		<-leave
	case drips:
		for every := time.NewTicker(50*time.Millisecond + time.Duration(random.IntN(100))*time.Millisecond); ; {
			select {
			case <-leave:
				every.Stop()
				return nil
			case <-every.C:
				_, _ = connection.Write([]byte("x"))
			}
		}
	}
	return nil
}

// rss is what a process has in memory, in bytes.
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

// measured is what `ramcloud bench` says of a run.
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

// hostileConnections is 10,000, or what RAMCLOUD_HOSTILE_CONNECTIONS asks for.
func hostileConnections(t *testing.T) int {
	text := os.Getenv("RAMCLOUD_HOSTILE_CONNECTIONS")
	if text == "" {
		return 10_000
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < waveSize {
		t.Fatalf("RAMCLOUD_HOSTILE_CONNECTIONS is %q; accepted is a number of %d or more", text, waveSize)
	}
	return n
}

// Thousands of strangers who send garbage, halves of messages, one byte now and then, or nothing, on every port:
// no daemon dies or grows, and nobody who behaves notices. How much slower those are is printed; `make accept`
// shows it beside what is wanted.
func TestTenThousandHostileConnections(t *testing.T) {
	total := hostileConnections(t)
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	if files.Cur < waveSize+500 {
		t.Skipf("SKIP: %d file descriptors, and the attackers need %d; raise the hard limit (ulimit -Hn)", files.Cur, waveSize+500)
	}
	c := startCluster(t, 2, "--replicas", "1", "--max-buffered", "32MiB")
	of := c.client()
	table := c.table(of, "steady", 2)
	l := startLoad(t, of, c.table(of, "load", 2))
	l.more(500)
	quiet := c.bench(table.Name, "5s")

	type target struct {
		address  string
		openings func(*rand.Rand) []opening
	}
	greeting := hello(t)[:64] // the Go client sends its first request behind it
	s := stranger{greeting: greeting, noise: make([]byte, 64<<10)}
	random := rand.New(rand.NewPCG(7, 7))
	for i := range s.noise {
		s.noise[i] = byte(random.Uint32())
	}
	var targets []target
	before := map[*daemon]int64{}
	for _, d := range c.daemons {
		before[d] = rss(t, d.PID)
		targets = append(targets, target{fmt.Sprintf("127.0.0.1:%d", d.Ports.RPC), s.data})
		targets = append(targets, target{fmt.Sprintf("127.0.0.1:%d", d.Ports.HTTP), s.http})
		if d.Ports.Admin != 0 {
			targets = append(targets, target{fmt.Sprintf("127.0.0.1:%d", d.Ports.Admin), s.grpc})
		}
	}

	under := make(chan measured)
	go func() {
		defer close(under)
		under <- c.bench(table.Name, "10s")
	}()
	stopProbes := make(chan struct{})
	var probes sync.WaitGroup
	var probed atomic.Int64
	probes.Go(func() { // what Kubernetes and people do meanwhile
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
			probed.Add(1)
			select {
			case <-stopProbes:
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	})

	began := time.Now()
	grown := map[*daemon]int64{}
	lookAtMemory := func() {
		for _, d := range c.daemons {
			if !alive(d.PID) {
				t.Fatalf("%s ended", d.Name)
			}
			grown[d] = max(grown[d], rss(t, d.PID)-before[d])
		}
	}
	for made := 0; made < total; made += waveSize {
		leave := make(chan struct{})
		var opened, ended sync.WaitGroup
		turns := make(chan struct{}, 64) // so many connect at a time
		for i := range waveSize {
			at := targets[i%len(targets)]
			mine := rand.New(rand.NewPCG(uint64(made), uint64(i)))
			of := at.openings(mine)
			o := of[(made/waveSize+i/len(targets))%len(of)]
			opened.Add(1)
			turns <- struct{}{}
			ended.Go(func() {
				err := attack(at.address, o, mine, func() { <-turns; opened.Done() }, leave)
				if err != nil {
					t.Errorf("%s to %s: %v", o.name, at.address, err)
				}
			})
		}
		opened.Wait()
		for until := time.Now().Add(waveTime); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
			lookAtMemory()
		}
		close(leave)
		ended.Wait()
		lookAtMemory()
	}
	took := time.Since(began)
	close(stopProbes)
	probes.Wait()
	attacked := <-under
	t.Logf("the load: %d operations acknowledged, %d without an answer within their two seconds", l.acked.Load(), l.lost.Load())
	l.finish()
	l.verify()
	for _, d := range c.daemons {
		t.Logf("%s: %.1f MiB more than before", d.Name, float64(grown[d])/(1<<20))
		if grown[d] >= mayGrow {
			t.Errorf("%s grew by %d MiB, accepted is less than %d", d.Name, grown[d]>>20, mayGrow>>20)
		}
	}
	c.eventually("HEALTHY", func() bool { return c.status().Health == "HEALTHY" })
	t.Logf("%d hostile connections in %s, %d rounds of probes; the steady client's p99: quiet %.0f us, under attack %.0f us",
		total, took.Round(100*time.Millisecond), probed.Load(), quiet.Latency.P99/1e3, attacked.Latency.P99/1e3)
	if path := os.Getenv("RAMCLOUD_HOSTILE_REPORT"); path != "" {
		worst := int64(0)
		for _, bytes := range grown {
			worst = max(worst, bytes)
		}
		report := fmt.Sprintf(`{"connections":%d,"quiet_p99_us":%.1f,"attacked_p99_us":%.1f,"grown_mib":%.1f}`+"\n",
			total, quiet.Latency.P99/1e3, attacked.Latency.P99/1e3, float64(worst)/(1<<20))
		if err := os.WriteFile(path, []byte(report), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
