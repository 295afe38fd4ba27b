#!/usr/bin/env bash
# The end-to-end suite, on the cluster that is there or on one made for it.
#   e2e.sh [GINKGO-FLAG…]     e.g. --ginkgo.label-filter=short
# RAMCLOUD_UPGRADE_FROM=COMMIT: upgrade from the operator of that commit (hack/previous_operator.sh).
set -euo pipefail
. "$(dirname "$0")/../e2e/kind/lib.sh"
cd "$RAMCLOUD_TOP"
hack/up.sh --no-data
# What is upgraded from; a run of one other label upgrades nothing.
if ! [[ " $* " =~ label-filter=([a-z]+)\  ]] || [ "${BASH_REMATCH[1]}" = upgrade ]; then hack/previous_operator.sh "${RAMCLOUD_UPGRADE_FROM:-}"; fi
mkdir -p build/logs
(cd e2e && go vet ./... && go test -c -o ../build/e2e.test ./suite)
export RAMCLOUD_TOP
in_cluster_net build/e2e.test --ginkgo.v --ginkgo.no-color --ginkgo.junit-report="$RAMCLOUD_TOP/build/logs/e2e.xml" --ginkgo.timeout=120m "$@"
