#!/usr/bin/env bash
# Builds the fuzzers and runs each for FUZZ_SECONDS (20) seconds from the seeds in node/fuzz/corpus; what
# it finds on the way stays in build/fuzz/corpus, so that later runs begin there.
#   fuzz.sh            all of them
#   fuzz.sh NAME…      these
# An input that crashes one is kept in build/fuzz/crashes, and the exit code is 1.
set -euo pipefail
. "$(dirname "$0")/env.sh"
cd "$RAMCLOUD_TOP"
seconds=${FUZZ_SECONDS:-20}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || die "FUZZ_SECONDS is \"$seconds\"; accepted is a number of seconds, 1 or more"

(cd node && cmake --preset fuzz)
nice -n 5 cmake --build build/fuzz --target fuzzers -- -j "$RAMCLOUD_JOBS"
names=("$@")
if [ $# = 0 ]; then
  for fuzzer in build/fuzz/fuzzers/*; do names+=("${fuzzer##*/}"); done
fi
mkdir -p build/fuzz/crashes
passed=0 failed=0
for name in "${names[@]}"; do
  fuzzer=build/fuzz/fuzzers/$name
  [ -x "$fuzzer" ] || die "fuzz.sh: there is no fuzzer \"$name\"; there are: $(ls build/fuzz/fuzzers)"
  mkdir -p "build/fuzz/corpus/$name"
  echo "-- $name, $seconds s"
  if nice -n 5 "$fuzzer" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -max_len=20000 \
    -print_final_stats=1 -verbosity=0 -artifact_prefix="build/fuzz/crashes/$name-" \
    "build/fuzz/corpus/$name" "node/fuzz/corpus/$name"; then
    passed=$((passed + 1))
  else
    echo "FAIL $name"
    failed=$((failed + 1))
  fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
