#!/usr/bin/env bash
# The sandbox of the air-gapped cluster: one process in network, mount and process namespaces of its own,
# with a dockerd inside.
#
#   sandbox.sh up      start it (nothing happens when it runs)
#   sandbox.sh down    stop it and everything in it (nothing happens when it does not run)
#   sandbox.sh status  "running PID" or "stopped"
#
# Because the namespaces belong to that process and have no other name, the kernel takes all of it away when
# the process ends, however it ends: links, addresses, iptables rules, mounts, and every process started
# inside. Two things are outside namespaces, and `down` puts them back: cgroup folders, and the few kernel
# settings that kubelet changes for the whole machine.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

# What kubelet sets (pkg/kubelet/cm, "protectKernelDefaults"): these have one value for the whole machine.
KUBELET_SETTINGS="vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops
  kernel/keys/root_maxkeys kernel/keys/root_maxbytes"

save_settings() {
  local name
  # After a crash the saved values are still the machine's own: keep them.
  [ ! -e "$SANDBOX_RUN/settings" ] || return 0
  for name in $KUBELET_SETTINGS; do
    [ ! -r "/proc/sys/$name" ] || echo "$name $(cat "/proc/sys/$name")"
  done >"$SANDBOX_RUN/settings.tmp"
  mv "$SANDBOX_RUN/settings.tmp" "$SANDBOX_RUN/settings"
}

restore_settings() {
  local name value
  [ -e "$SANDBOX_RUN/settings" ] || return 0
  while read -r name value; do
    [ "$(cat "/proc/sys/$name")" = "$value" ] || echo "$value" >"/proc/sys/$name"
  done <"$SANDBOX_RUN/settings"
  rm -f "$SANDBOX_RUN/settings"
}

# Folders of cgroups, deepest first; they can be removed once no process is in them.
our_cgroups() { find /sys/fs/cgroup -depth -type d -path "*/$CGROUP*" 2>/dev/null; }
remove_cgroups() {
  our_cgroups | xargs -r rmdir 2>/dev/null || true
  [ -z "$(our_cgroups)" ]
}

write_daemon_config() {
  # A driver of plain cgroup folders: inside the sandbox there is no systemd to ask.
  cat >"$SANDBOX_RUN/daemon.json" <<JSON
{
  "hosts": ["unix://$SANDBOX_RUN/docker.sock"],
  "data-root": "$SANDBOX/docker",
  "storage-driver": "overlay2",
  "cgroup-parent": "/$CGROUP",
  "exec-opts": ["native.cgroupdriver=cgroupfs"],
  "default-cgroupns-mode": "private",
  "default-runtime": "runcfront",
  "runtimes": {"runcfront": {"path": "$KUBE_BIN/runcfront"}}
}
JSON
}

up() {
  need_root "the air-gapped cluster"
  mkdir -p "$SANDBOX_RUN" "$SANDBOX/logs" "$SANDBOX/docker"
  if sandbox_pid >/dev/null; then return 0; fi
  clean_after # of one that ended without `down`
  mkdir -p "$SANDBOX_RUN"
  "$KIND_DIR/leftovers.sh" snapshot >"$SANDBOX_RUN/before"
  save_settings
  write_daemon_config
  # By this name leftovers.sh tells the sandbox's processes from others.
  RAMCLOUD_SANDBOX=$SANDBOX setsid unshare --net --mount --propagation private --pid --fork --kill-child --mount-proc \
    "$KIND_DIR/sandbox-init.sh" "$SANDBOX_RUN/daemon.json" </dev/null >"$SANDBOX/logs/sandbox.log" 2>&1 &
  local pid=$!
  echo "$pid $(started_at $pid)" >"$SANDBOX_RUN/pid"
  use_sandbox_docker
  wait_until 60 "dockerd (see $SANDBOX/logs/sandbox.log)" docker version || {
    tail -20 "$SANDBOX/logs/sandbox.log" >&2
    down
    return 1
  }
}

clean_after() {
  wait_until 20 "the cgroups of the sandbox to become empty" remove_cgroups
  restore_settings
  rm -rf "$SANDBOX_RUN"
}

down() {
  local pid inner
  if pid=$(sandbox_pid); then
    # dockerd first, so that it writes its state; whatever is then still there dies with the namespace.
    inner=$(ps -o pid= --ppid "$pid" | tr -d ' ' || true)
    [ -z "$inner" ] || kill -TERM "$inner" 2>/dev/null || true
    wait_until 30 "dockerd to stop" sandbox_gone || kill -KILL "$pid" 2>/dev/null || true
    wait_until 30 "the sandbox to end" sandbox_gone
  fi
  [ ! -d "$SANDBOX_RUN" ] || clean_after
}
sandbox_gone() { ! sandbox_pid; }

case ${1:-} in
  up) up ;;
  down) down ;;
  status) if pid=$(sandbox_pid); then echo "running $pid"; else echo stopped; fi ;;
  *) die "usage: sandbox.sh up | down | status (got \"$*\")" ;;
esac
