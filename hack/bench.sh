#!/usr/bin/env bash
# `make bench`: latency of reads and durable writes beside a bare ping-pong of the same reactor and
# transport, alternating in one run. Writes docs/benchmarks/latency.{json,md,svg}.
#   bench.sh [--pairs N] [--operations N]
set -euo pipefail
. "$(dirname "$0")/env.sh"
cd "$RAMCLOUD_TOP"
(cd node && cmake --preset release >/dev/null)
cmake --build build/release --target pingpong -- -j "$RAMCLOUD_JOBS" >/dev/null
exec python3 hack/bench.py "$@"
