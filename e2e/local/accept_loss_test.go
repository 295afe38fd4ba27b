package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"ramcloud.dev/client"
	"ramcloud.dev/client/testing/freeport"
)

// shownRecovery is a row of `ramcloud recovery list`.
type shownRecovery struct {
	ID      uint64
	State   string
	Outcome string
	Ended   bool
}

func (r *replicated) recoveries() []shownRecovery {
	r.t.Helper()
	var list []shownRecovery
	r.ask(&list, "recoveries")
	return list
}

// lossAnswer is the JSON of `ramcloud recovery accept-loss`.
type lossAnswer struct {
	Accepted   bool
	Effect     string
	Token      string
	Command    string
	EndMissing bool `json:"end_missing"`
	Missing    []struct {
		SegmentID uint64 `json:"segment_id"`
		Why       string
	}
	Tables []struct{ Name string }
}

func (r *replicated) acceptLoss(arguments ...string) (lossAnswer, result) {
	r.t.Helper()
	done := run(r.t, "ramcloud", append([]string{"--cluster", r.address, "-o", "json", "recovery", "accept-loss"}, arguments...)...)
	var answer lossAnswer
	if done.stdout != "" {
		if err := json.Unmarshal([]byte(done.stdout), &answer); err != nil {
			r.t.Fatalf("accept-loss %v: %v in %q", arguments, err, done.stdout)
		}
	}
	return answer, done
}

// acceptBlocked accepts the loss of this server's recovery as an operator does: by the command that the
// preview prints.
func (r *replicated) acceptBlocked(id uint64) {
	r.t.Helper()
	server := fmt.Sprint(id)
	var shown lossAnswer
	r.eventually("a preview for server "+server, func() bool {
		var done result
		shown, done = r.acceptLoss(server)
		return done.code == 1 && shown.Token != ""
	})
	if shown.Accepted || len(shown.Missing) == 0 || shown.Effect == "" {
		r.t.Fatalf("a preview that shows nothing: %+v", shown)
	}
	if want := "ramcloud recovery accept-loss " + server + " --yes --token " + shown.Token; shown.Command != want {
		r.t.Errorf("the command is %q, want %q", shown.Command, want)
	}
	if _, refused := r.acceptLoss(server, "--yes", "--token", "loss/1/0/0"); refused.code == 0 {
		r.t.Error("a token of something else was taken")
	}
	words := append(strings.Fields(shown.Command)[3:], "--reason", "the machines burnt down")
	accepted, done := r.acceptLoss(words...)
	if done.code != 0 || !accepted.Accepted {
		r.t.Fatalf("%v: exit code %d: %s", words, done.code, done.stderr)
	}
}

// acceptWhateverIsBlocked until every tablet is served.
func (r *replicated) acceptWhateverIsBlocked() (accepted []uint64) {
	r.t.Helper()
	r.eventually("tablets that are all served", func() bool {
		for _, recovery := range r.recoveries() {
			if recovery.State == "BLOCKED" && !recovery.Ended {
				r.acceptBlocked(recovery.ID)
				accepted = append(accepted, recovery.ID)
			}
		}
		return r.status().TabletsUnavailable == 0
	})
	return accepted
}

// onlyOwner is the server that has the only tablet of the table, and its id.
func (r *replicated) onlyOwner(table string) (*daemon, uint64) {
	r.t.Helper()
	views := r.serverViews()
	for id := range r.owners(table) {
		for _, d := range r.daemons {
			if views[d.Name].ID == id {
				return d, id
			}
		}
	}
	r.t.Fatalf("nobody has table %s", table)
	return nil, 0
}

// fullest is the server with most replicas, other than the owner; it has some of the owner's segments.
func (r *replicated) fullest(owner *daemon) (most *daemon) {
	r.t.Helper()
	r.eventually("replicas that are known", func() bool {
		views := r.serverViews()
		var all, highest uint64
		for _, d := range r.daemons {
			used := views[d.Name].FramesUsed
			if all += used; d != owner && used > highest {
				most, highest = d, used
			}
		}
		return all >= 4 && highest >= 2
	})
	return most
}

// moveAway kills a server and renames its folder, so that it starts again with an empty one.
func (r *replicated) moveAway(d *daemon) (folder string) {
	r.t.Helper()
	r.kill(d)
	folder = d.Dir + "-away"
	if err := os.Rename(d.Dir, folder); err != nil {
		r.t.Fatal(err)
	}
	return folder
}

// Two of three folders are lost with R = 1. The recoveries are BLOCKED until their loss is accepted; then the
// remaining data is served, versions rise, and a folder that comes back too late changes nothing.
func TestALossIsAcceptedAndTheRestIsServed(t *testing.T) {
	const keys = 60
	r := startReplicatedWith(t, func(_ *replicated, _ int, d *daemon) {
		if d.Role == "coordinator" {
			d.arguments = append(d.arguments, "--volume-return", "1s")
		}
		// The lease is long enough for machines that are busy with other tests.
		for flag, value := range map[string]string{"--replicas": "1", "--leader-lease": "10s"} {
			if at := slices.Index(d.arguments, flag); at >= 0 {
				d.arguments[at+1] = value
			}
		}
	})
	of, ctx := r.client(), context.Background()
	table := r.table(of, "kept", 1)
	key := func(i int) []byte { return fmt.Appendf(nil, "key-%d", i) }
	versions := make([]uint64, keys)
	write := func(value []byte) {
		t.Helper()
		for i := range keys {
			version, err := of.Write(ctx, table.ID, key(i), value)
			if err != nil {
				t.Fatalf("write of %s: %v", key(i), err)
			}
			if version <= versions[i] {
				t.Fatalf("%s: version %d was assigned after %d", key(i), version, versions[i])
			}
			versions[i] = version
		}
	}
	old := append([]byte("old"), make([]byte, 400_000)...) // several segments in all
	write(old)
	owner, former := r.onlyOwner("kept")
	gone := r.fullest(owner)
	if _, refused := r.acceptLoss(fmt.Sprint(former)); refused.code == 0 || !strings.Contains(refused.stderr, "is UP") {
		t.Errorf("a server that is UP: exit code %d: %s", refused.code, refused.stderr)
	}

	r.moveAway(owner)
	away := r.moveAway(gone)
	r.restart(owner)
	r.restart(gone)
	r.eventually("a recovery that is BLOCKED", func() bool {
		return slices.ContainsFunc(r.recoveries(), func(s shownRecovery) bool { return s.ID == former && s.State == "BLOCKED" })
	})
	if r.status().TabletsUnavailable == 0 {
		t.Error("nothing is unavailable")
	}
	if accepted := r.acceptWhateverIsBlocked(); !slices.Contains(accepted, former) {
		t.Errorf("the loss of server %d was not accepted, but of %v", former, accepted)
	}
	r.eventually("the end of the recoveries", func() bool {
		return !slices.ContainsFunc(r.recoveries(), func(s shownRecovery) bool { return !s.Ended })
	})
	if !slices.ContainsFunc(r.recoveries(), func(s shownRecovery) bool { return s.ID == former && s.Outcome == "LOSS_ACCEPTED" }) {
		t.Errorf("the list does not say that a loss was accepted: %+v", r.recoveries())
	}

	found := 0
	for i := range keys {
		value, _, err := of.Read(ctx, table.ID, key(i))
		var known *client.Error
		switch {
		case err == nil && bytes.Equal(value, old):
			found++
		case err == nil:
			t.Errorf("%s has %d other bytes", key(i), len(value))
		case !errors.As(err, &known) || known.Code != client.NotFound:
			t.Errorf("read of %s: %v", key(i), err)
		}
	}
	t.Logf("%d of %d objects are there", found, keys)
	if found == keys {
		t.Error("nothing was lost")
	}
	write([]byte("new"))
	r.checkAudit(former)

	// The next leader knows it, too. Then one of the folders comes back.
	leader := r.leader(nil)
	r.kill(leader)
	r.leader(leader)
	r.checkAudit(former)
	r.startWithFolder(gone, away)
	var view serverView
	var unavailable int
	t.Cleanup(func() {
		t.Logf("the server on the folder that came back was %+v; tablets unavailable: %d", view, unavailable)
	})
	r.eventually("all frames of its earlier incarnation to be free", func() bool {
		view, unavailable = r.serverViews()["back"], r.status().TabletsUnavailable
		return view.State == "UP" && view.Quarantined == 0 && unavailable == 0
	})
	for i := range keys {
		value, version, err := of.Read(ctx, table.ID, key(i))
		if err != nil || string(value) != "new" || version != versions[i] {
			t.Errorf("%s is %q, version %d (%v); want version %d", key(i), value, version, err, versions[i])
		}
	}
}

// startWithFolder starts one more server, on a folder of a dead one.
func (r *replicated) startWithFolder(like *daemon, folder string) {
	r.t.Helper()
	base, err := freeport.Base(2)
	if err != nil {
		r.t.Fatal(err)
	}
	d := &daemon{Role: "server", Name: "back", Dir: folder}
	d.Ports.RPC, d.Ports.HTTP = base, base+2
	d.arguments = slices.Clone(like.arguments)
	for flag, value := range map[string]string{"--listen": fmt.Sprintf("127.0.0.1:%d", base), "--dir": folder,
		"--http-listen": fmt.Sprintf("127.0.0.1:%d", base+2), "--name": "back"} {
		d.arguments[slices.Index(d.arguments, flag)+1] = value
	}
	r.daemons = append(r.daemons, d)
	r.restart(d)
}

// checkAudit: the audit records who accepted which loss, and why.
func (r *replicated) checkAudit(server uint64) {
	r.t.Helper()
	var losses []struct {
		ServerID     uint64 `json:"server_id"`
		AcceptedAtMS uint64 `json:"accepted_at_ms"`
		By           string
		Reason       string
		Summary      string
		EndGivenUp   bool `json:"end_given_up"`
		Segments     []struct {
			SegmentID uint64 `json:"segment_id"`
		}
	}
	asked := run(r.t, "ramcloud", "--cluster", r.address, "-o", "json", "recovery", "losses")
	if asked.code != 0 {
		r.t.Fatalf("ramcloud recovery losses: exit code %d: %s", asked.code, asked.stderr)
	}
	if err := json.Unmarshal([]byte(asked.stdout), &losses); err != nil {
		r.t.Fatalf("%v in %q", err, asked.stdout)
	}
	for _, loss := range losses {
		if loss.ServerID != server {
			continue
		}
		if loss.AcceptedAtMS == 0 || !strings.Contains(loss.By, "@") || loss.Reason != "the machines burnt down" ||
			loss.Summary == "" || (len(loss.Segments) == 0 && !loss.EndGivenUp) {
			r.t.Errorf("an audit that lacks something: %+v", loss)
		}
		return
	}
	r.t.Errorf("no loss of server %d is recorded: %s", server, asked.stdout)
}
