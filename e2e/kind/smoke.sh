#!/usr/bin/env bash
# Checks the test cluster itself, before anything of ours runs in it: scheduling, DNS, every kind of service,
# volumes, memory limits, logs. Needs the images of the air-gapped cluster.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
[ "$(cluster_way)" = airgapped ] || die "smoke.sh looks at the air-gapped cluster, which does not run"
passed=0 failed=0
output=$(mktemp)
trap 'rm -f "$output"; in_cluster_net kubectl delete namespace smoke --wait=false >/dev/null 2>&1 || true' EXIT

kubectl_smoke() { in_cluster_net kubectl -n smoke "$@"; }
in_client() { kubectl_smoke exec client -- "$@"; }

check() { # NAME COMMAND…
  local name=$1
  shift
  if "$@" >"$output" 2>&1; then
    passed=$((passed + 1))
    echo "ok   $name"
  else
    failed=$((failed + 1))
    echo "FAIL $name: $(tail -3 "$output")"
  fi
}

two_nodes() {
  [ "$(kubectl_smoke get pods -l app=web -o jsonpath='{range .items[*]}{.spec.nodeName}{"\n"}{end}' | sort -u | wc -l)" = 2 ]
}
both_answer() {
  # shellcheck disable=SC2016
  [ "$(in_client sh -c 'for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do curl -sf -m 5 http://web/; done' | sort -u | wc -l)" = 2 ]
}
from_outside() {
  local port address
  port=$(kubectl_smoke get service web-outside -o jsonpath='{.spec.ports[0].nodePort}')
  for address in $(in_cluster_net kubectl get nodes -o jsonpath='{.items[*].status.addresses[?(@.type=="InternalIP")].address}'); do
    in_cluster_net curl -sf -m 5 "http://$address:$port/"
  done
}
volume_keeps() {
  in_client sh -c 'echo kept >/data/file && cat /data/file' | grep -qx kept
}
# The exit code says that it was killed (128 + SIGKILL), and nothing else kills here. The reason does not: containerd
# may miss the kernel's notice of a container that dies young, and then it says Error instead of OOMKilled.
killed_for_memory() {
  kubectl_smoke wait pod/greedy --timeout=90s \
    --for=jsonpath='{.status.containerStatuses[0].state.terminated.exitCode}'=137 ||
    { kubectl_smoke get pod/greedy -o jsonpath='{.status}'; return 1; }
}
# Whatever has no route of its own in the sandbox takes the uplink, whose other half lies in the same namespace
# (a peer elsewhere would show as link-netnsid) and answers nobody; and no link of the machine leads in.
no_way_out() {
  local outside
  outside=$(hostname -I | awk '{print $1}')
  in_cluster_net ip route get "${outside:-203.0.113.1}" | grep 'dev uplink' || return 1
  in_cluster_net ip -o link show uplink | grep 'uplink@nowhere' || return 1
  if in_cluster_net ip -o link show uplink | grep link-netnsid; then return 1; fi
  if in_cluster_net curl -s -o /dev/null -m 3 "http://${outside:-203.0.113.1}/"; then return 1; fi
  if ip -o link | grep link-netnsid; then
    echo "the machine has a link into another network namespace"
    return 1
  fi
}

in_cluster_net kubectl apply -f "$KIND_DIR/manifests/smoke.yaml" >/dev/null
check "a deployment rolls out" kubectl_smoke rollout status deployment/web --timeout=120s
check "a restricted pod with a volume starts" kubectl_smoke wait --for=condition=Ready pod/client --timeout=120s
check "pods spread over nodes" two_nodes
check "DNS names a service" in_client nslookup web.smoke.svc.cluster.local
check "DNS names a pod by hostname and subdomain" in_client nslookup client.clients.smoke.svc.cluster.local
check "a service reaches both pods" both_answer
check "a headless service reaches a pod" in_client curl -sf -m 5 http://web-headless:8080/
check "a node port answers on every node" from_outside
check "a volume is writable without root" volume_keeps
check "a memory limit kills" killed_for_memory
check "logs arrive" kubectl_smoke logs deployment/web
check "nothing leaves the sandbox" no_way_out
echo "$passed passed, $failed failed"
[ $failed = 0 ]
