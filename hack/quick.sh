#!/usr/bin/env bash
# What one wants to know before a commit, in three minutes when the caches are warm: the form of what changed, the tests
# of all layers that take little, a few simulated clusters, and the Go tests that need no cluster's programs. `make test`
# is the answer; this is the early part of it.
#   quick.sh [BASE]    what changed is what differs from BASE (main, or HEAD where there is no such branch)
set -euo pipefail
. "$(dirname "$0")/env.sh"
. "$(dirname "$0")/stages.sh"
cd "$RAMCLOUD_TOP"
base=${1:-$(git rev-parse --verify --quiet main || echo HEAD)}
git rev-parse --verify --quiet "$base^{commit}" >/dev/null || die "quick.sh: \"$base\" is not a commit"
base=$(git merge-base "$base" HEAD)

# Those that differ from BASE, committed or not, and are there.
changed() {
  { git diff --name-only --diff-filter=d "$base" -- "$@" && git ls-files --others --exclude-standard -- "$@"; } | sort -u
}

form() {
  local files status=0
  mapfile -t files < <(changed 'node/*.cc' 'node/*.h' 'clients/*.cc' 'clients/*.c')
  [ ${#files[@]} = 0 ] || clang-format-19 --dry-run --Werror "${files[@]}" || status=1
  mapfile -t files < <(changed '*.sh' .ci/run)
  [ ${#files[@]} = 0 ] || shellcheck -x "${files[@]}" || status=1
  mapfile -t files < <(changed '*.go')
  [ ${#files[@]} = 0 ] || [ -z "$(gofmt -l "${files[@]}" | tee /dev/stderr)" ] || status=1
  hack/mutants.sh --check || status=1
  return $status
}

# Without what starts daemons or etcd, without the long simulations, and with five seeds of the others.
long='^(coordinator_etcd_test|Conformance|CApi|.*ModelTest|.*FailoverSim|.*ReactorsTest'
# Cleaning in all its cases; each is sampled by other tests.
long+='|Cases/CleaningRounds|Workloads/Deadlock|DeathsSim.OfServersThatClean)'
cpp() {
  local junit=$STAGE_LOGS/quick.xml status=0
  (cd node && cmake --preset plain -DRAMCLOUD_VERSION="$(../hack/version.sh)" >/dev/null)
  nice -n 5 cmake --build build/plain -- -j "$RAMCLOUD_JOBS"
  rm -f "$junit"
  (cd node && SIM_SEEDS=1:5 ctest --preset plain -j "$RAMCLOUD_JOBS" -E "$long" --output-junit "$junit") || status=$?
  hack/count.py ctest "$junit" && [ $status = 0 ]
}

# A module's packages without those that start an API server, etcd or daemons.
fast_packages() { go list ./... | grep -v -e /envtest$ -e /etcd$ -e /flagstest$ -e /controller$ -e /cmd/operator$ -e /v1alpha1$; }

go_quick() {
  local json=$STAGE_LOGS/go-quick.json status=0 packages folder
  : >"$json"
  for folder in clients/go operator; do
    cd "$RAMCLOUD_TOP/$folder"
    mapfile -t packages < <(fast_packages)
    { go vet ./... && go test -vet=off -p "$RAMCLOUD_JOBS" -json "${packages[@]}" >>"$json"; } || status=$?
  done
  cd "$RAMCLOUD_TOP"
  hack/count.py go "$json" && [ $status = 0 ]
}

rm -f "$STAGE_LOGS/steps.txt"
began=$(date +%s)
run_stage form form || true
run_stage cpp cpp || true
run_stage go go_quick || true
hack/slowest.py "$began" || true
finish_stages
