#!/usr/bin/env bash
# Does each claim of the table in docs/operating/failures.md name a test that exists, or say that it has none?
set -euo pipefail
cd "$(dirname "$0")/.."
. hack/named_tests.sh
page=docs/operating/failures.md
passed=0 failed=0
problem() {
  printf 'FAIL %s: %s\n' "$page" "$1"
  failed=$((failed + 1))
}

# source_of NAME: a file, by its path or by its name in the folder of end-to-end cases.
source_of() {
  local path
  for path in "$1" "e2e/suite/$1"; do
    [ -f "$path" ] && printf '%s' "$path" && return
  done
  return 1
}

# proofs ROW CELL: every test, file and quoted case of an end-to-end test that a cell names is there.
proofs() {
  local row=$1 cell=$2 name path found=0
  case $cell in
    "not tested") found=1 ;;
  esac
  # shellcheck disable=SC2016 # backticks of Markdown
  while read -r name; do
    [ -n "$name" ] || continue
    found=$((found + 1))
    case $name in
      *.go | *.cc) source_of "$name" >/dev/null || problem "there is no file $name ($row)" ;;
      *) named_test "$name" || problem "there is no test $name ($row)" ;;
    esac
  done < <(grep -oE '`[^`]+`' <<<"$cell" | tr -d '`')
  # "a case" (`file`): the text is in that file.
  while read -r name; do
    [ -n "$name" ] || continue
    path=$(sed -nE "s|.*\"$name\"[^\`]*\`([^\`]+)\`.*|\1|p" <<<"$cell")
    if ! path=$(source_of "$path") || ! grep -qF "$name" "$path"; then
      problem "there is no case \"$name\" in $path ($row)"
    fi
  done < <(grep -oE '"[^"]+"' <<<"$cell" | tr -d '"')
  [ "$found" -gt 0 ] || problem "\"$cell\" names no test ($row)"
  passed=$((passed + 1))
}

rows=0
while IFS='|' read -r _ what _ by _ by_synced _; do
  what=${what# } what=${what% } by=${by# } by=${by% } by_synced=${by_synced# } by_synced=${by_synced% }
  [[ $what = "what fails" || $what = ---* ]] && continue
  rows=$((rows + 1))
  proofs "$what" "$by"
  proofs "$what" "$by_synced"
done < <(sed -n '/^| what fails |/,/^$/p' "$page" | grep '^|')
[ "$rows" -ge 25 ] || problem "only $rows rows were read"
echo "$((passed - failed)) passed, $failed failed"
[ $failed = 0 ]
