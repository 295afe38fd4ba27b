#!/usr/bin/env bash
# Tests choose.sh against a docker command that answers as told.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0 failed=0

# The fake succeeds for the subcommands named in the file `answers`; "hang" makes it wait for ever.
mkdir "$scratch/bin"
cat >"$scratch/bin/docker" <<FAKE
#!/bin/bash
grep -qx "hang \$1" "$scratch/answers" && exec sleep 1000
grep -qx "\$1" "$scratch/answers"
FAKE
chmod +x "$scratch/bin/docker"

# expect NAME ANSWERS WANT-START [VARIABLE=VALUE…]
expect() {
  local name=$1 answers=$2 want=$3 got
  shift 3
  printf '%b' "$answers" >"$scratch/answers"
  got=$(env -u RAMCLOUD_CLUSTER_WAY RAMCLOUD_REGISTRY_TIMEOUT=1 PATH="$scratch/bin:$PATH" "$@" \
    "$here/choose.sh" kindest/node:test 2>&1) || true
  if [[ $got == "$want"* ]]; then
    passed=$((passed + 1))
    echo "ok   $name"
  else
    failed=$((failed + 1))
    echo "FAIL $name: got \"$got\", want \"$want…\""
  fi
}

expect "docker and registry" "version\nmanifest\n" "ordinary docker is running and its registry"
expect "image already there, no registry" "version\nimage\n" "ordinary docker has the image"
expect "docker without registry" "version\n" "airgapped no registry"
expect "no running docker" "manifest\nimage\n" "airgapped docker is not running"
expect "docker that never answers" "hang version\n" "airgapped docker is not running"
expect "registry that never answers" "version\nhang manifest\n" "airgapped no registry"
expect "told to be air-gapped" "version\nmanifest\n" "airgapped RAMCLOUD" RAMCLOUD_CLUSTER_WAY=airgapped
expect "told to be ordinary" "" "ordinary RAMCLOUD" RAMCLOUD_CLUSTER_WAY=ordinary
expect "told nonsense" "version\n" 'error: RAMCLOUD_CLUSTER_WAY is "podman"; accepted are' RAMCLOUD_CLUSTER_WAY=podman
# A PATH without docker: only what choose.sh itself calls.
mkdir "$scratch/few"
for program in bash env timeout; do ln -s "$(command -v $program)" "$scratch/few/$program"; done
expect "no docker command" "" "airgapped there is no docker" PATH="$scratch/few"

echo "$passed passed, $failed failed"
[ $failed = 0 ]
