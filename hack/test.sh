#!/usr/bin/env bash
# Every test that needs no cluster, in stages: `test.sh` runs all, `test.sh STAGE…` only these:
#   shell build unit coverage fuzz plain go golint python model tsan processes docs demo
# and, only when it is named (it builds the programs of a former commit): former
# The logs are in build/logs; the last line says how many tests passed and failed.
set -euo pipefail
. "$(dirname "$0")/env.sh"
. "$(dirname "$0")/stages.sh"
cd "$RAMCLOUD_TOP"

# Every script that is a test itself, and shellcheck; each prints its own "N passed, N failed".
shell() {
  local passed=0 failed=0 file output began
  for file in hack/shellcheck.sh hack/*_test.sh e2e/kind/*_test.sh; do
    began=$SECONDS
    output=$("$file" 2>&1) || true
    printf '%s\n' "$output"
    echo "$((SECONDS - began)) script $file" >>"$STAGE_LOGS/steps.txt"
    [[ ${output##*$'\n'} =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed ]] || {
      echo "FAIL $file"
      failed=$((failed + 1))
      continue
    }
    passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2]))
  done
  echo "$passed passed, $failed failed"
  [ $failed = 0 ]
}

# A real etcd for the tests that need one: built once, as the cluster's own is.
use_etcd() {
  e2e/kind/components.sh etcd
  # shellcheck disable=SC2016 # the inner shell knows these
  RAMCLOUD_ETCD=$(bash -c '. e2e/kind/lib.sh && echo "$COMPONENTS/etcd-$ETCD_VERSION"')
  [ -x "$RAMCLOUD_ETCD" ] || die "test.sh: e2e/kind/components.sh etcd left no $RAMCLOUD_ETCD"
  export RAMCLOUD_ETCD
}

# A stage goes on after a command that fails (bash ignores errexit there), so what builds ends it: else the programs of
# an earlier build would be tested.
# cpp PRESET [LABEL TARGET]: build the tests of one preset and run them, or only those with a label, which a target builds.
cpp() {
  local preset=$1 junit=$STAGE_LOGS/$1.xml status=0 again="" label=${2:-} target=${3:-all}
  [ "$preset" = tsan ] || use_etcd # no gRPC there: Debian's is not instrumented
  (cd node && cmake --preset "$preset" -DRAMCLOUD_VERSION="$(../hack/version.sh)") || return
  # shellcheck disable=SC2086 # names of targets
  nice -n 5 cmake --build "build/$preset" --target $target -- -j "$RAMCLOUD_JOBS" || return
  rm -f "$junit"
  (cd node && ctest --preset "$preset" ${label:+-L "$label"} -j "$RAMCLOUD_JOBS" --output-junit "$junit") || status=$?
  [ $status = 0 ] || [ ! -e "$junit" ] || again=$(hack/count.py again ctest "$junit")
  if [ -n "$again" ]; then
    (cd node && ctest --preset "$preset" -R "$again" --output-junit "$junit.again") || true
    hack/count.py ctest "$junit" "$junit.again"
    return
  fi
  hack/count.py ctest "$junit" && [ $status = 0 ]
}

# Every unit test, with the address and the undefined behaviour sanitizer. It also says which lines it ran: see coverage.sh.
unit() {
  rm -rf build/coverage/profiles
  LLVM_PROFILE_FILE=$RAMCLOUD_TOP/build/coverage/profiles/%8m.profraw cpp asan
}

# Those that do more without a sanitizer: more seeds, or what a sanitizer cannot stand. What only `make bench` runs is
# compiled here at least.
plain() { cpp plain plain "plain_tests ramcloudd micro_benchmarks"; }

# Interleavings of what threads share without locks; the output says which seeds.
model() {
  local junit=$STAGE_LOGS/model.xml status=0
  (cd node && cmake --preset model -DRAMCLOUD_VERSION="$(../hack/version.sh)") || return
  nice -n 5 cmake --build build/model --target model_check -- -j "$RAMCLOUD_JOBS" || return
  rm -f "$junit"
  # Of its folder only: nothing else is built like this.
  ctest --test-dir build/model/model -V -j "$RAMCLOUD_JOBS" --output-junit "$junit" || status=$?
  hack/count.py ctest "$junit" && [ $status = 0 ]
}

build() { hack/build.sh; }

# The repository's Go modules, by folder.
go_modules() { find . -name go.mod -not -path './build/*' -printf '%h\n' | sort; }

# go_tests PACKAGES FOLDER…: vet, format and test these modules.
go_tests() {
  local packages=$1 json=$STAGE_LOGS/go-$2.json status=0 folder unformatted failed=()
  shift 2
  : >"$json"
  for folder in "$@"; do
    unformatted=$(gofmt -l "$folder")
    [ -z "$unformatted" ] || { echo "FAIL gofmt: $unformatted" && status=1; }
    # shellcheck disable=SC2086 # patterns, separated by spaces
    (cd "$folder" && go vet $packages) || status=1
    # What has been vetted is not vetted again, with all that it imports.
    # shellcheck disable=SC2086 # two words, or none; and the patterns
    (cd "$folder" && nice -n 5 go test ${GO_TEST_UNCACHED:+-count=1} -vet=off -p "$RAMCLOUD_JOBS" ${GO_TEST_PARALLEL:+-parallel $GO_TEST_PARALLEL} \
      -json $packages) >>"$json" || failed+=("$folder")
  done
  if [ ${#failed[@]} -gt 0 ] && go_again "$json" "${failed[@]}"; then
    hack/count.py go "$json" "$json.again" && [ $status = 0 ]
    return
  fi
  hack/count.py go "$json" && [ $status = 0 ] && [ ${#failed[@]} = 0 ]
}

# go_again JSON FOLDER…: run the failed tests that may be run once more (test/retries.txt); false if there are none.
go_again() {
  local json=$1 package tests list folder
  shift
  list=$(hack/count.py again go "$json")
  [ -n "$list" ] || return 1
  : >"$json.again"
  while read -r package tests; do
    for folder in "$@"; do
      # Of the module itself: others see the client's packages, too.
      [ "$(cd "$folder" && go list -f '{{.Module.Main}}' "$package" 2>/dev/null)" = true ] || continue
      (cd "$folder" && go test -count=1 -json -run "$tests" "$package") >>"$json.again" || true
    done
  done <<<"$list"
}

go_stage() {
  local folders
  KUBEBUILDER_ASSETS=$(e2e/kind/components.sh envtest) || return
  # The Go client is tried against the real daemon too.
  RAMCLOUDD_BIN=$RAMCLOUD_TOP/build/bin/ramcloudd
  export KUBEBUILDER_ASSETS RAMCLOUDD_BIN
  [ -x "$RAMCLOUDD_BIN" ] || hack/build.sh || return
  # The end-to-end module has two kinds of tests: those of processes are a stage of their own, those of the
  # cluster are `make e2e`. CoreDNS is a list of its plugins, compiled with the cluster: to vet it is to vet all of them. So
  # it is with hack/lint and its linters.
  mapfile -t folders < <(go_modules | grep -vx -e ./e2e -e ./e2e/kind/coredns -e ./hack/lint)
  go_tests ./... units "${folders[@]}"
}

processes() {
  [ -x build/bin/ramcloudd ] || hack/build.sh || return
  use_etcd
  # Simulated histories are checked here, and processes are ended at failpoints, which builds with tests have.
  (cd node && cmake --preset plain -DRAMCLOUD_VERSION="$(../hack/version.sh)") || return
  nice -n 5 cmake --build build/plain --target ramcloud-sim ramcloudd -- -j "$RAMCLOUD_JOBS" || return
  # What is run only when the former programs are there is compiled here at least.
  (cd e2e && go vet -tags former ./local/) || return
  # Most of their time they wait: for verdicts, elections, timeouts. What judges loads on the cluster is tried with them.
  # Go does not know the programs that they start: what it remembers of former ones says nothing.
  GO_TEST_UNCACHED=yes GO_TEST_PARALLEL=$((2 * RAMCLOUD_JOBS)) go_tests "./local/... ./load/..." processes e2e
}

# Former and new programs together (test/former-commit). A subshell: nothing of it is for other stages.
former() (
  [ -x build/bin/ramcloudd ] || hack/build.sh || return
  use_etcd
  RAMCLOUD_FORMER=$(hack/former_build.sh) || return
  export RAMCLOUD_FORMER GOFLAGS="$GOFLAGS -tags=former -run=^TestFormer"
  go_tests ./local/... former e2e
)

docs() {
  # The guides' programs are linked with the libraries, too.
  if [ ! -x build/bin/ramcloudd ] || [ ! -e build/lib/libramcloud.so.2 ]; then hack/build.sh || return; fi
  hack/docs_test.py
}

# The demo as a stranger runs it: a user without rights, without a home, in a folder it cannot write.
demo() {
  local folder status=0
  [ -x build/bin/ramcloudd ] || hack/build.sh || return
  folder=$(mktemp -d)
  mkdir "$folder/build"
  cp -r Makefile VERSION hack "$folder/"
  cp -r build/bin "$folder/build/"
  chmod -R a+rX "$folder"
  if [ "$(id -u)" = 0 ]; then
    runuser -u nobody -- env -i PATH="$PATH" HOME=/nonexistent make -C "$folder" demo || status=$?
  else
    make -C "$folder" demo || status=$?
  fi
  rm -rf "$folder"
  return $status
}

stages=("$@")
rm -f "$STAGE_LOGS/flaky.txt" "$STAGE_LOGS/steps.txt"
began=$(date +%s)
[ $# -gt 0 ] || stages=(shell build unit coverage fuzz plain go golint python model tsan processes docs demo)
for stage in "${stages[@]}"; do
  case $stage in
    shell) run_stage shell shell || true ;;
    build | model | docs | demo) run_stage "$stage" "$stage" || true ;;
    unit) run_stage unit unit || true ;;
    coverage) run_stage coverage hack/coverage.sh report || true ;;
    tsan) run_stage tsan cpp tsan || true ;;
    plain) run_stage plain plain || true ;;
    fuzz) FUZZ_SECONDS=${FUZZ_SECONDS:-5} run_stage fuzz hack/fuzz.sh || true ;;
    go) run_stage go go_stage || true ;;
    golint) run_stage golint hack/go_lint.sh || true ;;
    python) run_stage python hack/python.sh || true ;;
    processes | former) run_stage "$stage" "$stage" || true ;;
    *) die "test.sh: \"$stage\" is not a stage; stages are shell, build, unit, coverage, fuzz, plain, go, golint, python, model, tsan, processes, former, docs and demo" ;;
  esac
done
# Said where it is seen: each of these is a test to fix.
if [ -s "$STAGE_LOGS/flaky.txt" ]; then
  echo "passed only when run once more, alone:"
  sed 's/^/  /' "$STAGE_LOGS/flaky.txt"
fi
hack/slowest.py "$began" || true
finish_stages
