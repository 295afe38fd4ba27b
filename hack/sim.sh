#!/usr/bin/env bash
# Builds build/bin/ramcloud-sim (preset plain: it has what tests need) and runs it:
#   SEEDS=A..B     of these seeds (1..20); SCENARIO=name of this scenario only (mixed)
#   TRACE=1        print what happens; SHRINK=1 look for the least that fails all the same
set -euo pipefail
. "$(dirname "$0")/env.sh"
cd "$RAMCLOUD_TOP"
(cd node && cmake --preset plain -DRAMCLOUD_VERSION="$(../hack/version.sh)" >/dev/null)
cmake --build build/plain --target ramcloud-sim -- -j "$RAMCLOUD_JOBS"
mkdir -p build/bin
cp build/plain/bin/ramcloud-sim build/bin/.ramcloud-sim.new
mv build/bin/.ramcloud-sim.new build/bin/ramcloud-sim
arguments=(--seeds "${SEEDS:-1..20}" --scenario "${SCENARIO:-mixed}" --json build/sim.jsonl)
[ -z "${TRACE:-}" ] || arguments+=(--trace)
[ -z "${SHRINK:-}" ] || arguments+=(--shrink)
exec build/bin/ramcloud-sim "${arguments[@]}"
