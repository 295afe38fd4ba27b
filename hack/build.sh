#!/usr/bin/env bash
# Builds ramcloudd and ramcloud (C++, preset release) and ramcloud-operator and kubectl-ramcloud (Go) into build/bin,
# and libramcloud.so (the C interface of the client) into build/lib.
set -euo pipefail
. "$(dirname "$0")/env.sh"
cd "$RAMCLOUD_TOP"
version=$(hack/version.sh)

(cd node && cmake --preset release -DRAMCLOUD_VERSION="$version" >/dev/null)
cmake --build build/release --target ramcloudd ramcloud ramcloud_c -- -j "$RAMCLOUD_JOBS"

mkdir -p build/bin build/lib
for program in ramcloudd ramcloud; do
  built=$(find build/release -type f -name $program -perm -u+x | head -1)
  [ -n "$built" ] || die "the build left no $program in build/release"
  # In place of the old file, not into it: a running program keeps its own.
  cp "$built" build/bin/.$program.new
  mv build/bin/.$program.new build/bin/$program
done
cp build/release/lib/libramcloud.so.2.0 build/lib/.libramcloud.new
mv build/lib/.libramcloud.new build/lib/libramcloud.so.2
ln -sf libramcloud.so.2 build/lib/libramcloud.so
(cd operator && go build -buildvcs=false -ldflags "-s -w -X main.version=$version" -o ../build/bin/ \
  -p "$RAMCLOUD_JOBS" ./cmd/...)
# The command of a Go program is the name of its folder.
if [ -x build/bin/operator ]; then mv build/bin/operator build/bin/ramcloud-operator; fi
for program in ramcloudd ramcloud ramcloud-operator kubectl-ramcloud; do
  [ -x build/bin/$program ] || die "the build left no build/bin/$program"
done
say "built $version: build/bin/{ramcloudd,ramcloud,ramcloud-operator,kubectl-ramcloud}"
