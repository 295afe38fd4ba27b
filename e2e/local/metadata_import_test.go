package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"testing"
	"time"

	"ramcloud.dev/client"
	"ramcloud.dev/client/testing/freeport"
)

// remove deletes all keys that begin like this.
func (e *etcdServer) remove(prefix string) {
	e.t.Helper()
	end := prefix[:len(prefix)-1] + string(prefix[len(prefix)-1]+1)
	e.post("/v3/kv/deleterange", map[string]any{"key": encoded(prefix), "range_end": encoded(end)},
		func(io.Reader) error { return nil })
}

func (r *replicated) store() string { return "etcd:" + r.etcd.address + "?prefix=" + etcdPrefix }

// metadata runs `ramcloudd metadata export` or `import`.
func (r *replicated) metadata(command, file string) {
	r.t.Helper()
	done := run(r.t, "ramcloudd", "metadata", command, "--metadata", r.store(), "--file", file)
	if done.code != 0 {
		r.t.Fatalf("metadata %s: exit code %d: %s%s", command, done.code, done.stdout, done.stderr)
	}
}

// addServer starts one more, and waits until it is UP.
func (r *replicated) addServer(name string) *daemon {
	r.t.Helper()
	base, err := freeport.Base(0, 2)
	if err != nil {
		r.t.Fatal(err)
	}
	d := &daemon{Role: "server", Name: name, Dir: filepath.Join(r.dir, name)}
	d.Ports.RPC, d.Ports.HTTP = base, base+2
	d.arguments = r.daemons[0].arguments
	for flag, value := range map[string]string{"--listen": fmt.Sprintf("127.0.0.1:%d", base),
		"--http-listen": fmt.Sprintf("127.0.0.1:%d", base+2), "--dir": d.Dir, "--name": name} {
		d.arguments = replaceFlag(d.arguments, flag, value)
	}
	r.daemons = append(r.daemons, d)
	r.restart(d)
	r.eventually("server "+name, func() bool { return r.serverViews()[name].State == "UP" })
	return d
}

// loses waits until reads of an object report its loss, and fails if one returns the object.
func (r *replicated) loses(of *client.Client, table *client.Table, key string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if value, _, err := of.Read(ctx, table.ID, []byte(key)); err == nil {
		r.t.Errorf("table %d has %q", table.ID, value)
	}
}

// An export is imported after two more elections, after tables and servers were made, and one was dropped: no
// id is given out twice, no old object appears in a present table, and all data of live servers is served as
// before.
func TestAnExportThatIsTwoElectionsOldGivesOutNothingTwice(t *testing.T) {
	t.Parallel()
	r := startReplicated(t)
	of := r.client()
	table, dropped := r.table(of, "load", 3), r.table(of, "dropped since", 1)
	write(r.cluster, of, dropped, "dropped", "a row of a table that was dropped")
	l := r.pacedLoad(of, table)
	l.more(800)
	file := filepath.Join(r.dir, "export.jsonl")
	r.metadata("export", file)

	var since []*client.Table
	var late []*daemon
	for n := range 2 {
		leader := r.leader(nil)
		r.kill(leader)
		since = append(since, r.table(of, fmt.Sprintf("since %d", n), 3))
		r.restart(leader)
		for i := range 20 {
			write(r.cluster, of, since[n], fmt.Sprintf("old row %d", i), "of a table that the export does not know")
		}
		late = append(late, r.addServer(fmt.Sprintf("late-%d", n)))
	}
	if err := of.DropTable(t.Context(), dropped.Name); err != nil {
		t.Fatal(err)
	}
	lastTable, term := since[1].ID, r.term(of)
	before := r.serverViews()
	lastServer := before[late[1].Name].ID
	l.more(800)

	for _, d := range r.coordinators {
		r.kill(d)
	}
	r.etcd.remove(etcdPrefix + "/")
	r.metadata("import", file)
	for _, d := range r.coordinators {
		r.restart(d)
	}
	r.leader(nil)
	if now := r.term(of); now <= term {
		t.Errorf("term %d after %d", now, term)
	}
	// Servers that the export does not know report themselves, too, and go on.
	r.eventually("all servers", func() bool { return len(r.serverViews()) == len(before) })
	for name, view := range r.serverViews() {
		if view.State != "UP" || view.ID != before[name].ID {
			t.Errorf("%s is server %d, %s; it was %d", name, view.ID, view.State, before[name].ID)
		}
	}
	l.more(800)
	newcomer := r.addServer("after the import")
	if id := r.serverViews()[newcomer.Name].ID; id <= lastServer {
		t.Errorf("a new server has id %d, but %d was given out before", id, lastServer)
	}

	// All servers take part, as masters and as backups.
	made := r.table(of, "made after the import", 6)
	if made.ID <= lastTable {
		t.Errorf("the table has id %d, but %d was given out before", made.ID, lastTable)
	}
	for i := range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		if _, _, err := of.Read(ctx, made.ID, fmt.Appendf(nil, "old row %d", i)); !errors.Is(err, client.NotFound) {
			t.Errorf("an old row in a new table: %v", err)
		}
		cancel()
	}
	second := r.pacedLoad(of, made)
	second.more(2500)
	r.loses(of, dropped, "dropped")
	for _, old := range since {
		again, err := of.GetTable(t.Context(), old.Name)
		if err != nil || again.ID != old.ID {
			t.Fatalf("table %q of id %d: %+v, %v", old.Name, old.ID, again, err)
		}
		for i := range 20 {
			if _, _, err := of.Read(t.Context(), old.ID, fmt.Appendf(nil, "old row %d", i)); err != nil {
				t.Errorf("old row %d of table %q: %v", i, old.Name, err)
			}
		}
	}
	for _, each := range []*load{l, second} {
		each.finish()
		each.verify()
	}
	r.killAll()
	for _, each := range []*load{l, second} {
		checkRebuilt(t, each, rebuild(t, r.daemons, "--table", fmt.Sprint(each.table.ID)))
	}
}
