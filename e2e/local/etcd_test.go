package local

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ramcloud.dev/client/testing/freeport"
)

// etcdServer is a real etcd with one member.
type etcdServer struct {
	t       *testing.T
	address string
}

// etcdProgram is the path in RAMCLOUD_ETCD, or the etcd that e2e/kind/components.sh has built.
func etcdProgram(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("RAMCLOUD_ETCD"); path != "" {
		return path
	}
	cache := os.Getenv("RAMCLOUD_CACHE")
	if home, err := os.UserHomeDir(); cache == "" && err == nil {
		cache = filepath.Join(home, ".cache", "ramcloud")
	}
	found, _ := filepath.Glob(filepath.Join(cache, "components", "etcd-v*"))
	found = slices.DeleteFunc(found, func(path string) bool { return strings.HasSuffix(path, ".tmp") })
	if len(found) == 0 {
		t.Fatal("there is no etcd; e2e/kind/components.sh etcd builds it, or RAMCLOUD_ETCD names another")
	}
	return found[len(found)-1]
}

func startEtcd(t *testing.T) *etcdServer {
	t.Helper()
	program := etcdProgram(t)
	base, err := freeport.Base(1)
	if err != nil {
		t.Fatal(err)
	}
	e := &etcdServer{t: t, address: fmt.Sprintf("127.0.0.1:%d", base)}
	clients, peers := "http://"+e.address, fmt.Sprintf("http://127.0.0.1:%d", base+1)
	// The shortest lease is one and a half times the time of an election, in whole seconds.
	p := start(t, program, []string{"--name=test", "--data-dir=" + t.TempDir(),
		"--listen-client-urls=" + clients, "--advertise-client-urls=" + clients,
		"--listen-peer-urls=" + peers, "--initial-advertise-peer-urls=" + peers,
		"--initial-cluster=test=" + peers, "--log-level=error", "--unsafe-no-fsync",
		"--heartbeat-interval=50", "--election-timeout=500"}, func(string) {})
	t.Cleanup(func() {
		_ = syscall.Kill(p.pid(), syscall.SIGKILL)
		<-p.ended
	})
	for deadline := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		response, err := http.Get(clients + "/health")
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return e
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("etcd does not start: %v\n%s", err, p.log)
		}
	}
}

// change is an event of etcd's history.
type change struct {
	deleted           bool
	key, value        string
	created, modified uint64
}

// history gives all changes below a prefix, oldest first.
func (e *etcdServer) history(prefix string) []change {
	e.t.Helper()
	type header struct{ Revision string }
	var now struct{ Header header }
	e.post("/v3/kv/range", map[string]any{"key": encoded(prefix)}, func(body io.Reader) error {
		return json.NewDecoder(body).Decode(&now)
	})
	last := number(e.t, now.Header.Revision)
	end := prefix[:len(prefix)-1] + string(prefix[len(prefix)-1]+1)
	request := map[string]any{"create_request": map[string]any{
		"key": encoded(prefix), "range_end": encoded(end), "start_revision": "1"}}
	// One more change, so that the stream is known to have reached the present.
	e.post("/v3/kv/put", map[string]any{"key": encoded(prefix + "/end-of-history"), "value": ""}, func(io.Reader) error { return nil })
	var changes []change
	e.post("/v3/watch", request, func(body io.Reader) error {
		for decoder := json.NewDecoder(body); ; {
			var part struct {
				Result struct {
					Events []struct {
						Type string
						KV   struct {
							Key, Value     []byte
							CreateRevision string `json:"create_revision"`
							ModRevision    string `json:"mod_revision"`
						}
					}
				}
			}
			if err := decoder.Decode(&part); err != nil {
				return err
			}
			for _, event := range part.Result.Events {
				modified := number(e.t, event.KV.ModRevision)
				if modified > last {
					return nil
				}
				changes = append(changes, change{event.Type == "DELETE", string(event.KV.Key), string(event.KV.Value),
					number(e.t, event.KV.CreateRevision), modified})
			}
		}
	})
	return changes
}

// post sends a request to etcd's JSON gateway.
func (e *etcdServer) post(path string, request any, read func(io.Reader) error) {
	e.t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		e.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	asked, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+e.address+path, bytes.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(asked)
	if err != nil {
		e.t.Fatalf("etcd %s: %v", path, err)
	}
	defer func() { _ = response.Body.Close() }()
	if err := read(response.Body); err != nil {
		e.t.Fatalf("etcd %s: %v", path, err)
	}
}

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func number(t *testing.T, text string) uint64 {
	t.Helper()
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// termRecord gives the 16 bytes of a term record that are the same in all formats; later ones begin with a mark
// and the length of what follows (docs/formats.md).
func termRecord(record []byte) []byte {
	const mark, length = 8, 4
	if len(record) < mark+length+16 || int(binary.LittleEndian.Uint32(record[mark:])) != len(record)-mark-length {
		return record
	}
	return record[mark+length:][:16]
}

// checkHistory reads etcd's history of a cluster: every transaction was made under the leader key of its
// time, none was made twice, terms never fall. It returns the number of leaders.
func checkHistory(t *testing.T, changes []change, prefix string) (leaders int) {
	t.Helper()
	var leader, term, revision uint64
	for _, c := range changes {
		switch {
		case c.key == prefix+"/leader" && c.deleted:
			leader = 0
		case c.key == prefix+"/leader":
			if leader != 0 || c.created != c.modified {
				t.Errorf("revision %d: a leader key on top of another", c.modified)
			}
			leader = c.created
			leaders++
		case c.key == prefix+"/term":
			next := termRecord([]byte(c.value))
			if len(next) != 16 {
				t.Fatalf("revision %d: a term record of %d bytes", c.modified, len(next))
			}
			if got := binary.LittleEndian.Uint64(next); got != leader || got < term {
				t.Errorf("revision %d: term %d after %d while the leader key is of revision %d", c.modified, got, term, leader)
			}
			if got := binary.LittleEndian.Uint64(next[8:]); got != revision+1 {
				t.Errorf("revision %d: change %d after %d", c.modified, got, revision)
			}
			term, revision = binary.LittleEndian.Uint64(next), revision+1
		}
	}
	return leaders
}
