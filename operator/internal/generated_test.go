// Package internal_test checks what is generated.
package internal_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestGeneratedFilesAreFresh generates everything again into a folder and compares.
func TestGeneratedFilesAreFresh(t *testing.T) {
	top, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	command := exec.Command(filepath.Join(top, "operator/hack/generate.sh"), out)
	if text, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	compared := 0
	err = filepath.WalkDir(out, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(out, path)
		if err != nil {
			return err
		}
		fresh, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		have, err := os.ReadFile(filepath.Join(top, name))
		if errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is missing; make -C operator generate", name)
			return nil
		}
		if err != nil {
			return err
		}
		if strings.HasSuffix(name, ".pb.go") { // the installed protoc's version is in a comment
			fresh, have = withoutComments(fresh), withoutComments(have)
		}
		if !bytes.Equal(fresh, have) {
			t.Errorf("%s is stale; make -C operator generate", name)
		}
		compared++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if compared < 25 {
		t.Errorf("only %d files were compared", compared)
	}
}

func withoutComments(text []byte) []byte {
	var out [][]byte
	for line := range bytes.Lines(text) {
		if !bytes.HasPrefix(line, []byte("//")) {
			out = append(out, line)
		}
	}
	return bytes.Join(out, nil)
}
