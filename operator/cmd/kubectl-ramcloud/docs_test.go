package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
)

// TestReferenceIsFresh compares docs/reference/kubectl-ramcloud.md with the output of --help.
func TestReferenceIsFresh(t *testing.T) {
	var b strings.Builder
	root := newPlugin(io.Discard).command()
	root.InitDefaultHelpCmd()
	b.WriteString("# kubectl ramcloud\n\n<!-- Written by `go test ./cmd/kubectl-ramcloud -update` from the program's texts. Change them there. -->\n\n" +
		"A plugin of kubectl: the program `kubectl-ramcloud` on the PATH.\n\n" + root.Long + "\n")
	for _, command := range root.Commands() {
		if command.Name() == "help" || command.Name() == "completion" {
			continue
		}
		text := command.Short + ".\n\n"
		if command.Long != "" {
			text = command.Long + "\n\n"
		}
		usage, _, _ := strings.Cut(command.UsageString(), "\nGlobal Flags:")
		fmt.Fprintf(&b, "\n## `%s`\n\n%s```text\n%s```\n", command.CommandPath(), text, usage)
	}
	fmt.Fprintf(&b, "\n## Flags of all commands\n\nThey are kubectl's own.\n\n```text\n%s```\n", root.PersistentFlags().FlagUsages())
	const path = "../../../docs/reference/kubectl-ramcloud.md"
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != b.String() {
		t.Errorf("%s is not what the program prints; go test ./cmd/kubectl-ramcloud -update rewrites it", path)
	}
}
