#!/usr/bin/env bash
# The Go modules of the project name the same versions of what they share: else Kubernetes' libraries are compiled once
# for each of them, minutes of a build with an empty cache. Those of the cluster's own programs are of the cluster's
# version of Kubernetes, and agree among themselves. The client's module requires none of Kubernetes'.
# The last line says how many agree.
set -euo pipefail
. "$(dirname "$0")/env.sh"
cd "$RAMCLOUD_TOP"

# versions FOLDER: "module version" a line, of what its go.mod requires.
versions() { sed -n 's#^\(require\)\?[[:space:]]*\([a-z0-9.-]*\.[a-z]*/[^ ]*\) \(v[^ ]*\).*#\2 \3#p' "$1/go.mod" | LC_ALL=C sort; }

passed=0 failed=0
for pair in operator:charts/tests operator:clients/go operator:e2e clients/go:e2e e2e/kind/coredns:e2e/kind/nodetools; do
  one=${pair%:*} other=${pair#*:}
  shared=$(LC_ALL=C join <(versions "$one") <(versions "$other"))
  others=$(awk '$2 != $3 { print $1 ": " $2 " and " $3 }' <<<"$shared")
  if [ -n "$shared" ] && [ -z "$others" ]; then
    passed=$((passed + 1))
  else
    printf 'FAIL %s/go.mod and %s/go.mod name other versions; go get the newer one in both:\n%s\n' "$one" "$other" "${others:-nothing is shared}"
    failed=$((failed + 1))
  fi
done
# Who uses the client must not have to fetch Kubernetes' libraries.
if kubernetes=$(versions clients/go | grep -E '^(helm\.sh|[a-z.]*k8s\.io)/'); then
  printf 'FAIL clients/go/go.mod requires libraries of Kubernetes:\n%s\n' "$kubernetes"
  failed=$((failed + 1))
else
  passed=$((passed + 1))
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
