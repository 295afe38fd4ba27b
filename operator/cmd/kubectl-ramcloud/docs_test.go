package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestReferenceIsFresh keeps docs/reference/kubectl-ramcloud.md what the program prints with --help.
func TestReferenceIsFresh(t *testing.T) {
	var b strings.Builder
	b.WriteString("# kubectl ramcloud\n\n<!-- Written by `go test ./cmd/kubectl-ramcloud -update` from the program's texts. Change them there. -->\n\n" +
		"A plugin of kubectl: `kubectl-ramcloud` on the PATH. Without a name, a command is about the only RAMCloudCluster of the\n" +
		"namespace. The flags at the end of each text are those of all commands.\n")
	p := &plugin{out: io.Discard}
	root := p.command()
	root.InitDefaultHelpCmd()
	describe := func(command *cobra.Command) {
		text := command.Short + ".\n\n"
		if command.Long != "" {
			text = command.Long + "\n\n"
		}
		fmt.Fprintf(&b, "\n## `%s`\n\n%s```text\n%s```\n", strings.Replace(command.CommandPath(), "kubectl-ramcloud", "kubectl ramcloud", 1),
			text, command.UsageString())
	}
	for _, command := range root.Commands() {
		if command.Name() != "help" && command.Name() != "completion" {
			describe(command)
		}
	}
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
		t.Errorf("%s is not what the program prints; go test ./cmd/kubectl-ramcloud -update writes it anew", path)
	}
}
