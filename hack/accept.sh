#!/usr/bin/env bash
# `make accept`: the acceptance figures beside their floors and goals, measured now.
set -euo pipefail
. "$(dirname "$0")/env.sh"
cd "$RAMCLOUD_TOP"
(cd node && cmake --preset release >/dev/null)
cmake --build build/release --target pingpong -- -j "$RAMCLOUD_JOBS" >/dev/null
exec python3 hack/bench.py --accept "$@"
