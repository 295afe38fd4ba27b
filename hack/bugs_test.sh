#!/usr/bin/env bash
# Do the tests and commits that docs/design/bugs.md names exist?
set -euo pipefail
cd "$(dirname "$0")/.."
. hack/named_tests.sh
passed=0 failed=0
problem() {
  printf 'FAIL docs/design/bugs.md: %s\n' "$1"
  failed=$((failed + 1))
}

history=true
git rev-parse --is-inside-work-tree >/dev/null 2>&1 && [ "$(git rev-parse --is-shallow-repository)" = false ] || history=false

rows=0
while IFS='|' read -r _ bug found test commit _; do
  [[ $bug =~ ^\ (bug|---) || $bug = ---* ]] && continue
  rows=$((rows + 1))
  bug=${bug# } bug=${bug% } found=${found// /} test=${test//[\` ]/} commit=${commit// /}
  if [ -z "$found" ]; then problem "\"$bug\" does not say how it was found"; fi
  if [ -n "$test" ] && ! named_test "$test"; then problem "there is no test $test (\"$bug\")"; fi
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
