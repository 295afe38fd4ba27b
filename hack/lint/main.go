// Command lint is golangci-lint with kube-api-linter in it: as a plugin it has to be compiled in.
package main

import (
	"fmt"
	"os"
	"runtime/debug"

	"github.com/golangci/golangci-lint/v2/pkg/commands"
	"github.com/golangci/golangci-lint/v2/pkg/exitcodes"
	_ "sigs.k8s.io/kube-api-linter" // registers itself
)

func main() {
	info := commands.BuildInfo{Version: "unknown", Commit: "?"}
	if build, found := debug.ReadBuildInfo(); found {
		info.GoVersion = build.GoVersion
		for _, dependency := range build.Deps {
			if dependency.Path == "github.com/golangci/golangci-lint/v2" {
				info.Version = dependency.Version
			}
		}
	}
	if err := commands.Execute(info); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(exitcodes.Failure)
	}
}
