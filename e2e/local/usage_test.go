package local

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"ramcloud.dev/client"
)

// refused runs a daemon that must end by itself with exit code 1 and a message of all these texts.
func refused(t *testing.T, arguments []string, texts ...string) {
	t.Helper()
	r := run(t, "ramcloudd", arguments...)
	said := r.stdout + r.stderr
	if r.code != 1 {
		t.Errorf("%v: exit code %d, want 1: %s", arguments, r.code, said)
	}
	for _, text := range texts {
		if !strings.Contains(said, text) {
			t.Errorf("%v does not say %q:\n%s", arguments, text, said)
		}
	}
}

// with gives the arguments with other values of some flags.
func with(arguments []string, flags ...string) []string {
	changed := append([]string{}, arguments...)
	for i := 0; i < len(flags); i += 2 {
		for at, argument := range changed {
			if argument == flags[i] {
				changed[at+1] = flags[i+1]
			}
		}
	}
	return changed
}

func TestDaemonsRefuseWhatBelongsToOthers(t *testing.T) {
	one, two := startCluster(t, 2, "--replicas", "1"), startCluster(t, 3, "--replicas", "1")
	server := one.servers()[0]
	free := freePorts(t, 1)
	elsewhere := []string{"--listen", fmt.Sprintf("127.0.0.1:%d", free), "--http-listen", fmt.Sprintf("127.0.0.1:%d", free+2)}

	t.Run("a folder in use", func(t *testing.T) {
		refused(t, with(server.arguments, elsewhere...), server.Dir, "in use")
	})
	t.Run("a port in use", func(t *testing.T) {
		address := fmt.Sprintf("127.0.0.1:%d", server.Ports.RPC)
		refused(t, with(server.arguments, "--dir", t.TempDir()), address, "in use")
	})
	t.Run("a coordinator's port in use", func(t *testing.T) {
		other := "sqlite:" + filepath.Join(t.TempDir(), "metadata.db")
		refused(t, with(one.coordinator().arguments, "--metadata", other), one.address, "in use")
	})
	t.Run("a foreign volume", func(t *testing.T) {
		victim := two.servers()[1]
		two.kill(victim)
		ids := regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)
		uuid := func(c *cluster) string {
			return ids.FindString(run(t, "ramcloud", "--cluster", c.address, "status").stdout)
		}
		refused(t, with(victim.arguments, "--coordinator", one.address), uuid(one), uuid(two), "WRONG_CLUSTER")
	})
	for _, c := range []*cluster{one, two} {
		of := c.client()
		write(c, of, c.table(of, "still there", 1), "key", "value")
	}
}

func TestAFolderThatCannotBeMadeIsNamedWithItsFlag(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("no folder"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{file, filepath.Join(file, "below")} {
		refused(t, []string{"server", "--dir", folder, "--coordinator", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"},
			"--dir: make directory '"+folder+"'", "Not a directory")
	}
}

func TestWrongFlagsAreNamed(t *testing.T) {
	for _, wrong := range []struct {
		arguments []string
		text      string
	}{
		{[]string{"server", "--dir", "d", "--replicas", "many"}, "--replicas"},
		{[]string{"server"}, "--dir"},
		{[]string{"server", "--dir", "d", "--log-memory", "1KiB"}, "at least 64.0 MiB"},
		{[]string{"coordinator", "--metadata", "etcd:x"}, "sqlite:PATH"},
		{[]string{"dev", "--dir", "d", "--servers", "2", "--replicas", "2"}, "accepted are 0 to 1"},
		{[]string{"dev", "--dir", "d", "--listen", "nonsense"}, "--listen"},
		{[]string{"fly"}, "subcommand"},
	} {
		r := run(t, "ramcloudd", wrong.arguments...)
		if said := r.stdout + r.stderr; r.code != 2 || !strings.Contains(said, wrong.text) {
			t.Errorf("%v: exit code %d, want 2 and %q:\n%s", wrong.arguments, r.code, wrong.text, said)
		}
	}
}

// hello is a client's hello (docs/formats.md), recorded from the Go client.
func hello(t *testing.T) []byte {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	of, err := client.Connect(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer of.Close()
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan struct{})
	go func() { _, _ = of.Info(ctx); close(asked) }()
	defer func() { cancel(); <-asked }()
	connection, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	_ = connection.SetReadDeadline(time.Now().Add(limit))
	greeting := make([]byte, 4096)
	n, err := connection.Read(greeting)
	if err != nil {
		t.Fatal(err)
	}
	return greeting[:n]
}

// Garbage on every port of every daemon, beside a load that must not fail.
func TestGarbageHurtsNobody(t *testing.T) {
	c := startCluster(t, 3, "--replicas", "2")
	of := c.client()
	l := startLoad(t, of, c.table(of, "load", 3))
	greeting := hello(t)
	random := rand.New(rand.NewPCG(5, 5))
	noise := make([]byte, 64<<10)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	oversize := bytes.Repeat([]byte{0xff}, 64) // every length in it is the largest there is
	var slow []net.Conn
	connections := 0
	for _, d := range c.daemons {
		for _, port := range []int{d.Ports.RPC, d.Ports.Admin, d.Ports.HTTP} {
			if port == 0 {
				continue
			}
			for i := range 40 {
				connection, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), limit)
				if err != nil {
					t.Fatalf("port %d of %s: %v", port, d.Name, err)
				}
				connections++
				_ = connection.SetDeadline(time.Now().Add(limit))
				// The daemon may close the connection in the middle of it.
				switch i % 4 {
				case 0:
					_, _ = connection.Write(noise[:1+random.IntN(len(noise)-1)])
				case 1:
					_, _ = connection.Write(append(append([]byte{}, greeting...), oversize...))
				case 2:
					_, _ = connection.Write(append(append([]byte{}, greeting...), requests(random)...))
				case 3: // one byte, and then nothing for as long as the test takes
					_, _ = connection.Write(greeting[:1])
					slow = append(slow, connection)
					continue
				}
				_ = connection.Close()
			}
		}
	}
	t.Logf("%d connections, %d of them kept open", connections, len(slow))
	l.more(2000)
	for _, connection := range slow {
		_ = connection.Close()
	}
	l.finish()
	l.verify()
	for _, d := range c.daemons {
		if !alive(d.PID) {
			t.Errorf("%s ended", d.Name)
		}
		c.eventually("/healthz of "+d.Name, func() bool {
			response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/healthz", d.Ports.HTTP))
			if err != nil {
				return false
			}
			_ = response.Body.Close()
			return response.StatusCode == http.StatusOK
		})
	}
	c.eventually("HEALTHY", func() bool { return c.status().Health == "HEALTHY" })
}

// requests have valid headers and invalid bodies, for every possible operation.
func requests(random *rand.Rand) []byte {
	var all []byte
	for opcode := range 160 {
		body := make([]byte, random.IntN(100))
		for i := range body {
			body[i] = byte(random.Uint32())
		}
		header := make([]byte, 48)
		binary.LittleEndian.PutUint32(header, uint32(len(body)))
		header[4] = 1 // a request
		binary.LittleEndian.PutUint16(header[6:], uint16(opcode))
		binary.LittleEndian.PutUint64(header[16:], uint64(opcode)+1) // the call's id
		all = append(append(all, header...), body...)
	}
	return all
}

func TestFullMemoryStillReadsAndDeletes(t *testing.T) {
	c := startCluster(t, 1, "--replicas", "0", "--cleaning", "off")
	of := c.client()
	table := c.table(of, "full", 1)
	value := bytes.Repeat([]byte{7}, 900<<10)
	written := 0
	for ; ; written++ {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		_, err := of.Write(ctx, table.ID, fmt.Append(nil, written), value)
		cancel()
		if errors.Is(err, client.OutOfMemory) {
			break
		}
		if err != nil || written > 100 {
			t.Fatalf("write %d: %v; want OUT_OF_MEMORY within 100", written, err)
		}
	}
	if written < 40 {
		t.Errorf("64 MiB of log took only %d values of 900 KiB", written)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for i := range written {
		got, _, err := of.Read(ctx, table.ID, fmt.Append(nil, i))
		if err != nil || !bytes.Equal(got, value) {
			t.Fatalf("read %d of %d: %d bytes, %v", i, written, len(got), err)
		}
	}
	for i := range written / 2 {
		if _, err := of.Delete(ctx, table.ID, fmt.Append(nil, i)); err != nil {
			t.Fatalf("delete %d: %v", i, err)
		}
	}
	for i := range written {
		_, _, err := of.Read(ctx, table.ID, fmt.Append(nil, i))
		if deleted := i < written/2; deleted != errors.Is(err, client.NotFound) || !deleted && err != nil {
			t.Errorf("read %d after the deletes: %v", i, err)
		}
	}
	r := run(t, "ramcloud", "--cluster", c.address, "put", table.Name, "one more", strings.Repeat("x", 100_000))
	if r.code != 5 || !strings.Contains(r.stderr, "OUT_OF_MEMORY") {
		t.Errorf("ramcloud put: exit code %d, want 5: %s", r.code, r.stderr)
	}
}

// A flipped bit on the disk is found and its position is reported.
func TestDamagedReplicaIsNamed(t *testing.T) {
	c := startCluster(t, 3, "--replicas", "2")
	of := c.client()
	l := startLoad(t, of, c.table(of, "load", 3))
	l.more(3000)
	l.finish()
	c.killAll()
	folder := c.servers()[0].Dir
	frame, length := firstReplica(t, folder)
	file, err := os.OpenFile(filepath.Join(folder, "frames"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	at := frame + length/2
	b := make([]byte, 1)
	if _, err := file.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt([]byte{b[0] ^ 0x10}, at); err != nil {
		t.Fatal(err)
	}
	r := run(t, "ramcloud", "replica", "dump", folder)
	if r.code != 1 || !regexp.MustCompile(fmt.Sprintf(`offset %d\b`, at)).MatchString(r.stderr) {
		t.Errorf("exit code %d, want 1 and \"offset %d\":\n%s", r.code, at, r.stderr)
	}
	// Other replicas have the damaged bytes.
	checkRebuilt(t, l, rebuild(t, c.servers()[1:]))
}
