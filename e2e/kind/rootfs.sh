#!/usr/bin/env bash
# Makes a Debian root file system as a tar file, once per list of packages, and prints its path:
#   rootfs.sh node              what a Kubernetes node needs (systemd, container runtime, network tools)
#   rootfs.sh product FILE      the base of the product's images: the packages listed in FILE
# It takes Debian packages from where this machine takes them, so it runs outside the sandbox. About a minute.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

NODE_PACKAGES="systemd systemd-sysv dbus conntrack iptables nftables ebtables iproute2 ethtool util-linux mount kmod
  libseccomp2 socat e2fsprogs bash ca-certificates curl jq procps tar gzip busybox-static
  containerd runc containernetworking-plugins"

options=()
case ${1:-} in
  node) variant=minbase packages=$NODE_PACKAGES ;;
  product)
    [ -f "${2:-}" ] || die "rootfs.sh product: FILE is \"${2:-}\"; accepted is a file with one package a line"
    # The package manager is left out: nothing is ever installed into a running container.
    # usr-is-merged says what usrmerge would see to, which brings the whole of Perl (50 MB). What else is left out
    # is not used by programs that speak UTF-8 and TLS: conversions of other character sets, gRPC without TLS and the
    # generators of code. hack/images.sh runs ldd in the image, which names a library that is missed.
    variant=essential packages="usr-is-merged $(sed 's/#.*//' "$2")"
    options=(--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr)
    for unused in 'gconv/*' 'libgrpc*_unsecure.so.*' 'libgrpcpp_channelz.so.*' 'libgrpc_plugin_support.so.*' 'libprotoc.so.*'; do
      options+=("--dpkgopt=path-exclude=/usr/lib/*/$unused")
    done
    # shellcheck disable=SC2016 # "$1" is the hook's
    options+=('--customize-hook=chroot "$1" dpkg --purge --force-remove-essential --force-depends perl-base')
    ;;
  *) die "usage: rootfs.sh node | product FILE (got \"$*\")" ;;
esac
packages=$(tr -s ' \n' ',' <<<"$packages" | sed 's/^,//; s/,$//')
key=$(printf '%s\n' "$DEBIAN_SUITE" "$variant" "$packages" "${options[@]}" | sha256sum | cut -c1-12)
out=$ROOTFS/$1-$DEBIAN_SUITE-$key.tar

mkdir -p "$ROOTFS"
exec 9>"$ROOTFS/.lock"
flock 9
if [ ! -s "$out" ]; then
  need_root "making a root file system"
  log=$ROOTFS/$1.log
  nice -n 5 mmdebstrap --variant="$variant" --include="$packages" \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    "${options[@]}" "$DEBIAN_SUITE" "$out.tmp.tar" >"$log" 2>&1 || {
    tail -20 "$log" >&2
    die "mmdebstrap failed; its whole output is in $log"
  }
  mv "$out.tmp.tar" "$out"
  find "$ROOTFS" -name "$1-*.tar" ! -path "$out" -delete
fi
echo "$out"
