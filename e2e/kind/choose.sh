#!/usr/bin/env bash
# Decides how the test cluster is made and prints the way and the reason on one line:
#   ordinary REASON     kind with its own kindest/node image, on the machine's docker
#   airgapped REASON    everything from Go modules and Debian packages, in a sandbox of its own
# RAMCLOUD_CLUSTER_WAY=ordinary|airgapped decides instead.
#
# Ordinary needs both: a docker that answers, and the node image, either there or in a registry in reach.
set -euo pipefail
image=${1:?usage: choose.sh NODE_IMAGE}

case ${RAMCLOUD_CLUSTER_WAY:-} in
  ordinary | airgapped)
    echo "$RAMCLOUD_CLUSTER_WAY RAMCLOUD_CLUSTER_WAY says so"
    exit 0
    ;;
  '') ;;
  *)
    echo "error: RAMCLOUD_CLUSTER_WAY is \"$RAMCLOUD_CLUSTER_WAY\"; accepted are ordinary and airgapped" >&2
    exit 2
    ;;
esac

# A registry that drops packets instead of refusing must not hold `make up` for minutes.
patience=${RAMCLOUD_REGISTRY_TIMEOUT:-15}

if ! command -v docker >/dev/null; then
  echo "airgapped there is no docker command"
elif ! timeout "$patience" docker version --format '{{.Server.Version}}' >/dev/null 2>&1; then
  echo "airgapped docker is not running"
elif timeout "$patience" docker image inspect "$image" >/dev/null 2>&1; then
  echo "ordinary docker has the image $image"
elif timeout "$patience" docker manifest inspect "$image" >/dev/null 2>&1; then
  echo "ordinary docker is running and its registry has $image"
else
  echo "airgapped no registry with $image can be reached"
fi
