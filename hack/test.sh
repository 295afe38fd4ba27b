#!/usr/bin/env bash
# Every test that needs no cluster, in stages: `test.sh` runs all, `test.sh STAGE…` only these:
#   shell unit asan tsan fuzz go processes
# The logs are in build/logs; the last line says how many tests passed and failed.
set -euo pipefail
. "$(dirname "$0")/env.sh"
. "$(dirname "$0")/stages.sh"
cd "$RAMCLOUD_TOP"

# Every script that is a test itself, and shellcheck; each prints its own "N passed, N failed".
shell() {
  local passed=0 failed=0 file output
  for file in hack/shellcheck.sh hack/*_test.sh e2e/kind/*_test.sh; do
    output=$("$file" 2>&1) || true
    printf '%s\n' "$output"
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

# cpp PRESET: build the tests of one preset and run them.
cpp() {
  local preset=$1 junit=$STAGE_LOGS/$1.xml status=0
  (cd node && cmake --preset "$preset" -DRAMCLOUD_VERSION="$(../hack/version.sh)")
  nice -n 5 cmake --build "build/$preset" -- -j "$RAMCLOUD_JOBS"
  rm -f "$junit"
  (cd node && ctest --preset "$preset" -j "$RAMCLOUD_JOBS" --output-junit "$junit") || status=$?
  hack/count.py ctest "$junit" && [ $status = 0 ]
}

# The repository's Go modules, by folder.
go_modules() { find . -name go.mod -not -path './build/*' -printf '%h\n' | sort; }

# go_tests PACKAGES FOLDER…: vet, format and test these modules; with the race detector where cgo is there.
go_tests() {
  local packages=$1 json=$STAGE_LOGS/go-$2.json status=0 folder unformatted
  shift 2
  : >"$json"
  for folder in "$@"; do
    unformatted=$(gofmt -l "$folder")
    [ -z "$unformatted" ] || { echo "FAIL gofmt: $unformatted" && status=1; }
    (cd "$folder" && go vet "$packages") || status=1
    (cd "$folder" && nice -n 5 go test -p "$RAMCLOUD_JOBS" -json "$packages") >>"$json" || status=1
  done
  hack/count.py go "$json" && [ $status = 0 ]
}

go_stage() {
  local folders
  KUBEBUILDER_ASSETS=$(e2e/kind/components.sh envtest)
  export KUBEBUILDER_ASSETS
  # The end-to-end module has two kinds of tests: those of processes are a stage of their own, those of the
  # cluster are `make e2e`.
  mapfile -t folders < <(go_modules | grep -vx ./e2e)
  go_tests ./... units "${folders[@]}"
}

processes() {
  hack/build.sh
  go_tests ./local/... processes e2e
}

stages=("$@")
[ $# -gt 0 ] || stages=(shell unit go asan tsan fuzz processes)
for stage in "${stages[@]}"; do
  case $stage in
    shell) run_stage shell shell || true ;;
    unit) run_stage unit cpp dev || true ;;
    asan | tsan) run_stage "$stage" cpp "$stage" || true ;;
    fuzz) FUZZ_SECONDS=${FUZZ_SECONDS:-5} run_stage fuzz hack/fuzz.sh || true ;;
    go) run_stage go go_stage || true ;;
    processes) run_stage processes processes || true ;;
    *) die "test.sh: \"$stage\" is not a stage; stages are shell, unit, asan, tsan, fuzz, go and processes" ;;
  esac
done
finish_stages
