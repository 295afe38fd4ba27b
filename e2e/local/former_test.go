//go:build former

package local

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ramcloud.dev/client"
)

// The programs of a former commit (test/former-commit) run together with those of today: `make former`.

// former is the path of one of the former programs.
func former(t *testing.T, name string) string {
	t.Helper()
	folder := os.Getenv("RAMCLOUD_FORMER")
	if folder == "" {
		t.Fatal("RAMCLOUD_FORMER names no folder of former programs; `make former` builds them and runs this test")
	}
	path := filepath.Join(folder, name)
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// startMixed starts three coordinators and three servers; F stands for a former program, N for a present one.
// The first coordinator makes the cluster's metadata, in the format that it knows.
func startMixed(t *testing.T, coordinators, servers string) *replicated {
	t.Helper()
	return startReplicatedWith(t, func(r *replicated, i int, d *daemon) {
		kinds := servers
		if d.Role == "coordinator" {
			kinds = coordinators
		}
		if d.Role == "coordinator" && i > 0 {
			r.eventually("the first leader", func() bool { return leads(r.coordinators[0]) })
		}
		if kinds[i] == 'F' {
			d.program = former(t, "ramcloudd")
		}
	})
}

// lead makes this coordinator the leader.
func (r *replicated) lead(d *daemon) {
	r.t.Helper()
	if leads(d) {
		return
	}
	for _, other := range r.coordinators {
		if other != d {
			r.kill(other)
		}
	}
	r.eventually("the leadership of "+d.Name, func() bool { return leads(d) })
	for _, other := range r.coordinators {
		if other != d {
			r.restart(other)
		}
	}
}

// ramcloud runs a command line program against coordinators, and gives what it prints.
func (r *replicated) ramcloud(path, coordinators string, arguments ...string) string {
	r.t.Helper()
	done := runPath(r.t, path, append([]string{"--cluster", coordinators}, arguments...)...)
	if done.code != 0 {
		r.t.Errorf("%s --cluster %s %v: exit code %d: %s%s", path, coordinators, arguments, done.code, done.stdout, done.stderr)
	}
	return done.stdout
}

// commandLines has the former and the new command line make, fill, read and drop tables, each by way of every
// coordinator; what one wrote the other reads.
func (r *replicated) commandLines(round string) {
	r.t.Helper()
	ours := program(r.t, "ramcloud")
	theirs := former(r.t, "ramcloud")
	var lines []string
	for i := range 300 {
		lines = append(lines, fmt.Sprintf(`{"key":"%03d","value":"%s"}`, i, strings.Repeat("v", i)))
	}
	file := filepath.Join(r.dir, "rows.jsonl")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		r.t.Fatal(err)
	}
	for i, d := range r.coordinators {
		writer, reader := ours, theirs
		if i%2 == 0 {
			writer, reader = theirs, ours
		}
		by, all := fmt.Sprintf("127.0.0.1:%d", d.Ports.RPC), r.address
		table := fmt.Sprintf("rows-%s-%d", round, i)
		r.ramcloud(writer, by, "table", "create", table, "--span", "3")
		r.ramcloud(writer, all, "import", table, file)
		r.ramcloud(writer, by, "incr", table, "counter", "7")
		r.ramcloud(reader, by, "del", table, "counter")
		exported := strings.Split(strings.TrimSpace(r.ramcloud(reader, by, "export", table)), "\n")
		slices.Sort(exported)
		if !slices.Equal(exported, lines) {
			r.t.Errorf("%s exported %d lines, %s had imported %d", reader, len(exported), writer, len(lines))
		}
		if value := r.ramcloud(reader, all, "get", table, "017"); strings.TrimSpace(value) != strings.Repeat("v", 17) {
			r.t.Errorf("%s read %q", reader, value)
		}
		for _, command := range []string{"status", "servers", "tablets"} {
			if text := r.ramcloud(reader, by, command); text == "" {
				r.t.Errorf("%s %s prints nothing", reader, command)
			}
		}
		r.ramcloud(reader, all, "table", "drop", table)
	}
}

// Every combination of former and new coordinators, masters and backups serves reads and writes, and what was acknowledged
// is there: on the servers, and, after kill -9 of all, in whichever folders are left.
func TestFormerAndNewProcessesWorkTogether(t *testing.T) {
	for _, shape := range []struct{ coordinators, servers string }{
		{"FFF", "FNN"}, // new servers join
		{"NNN", "NFF"}, // coordinators go first
		{"FNN", "FNF"}, // in the middle of an upgrade of the coordinators
	} {
		t.Run("coordinators "+shape.coordinators+", servers "+shape.servers, func(t *testing.T) {
			t.Parallel()
			workTogether(t, shape.coordinators, shape.servers)
		})
	}
}

func workTogether(t *testing.T, coordinators, servers string) {
	r := startMixed(t, coordinators, servers)
	for i, d := range append(slices.Clone(r.coordinators), r.daemons...) {
		want := uint16(2)
		if (coordinators + servers)[i] == 'F' {
			want = 1
		}
		if _, got := sayHello(t, d.Ports.RPC, 2); got != want {
			t.Errorf("%s speaks version %d, want %d", d.Name, got, want)
		}
	}
	of, ids := r.client(), r.serverViews()
	var loads []*load // one for each master; its two backups are the other servers
	for _, d := range r.daemons {
		loads = append(loads, r.pacedLoad(of, tableOn(r.cluster, of, ids[d.Name].ID)))
	}
	more := func(of []*load, count int64) {
		t.Helper()
		for _, l := range of {
			l.more(count)
		}
	}
	more(loads, 500)
	for name, view := range r.serverViews() {
		if view.FramesUsed == 0 {
			t.Errorf("%s has no replicas", name)
		}
	}
	for round, d := range append(slices.Clone(r.coordinators), r.coordinators[0]) {
		r.lead(d)
		r.commandLines(fmt.Sprint(round))
		more(loads, 200)
	}
	for name, view := range r.serverViews() {
		if view.State != "UP" || view.ID != ids[name].ID {
			t.Errorf("%s is server %d, %s; it was %d", name, view.ID, view.State, ids[name].ID)
		}
	}

	// Each server but the last is a backup that is lost; the last is a master as well.
	for _, l := range loads {
		l.more(1500)
	}
	dead := r.daemons[2]
	loads[2].finish()
	r.kill(dead)
	r.eventually("the verdict", func() bool { return r.serverViews()[dead.Name].State == "CRASHED" })
	more(loads[:2], 200)
	r.restart(dead)
	r.awaitReplicas("the return of " + dead.Name)
	more(loads[:2], 200)
	for _, l := range loads[:2] {
		l.finish()
		l.verify()
	}
	r.killAll()
	for _, l := range loads {
		r.checkFolders(l)
	}
}

// checkFolders rebuilds a load's table with the former and the new program, from all folders and from all but each one.
func (r *replicated) checkFolders(l *load) {
	r.t.Helper()
	table := fmt.Sprint(l.table.ID)
	for _, path := range []string{program(r.t, "ramcloud"), former(r.t, "ramcloud")} {
		checkRebuilt(r.t, l, rebuildBy(r.t, path, r.daemons, "--table", table))
		for _, lost := range r.daemons {
			rest := slices.DeleteFunc(slices.Clone(r.daemons), func(d *daemon) bool { return d == lost })
			checkRebuilt(r.t, l, rebuildBy(r.t, path, rest, "--table", table))
		}
	}
}

// tables are those of the cluster: ids by name.
func (r *replicated) tables(of *client.Client) map[string]uint64 {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	list, err := of.ListTables(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	ids := map[string]uint64{}
	for _, table := range list {
		ids[table.Name] = table.ID
	}
	return ids
}

// A cluster that former programs wrote, stopped, is started with new ones: its metadata is read, its volumes are
// recognised, and what was acknowledged is in them, before and after the new servers have used them.
func TestFormerMetadataAndVolumesAreTakenOver(t *testing.T) {
	t.Parallel()
	r := startMixed(t, "FFF", "FFF")
	of := r.client()
	old := r.pacedLoad(of, r.table(of, "load", 3))
	r.table(of, "dropped", 2)
	if err := of.DropTable(t.Context(), "dropped"); err != nil {
		t.Fatal(err)
	}
	r.table(of, "empty", 2)
	old.more(2500)
	old.finish()
	old.verify()
	tables, servers, term := r.tables(of), r.serverViews(), r.term(of)
	r.killAll()
	r.checkFolders(old)

	for _, d := range append(slices.Clone(r.coordinators), r.daemons...) {
		d.program = ""
		r.restart(d)
	}
	r.eventually("new servers on all volumes", func() bool {
		views := r.serverViews()
		return !slices.ContainsFunc(r.daemons, func(d *daemon) bool { return views[d.Name].ID <= servers[d.Name].ID })
	})
	if now := r.term(of); now <= term {
		t.Errorf("term %d after %d", now, term)
	}
	if now := r.tables(of); fmt.Sprint(now) != fmt.Sprint(tables) {
		t.Errorf("tables are %v, they were %v", now, tables)
	}
	for name, view := range r.serverViews() {
		if view.State != "UP" || view.Quarantined == 0 {
			t.Errorf("%s, which was server %d, is %+v", name, servers[name].ID, view)
		}
	}

	young := r.pacedLoad(of, r.table(of, "of the new programs", 3))
	young.more(500)
	if refused := r.upgrade(); refused.code == 0 || !strings.Contains(refused.stderr, "no way back") {
		t.Errorf("without --yes: %+v", refused)
	}
	r.upgraded()
	r.kill(r.leader(nil))
	r.table(of, "after the upgrade", 3)
	young.more(2000)
	young.finish()
	young.verify()
	r.killAll()
	for _, l := range []*load{young, old} {
		r.checkFolders(l)
	}
}

func (r *replicated) upgrade(flags ...string) result {
	r.t.Helper()
	return run(r.t, "ramcloud", append([]string{"--cluster", r.address, "metadata", "upgrade"}, flags...)...)
}

// upgraded raises the metadata's format, twice, and looks at an export.
func (r *replicated) upgraded() {
	r.t.Helper()
	for range 2 {
		if done := r.upgrade("--yes"); done.code != 0 || !strings.Contains(done.stdout, "format 3") {
			r.t.Errorf("metadata upgrade --yes: %+v", done)
		}
	}
	file := filepath.Join(r.dir, "upgraded.jsonl")
	r.metadata("export", file)
	text, err := os.ReadFile(file)
	var head struct {
		RecordsFormat int `json:"records_format"`
	}
	if line, _, _ := strings.Cut(string(text), "\n"); err != nil || json.Unmarshal([]byte(line), &head) != nil || head.RecordsFormat != 3 {
		r.t.Errorf("%v: an export that begins with %.300q", err, text)
	}
}

// ends waits until a process ends by itself, and returns its log.
func (r *replicated) ends(d *daemon, p *process) string {
	r.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(limit):
		r.t.Fatalf("%s did not end within %s\n%s", d.Name, limit, p.log)
	}
	if p.command.ProcessState.ExitCode() == 0 {
		r.t.Errorf("%s ended with exit code 0\n%s", d.Name, p.log)
	}
	return p.log.String()
}

// Once the format is raised, former coordinators say why they cannot lead, and present ones go on.
func TestFormerCoordinatorsRefuseUpgradedMetadata(t *testing.T) {
	t.Parallel()
	r := startMixed(t, "FNN", "NFN")
	of := r.client()
	l := r.pacedLoad(of, r.table(of, "load", 3))
	l.more(200)
	standby := r.coordinators[0]

	r.lead(standby)
	if refused := r.upgrade("--yes"); refused.code == 0 || !strings.Contains(refused.stderr, "former build") {
		t.Errorf("asked of a former leader: %+v", refused)
	}
	exported := filepath.Join(r.dir, "former.jsonl")
	if done := runPath(t, former(t, "ramcloudd"), "metadata", "export", "--metadata", r.store(), "--file", exported); done.code != 0 {
		t.Errorf("a former export before the upgrade: %+v", done)
	}
	r.lead(r.coordinators[1])
	running := r.extra[slices.IndexFunc(r.extra, func(p *process) bool { return p.pid() == standby.PID })]
	r.eventually("a standby", func() bool {
		text := running.log.String() // former programs use another name for the event
		return strings.Contains(text, "leadership.standing_by") || strings.Contains(text, "standing by")
	})
	r.upgraded()
	r.table(of, "before the former one is elected", 3) // the first record of the new format
	l.more(200)

	// A former standby that ran during the upgrade is elected, and ends.
	r.kill(r.coordinators[1])
	r.kill(r.coordinators[2])
	if text := r.ends(standby, running); !strings.Contains(text, "metadata record '/term'") {
		t.Errorf("a former standby says\n%s", text)
	}
	// A former coordinator that starts now is not even elected.
	const sentence = "metadata has format 3; this build reads 1"
	if text := r.ends(standby, r.restart(standby)); !strings.Contains(text, sentence) || strings.Contains(text, "elected") {
		t.Errorf("a former coordinator says\n%s", text)
	}
	if done := runPath(t, former(t, "ramcloudd"), "metadata", "export", "--metadata", r.store(), "--file", exported); done.code == 0 ||
		!strings.Contains(done.stdout+done.stderr, "format 3") && !strings.Contains(done.stdout+done.stderr, "does not decode") {
		t.Errorf("a former export after the upgrade: %+v", done)
	}
	r.restart(r.coordinators[1])
	standby.program = ""
	r.restart(standby)
	r.table(of, "after the upgrade", 3)
	l.more(200)
	l.finish()
	l.verify()
	for name, view := range r.serverViews() {
		if view.State != "UP" {
			t.Errorf("%s is %s", name, view.State)
		}
	}
}

// Former coordinators cannot lead on metadata that this version imported, in any format: the numbers are too
// high for them.
func TestFormerCoordinatorsRefuseAnImportOfToday(t *testing.T) {
	t.Parallel()
	r := startMixed(t, "FFF", "FFF")
	file := filepath.Join(r.dir, "export.jsonl")
	r.metadata("export", file)
	for _, d := range r.coordinators {
		r.kill(d)
	}
	r.etcd.remove(etcdPrefix + "/")
	r.metadata("import", file)
	d := r.coordinators[0]
	if text := r.ends(d, r.restart(d)); !strings.Contains(text, "transactions; accepted are at most 4294967295") {
		t.Errorf("a former coordinator says\n%s", text)
	}
	r.coordinators[1].program = ""
	r.restart(r.coordinators[1])
	r.table(r.client(), "of the new coordinator", 3)
}
