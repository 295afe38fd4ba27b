#!/usr/bin/env bash
# From a checkout to a Kubernetes cluster with the operator, a RAMCloudCluster and real data in it; each step
# with its duration. Can be run again: what is there and right is left alone.
#   up.sh [--no-data]    without the import
set -euo pipefail
. "$(dirname "$0")/../e2e/kind/lib.sh"
cd "$RAMCLOUD_TOP"
namespace="ramcloud-system"
cluster=demo
import=1
[ "${1:-}" != --no-data ] || import=

began=$SECONDS
# timed NAME COMMAND…: run one step; what it prints is shown indented, its duration after it.
timed() {
  local name=$1 start=$SECONDS
  shift
  printf '== %s\n' "$name"
  "$@" || die "$name failed"
  printf '   %s: %d s\n' "$name" $((SECONDS - start))
}
quiet() { # COMMAND…: show the output only when it fails
  local log=$SANDBOX/logs/step.log
  mkdir -p "$SANDBOX/logs"
  "$@" >"$log" 2>&1 || {
    tail -40 "$log" >&2
    return 1
  }
}
kubectl_in() { in_cluster_net kubectl "$@"; }

install_operator() {
  local version
  version=$(hack/version.sh)
  in_cluster_net helm upgrade --install ramcloud-operator charts/ramcloud-operator \
    --namespace $namespace --create-namespace --set image.tag="$version" --set nodeImage.tag="$version" \
    --set etcdImage.tag="$version" --wait --timeout 180s
}

wait_ready() {
  kubectl_in apply -f manifests/samples/cluster.yaml
  kubectl_in wait --for=condition=Ready "ramcloudcluster/$cluster" --timeout=300s || {
    kubectl_in get ramcloudclusters,ramcloudservers,ramcloudrecoveries,pods,pvc -A -o wide >&2 || true
    kubectl_in get events --sort-by=.lastTimestamp 2>/dev/null | tail -20 >&2 || true
    kubectl_in -n $namespace logs deployment/ramcloud-operator --tail=40 >&2 || true
    return 1
  }
}

outside_address() { kubectl_in get configmap "$cluster-connection" -o jsonpath='{.data.cluster-outside}'; }

# Import from outside the cluster's pods, by the node ports, and compare what comes back.
import_data() {
  local folder outside sum_in sum_out ramcloud=$RAMCLOUD_TOP/build/bin/ramcloud
  folder=$(mktemp -d)
  # shellcheck disable=SC2064
  trap "rm -rf '$folder'" RETURN
  outside=$(outside_address)
  [ -n "$outside" ] || die "the ConfigMap $cluster-connection has no cluster-outside"
  hack/dataset.sh >"$folder/in.jsonl"
  if ! in_cluster_net "$ramcloud" --cluster "$outside" table show packages >/dev/null 2>&1; then
    in_cluster_net "$ramcloud" --cluster "$outside" table create packages --span 4 || return 1
  fi
  in_cluster_net "$ramcloud" --cluster "$outside" import packages "$folder/in.jsonl" || return 1
  in_cluster_net "$ramcloud" --cluster "$outside" export packages 2>/dev/null |
    hack/dataset.sh --canonical >"$folder/out.jsonl" || return 1
  sum_in=$(sha256sum <"$folder/in.jsonl" | cut -d' ' -f1)
  sum_out=$(sha256sum <"$folder/out.jsonl" | cut -d' ' -f1)
  printf '   records imported  %d\n   records compared  %d\n' "$(wc -l <"$folder/in.jsonl")" "$(wc -l <"$folder/out.jsonl")"
  printf '   sha256 imported   %s\n   sha256 exported   %s\n' "$sum_in" "$sum_out"
  [ "$sum_in" = "$sum_out" ]
}

show() {
  in_cluster_net "$RAMCLOUD_TOP/build/bin/ramcloud" --cluster "$(outside_address)" status
  kubectl_in get rcc,rcs
}

timed "build" quiet hack/build.sh
timed "cluster" e2e/kind/cluster.sh up
timed "images, built and loaded" hack/images.sh load
timed "operator, by helm" quiet install_operator
timed "RAMCloudCluster $cluster Ready" quiet wait_ready
[ -z "$import" ] || timed "data in and out" import_data
timed "what is there" show
cat <<TEXT

Up in $((SECONDS - began)) s. From here, in a shell that e2e/kind/k bash starts$(
  [ "$(cluster_way)" != airgapped ] || echo " (in the cluster's own network: nothing else reaches it)"
):
  look           kubectl get rcc,rcs,pods -o wide
  connect        build/bin/ramcloud --cluster $(outside_address) status
                 build/bin/ramcloud --cluster $(outside_address) get packages KEY
  scale out      kubectl scale rcc/$cluster --replicas=5
  end            exit, then make down
Kill a server: others serve what it had; kubectl get rcr says after how long.
try: kubectl delete pod $cluster-server-1 --force --grace-period=0
TEXT
