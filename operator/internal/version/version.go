// Package version is what the build says of itself.
package version

// Version is set by the linker: -X ramcloud.dev/operator/internal/version.Version=…
var Version = "0.0.0-unknown"
