# shellcheck shell=bash
# Sourced by the scripts of this folder and by hack/up.sh: names, places and versions of the test cluster.
# shellcheck source=hack/env.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../hack/env.sh"

KIND_DIR=$RAMCLOUD_TOP/e2e/kind
# shellcheck source=e2e/kind/versions.env
. "$KIND_DIR/versions.env"

CLUSTER=ramcloud-e2e
COMPONENTS=$RAMCLOUD_CACHE/components             # NAME-VERSION: every program built, one file each
KUBE_BIN=$RAMCLOUD_CACHE/kube/$KUBERNETES_VERSION # links to them; also KUBEBUILDER_ASSETS
SANDBOX=$RAMCLOUD_CACHE/sandbox                   # what is kept: dockerd's images, logs
SANDBOX_RUN=$SANDBOX/run                          # what is there only between up and down
ROOTFS=$RAMCLOUD_CACHE/rootfs                     # Debian root file systems
CGROUP=ramcloud-e2e                               # parent of all cgroups of the air-gapped cluster
export CLUSTER COMPONENTS KUBE_BIN SANDBOX SANDBOX_RUN ROOTFS CGROUP
export KUBECONFIG=$SANDBOX_RUN/kubeconfig
export PATH=$KUBE_BIN:$PATH

need_root() {
  [ "$(id -u)" = 0 ] ||
    die "$1 needs root (a network namespace, mounts and dockerd of its own): run it as root, e.g. sudo -E make up"
}

# Prints a line with the seconds since the script started.
STARTED=$SECONDS
step() { printf '[%4ds] %s\n' $((SECONDS - STARTED)) "$*"; }

# wait_until SECONDS WHAT COMMAND…: poll a condition; an expired deadline is an error that names WHAT.
wait_until() {
  local deadline=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $deadline ] || {
      printf 'error: waited in vain for %s\n' "$what" >&2
      return 1
    }
    sleep 0.2
  done
}

# The node image is named by what it is made from, so a change of any of it makes a new one.
node_image() {
  local hash
  hash=$(cd "$KIND_DIR" && find versions.env lib.sh rootfs.sh node-image.sh pause.c manifests nodetools coredns -type f |
    grep -v '_test\.go$' | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c1-12)
  echo "ramcloud-e2e/kind-node:$KUBERNETES_VERSION-$hash"
}

# started_at PID: the kernel's start time of a process, so that a pid that was given out again is told apart.
started_at() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }

# The pid of the sandbox (see sandbox.sh), or nothing when it does not run.
sandbox_pid() {
  local pid start
  [ -r "$SANDBOX_RUN/pid" ] || return 1
  read -r pid start <"$SANDBOX_RUN/pid" || return 1
  [ -n "$start" ] && [ "$(started_at "$pid")" = "$start" ] && echo "$pid"
}

# Which way the running cluster was made: "ordinary", "airgapped", or nothing when there is none.
cluster_way() { cat "$SANDBOX_RUN/way" 2>/dev/null || true; }

use_sandbox_docker() { export DOCKER_HOST=unix://$SANDBOX_RUN/docker.sock; }

# in_cluster_net COMMAND…: run where the cluster's nodes can be reached.
in_cluster_net() {
  local pid
  if [ "$(cluster_way)" = ordinary ]; then
    "$@"
    return
  fi
  pid=$(sandbox_pid) || die "the cluster does not run: make up starts it"
  use_sandbox_docker
  nsenter --net="/proc/$pid/ns/net" -- "$@"
}
