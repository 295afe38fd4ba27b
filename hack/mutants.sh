#!/usr/bin/env bash
# Plants the bugs in test/mutants, one at a time, in a copy of node/, and expects the tests that each one names to
# turn red: a bug that survives is a hole in the tests.
#   mutants.sh           all of them, then a table (bug, caught by, seconds); exit code 1 if one survives
#   mutants.sh NAME…     these
#   mutants.sh --check   only: is every patch complete, and does it apply? Builds nothing
# A patch begins with lines "Bug: …", "Program: …" (the test program, a CMake target), "Tests: …" (as for
# --gtest_filter), and, if it is not dev, "Preset: …". The tests must be green without the bug.
set -euo pipefail
. "$(dirname "$0")/env.sh"
cd "$RAMCLOUD_TOP"
limit_s=300 # of one run; a bug that makes a test hang is caught, too

# field PATCH NAME: a line of its header.
field() { sed -n "/^--- /q; s/^$2: //p" "$1"; }

# complete PATCH: has it a header, and does it fit this tree?
complete() {
  local name
  for name in Bug Program Tests; do
    [ -n "$(field "$1" $name)" ] || {
      echo "FAIL $1: no line \"$name: …\" before the change"
      return 1
    }
  done
  git apply --check "$1" || {
    echo "FAIL $1 does not apply: what it changes has changed; make it anew"
    return 1
  }
}

patches=() passed=0 failed=0 check_only=false
[ "${1:-}" != --check ] || { check_only=true && shift; }
for name in "$@"; do
  [ -f "test/mutants/$name.patch" ] || die "mutants.sh: \"$name\" is not one; there are: $(cd test/mutants && echo ./*.patch | sed 's/\.\///g; s/\.patch//g')"
  patches+=("test/mutants/$name.patch")
done
[ $# -gt 0 ] || patches=(test/mutants/*.patch)
for patch in "${patches[@]}"; do
  if complete "$patch"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
done
if $check_only; then
  echo "$passed passed, $failed failed"
  [ $failed = 0 ]
  exit
fi
[ $failed = 0 ] || exit 1

copy=$RAMCLOUD_TOP/build/mutants
logs=$copy/logs
mkdir -p "$copy" "$logs"
# Objects of this checkout's own builds are the copy's, too.
export CCACHE_BASEDIR=$copy

# restore FILE…: as in this checkout. With the time of now, so that what was built with a bug is built anew.
restore() {
  local file
  for file in "$@"; do
    cmp -s "$file" "$copy/$file" || {
      mkdir -p "$(dirname "$copy/$file")"
      cp "$file" "$copy/$file"
    }
  done
}

# build PRESET PROGRAM… >LOG
build() {
  local preset=$1
  shift
  (cd "$copy/node" && [ -e "$copy/build/$preset/build.ninja" ] || cmake --preset "$preset") &&
    nice -n 5 cmake --build "$copy/build/$preset" --target "$@" -- -j "$RAMCLOUD_JOBS"
}

# run PRESET PROGRAM TESTS: one run of the tests, in a folder of their own.
run() {
  local program
  program=$(find "$copy/build/$1" -type f -name "$2" -perm -u+x | head -1)
  (cd "$logs" && timeout $limit_s "$program" --gtest_filter="$3" --gtest_brief=0 </dev/null)
}

# caught_by STATUS LOG: what turned red, for the table.
caught_by() {
  local test
  test=$(sed -n 's/^\[  FAILED  \] \([^ ,]*\).*/\1/p' "$2" | head -1)
  [ -n "$test" ] || test="$(sed -n 's/^\[ RUN      \] //p' "$2" | tail -1) (ended with code $1)"
  [ "$1" != 124 ] || test="$test, after $limit_s s"
  echo "$test"
}

mapfile -t files < <(find node -type f | sort)
restore "${files[@]}"
# What is gone here is gone there.
(cd "$copy" && find node -type f | sort) | comm -13 <(printf '%s\n' "${files[@]}") - | (cd "$copy" && xargs -r rm -f)

# Without any bug: what is named is there, and green.
declare -A programs filters
for patch in "${patches[@]}"; do
  preset=$(field "$patch" Preset) program=$(field "$patch" Program)
  programs[${preset:-dev}]+=" $program"
  filters[${preset:-dev} $program]+=":$(field "$patch" Tests)"
done
for preset in "${!programs[@]}"; do
  # shellcheck disable=SC2086 # names of programs
  build "$preset" ${programs[$preset]} >"$logs/build-$preset.log" 2>&1 || {
    tail -30 "$logs/build-$preset.log"
    die "mutants.sh: preset $preset does not build"
  }
done
for both in "${!filters[@]}"; do
  read -r preset program <<<"$both"
  run "$preset" "$program" "${filters[$both]#:}" >"$logs/$program.log" 2>&1 || {
    grep '^\[  FAILED  \]' "$logs/$program.log" || tail -5 "$logs/$program.log"
    die "mutants.sh: tests of $program are red without any bug; see $logs/$program.log"
  }
done

rows=() passed=0
for patch in "${patches[@]}"; do
  name=$(basename "$patch" .patch) began=$SECONDS verdict=""
  program=$(field "$patch" Program) tests=$(field "$patch" Tests) preset=$(field "$patch" Preset)
  preset=${preset:-dev} log=$logs/$name.log status=0
  mapfile -t changed < <(sed -n 's/^+++ b\///p' "$patch")
  if ! GIT_CEILING_DIRECTORIES=$RAMCLOUD_TOP/build git -C "$copy" apply "$RAMCLOUD_TOP/$patch" 2>"$log"; then
    verdict="FAIL: does not apply"
  elif ! build "$preset" "$program" >"$log" 2>&1; then
    verdict="FAIL: does not build with the bug"
  else
    run "$preset" "$program" "$tests" >"$log" 2>&1 || status=$?
    if [ $status = 0 ]; then
      verdict="FAIL: SURVIVED $tests"
      grep -q '^\[  PASSED  \] [1-9]' "$log" || verdict="FAIL: there is no test $tests in $program"
    fi
  fi
  restore "${changed[@]}"
  if [ -z "$verdict" ]; then
    passed=$((passed + 1))
    verdict=$(caught_by $status "$log")
  else
    failed=$((failed + 1))
  fi
  rows+=("$(printf '%-42s %4ds  %s' "$name" $((SECONDS - began)) "$verdict")")
  echo "${rows[-1]}"
done

printf '\n%-42s %5s  %s\n' bug time "caught by"
printf '%s\n' "${rows[@]}"
printf '%d s in all; the output of each is in build/mutants/logs\n\n%d passed, %d failed\n' "$SECONDS" "$passed" "$failed"
[ $failed = 0 ]
