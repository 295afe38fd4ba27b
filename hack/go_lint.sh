#!/usr/bin/env bash
# golangci-lint with kube-api-linter over the Go modules, as .golangci.yml says. They are compiled once for each version of
# hack/lint, into the cache. The last line says how many modules have nothing to fix.
set -euo pipefail
. "$(dirname "$0")/env.sh"
cd "$RAMCLOUD_TOP"

linter() {
  local version program
  version=$(cat hack/lint/main.go hack/lint/go.mod hack/lint/go.sum <(go env GOVERSION) | sha256sum | cut -c1-12)
  program=$RAMCLOUD_CACHE/lint/golangci-lint-$version
  if [ ! -x "$program" ]; then
    mkdir -p "$RAMCLOUD_CACHE/lint"
    (cd hack/lint && go build -o "$program.$$" .)
    mv "$program.$$" "$program"
  fi
  echo "$program"
}

program=$(linter)
export GOLANGCI_LINT_CACHE=$RAMCLOUD_CACHE/lint/results
passed=0 failed=0
for folder in operator clients/go e2e charts/tests; do
  if (cd "$folder" && nice -n 5 "$program" run --config "$RAMCLOUD_TOP/.golangci.yml" --concurrency "$RAMCLOUD_JOBS" "$@" ./...); then
    passed=$((passed + 1))
  else
    echo "FAIL golangci-lint in $folder"
    failed=$((failed + 1))
  fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
