#!/usr/bin/env bash
# `make accept`: the acceptance figures beside their floors and goals, measured now.
set -euo pipefail
. "$(dirname "$0")/env.sh"
cd "$RAMCLOUD_TOP"
(cd node && cmake --preset release >/dev/null)
cmake --build build/release --target pingpong store_bench -- -j "$RAMCLOUD_JOBS" >/dev/null
python3 hack/bench.py --accept "$@"
python3 hack/bench_store.py --accept --rounds 3
if command -v redis-server >/dev/null && command -v memcached >/dev/null; then
  python3 hack/bench_peers.py --accept
else
  say "beside Redis and memcached: skipped; apt-get install redis-server memcached"
fi
