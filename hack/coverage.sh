#!/usr/bin/env bash
# Line coverage of the layers that keep data: a table, and build/coverage/html.
#   coverage.sh            runs every unit test (preset asan), then reports
#   coverage.sh report     reports what the last run left (`make test` runs its unit tests so)
# Exit 1 when a layer is below MIN_COVERAGE (85 %). The last line says how many layers are not, and are.
set -euo pipefail
. "$(dirname "$0")/env.sh"
cd "$RAMCLOUD_TOP"
minimum=${MIN_COVERAGE:-85}
layers=(log store replication backup coordinator)
out=$RAMCLOUD_TOP/build/coverage build=$RAMCLOUD_TOP/build/asan
profiles=$out/profiles

case ${1:-} in
  report) ;;
  "") hack/test.sh unit ;;
  *) die "coverage.sh: \"$1\" is not known; accepted is report, or nothing" ;;
esac
compgen -G "$profiles/*.profraw" >/dev/null ||
  die "coverage.sh: there are no profiles in build/coverage; \`make test\` or \`hack/test.sh unit\` makes them"

# Every layer's own tests have all of its code; what other tests ran of it is in the profiles, too.
objects=()
while read -r program; do objects+=(-object "$program"); done < <(
  for layer in "${layers[@]}"; do
    find "$build/src/$layer" -type f -name '*_test' -perm -u+x
  done | sort
)
[ ${#objects[@]} -gt 0 ] || die "coverage.sh: the build left no tests in build/asan/src"
llvm-profdata-19 merge -sparse "$profiles"/*.profraw -o "$out/all.profdata"

# Sources are named as the compiler saw them: from the build's folder, so that other clones' objects are the same.
cd "$build"
files=$(llvm-cov-19 export -summary-only -instr-profile "$out/all.profdata" "${objects[@]:1}" 2>/dev/null)

passed=0 failed=0
printf '%-14s %8s %8s %8s\n' layer lines missed covered
for layer in "${layers[@]}"; do
  read -r lines covered <<<"$(jq -r --arg layer "^../../node/src/$layer/" '[.data[0].files[]
    | select(.filename | test($layer) and (test("_test|/testing/|_support") | not)) | .summary.lines]
    | "\(map(.count) | add // 0) \(map(.covered) | add // 0)"' <<<"$files")"
  percent=$((lines > 0 ? 100 * covered / lines : 0))
  printf '%-14s %8d %8d %7d%%\n' "$layer" "$lines" $((lines - covered)) "$percent"
  if [ "$percent" -ge "$minimum" ]; then
    passed=$((passed + 1))
  else
    echo "FAIL $layer: $percent % of its lines are covered; at least $minimum % are asked for"
    failed=$((failed + 1))
  fi
done
mapfile -t shown < <(printf '../../node/src/%s\n' "${layers[@]}")
rm -rf "$out/html"
llvm-cov-19 show --compilation-dir="$build" -format html -output-dir "$out/html" -instr-profile "$out/all.profdata" "${objects[@]:1}" \
  -ignore-filename-regex='_test|/testing/|_support' "${shown[@]}" >/dev/null 2>&1
say "lines by source: build/coverage/html/index.html"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
