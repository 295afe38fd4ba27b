#!/usr/bin/env bash
# Draws the Grafana dashboards with data of the cluster of `make up`, into docs/images/dashboard-*.svg: a load of
# reads and writes runs on it meanwhile. There need be no Prometheus and no Grafana (charts/tests/draw).
#   dashboards.sh [SECONDS]     how long to look, at least 60; default 180
set -euo pipefail
. "$(dirname "$0")/../e2e/kind/lib.sh"
cd "$RAMCLOUD_TOP"
seconds=${1:-180}
namespace=ramcloud-system
account=dashboards
[ -n "$(cluster_way)" ] || die "there is no cluster: make up starts one"

(cd charts/tests && go build -o "$RAMCLOUD_TOP/build/draw" ./draw)
kubectl_in() { in_cluster_net kubectl "$@"; }
finish() {
  kubectl_in delete clusterrolebinding "$account" --ignore-not-found >/dev/null
  kubectl_in -n $namespace delete serviceaccount "$account" --ignore-not-found >/dev/null
}
trap finish EXIT
# The operator's metrics are only for those who may have them.
kubectl_in -n $namespace create serviceaccount "$account" >/dev/null
kubectl_in create clusterrolebinding "$account" --clusterrole=ramcloud-operator-metrics-reader \
  --serviceaccount="$namespace:$account" >/dev/null
RAMCLOUD_METRICS_TOKEN=$(kubectl_in -n $namespace create token "$account" --duration=1h)
export RAMCLOUD_METRICS_TOKEN

outside=$(kubectl_in get configmap demo-connection -o jsonpath='{.data.cluster-outside}')
in_cluster_net build/bin/ramcloud --cluster "$outside" bench ycsb-a --clients 8 --rate 500 --span 4 --keys 20000 \
  --duration "$((seconds + 5))s" >build/logs/dashboards-load.log 2>&1 &
load=$!
in_cluster_net build/draw --dashboards charts/ramcloud-operator/files/dashboards --out docs/images --for "${seconds}s"
wait "$load" # it drops its table
