#!/usr/bin/env bash
# More seeds and longer runs of some tests of `make test`: hours, on a machine that does nothing else.
#   soak.sh [PART…]   power: power cuts of whole simulated clusters, 500 seeds; of some hosts or after a recovery, and
#                     shortages, 200 seeds
#                     recovery: deaths of servers with data, 2,000 seeds of the simulation
#                     cleaning: 10,000 rounds of cleaning with crashes, and long runs in a log that is 98 % full
#                     processes: recoveries of real processes, at every failpoint, 20 runs of the loaded one, two minutes of
#                     saturation
# Without a PART, all of them. SEEDS=A..B takes other seeds for power and recovery.
set -euo pipefail
. "$(dirname "$0")/env.sh"
cd "$RAMCLOUD_TOP"
given=${SEEDS:-}
unset SEEDS

simulated() {
  (cd node && cmake --preset plain -DRAMCLOUD_VERSION="$(../hack/version.sh)" >/dev/null)
  cmake --build build/plain --target "$@" -- -j "$RAMCLOUD_JOBS"
}

power() {
  simulated power_sim_test
  SEEDS=${given:-1..500} build/plain/sim/power_sim_test --gtest_filter='*PowerCutSim.OfAll*'
  SEEDS=${given:-1..200} build/plain/sim/power_sim_test --gtest_filter='-*PowerCutSim.OfAll*'
}

recovery() {
  SEEDS=${given:-1..2000} SCENARIO=recovery hack/sim.sh
}

cleaning() {
  simulated cleaning_rounds_test cleaning_test
  local case programs=()
  for case in 0 1 2 3; do
    RAMCLOUD_CLEANING_ROUNDS=2500 RAMCLOUD_CLEANING_SEED=100000 \
      build/plain/src/store/cleaning_rounds_test --gtest_filter="*/$case" &
    programs+=($!)
  done
  for case in "${programs[@]}"; do wait "$case"; done
  # Each run overwrites the live bytes three times.
  RAMCLOUD_CLEANING_TENTHS=30 build/plain/src/store/cleaning_test --gtest_filter='*Deadlock*'
}

processes() {
  hack/build.sh
  simulated ramcloudd
  e2e/kind/components.sh etcd
  # shellcheck disable=SC2016 # the inner shell knows these
  RAMCLOUD_ETCD=$(bash -c '. e2e/kind/lib.sh && echo "$COMPONENTS/etcd-$ETCD_VERSION"')
  export RAMCLOUD_ETCD
  (cd e2e && RAMCLOUD_SOAK=60 go test -count=1 -timeout 4h -v -run \
    'Recover|Killed|Dead|Die|ColdStart|Suspend|Saturated|FullBackup' ./local/)
}

parts=("$@")
[ $# -gt 0 ] || parts=(power recovery cleaning processes)
for part in "${parts[@]}"; do
  case $part in
    power | recovery | cleaning | processes) "$part" ;;
    *) die "soak.sh: \"$part\" is not a part; parts are power, recovery, cleaning and processes" ;;
  esac
done
