#!/usr/bin/env bash
# The first process of the sandbox (see sandbox.sh): sets its namespaces up and runs dockerd in them.
#   sandbox-init.sh DAEMON_CONFIG
set -euo pipefail
config=$1

# What dockerd writes to /run and /etc stays in here.
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/lock /run/etc/changed /run/etc/work
mount -t overlay -o lowerdir=/etc,upperdir=/run/etc/changed,workdir=/run/etc/work overlay /etc

# dockerd and kind look for a default route. This one ends in the other half of the same pair: there is no
# way out of the namespace.
ip link set lo up
ip link add uplink type veth peer name nowhere
ip addr add 198.18.0.1/30 dev uplink
ip link set uplink up
ip link set nowhere up
ip route add default via 198.18.0.2

# Debian's own containerd and runc belong to Debian's dockerd: not those of the node image.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
dockerd --config-file "$config" &
dockerd=$!
trap 'kill -TERM $dockerd' TERM INT
# A signal interrupts wait; the shell stays as long as dockerd, and reaps what is left to it as process 1.
while kill -0 $dockerd 2>/dev/null; do wait $dockerd || true; done
