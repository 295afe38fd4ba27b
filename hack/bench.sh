#!/usr/bin/env bash
# `make bench`: the comparisons of docs/benchmarks, which it writes.
#   bench.sh [PART…]    latency: reads and durable writes beside bare programs of the same reactor and transport
#                       peers: operations per CPU-second beside Redis and memcached
#                       peer-latency: one client's latency beside Redis (GET, SET + WAIT) and memcached
#                       ycsb: workloads A, B, C, D, F; replies held until durable
#                       store: the store alone, on one core, beside std::unordered_map
#                       append: what more threads write to one store and append to one log
#                       recovery: a killed server, beside the least that its recovery takes
#                       recovery-parts: replay alone; all servers restarted; a model of very large clusters
#                       memory: how full a log can be, and what that costs; beside allocators, memcached, Redis and Valkey
# Without a PART, all of them. About 75 minutes; on a machine that does nothing else.
set -euo pipefail
. "$(dirname "$0")/env.sh"
cd "$RAMCLOUD_TOP"
(cd node && cmake --preset release >/dev/null)
cmake --build build/release --target pingpong exchange store_bench append outage recovery_bound replay recovery_scale \
  memory_bench write_latency allocation capacity overwrites -- -j "$RAMCLOUD_JOBS" >/dev/null
parts=("$@")
[ $# -gt 0 ] || parts=(latency peers peer-latency ycsb store append recovery recovery-parts memory)
for part in "${parts[@]}"; do
  case $part in
    latency) python3 hack/bench.py ;;
    peers) python3 hack/bench_peers.py ;;
    peer-latency) python3 hack/bench_peer_latency.py ;;
    ycsb) python3 hack/bench_ycsb.py ;;
    store) python3 hack/bench_store.py ;;
    append) python3 hack/bench_append.py ;;
    recovery) python3 hack/bench_recovery.py ;;
    recovery-parts) python3 hack/bench_recovery_parts.py ;;
    memory) python3 hack/bench_memory.py ;;
    *) die "bench.sh: \"$part\" is not a part; parts are latency, peers, peer-latency, ycsb, store, append, recovery, recovery-parts and memory" ;;
  esac
done
