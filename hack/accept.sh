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

# A client that behaves, while 10,000 that do not knock on every port.
hostile() {
  local report status=0
  report=$(mktemp)
  # shellcheck disable=SC2064 # the file's name is known now
  trap "rm -f '$report'" RETURN
  (cd e2e && RAMCLOUD_HOSTILE_REPORT=$report RAMCLOUD_HOSTILE_ROUNDS=5 go test -count=1 -run '^TestTenThousandHostileConnections$' ./local) \
    >"$report.log" 2>&1 || status=$?
  if [ "$status" != 0 ] || [ ! -s "$report" ]; then
    echo "hostile connections: the test did not pass; see $report.log"
    return
  fi
  rm -f "$report.log"
  jq -r '
    def row(name; figure; limit):
      "\(name | . + " " * (40 - length)) \(figure * 100 | round / 100 | tostring | " " * (8 - length) + .)" +
      " \(limit | tostring | " " * (8 - length) + .) \(limit | tostring | " " * (8 - length) + .)  " +
      (if figure <= limit then "pass" else "short" end);
    row("p99 under hostile connections / quiet"; .attacked_p99_us / .quiet_p99_us; 2),
    row("memory that a daemon grew by, MiB"; .grown_mib; 64)' "$report"
}
hostile
