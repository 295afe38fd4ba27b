#!/usr/bin/env bash
# The test cluster: Kubernetes by kind, 1 control plane and 4 workers.
#   cluster.sh up              make it, or make what is missing of it; a healthy one is left alone
#   cluster.sh down            remove it and show that nothing is left behind; nothing to remove is fine
#   cluster.sh load IMAGE…     bring images of the cluster's docker to every node
set -euo pipefail
. "$(dirname "$0")/lib.sh"

cluster_exists() { in_cluster_net kind get clusters 2>/dev/null | grep -qx "$CLUSTER"; }

# Every node Ready and DNS answering; a cluster that a crash left half made is not.
cluster_healthy() {
  cluster_exists &&
    in_cluster_net kubectl wait --for=condition=Ready nodes --all --timeout="${1:-5s}" &&
    in_cluster_net kubectl -n kube-system rollout status deployment/coredns --timeout="${2:-5s}"
}

# Lists what a cluster that does not come up is hanging on.
explain() {
  in_cluster_net kubectl get nodes,pods -A -o wide 2>/dev/null || true
  in_cluster_net kubectl get events -A --sort-by=.lastTimestamp 2>/dev/null | tail -20 || true
}

create() { # KIND-CONFIG [ARGUMENT…]
  local config=$1 log=$SANDBOX/logs/kind.log
  shift
  if cluster_exists; then in_cluster_net kind delete cluster --name "$CLUSTER" >/dev/null 2>&1; fi
  rm -f "$KUBECONFIG"
  # --retain keeps the nodes of a failed attempt, so that explain can look at them.
  in_cluster_net kind create cluster --name "$CLUSTER" --config "$config" --retain "$@" >"$log" 2>&1 || {
    tail -30 "$log" >&2
    explain >&2
    die "kind could not make the cluster; its whole output is in $log"
  }
  [ "$(cluster_way)" = ordinary ] || answer_only_cluster_names >>"$log" 2>&1 || die "CoreDNS could not be configured: $log"
  cluster_healthy 180s 180s >>"$log" 2>&1 || {
    explain >&2
    die "the cluster did not become ready"
  }
}

# Names outside the cluster do not exist here. Without this CoreDNS would ask a server that is not there, and
# every lookup that ends its search path at the bare name (glibc does for AAAA) would wait for that.
answer_only_cluster_names() {
  in_cluster_net kubectl apply -f "$KIND_DIR/manifests/coredns.yaml"
  in_cluster_net kubectl -n kube-system rollout restart deployment/coredns
}

up() {
  local way reason rootfs image
  way=$(cluster_way)
  if [ -z "$way" ]; then
    read -r way reason <<<"$("$KIND_DIR/choose.sh" "$KINDEST_NODE")"
    step "cluster: $way ($reason)"
  fi
  mkdir -p "$SANDBOX/logs"
  if [ "$way" = ordinary ]; then
    "$KIND_DIR/components.sh" kind kubectl helm
    mkdir -p "$SANDBOX_RUN"
    echo ordinary >"$SANDBOX_RUN/way"
    if cluster_healthy >/dev/null 2>&1; then step "cluster: there already" && return 0; fi
    create "$KIND_DIR/ordinary.yaml" --image "$KINDEST_NODE"
    step "cluster: 5 nodes ready"
    return 0
  fi
  need_root "the air-gapped cluster"
  "$KIND_DIR/components.sh"
  rootfs=$("$KIND_DIR/rootfs.sh" node)
  step "cluster: programs and root file system there"
  "$KIND_DIR/sandbox.sh" up
  echo airgapped >"$SANDBOX_RUN/way"
  if cluster_healthy >/dev/null 2>&1; then step "cluster: there already" && return 0; fi
  image=$(in_cluster_net "$KIND_DIR/node-image.sh" "$rootfs")
  step "cluster: node image $image"
  create "$KIND_DIR/airgapped.yaml" --image "$image"
  step "cluster: 5 nodes ready"
}

down() {
  local way before=''
  way=$(cluster_way)
  case $way in
    ordinary)
      if cluster_exists; then in_cluster_net kind delete cluster --name "$CLUSTER"; fi
      rm -rf "$SANDBOX_RUN"
      ;;
    *)
      if [ ! -d "$SANDBOX_RUN" ]; then
        say "there is no cluster"
        return 0
      fi
      need_root "make down"
      before=$(cat "$SANDBOX_RUN/before" 2>/dev/null || true)
      # Node containers are deleted by name, so that their volumes do not stay in dockerd's folder.
      if [ -n "$way" ] && sandbox_pid >/dev/null && cluster_exists; then
        in_cluster_net kind delete cluster --name "$CLUSTER" >/dev/null 2>&1 || true
      fi
      "$KIND_DIR/sandbox.sh" down
      [ -z "$before" ] || "$KIND_DIR/leftovers.sh" compare <(printf '%s\n' "$before")
      ;;
  esac
}

case ${1:-} in
  up) up ;;
  down) down ;;
  load)
    shift
    in_cluster_net kind load docker-image --name "$CLUSTER" "$@"
    ;;
  *) die "usage: cluster.sh up | down | load IMAGE… (got \"$*\")" ;;
esac
