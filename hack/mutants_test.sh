#!/usr/bin/env bash
# Whether the bugs in test/mutants can still be planted, and whether what cannot be is named; `make mutants` then shows
# that the tests find them.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
passed=0 failed=0

# expect PATTERN COMMAND…: the output must match.
expect() {
  local pattern=$1 output
  shift
  output=$("$@" 2>&1) || true
  if [[ $output =~ $pattern ]]; then
    passed=$((passed + 1))
  else
    echo "FAIL $*: \"$pattern\" is not in: $output"
    failed=$((failed + 1))
  fi
}

# bug CHANGE: its file, with the header.
bug() {
  printf 'Bug: one.\nProgram: a_test\nTests: A.b\n\n%s\n' "$1" >"$folder/bug.mutant"
}
plant() { hack/mutant.py plant "$folder/bug.mutant" "$folder" && cat "$folder/source.cc"; }
source_is() { printf '%s\n' "$@" >"$folder/source.cc"; }

source_is 'int one(int a,' '        int b);' 'int two();'
bug $'File: source.cc\nSearch:\nint one(int a, int b);\nReplace:\nint one();\nSearch:\ntwo\nReplace:\nthree'
expect $'^source.cc\nint one\\(\\);\nint three\\(\\);$' plant
source_is 'a();' 'a();'
bug $'File: source.cc\nSearch:\na();\nReplace:\nb();'
expect 'a\(\);.*occurs 2 times in source.cc' plant
bug $'File: source.cc\nSearch:\nc();\nReplace:\nb();'
expect 'c\(\);.*occurs 0 times in source.cc' plant
bug $'File: source.cc\nSearch:\nc();'
expect 'needs "Search:" and "Replace:"' plant
bug $'File: none.cc\nSearch:\nc();\nReplace:\nb();'
expect 'none.cc: No such file' plant
printf 'Bug: one.\nTests: A.b\nFile: source.cc\n' >"$folder/bug.mutant"
expect 'one line of "Program: …" and "Go: …"' plant
printf 'Bug: one.\nProgram: a_test\nGo: internal/plan\nTests: A.b\nFile: source.cc\n' >"$folder/bug.mutant"
expect 'one line of "Program: …" and "Go: …"' plant
source_is 'a();'
printf 'Bug: one.\nGo: internal/plan\nTests: TestA\n\nFile: source.cc\nSearch:\na();\nReplace:\nb();\n' >"$folder/bug.mutant"
expect $'^source.cc\nb\\(\\);$' plant
printf 'Bug: one.\nTest: A.b\nFile: source.cc\n' >"$folder/bug.mutant"
expect 'line 2 is "Test: A.b"' plant

output=$(hack/mutants.sh --check) || true
read -r more_passed _ more_failed _ < <(tail -1 <<<"$output")
sed '$d' <<<"$output"
echo "$((passed + more_passed)) passed, $((failed + more_failed)) failed"
[ $((failed + more_failed)) = 0 ]
