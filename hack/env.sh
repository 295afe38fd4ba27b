# shellcheck shell=bash
# Sourced by the scripts of this repository: where things are and which Go is used.
#
#   RAMCLOUD_TOP    the checkout
#   RAMCLOUD_CACHE  everything slow that is kept between runs and between clones: the Go toolchain,
#                   compiler cache, Kubernetes' binaries, helm, the cluster's images
# Nothing here writes: `make demo` also runs as a user who owns neither.

RAMCLOUD_TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export RAMCLOUD_TOP
export RAMCLOUD_CACHE=${RAMCLOUD_CACHE:-${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/ramcloud}
export CCACHE_DIR=${CCACHE_DIR:-$RAMCLOUD_CACHE/ccache}
# Objects of one clone serve the next: paths are stored relative to the checkout.
export CCACHE_BASEDIR=$RAMCLOUD_TOP CCACHE_NOHASHDIR=1 CCACHE_MAXSIZE=${CCACHE_MAXSIZE:-5G}
# Of a precompiled header the cache looks at what it was made of: node/precompiled/precompiled.cmake.
export CCACHE_PCH_EXTSUM=1 CCACHE_SLOPPINESS=pch_defines,time_macros

# How many programs a build or a test run starts at once.
export RAMCLOUD_JOBS=${RAMCLOUD_JOBS:-$(nproc)}

# The Go that is used when the machine's own is missing or older than what go.mod asks for. The
# toolchain is a Go module like any other, so it comes the way every dependency does.
RAMCLOUD_GO_VERSION=1.26.8
RAMCLOUD_GOROOT=$RAMCLOUD_CACHE/go/$RAMCLOUD_GO_VERSION
export RAMCLOUD_GO_VERSION RAMCLOUD_GOROOT
# Only what deps.sh unpacked is used: Go must not fetch another toolchain behind our back.
export GOTOOLCHAIN=local

# The newest `go` line of the repository's modules.
required_go() {
  local version
  version=$(cat "$RAMCLOUD_TOP"/{clients/go,operator,e2e}/go.mod "$RAMCLOUD_TOP"/e2e/kind/*/go.mod 2>/dev/null |
    sed -n 's/^go \([0-9.]*\).*/\1/p' | sort -V | tail -1)
  echo "${version:-1.25}"
}

# go_is_new_enough GO: is this go command at least what the modules ask for?
go_is_new_enough() {
  local have need
  have=$("$1" env GOVERSION 2>/dev/null) || return 1
  have=${have#go}
  need=$(required_go)
  [ -n "$have" ] && [ "$(printf '%s\n%s\n' "$need" "$have" | sort -V | head -1)" = "$need" ]
}

use_go() {
  if command -v go >/dev/null && go_is_new_enough go; then return 0; fi
  if [ -x /usr/local/go/bin/go ] && go_is_new_enough /usr/local/go/bin/go; then
    export PATH=/usr/local/go/bin:$PATH
    return 0
  fi
  [ -x "$RAMCLOUD_GOROOT/bin/go" ] || return 1
  export PATH=$RAMCLOUD_GOROOT/bin:$PATH
}
use_go || true
# All Go code is compiled in one way, programs, tests and the cluster's parts: what they share (most of
# Kubernetes' libraries) is then compiled once; and without what only a debugger reads (DWARF), which is a ninth of
# the compiling.
export RAMCLOUD_GO_COMPILE="-trimpath -gcflags=all=-dwarf=false"
export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:+$GOFLAGS }$RAMCLOUD_GO_COMPILE"

say() { printf '%s\n' "$*"; }
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# warn, not die: for what a person should know and can go on without.
warn() { printf 'warning: %s\n' "$*" >&2; }
