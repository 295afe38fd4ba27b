#!/usr/bin/env bash
# Builds the fuzzers and runs each for FUZZ_SECONDS (20) seconds from the seeds in node/fuzz/corpus, one a core; what
# it finds on the way stays in build/fuzz/corpus, so that later runs begin there.
#   fuzz.sh            all of them
#   fuzz.sh NAME…      these
# An input that crashes one is kept in build/fuzz/crashes, and the exit code is 1.
set -euo pipefail
. "$(dirname "$0")/env.sh"
cd "$RAMCLOUD_TOP"
seconds=${FUZZ_SECONDS:-20}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || die "FUZZ_SECONDS is \"$seconds\"; accepted is a number of seconds, 1 or more"

(cd node && cmake --preset asan -DRAMCLOUD_VERSION="$(../hack/version.sh)")
nice -n 5 cmake --build build/asan --target fuzzers -- -j "$RAMCLOUD_JOBS"
names=("$@")
if [ $# = 0 ]; then
  for fuzzer in build/asan/fuzzers/*; do names+=("${fuzzer##*/}"); done
fi
for name in "${names[@]}"; do
  [ -x "build/asan/fuzzers/$name" ] || die "fuzz.sh: there is no fuzzer \"$name\"; there are: $(ls build/asan/fuzzers)"
  mkdir -p "build/fuzz/corpus/$name"
done
mkdir -p build/fuzz/crashes build/fuzz/logs

# fuzz NAME: run one; its log is in build/fuzz/logs.
fuzz() {
  nice -n 5 "build/asan/fuzzers/$1" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -max_len=20000 \
    -print_final_stats=1 -verbosity=0 -artifact_prefix="build/fuzz/crashes/$1-" \
    "build/fuzz/corpus/$1" "node/fuzz/corpus/$1" >"build/fuzz/logs/$1.log" 2>&1
}

passed=0 failed=0
for ((first = 0; first < ${#names[@]}; first += RAMCLOUD_JOBS)); do
  running=() pids=()
  for name in "${names[@]:first:RAMCLOUD_JOBS}"; do
    echo "-- $name, $seconds s (build/fuzz/logs/$name.log)"
    fuzz "$name" &
    running+=("$name") pids+=($!)
  done
  for i in "${!running[@]}"; do
    status=0
    wait "${pids[i]}" || status=$?
    cat "build/fuzz/logs/${running[i]}.log"
    if [ $status = 0 ]; then
      passed=$((passed + 1))
    else
      echo "FAIL ${running[i]}"
      failed=$((failed + 1))
    fi
  done
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
