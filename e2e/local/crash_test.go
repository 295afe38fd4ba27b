package local

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// After kill -9 of everything the servers' folders hold every acknowledged write, even if any R - 1 of them
// are lost.
func TestKilledClusterIsRebuiltFromItsFolders(t *testing.T) {
	t.Parallel()
	for _, shape := range []struct {
		servers, replicas int
		flags             string
	}{
		{servers: 4, replicas: 2},
		{servers: 3, replicas: 1},
		{servers: 3, replicas: 1, flags: "--durability synced"},
		{servers: 3, replicas: 1, flags: "--durability synced --disk-io threads"},
		{servers: 3, replicas: 1, flags: "--durability synced --direct-io never"},
	} {
		t.Run(fmt.Sprintf("%d servers, R=%d %s", shape.servers, shape.replicas, shape.flags), func(t *testing.T) {
			flags := append([]string{"--replicas", fmt.Sprint(shape.replicas)}, strings.Fields(shape.flags)...)
			c := startCluster(t, shape.servers, flags...)
			of := c.client()
			l := startLoad(t, of, c.table(of, "load", uint32(shape.servers)))
			l.more(8000)
			c.killAll()
			l.finish()
			checkRebuilt(t, l, rebuild(t, c.servers()))
			if shape.replicas < 2 {
				return
			}
			for lost := range c.servers() {
				rest := append(append([]*daemon{}, c.servers()[:lost]...), c.servers()[lost+1:]...)
				checkRebuilt(t, l, rebuild(t, rest))
			}
		})
	}
}

// rebuild returns the objects that `ramcloud replica rebuild` finds in these servers' folders.
func rebuild(t *testing.T, from []*daemon, flags ...string) map[string]string {
	t.Helper()
	return rebuildBy(t, program(t, "ramcloud"), from, flags...)
}

func rebuildBy(t *testing.T, path string, from []*daemon, flags ...string) map[string]string {
	t.Helper()
	arguments := append([]string{"replica", "rebuild"}, flags...)
	for _, server := range from {
		arguments = append(arguments, server.Dir)
	}
	r := runPath(t, path, arguments...)
	if r.code != 0 {
		t.Fatalf("%s %v: exit code %d: %s", path, arguments, r.code, r.stderr)
	}
	found := map[string]string{}
	scanner := bufio.NewScanner(strings.NewReader(r.stdout))
	scanner.Buffer(nil, 8<<20)
	for scanner.Scan() {
		var record struct {
			Key, Value string
			KeyB64     string `json:"key_b64"`
			ValueB64   string `json:"value_b64"`
		}
		if err := json.Unmarshal(scanner.Bytes(), &record); err != nil {
			t.Fatalf("%v in %.100q", err, scanner.Text())
		}
		key, value := record.Key+decode(t, record.KeyB64), record.Value+decode(t, record.ValueB64)
		if _, twice := found[key]; twice {
			t.Errorf("key %q is there twice", key)
		}
		found[key] = value
	}
	return found
}

func decode(t *testing.T, text string) string {
	bytes, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes)
}

// checkRebuilt checks that acknowledged objects are there, and neither deleted nor other ones.
func checkRebuilt(t *testing.T, l *load, found map[string]string) {
	t.Helper()
	known := 0
	l.all(func(key string, h *history) {
		value, there := found[key]
		if there {
			known++
		}
		if !h.allows(value) {
			t.Errorf("key %q was rebuilt as %.20q; acknowledged was %.20q, version %d", key, value, h.value, h.version)
		}
	})
	if known != len(found) {
		t.Errorf("%d keys rebuilt that nobody wrote", len(found)-known)
	}
	if known < loadWriters*keysPerWriter/2 {
		t.Errorf("only %d keys: the load was too small to say anything", known)
	}
}

// firstReplica returns the offset of a folder's first replica in its file, and its valid length.
func firstReplica(t *testing.T, folder string) (offset, length int64) {
	t.Helper()
	r := run(t, "ramcloud", "-o", "json", "replica", "dump", folder)
	if r.code != 0 {
		t.Fatalf("replica dump: exit code %d: %s", r.code, r.stderr)
	}
	for line := range strings.Lines(r.stdout) {
		var replica struct {
			Offset     int64
			ValidBytes int64 `json:"valid_bytes"`
		}
		if err := json.Unmarshal([]byte(line), &replica); err != nil {
			t.Fatal(err)
		}
		if replica.ValidBytes > 10_000 {
			return replica.Offset, replica.ValidBytes
		}
	}
	t.Fatalf("no replica with data: %s", r.stdout)
	return 0, 0
}
