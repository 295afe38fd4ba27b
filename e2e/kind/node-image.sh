#!/usr/bin/env bash
# Makes the image of a Kubernetes node in the sandbox's dockerd, out of what components.sh and rootfs.sh
# left in the cache; no container registry is asked. Prints the image's name; does nothing when it is there.
#   node-image.sh ROOTFS_TAR
set -euo pipefail
. "$(dirname "$0")/lib.sh"
rootfs_tar=${1:?usage: node-image.sh ROOTFS_TAR}
docker=/usr/bin/docker
[ -x $docker ] || docker=docker
use_sandbox_docker

image=$(node_image)
if $docker image inspect "$image" >/dev/null 2>&1; then
  echo "$image"
  exit 0
fi

work=$SANDBOX/work
rm -rf "$work"
mkdir -p "$work/rootfs" "$work/userland" "$work/context"
builder=ramcloud-e2e-node-builder
tags=()
cleanup() {
  $docker rm -fv $builder >/dev/null 2>&1 || true
  rm -rf "$work"
}
trap cleanup EXIT

# build TAG FOLDER LINE…: an image from the Dockerfile made of the lines.
build() {
  local tag=$1 folder=$2
  shift 2
  printf '%s\n' "$@" >"$folder/Dockerfile"
  DOCKER_BUILDKIT=0 $docker build -q -t "$tag" "$folder" >/dev/null || die "building the image $tag failed"
}

# The programs that Kubernetes' own images need beside themselves, with the libraries they are linked to.
make_userland() {
  local from=$work/rootfs to=$work/userland file
  local programs="usr/sbin/xtables-nft-multi usr/sbin/xtables-legacy-multi usr/sbin/nft usr/sbin/conntrack
    usr/bin/curl usr/bin/bash usr/bin/socat usr/bin/ip"
  mkdir -p "$to"/usr/{sbin,bin,lib,lib64,local/bin} "$to"/{etc,tmp,proc,sys,dev,run,var}
  chmod 1777 "$to/tmp"
  for file in bin sbin lib lib64; do ln -s "usr/$file" "$to/$file"; done
  mkdir -p "$to/usr/lib/x86_64-linux-gnu"
  cp -a "$from/usr/lib/x86_64-linux-gnu/xtables" "$to/usr/lib/x86_64-linux-gnu/"
  for file in $programs; do cp -aL "$from/$file" "$to/$file"; done
  # shellcheck disable=SC2046,SC2086 # both are lists of words without spaces
  chroot "$from" sh -c 'ldd "$@" 2>/dev/null' ldd $(cd "$from" && ls -d $programs usr/lib/x86_64-linux-gnu/xtables/*.so) |
    grep -o '/[^ :]*' | grep '^/lib' | sort -u | while read -r file; do
      mkdir -p "$to$(dirname "$file")"
      cp -L "$from$file" "$to$file"
    done
  cp "$from/bin/busybox" "$to/usr/bin/busybox"
  for file in sh ls cat ps nslookup sleep mkdir rm chmod env hostname nc; do ln -sf busybox "$to/usr/bin/$file"; done
  for file in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
    ln -s xtables-nft-multi "$to/usr/sbin/$file"
  done
  echo 'root:x:0:0:root:/:/bin/sh' >"$to/etc/passwd"
  echo 'hosts: files dns' >"$to/etc/nsswitch.conf"
  cp "$from/etc/protocols" "$from/etc/ethertypes" "$to/etc/" 2>/dev/null || true
  mkdir -p "$to/etc/ssl/certs"
  cp "$from/etc/ssl/certs/ca-certificates.crt" "$to/etc/ssl/certs/"
  tar -C "$to" -c . | $docker import - ramcloud-e2e/userland:local >/dev/null
}

# The images that kubeadm and kind's manifests name, each one program: put together here, saved as one tar.
make_cluster_images() {
  local wanted name tag from folder
  wanted=$("$KUBE_BIN/kubeadm" config images list --kubernetes-version "$KUBERNETES_VERSION" 2>/dev/null)
  for name in kube-apiserver kube-controller-manager kube-scheduler kube-proxy etcd coredns pause \
    podnet local-path-provisioner; do
    tag=$(grep "/$name:" <<<"$wanted") || tag=ramcloud-e2e/$name:local
    case $name in
      kube-proxy | podnet) from=ramcloud-e2e/userland:local ;;
      *) from=scratch ;;
    esac
    folder=$work/context/$name
    mkdir -p "$folder"
    cp -L "$KUBE_BIN/$name" "$folder/$name"
    # kind and kubeadm start the control plane by name, so the programs lie on the PATH.
    case $name in
      coredns | pause) build "$tag" "$folder" "FROM $from" "COPY $name /$name" "ENTRYPOINT [\"/$name\"]" ;;
      *) build "$tag" "$folder" "FROM $from" "COPY $name /usr/local/bin/$name" \
        'ENV PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' "CMD [\"/usr/local/bin/$name\"]" ;;
    esac
    rm -rf "$folder"
    tags+=("$tag")
  done
  mkdir -p "$work/context/toolbox"
  build ramcloud-e2e/toolbox:local "$work/context/toolbox" "FROM ramcloud-e2e/userland:local" \
    'ENV PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' 'CMD ["/bin/sh"]'
  tags+=(ramcloud-e2e/toolbox:local)
  $docker save "${tags[@]}" -o "$work/images.tar"
  pause_image=$(grep /pause: <<<"$wanted")
}

# What goes into the node: kind's own files, the programs, our containerd configuration and manifests.
make_node_base() {
  local kind_source context=$work/context/node name
  kind_source=$(cd / && GOFLAGS=-mod=mod go mod download -json "sigs.k8s.io/kind@$KIND_VERSION" |
    sed -n 's/^\t*"Dir": "\(.*\)",*$/\1/p')
  mkdir -p "$context/files/kind/manifests" "$context"/bin/usr/{bin,local/bin,local/sbin}
  cp -r "$kind_source"/images/base/files/{etc,kind,usr} "$context/files/"
  chmod -R u+w "$context/files"
  rm -f "$context/files/etc/systemd/system/containerd-fuse-overlayfs.service"
  sed "s#@PAUSE@#$pause_image#" "$KIND_DIR/manifests/containerd.toml" >"$context/files/etc/containerd/config.toml"
  cp "$KIND_DIR/manifests/default-cni.yaml" "$context/files/kind/manifests/"
  # The storage manifest is a string in kind's source, with the two images put in by name.
  # shellcheck disable=SC2016
  awk '/^const defaultStorageManifest = `/ {inside=1; next} /^`$/ {inside=0} inside' \
    "$kind_source/pkg/build/nodeimage/const_storage.go" |
    sed 's#` + storageProvisionerImage + `#ramcloud-e2e/local-path-provisioner:local#
         s#` + storageHelperImage + `#ramcloud-e2e/toolbox:local#' \
      >"$context/files/kind/manifests/default-storage.yaml"
  grep -q ramcloud-e2e/toolbox "$context/files/kind/manifests/default-storage.yaml" ||
    die "kind $KIND_VERSION keeps its storage manifest elsewhere than expected"
  printf '%s' "$KUBERNETES_VERSION" >"$context/files/kind/version"
  for name in kubeadm kubelet kubectl; do cp -L "$KUBE_BIN/$name" "$context/bin/usr/bin/"; done
  for name in crictl containerd ctr containerd-shim-runc-v2; do cp -L "$KUBE_BIN/$name" "$context/bin/usr/local/bin/"; done
  cp -L "$KUBE_BIN/runcfront" "$context/bin/usr/local/sbin/"
  cp "$KIND_DIR/manifests/node.Dockerfile" "$context/Dockerfile"
  $docker import "$rootfs_tar" ramcloud-e2e/node-rootfs:local >/dev/null
  DOCKER_BUILDKIT=0 $docker build -q --build-arg BASE=ramcloud-e2e/node-rootfs:local -t ramcloud-e2e/node-base:local "$context" >/dev/null
}

# Loads the cluster's images into the node's own containerd, pinned so that kubelet never removes them.
preload() {
  $docker rm -fv $builder >/dev/null 2>&1 || true
  $docker run -d --name $builder --entrypoint sleep --security-opt seccomp=unconfined -v "$work:/load:ro" \
    ramcloud-e2e/node-base:local infinity >/dev/null
  $docker exec -i $builder bash -s <<'INSIDE' 2>"$work/preload.log" || { cat "$work/preload.log" >&2; die "loading the images into the node failed"; }
set -euo pipefail
containerd >/tmp/containerd.log 2>&1 &
for attempt in $(seq 150); do
  if [ -S /run/containerd/containerd.sock ] && ctr version >/dev/null 2>&1; then break; fi
  sleep 0.2
done
ctr -n k8s.io images import --all-platforms --no-unpack --digests /load/images.tar >/dev/null
for name in $(ctr -n k8s.io images ls -q | grep -v sha256); do
  ctr -n k8s.io images label "$name" io.cri-containerd.pinned=pinned >/dev/null
done
kill %1
wait || true
rm -f /tmp/containerd.log
INSIDE
  $docker commit --change 'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]' $builder "$image" >/dev/null
}

# Earlier node images and the images on the way are only disk space now.
remove_old() {
  {
    printf '%s\n' "${tags[@]}"
    $docker image ls --format '{{.Repository}}:{{.Tag}}' | grep '^ramcloud-e2e/' | grep -vx "$image"
  } | xargs -r $docker image rm >/dev/null 2>&1 || true
  $docker image prune -f >/dev/null
}

tar -C "$work/rootfs" -xf "$rootfs_tar" --exclude='./dev/*'
make_userland
make_cluster_images
step "images of the control plane: $(du -h "$work/images.tar" | cut -f1)" >&2
make_node_base
step "node base" >&2
preload
remove_old
step "node image $image" >&2
echo "$image"
