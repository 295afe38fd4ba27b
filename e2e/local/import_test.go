package local

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// importState is what an import with --resume keeps (the fields that the test checks).
type importState struct {
	AckedBytes int64 `json:"acked_bytes"`
	Imported   int
	Whole      bool
}

func readImportState(path string) (state importState, err error) {
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &state)
	}
	return state, err
}

// An import that is killed, however often, continues at a line before which everything is acknowledged.
func TestKilledImportGoesOn(t *testing.T) {
	const objects = 60_000
	c := startCluster(t, 2, "--replicas", "1", "--durability", "buffered")
	folder := t.TempDir()
	file, state := filepath.Join(folder, "data.csv"), filepath.Join(folder, "state")
	var text strings.Builder
	text.WriteString("id,name\r\n")
	for i := range objects {
		fmt.Fprintf(&text, "%d,\"the object, number %d\r\nof many\"\r\n", i, i)
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	arguments := []string{"--cluster", c.address, "-o", "json", "import", "things", file, "--create", "--span", "2",
		"--format", "csv", "--key-column", "id", "--value-column", "name", "--resume", state}

	before := importState{}
	for kills := 0; kills < 2; kills++ {
		// One write at a time, so that the import does not finish before it is killed.
		command := exec.Command(program(t, "ramcloud"), append(arguments, "--outstanding", "1")...)
		var stderr bytes.Buffer
		command.Stderr = &stderr
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		now := before
		for deadline := time.Now().Add(limit); now.AckedBytes <= before.AckedBytes+int64(text.Len())/20; time.Sleep(2 * time.Millisecond) {
			now, _ = readImportState(state)
			if time.Now().After(deadline) {
				t.Fatalf("no progress in %s: %s", limit, stderr.String())
			}
		}
		_ = command.Process.Signal(syscall.SIGKILL)
		_ = command.Wait()
		left, err := readImportState(state)
		if err != nil {
			t.Fatalf("the state after kill -9: %v", err)
		}
		if left.Whole {
			t.Fatalf("the whole file was imported before kill %d: too few objects", kills+1)
		}
		if left.AckedBytes < now.AckedBytes || left.AckedBytes >= int64(text.Len()) {
			t.Errorf("acked_bytes %d after %d of %d", left.AckedBytes, now.AckedBytes, text.Len())
		}
		before = left
	}

	other := append([]string{}, arguments...)
	for i, argument := range other {
		if argument == file {
			other[i] = filepath.Join(folder, "other.csv")
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "other.csv"), []byte("id,name\nx,y\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := run(t, "ramcloud", other...); r.code != 2 || !strings.Contains(r.stderr, "the import was begun with a file of this many bytes") {
		t.Errorf("another file: exit code %d, want 2: %s", r.code, r.stderr)
	}

	last := run(t, "ramcloud", arguments...)
	var said struct {
		Imported       int
		ImportedBefore int `json:"imported_before"`
	}
	if err := json.Unmarshal([]byte(last.stdout), &said); last.code != 0 || err != nil {
		t.Fatalf("exit code %d, %v: %s%s", last.code, err, last.stdout, last.stderr)
	}
	if said.ImportedBefore != before.Imported || said.ImportedBefore+said.Imported != objects {
		t.Errorf("imported %d after %d, want %d after %d", said.Imported, said.ImportedBefore, objects-before.Imported, before.Imported)
	}
	again := run(t, "ramcloud", arguments...)
	if again.code != 0 || !strings.Contains(again.stdout, `"imported":0`) {
		t.Errorf("when it is whole: exit code %d: %s%s", again.code, again.stdout, again.stderr)
	}
	exported := run(t, "ramcloud", "--cluster", c.address, "export", "things")
	found := map[string]string{}
	for line := range strings.Lines(exported.stdout) {
		var object struct{ Key, Value string }
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			t.Fatal(err)
		}
		found[object.Key] = object.Value
	}
	if len(found) != objects {
		t.Errorf("%d objects, want %d", len(found), objects)
	}
	for i := range objects {
		if want := fmt.Sprintf("the object, number %d\r\nof many", i); found[fmt.Sprint(i)] != want {
			t.Fatalf("object %d is %q", i, found[fmt.Sprint(i)])
		}
	}
}

// A script of commands over one connection stops at the first that fails, unless told otherwise.
func TestShellRunsScripts(t *testing.T) {
	c := startCluster(t, 1, "--replicas", "0")
	shell := func(script string, flags ...string) result {
		t.Helper()
		command := exec.Command(program(t, "ramcloud"), append([]string{"--cluster", c.address, "shell"}, flags...)...)
		command.Stdin = strings.NewReader(script)
		var stdout, stderr bytes.Buffer
		command.Stdout, command.Stderr = &stdout, &stderr
		_ = command.Run()
		return result{command.ProcessState.ExitCode(), stdout.String(), stderr.String()}
	}
	good := shell("# made by hand\ntable create users -o json\nput users 'a b' \"1 2\"\n\nget users 'a b'\nexit\nnonsense\n")
	if good.code != 0 || !strings.HasSuffix(good.stdout, "1 2\n") {
		t.Errorf("exit code %d: %q %s", good.code, good.stdout, good.stderr)
	}
	bad := shell("get users nobody\nput users c 3\n")
	if bad.code != 3 || bad.stdout != "" || !strings.Contains(bad.stderr, "line 1 failed with exit code 3") {
		t.Errorf("exit code %d: %q %s", bad.code, bad.stdout, bad.stderr)
	}
	on := shell("get users nobody\nput users c 3\nget users c\n", "--keep-going")
	if on.code != 3 || !strings.HasSuffix(on.stdout, "3\n") {
		t.Errorf("--keep-going: exit code %d: %q %s", on.code, on.stdout, on.stderr)
	}
}
