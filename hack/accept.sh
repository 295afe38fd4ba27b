#!/usr/bin/env bash
# `make accept`: the acceptance figures beside their floors and goals, measured now.
#   AGAINST=COMMIT   beside another commit instead: both are built, the other in a worktree under the cache that is kept
#                    for the next time, and take turns for every figure
set -euo pipefail
. "$(dirname "$0")/env.sh"
cd "$RAMCLOUD_TOP"
(cd node && cmake --preset release >/dev/null)
cmake --build build/release --target pingpong store_bench -- -j "$RAMCLOUD_JOBS" >/dev/null

# other_tree COMMIT: its folder, built.
other_tree() {
  local commit tree
  commit=$(git rev-parse --verify --quiet "$1^{commit}") || die "accept.sh: AGAINST is \"$1\"; accepted is a commit of this repository"
  tree=$RAMCLOUD_CACHE/against/$commit
  if [ ! -e "$tree/build/.complete" ]; then
    say "building $(git log -1 --format='%h (%s)' "$commit") in $tree" >&2
    if [ ! -e "$tree/.git" ]; then
      git worktree prune
      mkdir -p "$(dirname "$tree")"
      git worktree add --quiet --detach --force "$tree" "$commit" >&2
    fi
    (
      # The commit's own scripts, as in a checkout of its own.
      unset RAMCLOUD_TOP CCACHE_BASEDIR
      cd "$tree"
      hack/build.sh
      cmake --build build/release --target store_bench -- -j "$RAMCLOUD_JOBS"
    ) >"$tree.log" 2>&1 || {
      tail -20 "$tree.log" >&2
      die "accept.sh: $commit does not build; see $tree.log"
    }
    touch "$tree/build/.complete"
  fi
  echo "$tree"
}

if [ -n "${AGAINST:-}" ]; then
  tree=$(other_tree "$AGAINST")
  exec python3 hack/bench_against.py "$tree" "$@"
fi
python3 hack/bench.py --accept "$@"
python3 hack/bench_store.py --accept --rounds 3
python3 hack/bench_reactors.py
if command -v redis-server memcached valkey-server "${VALKEY_SERVER:-valkey-server}" >/dev/null; then
  python3 hack/bench_peers.py --accept
else
  say "beside Redis, Valkey and memcached: skipped, none is installed; apt-get install redis-server memcached," \
    "apt-get install -t bookworm-backports valkey-server, or VALKEY_SERVER=PATH"
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
      (if figure <= limit then "pass, goal" else "short" end);
    row("p99 under hostile connections / quiet"; .attacked_p99_us / .quiet_p99_us; 2),
    row("memory that a daemon grew by, MiB"; .grown_mib; 64)' "$report"
}
hostile
