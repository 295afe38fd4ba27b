#!/usr/bin/env bash
# `make accept`: the acceptance figures beside their floors and goals, measured now.
#   AGAINST=COMMIT   beside another commit instead: both are built, the other in a worktree under the cache that is kept
#                    for the next time, and take turns for every figure
set -euo pipefail
. "$(dirname "$0")/env.sh"
cd "$RAMCLOUD_TOP"
(cd node && cmake --preset release >/dev/null)
cmake --build build/release --target pingpong store_bench outage recovery_bound replay recovery_scale -- -j "$RAMCLOUD_JOBS" >/dev/null

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
python3 hack/bench_recovery.py --accept --pairs 5
python3 hack/bench_recovery_parts.py --accept --restarts 1
if command -v redis-server memcached valkey-server "${VALKEY_SERVER:-valkey-server}" >/dev/null; then
  python3 hack/bench_peers.py --accept
else
  say "beside Redis, Valkey and memcached: skipped, none is installed; apt-get install redis-server memcached," \
    "apt-get install -t bookworm-backports valkey-server, or VALKEY_SERVER=PATH"
fi

# passed TEST VARIABLE SETTING… >REPORT: runs a test of e2e/local that writes what it measured to the file in VARIABLE.
passed() {
  local test=$1 variable=$2 report status=0
  shift 2
  report=$(mktemp)
  (cd e2e && env "$variable=$report" "$@" go test -count=1 -timeout 20m -run "^$test\$" ./local) >"$report.log" 2>&1 || status=$?
  if [ "$status" != 0 ] || [ ! -s "$report" ]; then
    echo "$test: did not pass; see $report.log" >&2
    rm -f "$report"
    return 1
  fi
  cat "$report"
  rm -f "$report" "$report.log"
}

# rows EXPRESSION: of the report on standard input, as rows with a figure and the most that is accepted.
rows() {
  jq -r '
    def row(name; figure; limit):
      "\(name | . + " " * (40 - length)) \(figure * 100 | round / 100 | tostring | " " * (8 - length) + .)" +
      " \(limit | tostring | " " * (8 - length) + .) \(limit | tostring | " " * (8 - length) + .)  " +
      (if figure <= limit then "pass, goal" else "short" end);
    '"$1"
}

# A client that behaves, while 10,000 that do not knock on every port.
if report=$(passed TestTenThousandHostileConnections RAMCLOUD_HOSTILE_REPORT RAMCLOUD_HOSTILE_ROUNDS=5); then
  rows 'row("p99 under hostile connections / quiet"; .attacked_p99_us / .quiet_p99_us; 2),
    row("memory that a daemon grew by, MiB"; .grown_mib; 64)' <<<"$report"
fi
# Replies that nobody reads, and replies for clients that vanish.
if report=$(passed TestRepliesInTheMakingKeepToTheLimit RAMCLOUD_REPLY_MEMORY_REPORT RAMCLOUD_REPLY_REQUESTS=4096); then
  rows 'row("memory with 32 GiB asked and not read, MiB"; .most_mib; .accepted_mib)' <<<"$report"
fi
if report=$(passed TestWhatIsHeldForVanishedClientsIsGivenBack RAMCLOUD_REPLY_MEMORY_REPORT RAMCLOUD_VANISHING_CLIENTS=10000); then
  rows 'row("memory with 10,000 vanished clients, MiB"; .most_mib; .accepted_mib)' <<<"$report"
fi
# Turns of a reactor that works on everything at once.
if report=$(passed TestTurnsWhileATableIsEnumeratedAndDropped RAMCLOUD_TURNS_REPORT RAMCLOUD_TURN_OBJECTS=1000000); then
  rows 'row("turns of a reactor, p99.9 at most, us"; .p999_us; 100), row("the longest at most, us"; .longest_us; 1000)' <<<"$report"
fi
