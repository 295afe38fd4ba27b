#!/usr/bin/env bash
# What a machine can say about style: clang-format, clang-tidy, gofmt, go vet, golangci-lint with kube-api-linter, shellcheck, and line ends.
#   lint.sh            check
#   lint.sh --fix      let clang-format and gofmt write
set -euo pipefail
. "$(dirname "$0")/env.sh"
cd "$RAMCLOUD_TOP"
failed=0
fix=
[ "${1:-}" != --fix ] || fix=1

# check NAME COMMAND…
check() {
  local name=$1
  shift
  if "$@"; then echo "ok   $name"; else
    echo "FAIL $name"
    failed=1
  fi
}
cpp_files() { git ls-files -co --exclude-standard -- 'node/*.cc' 'node/*.h' 'clients/*.cc'; }

format_cpp() {
  if [ -n "$fix" ]; then cpp_files | xargs -r clang-format-19 -i; fi
  cpp_files | xargs -r clang-format-19 --dry-run -Werror
}
tidy_cpp() {
  (cd node && cmake --preset dev >/dev/null)
  # What the build generates (protobuf) must be there to be included.
  nice -n 5 cmake --build build/dev -- -j "$RAMCLOUD_JOBS" >/dev/null
  cpp_files | grep '\.cc$' | grep -v -e '^node/fuzz/' -e '^node/bench/' |
    nice -n 5 xargs -r -P "$RAMCLOUD_JOBS" -n 8 clang-tidy-19 -p build/dev --quiet --warnings-as-errors='*'
}
format_go() {
  local files
  if [ -n "$fix" ]; then git ls-files -co --exclude-standard -- '*.go' | xargs -r gofmt -w; fi
  files=$(git ls-files -co --exclude-standard -- '*.go' | xargs -r gofmt -l)
  [ -z "$files" ] || { echo "not as gofmt writes it: $files" && return 1; }
}
vet_go() {
  local folder status=0
  while read -r folder; do (cd "$folder" && go vet ./...) || status=1; done \
    < <(find . -name go.mod -not -path './build/*' -not -path './hack/lint/*' -printf '%h\n')
  (cd e2e && go vet -tags former ./local/) || status=1
  return "$status"
}
whitespace() { ! git grep -nIE '[[:space:]]+$' -- ':!*.patch' ':!*.golden'; }

check clang-format format_cpp
check gofmt format_go
check "go vet" vet_go
check golangci-lint hack/go_lint.sh
check shellcheck hack/shellcheck.sh
check "no spaces at line ends" whitespace
if [ -f node/.clang-tidy ] || [ -f .clang-tidy ]; then check clang-tidy tidy_cpp; fi
exit $failed
