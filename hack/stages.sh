# shellcheck shell=bash
# Sourced by scripts that run several stages and end in one line "N passed, N failed".
#
# A stage is a command. Its output goes to build/logs/NAME.log; how many tests it ran is in the last line of
# that output that reads "N passed, N failed". CPU is what the processes that the stage started and waited for used, user
# and system: on a machine that others use too it says more than time. A stage without such a line counts as one test; a stage that
# ends badly without naming a failed test counts as one failure.
STAGE_LOGS=$RAMCLOUD_TOP/build/logs
STAGE_ROWS=()
STAGE_PASSED=0
STAGE_FAILED=0

# Whole seconds of CPU that children of this shell used so far, into STAGE_CPU.
count_cpu() {
  local stat ticks
  stat=$(<"/proc/$BASHPID/stat")
  read -r -a ticks <<<"${stat##*) }"
  STAGE_CPU=$(((ticks[13] + ticks[14]) / $(getconf CLK_TCK)))
}

# run_stage NAME COMMAND…
run_stage() {
  local name=$1 began=$SECONDS log=$STAGE_LOGS/$1.log status=0 counts passed failed seconds cpu
  shift
  count_cpu
  cpu=$STAGE_CPU
  mkdir -p "$STAGE_LOGS"
  printf '== %s\n' "$name"
  "$@" >"$log" 2>&1 </dev/null || status=$?
  seconds=$((SECONDS - began))
  count_cpu
  cpu=$((STAGE_CPU - cpu))
  counts=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -1 || true)
  if [ -n "$counts" ]; then
    read -r passed _ failed _ <<<"$counts"
    [ $status = 0 ] || [ "$failed" != 0 ] || failed=1
  elif [ $status = 0 ]; then
    passed=1 failed=0
  else
    passed=0 failed=1
  fi
  [ $((passed + failed)) -gt 0 ] || failed=1 # a stage that ran nothing checks nothing
  STAGE_PASSED=$((STAGE_PASSED + passed))
  STAGE_FAILED=$((STAGE_FAILED + failed))
  STAGE_ROWS+=("$(printf '%-28s %6ds %6ds %8d %8d  %s' "$name" "$seconds" "$cpu" "$passed" "$failed" \
    "$([ "$failed" = 0 ] && echo ok || echo "FAILED, see build/logs/$name.log")")")
  printf '   %d s, %d s of CPU, %d passed, %d failed\n' "$seconds" "$cpu" "$passed" "$failed"
  if [ "$failed" != 0 ]; then
    printf -- '-- the end of build/logs/%s.log\n' "$name"
    grep -aE '^(FAIL|--- FAIL|SKIP|error:)' "$log" | head -20 || true
    tail -40 "$log"
    printf -- '--\n'
    return 1
  fi
}

# Prints the table and the last line; the exit code says whether anything failed.
finish_stages() {
  printf '\n%-28s %7s %7s %8s %8s\n' stage time cpu passed failed
  [ ${#STAGE_ROWS[@]} = 0 ] || printf '%s\n' "${STAGE_ROWS[@]}"
  count_cpu
  printf '%d s in all, %d s of CPU\n\n' "$SECONDS" "$STAGE_CPU"
  printf '%d passed, %d failed\n' "$STAGE_PASSED" "$STAGE_FAILED"
  [ "$STAGE_FAILED" = 0 ] && [ "$STAGE_PASSED" -gt 0 ]
}
