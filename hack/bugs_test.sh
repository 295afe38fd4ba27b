#!/usr/bin/env bash
# Do the tests and commits that docs/design/bugs.md names exist?
set -euo pipefail
cd "$(dirname "$0")/.."
passed=0 failed=0
problem() {
  printf 'FAIL docs/design/bugs.md: %s\n' "$1"
  failed=$((failed + 1))
}

# there NAME: is a test of this name in the sources?
there() {
  case $1 in
    Test*) grep -rqE "^func $1\(" --include='*_test.go' clients operator e2e ;;
    test_*) grep -rqE "def $1\(" --include='*.py' clients ;;
    *.*) grep -qE "^TEST(_F|_P)?\(${1%%.*}, ${1#*.}\)" <<<"$cases" ;;
    *) return 1 ;;
  esac
}

# A definition may be on two lines.
cases=$(find node clients \( -name '*_test.cc' -o -path 'node/model/*.cc' \) -print0 | xargs -0 sed -n '/^TEST\(_F\|_P\)\?(/{/)/!{N;s/,\n */, /};s/).*/)/;p}')
history=true
git rev-parse --is-inside-work-tree >/dev/null 2>&1 && [ "$(git rev-parse --is-shallow-repository)" = false ] || history=false

rows=0
while IFS='|' read -r _ bug found test commit _; do
  [[ $bug =~ ^\ (bug|---) || $bug = ---* ]] && continue
  rows=$((rows + 1))
  bug=${bug# } bug=${bug% } found=${found// /} test=${test//[\` ]/} commit=${commit// /}
  if [ -z "$found" ]; then problem "\"$bug\" does not say how it was found"; fi
  if [ -n "$test" ] && ! there "$test"; then problem "there is no test $test (\"$bug\")"; fi
  if [ "$commit" = open ]; then
    [ -z "$test" ] || problem "\"$bug\" is open and names a test"
  elif ! [[ $commit =~ ^[0-9a-f]{7,40}$ ]]; then
    problem "\"$bug\": \"$commit\" is neither a commit nor open"
  elif $history && ! git merge-base --is-ancestor "$commit" HEAD 2>/dev/null; then
    problem "there is no commit $commit (\"$bug\")"
  fi
  passed=$((passed + 1))
done < <(grep '^|' docs/design/bugs.md)
[ "$rows" -ge 50 ] || problem "only $rows rows were read"
$history || echo "SKIP commits: there is no history here"
echo "$((passed - failed)) passed, $failed failed"
[ $failed = 0 ]
