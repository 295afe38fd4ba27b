#!/usr/bin/env bash
# Plants the bugs in test/mutants, one at a time, in a copy of the sources, and expects the tests that each one
# names to turn red: a bug that survives is a hole in the tests.
#   mutants.sh           all of them, then a table (bug, caught by, seconds); exit code 1 if one survives
#   mutants.sh NAME…     these
#   mutants.sh --check   only: is each complete, and can it be planted? Builds nothing
# What a planted bug looks like is said in hack/mutant.py. The tests must be green without the bug.
set -euo pipefail
. "$(dirname "$0")/env.sh"
cd "$RAMCLOUD_TOP"
limit_s=300 # of one run; a bug that makes a test hang is caught, too
base_limit_s=1200 # of all tests of a program or package without a bug: machines and their load differ

# field BUG NAME: a line of its header.
field() { sed -nE "/^(--- |File: )/q; s/^$2: //p" "$1"; }

# known: the names of all bugs, one a line.
known() { find test/mutants -name '*.mutant' -o -name '*.patch' | sed -E 's#.*/##; s#\.(mutant|patch)$##' | sort; }

# file_of NAME: its file; false when there is none.
file_of() {
  local kind
  for kind in mutant patch; do
    if [ -f "test/mutants/$1.$kind" ]; then
      echo "test/mutants/$1.$kind"
      return
    fi
  done
  return 1
}

bugs=() passed=0 failed=0 check_only=false
[ "${1:-}" != --check ] || { check_only=true && shift; }
[ $# -gt 0 ] || { mapfile -t all < <(known) && set -- "${all[@]}"; }
for name in "$@"; do
  bugs+=("$(file_of "$name")") || die "mutants.sh: \"$name\" is not one; there are: $(known | xargs)"
done
output=$(hack/mutant.py check "${bugs[@]}") || true
read -r passed _ failed _ < <(tail -1 <<<"$output")
sed '$d' <<<"$output"
doubled=$(known | uniq -d)
[ -z "$doubled" ] || { echo "FAIL two bugs have one name: $doubled" && failed=$((failed + 1)); }
if $check_only; then
  echo "$passed passed, $failed failed"
  [ "$failed" = 0 ]
  exit
fi
[ "$failed" = 0 ] || exit 1

copy=$RAMCLOUD_TOP/build/mutants
logs=$copy/logs
mkdir -p "$copy" "$logs"
# Objects of this checkout's own builds are the copy's, too.
export CCACHE_BASEDIR=$copy

# restore FILE…: as in this checkout. With the time of now, so that what was built with a bug is rebuilt.
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
  (cd "$logs" && timeout "$limit_s" "$program" --gtest_filter="$3" --gtest_brief=0 </dev/null)
}

# go_run PACKAGE TESTS: the same of tests of the operator, or of the Go client, of which each must be there.
go_run() {
  local name folder=$copy/operator/$1
  [[ $1 != clients/* ]] || folder=$copy/$1
  for name in ${2//|/ }; do
    grep -qE "^func $name\(" "$folder"/*_test.go || { echo "there is no test $name in $1" && return; }
  done
  (cd "$folder" && timeout "$limit_s" nice -n 5 go test -count=1 -timeout "${limit_s}s" -vet=off -failfast -p "$RAMCLOUD_JOBS" -run "^($2)\$" . </dev/null)
}

# caught_by STATUS LOG: what turned red, for the table.
caught_by() {
  local test
  test=$(sed -nE 's/^--- FAIL: ([^ ]*).*/\1/p' "$2" | head -1)
  if [ -n "$test" ]; then
    echo "$test"
    return
  fi
  test=$(sed -n 's/^\[  FAILED  \] \([^ ,]*\).*/\1/p' "$2" | head -1)
  [ -n "$test" ] || test="$(sed -n 's/^\[ RUN      \] //p' "$2" | tail -1) (ended with code $1)"
  [ "$1" != 124 ] || test="$test, after $limit_s s"
  echo "$test"
}

# What the operator's tests read: its sources, the client's module that it uses, the CRDs, and the charts with what is
# made of them.
folders=(node clients operator charts manifests docs/reference)
mapfile -t files < <(find "${folders[@]}" -type f | sort)
restore VERSION "${files[@]}"
# What is gone here is gone there.
(cd "$copy" && find "${folders[@]}" -type f | sort) | comm -13 <(printf '%s\n' "${files[@]}") - | (cd "$copy" && xargs -r rm -f)

# Without any bug: what is named is there, and green.
declare -A programs=() filters=() packages=()
for bug in "${bugs[@]}"; do
  package=$(field "$bug" Go)
  if [ -n "$package" ]; then
    packages[$package]+="|$(field "$bug" Tests)"
    continue
  fi
  preset=$(field "$bug" Preset) program=$(field "$bug" Program)
  programs[${preset:-plain}]+=" $program"
  filters[${preset:-plain} $program]+=":$(field "$bug" Tests)"
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
  limit_s=$base_limit_s run "$preset" "$program" "${filters[$both]#:}" >"$logs/$program.log" 2>&1 || {
    grep '^\[  FAILED  \]' "$logs/$program.log" || tail -5 "$logs/$program.log"
    die "mutants.sh: tests of $program are red without any bug; see $logs/$program.log"
  }
done

if [ ${#packages[@]} -gt 0 ]; then
  KUBEBUILDER_ASSETS=$(e2e/kind/components.sh envtest)
  export KUBEBUILDER_ASSETS
fi
for package in "${!packages[@]}"; do
  tests=$(tr '|' '\n' <<<"${packages[$package]#|}" | sort -u | paste -sd '|')
  log=$logs/${package//\//-}.log
  if ! limit_s=$base_limit_s go_run "$package" "$tests" >"$log" 2>&1 || ! grep -q '^ok' "$log"; then
    grep -e '^--- FAIL' -e '^there is no' "$log" || tail -5 "$log"
    die "mutants.sh: tests of $package are red without any bug; see $log"
  fi
done

rows=() passed=0
for bug in "${bugs[@]}"; do
  name=$(basename "${bug%.*}") began=$SECONDS verdict=""
  program=$(field "$bug" Program) tests=$(field "$bug" Tests) preset=$(field "$bug" Preset)
  preset=${preset:-plain} log=$logs/$name.log status=0 package=$(field "$bug" Go)
  if ! changed=$(hack/mutant.py plant "$bug" "$copy" 2>&1); then
    verdict="FAIL: cannot be planted: $changed" changed=""
  elif [ -n "$package" ]; then
    go_run "$package" "$tests" >"$log" 2>&1 || status=$?
    if [ $status = 0 ]; then
      verdict="FAIL: SURVIVED $tests"
    elif grep -qE '\[(build|setup) failed\]' "$log"; then
      verdict="FAIL: does not build with the bug"
    fi
  elif ! build "$preset" "$program" >"$log" 2>&1; then
    verdict="FAIL: does not build with the bug"
  else
    run "$preset" "$program" "$tests" >"$log" 2>&1 || status=$?
    if [ $status = 0 ]; then
      verdict="FAIL: SURVIVED $tests"
      grep -q '^\[  PASSED  \] [1-9]' "$log" || verdict="FAIL: there is no test $tests in $program"
    fi
  fi
  mapfile -t planted <<<"$changed"
  [ -z "$changed" ] || restore "${planted[@]}"
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
[ "$failed" = 0 ]
