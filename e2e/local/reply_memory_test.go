package local

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	opMultiRead = 21
	// What a daemon has besides its log, its hash table and the memory of messages.
	besides = 64 << 20
)

// anonymous is the memory of a process that belongs to no file, in bytes.
func anonymous(t *testing.T, pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "RssAnon:"); found {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatalf("process %d has no RssAnon", pid)
	return 0
}

// metric is the sum of a daemon's metrics whose name and labels begin so.
func metric(t *testing.T, d *daemon, prefix string) float64 {
	t.Helper()
	of := &http.Client{Timeout: 10 * time.Second}
	response, err := of.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", d.Ports.HTTP))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	sum := 0.0
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if !strings.HasPrefix(lines.Text(), prefix) {
			continue
		}
		fields := strings.Fields(lines.Text())
		value, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err != nil {
			t.Fatalf("%v in %q", err, lines.Text())
		}
		sum += value
	}
	return sum
}

// multiRead is a request for these keys; it has no deadline, so it waits as long as necessary.
func multiRead(call, table uint64, keys ...string) []byte {
	var body []byte
	body = binary.LittleEndian.AppendUint32(body, uint32(len(keys)))
	body = binary.LittleEndian.AppendUint32(body, 1<<20)
	for _, key := range keys {
		read := make([]byte, 32)
		binary.LittleEndian.PutUint64(read, table)
		binary.LittleEndian.PutUint16(read[24:], uint16(len(key)))
		body = append(append(body, read...), key...)
	}
	header := make([]byte, 48)
	binary.LittleEndian.PutUint32(header, uint32(len(body)))
	header[4] = 1 // a request
	binary.LittleEndian.PutUint16(header[6:], opMultiRead)
	binary.LittleEndian.PutUint64(header[16:], call)
	return append(header, body...)
}

// greeted returns a connection after its hello.
func greeted(t *testing.T, d *daemon, greeting []byte) net.Conn {
	t.Helper()
	connection, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", d.Ports.RPC))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connection.Write(greeting); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(connection, make([]byte, len(greeting))); err != nil {
		t.Fatalf("the hello's answer: %v", err)
	}
	return connection
}

// takeReplies reads `count` replies, each of them OK and with at least one value.
func takeReplies(from io.Reader, count int, least uint32) error {
	buffered := bufio.NewReaderSize(from, 1<<20)
	header := make([]byte, 48)
	seen := map[uint64]bool{}
	for range count {
		if _, err := io.ReadFull(buffered, header); err != nil {
			return fmt.Errorf("after %d replies: %w", len(seen), err)
		}
		length, status := binary.LittleEndian.Uint32(header), binary.LittleEndian.Uint16(header[8:])
		call := binary.LittleEndian.Uint64(header[16:])
		if status != 0 || length < least || seen[call] {
			return fmt.Errorf("call %d: status %d, %d bytes, seen before: %v", call, status, length, seen[call])
		}
		seen[call] = true
		if _, err := buffered.Discard(int(length)); err != nil {
			return err
		}
	}
	return nil
}

// replyMemory is the test's result, for `make accept`.
func replyMemory(t *testing.T, values map[string]float64) {
	path := os.Getenv("RAMCLOUD_REPLY_MEMORY_REPORT")
	if path == "" {
		return
	}
	report, err := json.Marshal(values)
	if err == nil {
		err = os.WriteFile(path, append(report, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Clients that ask for gigabytes with half a megabyte of requests, and do not read: the daemon produces as
// many replies as the limit allows and leaves the other requests in the sockets. No connection is closed,
// other clients are served, and everything is answered when the clients read.
func TestRepliesInTheMakingKeepToTheLimit(t *testing.T) {
	requests := numberFrom(t, "RAMCLOUD_REPLY_REQUESTS", 1, 256)
	const clients, logMemory, buffered = 8, 64 << 20, 32 << 20
	c := startCluster(t, 1, "--max-buffered", "32MiB", "--log-memory", "64MiB")
	of := c.client()
	table := c.table(of, "large", 1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*limit)
	defer cancel()
	for _, key := range []string{"a", "b"} {
		if _, err := of.Write(ctx, table.ID, []byte(key), make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	server := c.servers()[0]
	bound := int64(logMemory + 8<<20 + buffered + besides)
	worst := anonymous(t, server.PID)
	atFirst := worst
	watch := func() { worst = max(worst, anonymous(t, server.PID)) }

	greeting := hello(t)[:64]
	var connections []net.Conn
	var asking sync.WaitGroup
	for range clients {
		connection := greeted(t, server, greeting)
		t.Cleanup(func() { _ = connection.Close() })
		connections = append(connections, connection)
		asking.Go(func() {
			for call := range requests {
				if _, err := connection.Write(multiRead(uint64(call)+1, table.ID, "a", "b")); err != nil {
					t.Errorf("request %d: %v", call, err)
					return
				}
			}
		})
	}
	c.eventually("backpressure on every client", func() bool {
		watch()
		return metric(t, server, `ramcloud_transport_limited_total{limit="outstanding"}`) >= clients
	})
	began := time.Now()
	const operations = 200
	for n := range operations {
		if _, err := of.Write(ctx, table.ID, fmt.Appendf(nil, "other %d", n), []byte("value")); err != nil {
			t.Fatalf("another client: %v", err)
		}
		if _, _, err := of.Read(ctx, table.ID, []byte("a")); err != nil {
			t.Fatalf("another client: %v", err)
		}
		watch()
	}
	others := time.Since(began) / (2 * operations)
	asking.Wait()

	began = time.Now()
	var reading sync.WaitGroup
	for _, connection := range connections {
		reading.Go(func() {
			if err := takeReplies(connection, requests, 1<<20); err != nil {
				t.Error(err)
			}
		})
	}
	read := make(chan struct{})
	go func() { reading.Wait(); close(read) }()
	for done := false; !done; {
		select {
		case <-read:
			done = true
		case <-time.After(20 * time.Millisecond):
			watch()
		}
	}
	watch()
	if worst > bound {
		t.Errorf("the daemon had %d MiB of anonymous memory, accepted are %d", worst>>20, bound>>20)
	}
	c.eventually("an end of what is buffered", func() bool {
		return metric(t, server, "ramcloud_transport_buffered_bytes") < 4<<20
	})
	for _, limit := range []string{"buffered", "message_timeout"} {
		if n := metric(t, server, `ramcloud_transport_limited_total{limit="`+limit+`"}`); n != 0 {
			t.Errorf("%v connections were closed for %s", n, limit)
		}
	}
	t.Logf("%d clients x %d multi-reads of two 1 MiB values: anonymous memory %d MiB at first, %d MiB at most, %d MiB accepted; "+
		"an operation of another client meanwhile %s; all replies read in %s",
		clients, requests, atFirst>>20, worst>>20, bound>>20, others.Round(time.Microsecond), time.Since(began).Round(time.Millisecond))
	replyMemory(t, map[string]float64{"most_mib": float64(worst) / (1 << 20), "accepted_mib": float64(bound) / (1 << 20)})
}

// While the log cannot be replicated, clients read objects that are not durable, and disconnect: the memory
// of their held replies is freed.
func TestWhatIsHeldForVanishedClientsIsGivenBack(t *testing.T) {
	total := numberFrom(t, "RAMCLOUD_VANISHING_CLIENTS", 100, 10_000)
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	if files.Cur < waveSize+500 {
		t.Skipf("SKIP: %d file descriptors, and the clients need %d; raise the hard limit (ulimit -Hn)", files.Cur, waveSize+500)
	}
	const logMemory, buffered = 64 << 20, 32 << 20
	c := startCluster(t, 2, "--replicas", "1", "--max-buffered", "32MiB", "--log-memory", "64MiB")
	of := c.client()
	table := c.table(of, "fresh", 1)
	server, others := c.splitByTable(of, table)
	ctx, cancel := context.WithTimeout(t.Context(), 10*limit)
	defer cancel()
	if _, err := of.Write(ctx, table.ID, []byte("old"), []byte("value")); err != nil {
		t.Fatal(err)
	}
	bound := int64(logMemory + 8<<20 + buffered + besides)
	atFirst := anonymous(t, server.PID)

	// Its only backup is suspended, and is listed as crashed: writes from here on are not durable.
	if err := syscall.Kill(others[0].PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(others[0].PID, syscall.SIGCONT) })
	held := func() float64 { return metric(t, server, `ramcloud_replies_total{held="true"}`) }
	heldBefore := held()
	writing, stop := context.WithCancel(ctx)
	var written sync.WaitGroup
	written.Go(func() { _, _ = of.Write(writing, table.ID, []byte("fresh"), make([]byte, 60_000)) })
	defer written.Wait()
	defer stop()
	c.eventually("a write that is held", func() bool { return held() > heldBefore })

	greeting := hello(t)[:64]
	worst := int64(0)
	began := time.Now()
	for made := 0; made < total; {
		wave := min(waveSize, total-made)
		before := held()
		var connections []net.Conn
		for range wave {
			connection := greeted(t, server, greeting)
			connections = append(connections, connection)
			if _, err := connection.Write(multiRead(1, table.ID, "fresh", "fresh")); err != nil {
				t.Fatal(err)
			}
		}
		c.eventually("replies that are held", func() bool {
			worst = max(worst, anonymous(t, server.PID))
			return held() >= before+float64(wave)
		})
		if _, _, err := of.Read(ctx, table.ID, []byte("old")); err != nil {
			t.Fatalf("another client: %v", err)
		}
		for _, connection := range connections {
			_ = connection.Close()
		}
		made += wave
		c.eventually("what was held for them given back", func() bool {
			return metric(t, server, "ramcloud_held_replies_dropped_total") >= float64(made) &&
				metric(t, server, "ramcloud_transport_buffered_bytes") < 1<<20
		})
	}
	if worst > bound {
		t.Errorf("the daemon had %d MiB of anonymous memory, accepted are %d", worst>>20, bound>>20)
	}
	gone := time.Since(began)
	after := int64(0)
	c.eventually("memory given back to the system", func() bool {
		after = anonymous(t, server.PID)
		return after <= atFirst+8<<20
	})
	t.Logf("%d clients gone in %s: anonymous memory %d MiB at first, %d MiB at most (%d accepted), %d MiB at the end",
		total, gone.Round(time.Millisecond), atFirst>>20, worst>>20, bound>>20, after>>20)
	replyMemory(t, map[string]float64{"most_mib": float64(worst) / (1 << 20), "accepted_mib": float64(bound) / (1 << 20)})
}
