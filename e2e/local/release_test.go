package local

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// volumeRelease is the JSON of `ramcloud server release`.
type volumeRelease struct {
	ServerID   uint64 `json:"server_id"`
	Releasable bool   `json:"releasable"`
	Reason     string `json:"reason"`
	Token      string `json:"token"`
	ExpiresAt  uint64 `json:"expires_at_ms"`
}

// A volume is released once its server has crashed and its replicas are elsewhere; no server starts with it
// then, and if one server is silent, the answer is no.
func TestAVolumeIsReleasedWhenNobodyNeedsIt(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 4, "--replicas", "2")
	ask := func(id uint64) (volumeRelease, int) {
		asked := run(t, "ramcloud", "--cluster", c.address, "--timeout", "10s", "-o", "json", "server", "release", fmt.Sprint(id))
		var answer volumeRelease
		if err := json.Unmarshal([]byte(asked.stdout), &answer); err != nil {
			t.Fatalf("release %d: %v\n%s%s", id, err, asked.stdout, asked.stderr)
		}
		if answer.Releasable != (asked.code == 0) || answer.Releasable != (answer.Token != "") {
			t.Errorf("release %d: exit code %d, %+v", id, asked.code, answer)
		}
		return answer, asked.code
	}
	victim := holder(c)
	id := c.serverViews()[victim.Name].ID
	of := c.client()
	table := c.table(of, "spread", 3)
	for i := range 300 {
		write(c, of, table, fmt.Sprint(i), strings.Repeat("x", 1000))
	}
	if answer, _ := ask(id); answer.Releasable || !strings.Contains(answer.Reason, "is UP") {
		t.Errorf("a server that is up: %+v", answer)
	}
	if answer, _ := ask(99); answer.Releasable || !strings.Contains(answer.Reason, "is not known") {
		t.Errorf("an unknown server: %+v", answer)
	}

	c.kill(victim)
	c.eventually("the verdict", func() bool { return c.status().ServersCrashed == 1 })
	silent := c.servers()[0]
	if silent == victim {
		silent = c.servers()[1]
	}
	if err := syscall.Kill(silent.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	answer, _ := ask(id)
	c.resume(silent)
	if answer.Releasable || !strings.Contains(answer.Reason, silent.Name) {
		t.Errorf("while %s is suspended: %+v", silent.Name, answer)
	}
	c.eventually("the release of the volume", func() bool {
		answer, _ = ask(id)
		return answer.Releasable
	})
	// The release asks the masters themselves; the status tells what they reported last, which may be older.
	c.eventually("every segment to have its replicas", func() bool {
		return c.status().Replication.AllSegmentsReplicated
	})

	p := c.restart(victim)
	c.eventually("the refusal to start with the volume", func() bool {
		return strings.Contains(p.log.String(), "was released to be erased")
	})
	if up := c.status().ServersUp; up != 3 {
		t.Errorf("%d servers are up, want 3", up)
	}
}
