#!/usr/bin/env bash
# What `make up` could leave behind on this machine, as text that can be compared.
#   leftovers.sh snapshot        print it
#   leftovers.sh compare FILE    print what differs from an earlier snapshot; exit code 1 when something does
#
# Looked at: processes in the cluster's cgroups or of the sandbox, network namespaces,
# mounts, links, addresses and routes, firewall rules, cgroup folders, and the kernel settings that kubelet changes.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

# What runs in a node is in the cluster's cgroups; what holds the sandbox itself carries its name in its
# environment. Other people's processes, in namespaces or not, are none of our business.
processes() {
  local p
  for p in /proc/[0-9]*; do
    if grep -qs "/$CGROUP" "$p/cgroup" || tr '\0' '\n' 2>/dev/null <"$p/environ" | grep -qx "RAMCLOUD_SANDBOX=$SANDBOX"; then
      echo "process ${p#/proc/} $(tr '\0' ' ' <"$p/cmdline" 2>/dev/null | cut -c1-100)"
    fi
  done
}

rules() {
  local command
  # Listing by the legacy commands loads kernel modules, so only tables that are there are asked for.
  if command -v nft >/dev/null; then nft list ruleset 2>/dev/null | sed 's/counter packets [0-9]* bytes [0-9]*//; s/^/rule nft /'; fi
  for command in iptables-save ip6tables-save iptables-legacy-save; do
    if command -v "$command" >/dev/null; then
      "$command" 2>/dev/null | grep -v '^#' | sed "s/\[[0-9]*:[0-9]*\]//; s/^/rule $command /" || true
    fi
  done
}

snapshot() {
  local name
  {
    processes
    find /run/netns -mindepth 1 2>/dev/null | sed 's/^/network-namespace /' || true
    sed 's/^/mount /' /proc/self/mounts
    ip -o link | sed 's/^[0-9]*: //; s/^/link /'
    ip -o addr | awk '{print "address", $2, $3, $4}'
    ip route | sed 's/^/route /'
    rules
    find /sys/fs/cgroup -type d -path "*/$CGROUP*" 2>/dev/null | sed 's/^/cgroup /'
    for name in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops \
      kernel/keys/root_maxkeys kernel/keys/root_maxbytes net/ipv4/ip_forward net/ipv6/conf/all/forwarding; do
      [ ! -r "/proc/sys/$name" ] || echo "setting $name $(cat "/proc/sys/$name")"
    done
  } | LC_ALL=C sort
}

case ${1:-} in
  snapshot) snapshot ;;
  compare)
    [ -r "${2:-}" ] || die "leftovers.sh compare: \"${2:-}\" is not a readable file"
    if differences=$(diff --unchanged-line-format= --old-line-format='gone: %L' --new-line-format='left behind: %L' \
      "$2" <(snapshot)); then
      echo "left behind: nothing (processes, network namespaces, mounts, links, firewall rules, cgroups, kernel settings)"
    else
      printf '%s\n' "$differences"
      exit 1
    fi
    ;;
  *) die "usage: leftovers.sh snapshot | compare FILE (got \"$*\")" ;;
esac
