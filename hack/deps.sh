#!/usr/bin/env bash
# Installs what is missing to build, test and run this project; says nothing when nothing is missing.
#   deps.sh          everything
#   deps.sh build    only what building and testing without a cluster needs
#   deps.sh bench    what `make bench` compares with, beside that; a peer that is missing is left out there
# As root it installs Debian packages; otherwise it prints the one command that does, and exits with 1.
# Go comes from the machine, or, where that is missing or too old, as the Go module golang.org/toolchain.
set -euo pipefail
. "$(dirname "$0")/env.sh"

BUILD_PACKAGES="clang-19 lld-19 clang-format-19 clang-tidy-19 libclang-rt-19-dev llvm-19 ccache ninja-build cmake
  make git ca-certificates pkg-config gcc libc6-dev python3 jq curl procps shellcheck util-linux
  libgtest-dev libgmock-dev libbenchmark-dev libfmt-dev libspdlog-dev libcli11-dev nlohmann-json3-dev
  libgrpc++-dev protobuf-compiler-grpc libprotobuf-dev protobuf-compiler libxxhash-dev libisal-dev
  liburing-dev libssl-dev libsqlite3-dev libcpp-httplib-dev libedit-dev python3-venv python3-pip"
# Valkey is in bookworm-backports, which a machine need not have.
BENCH_PACKAGES="redis-server memcached libjemalloc2 libtcmalloc-minimal4 libmimalloc2.0"
CLUSTER_PACKAGES="docker.io containerd runc iptables nftables mmdebstrap iproute2"

case ${1:-all} in
  all) packages="$BUILD_PACKAGES $CLUSTER_PACKAGES" ;;
  build) packages=$BUILD_PACKAGES ;;
  bench) packages="$BUILD_PACKAGES $BENCH_PACKAGES" ;;
  *) die "usage: deps.sh [build|bench] (got \"$*\")" ;;
esac

missing_packages() {
  # Any go can fetch the toolchain; Debian's is old but enough for that.
  if ! use_go && ! command -v go >/dev/null; then packages+=" golang-go"; fi
  local package installed
  # shellcheck disable=SC2086
  installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' $packages 2>/dev/null | sed -n 's/^installed //p' || true)
  for package in $packages; do
    # A docker from elsewhere replaces Debian's, and conflicts with it.
    case $package in
      docker.io | containerd | runc) if command -v dockerd >/dev/null && command -v runc >/dev/null; then continue; fi ;;
    esac
    grep -qx "$package" <<<"$installed" || echo "$package"
  done
}

install_packages() { # PACKAGE…
  local policy=/usr/sbin/policy-rc.d made_policy=
  export DEBIAN_FRONTEND=noninteractive
  # Docker is for the sandbox, so installing it must not start one on the machine, with its firewall rules.
  if [ ! -e $policy ]; then
    made_policy=1
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod 755 $policy
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
  fi
  ls /var/lib/apt/lists/*_Packages* >/dev/null 2>&1 || apt-get update -q
  apt-get install -y -q --no-install-recommends "$@" </dev/null || {
    apt-get update -q
    apt-get install -y -q --no-install-recommends "$@" </dev/null
  }
  [ -z "$made_policy" ] || rm -f $policy
}

# The toolchain module has the files of Go's own archive, without their permission to execute.
install_go() {
  local module folder
  module=golang.org/toolchain@v0.0.1-go$RAMCLOUD_GO_VERSION.linux-$(dpkg --print-architecture)
  say "Go: $(go env GOVERSION 2>/dev/null || echo none) is older than $(required_go); fetching the module $module"
  folder=$(cd / && GOFLAGS=-mod=mod GO111MODULE=on go mod download -json "$module" | sed -n 's/^\t*"Dir": "\(.*\)",*$/\1/p')
  [ -d "$folder" ] || die "the Go module $module could not be downloaded"
  mkdir -p "$(dirname "$RAMCLOUD_GOROOT")"
  rm -rf "$RAMCLOUD_GOROOT.tmp"
  cp -r "$folder" "$RAMCLOUD_GOROOT.tmp"
  chmod -R u+w "$RAMCLOUD_GOROOT.tmp"
  chmod +x "$RAMCLOUD_GOROOT.tmp"/bin/* "$RAMCLOUD_GOROOT.tmp"/pkg/tool/*/*
  rm -rf "$RAMCLOUD_GOROOT"
  mv "$RAMCLOUD_GOROOT.tmp" "$RAMCLOUD_GOROOT"
  use_go || die "the Go in $RAMCLOUD_GOROOT does not run"
}

mapfile -t missing < <(missing_packages)
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" != 0 ]; then
    say "These Debian packages are missing; as root, run:" >&2
    say "  apt-get install -y --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  command -v apt-get >/dev/null || die "there is no apt-get here; install what gives you: ${missing[*]}"
  install_packages "${missing[@]}"
fi
# The data set of the demo is Debian's package index.
if [ "$(id -u)" = 0 ] && ! ls /var/lib/apt/lists/*_Packages* >/dev/null 2>&1; then apt-get update -q; fi
use_go || install_go
