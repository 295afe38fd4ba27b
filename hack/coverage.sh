#!/usr/bin/env bash
# Line coverage of the layers that keep data, by their own tests: a table, and build/coverage/html.
#   coverage.sh            log, store, replication, backup, coordinator
#   coverage.sh LAYER…     only these
# Exit 1 when a layer is below MIN_COVERAGE (85 %).
set -euo pipefail
. "$(dirname "$0")/env.sh"
cd "$RAMCLOUD_TOP"
minimum=${MIN_COVERAGE:-85}
layers=("$@")
[ $# -gt 0 ] || layers=(log store replication backup coordinator)
out=$RAMCLOUD_TOP/build/coverage
profiles=$out/profiles

# The tests of a layer. Replication is tested with backups to replicate to.
tests_of() {
  case $1 in
    log | store) echo "$1_test" ;;
    replication) echo replication_test replication_sim_test ;;
    backup) echo backup_test replication_sim_test ;;
    coordinator) echo coordinator_test coordinator_metadata_test coordinator_admin_test ;;
    *) die "coverage.sh: \"$1\" is not a layer; layers are log, store, replication, backup and coordinator" ;;
  esac
}

targets=()
for layer in "${layers[@]}"; do
  read -r -a of_layer <<<"$(tests_of "$layer")"
  targets+=("${of_layer[@]}")
done
mapfile -t targets < <(printf '%s\n' "${targets[@]}" | sort -u)

(cd node && cmake --preset coverage >/dev/null)
nice -n 5 cmake --build build/coverage --target "${targets[@]}" -- -j "$RAMCLOUD_JOBS"
rm -rf "$profiles"
mkdir -p "$profiles"
objects=()
for target in "${targets[@]}"; do
  program=$(find build/coverage/src -type f -name "$target" -perm -u+x | head -1)
  [ -n "$program" ] || die "the build left no $target"
  objects+=(-object "$program")
  # The byte sweep looks at every byte of a volume with the same lines each time.
  LLVM_PROFILE_FILE=$profiles/$target.profraw "$program" --gtest_brief=1 --gtest_filter='-*FlippedByteIsNamed' \
    >"$out/$target.log" 2>&1 || die "$target failed, see build/coverage/$target.log"
done
llvm-profdata-19 merge -sparse "$profiles"/*.profraw -o "$out/all.profdata"

status=0
printf '%-14s %8s %8s %8s\n' layer lines missed covered
for layer in "${layers[@]}"; do
  mapfile -t sources < <(git ls-files -co --exclude-standard -- "node/src/$layer/*.cc" "node/src/$layer/*.h" |
    grep -v -e '_test' -e '/testing/' -e '_support')
  read -r lines covered <<<"$(llvm-cov-19 export -summary-only -instr-profile "$out/all.profdata" \
    "${objects[@]:1}" "${sources[@]}" 2>/dev/null | jq -r '.data[0].totals.lines | "\(.count) \(.covered)"')"
  percent=$((lines > 0 ? 100 * covered / lines : 0))
  printf '%-14s %8d %8d %7d%%\n' "$layer" "$lines" $((lines - covered)) "$percent"
  [ "$percent" -ge "$minimum" ] || status=1
done
mapfile -t shown < <(printf 'node/src/%s\n' "${layers[@]}")
llvm-cov-19 show -format html -output-dir "$out/html" -instr-profile "$out/all.profdata" "${objects[@]:1}" \
  "${shown[@]}" >/dev/null 2>&1
say "lines by source: build/coverage/html/index.html"
[ $status = 0 ] || die "a layer is below $minimum %"
