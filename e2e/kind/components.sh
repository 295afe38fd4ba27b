#!/usr/bin/env bash
# Builds what the cluster is made of (Kubernetes, etcd, CoreDNS, containerd, kind, helm …) from Go
# modules, each once per version: ten minutes and more on two slow cores with cold Go caches, a second when all is there.
#
#   components.sh            everything the air-gapped cluster needs
#   components.sh envtest    only kube-apiserver, etcd and kubectl; prints the folder for KUBEBUILDER_ASSETS
#   components.sh NAME…      these ones (e.g. kind helm); prints nothing when they are there
set -euo pipefail
. "$(dirname "$0")/lib.sh"

export GOFLAGS="-mod=mod -buildvcs=false -p=2 $RAMCLOUD_GO_COMPILE" CGO_ENABLED=0 GOWORK=off
SCRATCH=$RAMCLOUD_CACHE/components/src
mkdir -p "$COMPONENTS" "$KUBE_BIN" "$SCRATCH"

# place NAME FILE: link a built program into the folder that is on the PATH.
place() { ln -sfn "$2" "$KUBE_BIN/$1"; }

# have NAME VERSION: is it built already?
have() { [ -x "$COMPONENTS/$1-$2" ] && place "$1" "$COMPONENTS/$1-$2"; }

# compile NAME VERSION PACKAGE [LDFLAGS]: build in the module of the current folder.
compile() {
  local name=$1 version=$2 package=$3 ldflags=${4:-} began=$SECONDS out=$COMPONENTS/$1-$2
  nice -n 5 go build -ldflags "-s -w $ldflags" -o "$out.tmp" "$package" ||
    die "building $name $version from $package failed"
  mv "$out.tmp" "$out"
  place "$name" "$out"
  step "built $name $version in $((SECONDS - began)) s" >&2
}

# scratch_folder NAME: an empty folder, and go there.
scratch_folder() {
  rm -rf "${SCRATCH:?}/$1"
  mkdir -p "$SCRATCH/$1"
  cd "$SCRATCH/$1"
}

# require MODULE@VERSION…: of the scratch module that the current folder is.
require() { go get "$@" 2>get.log || { cat get.log >&2; die "go get $* failed"; }; }

# A module that only imports MODULE@VERSION, so that its own requirements decide all versions.
scratch_module() { # NAME MODULE@VERSION
  scratch_folder "$1"
  printf 'module scratch/%s\n\ngo %s\n' "$1" "$(required_go)" >go.mod
  require "$2"
}

# Kubernetes' own go.mod names its staging modules by folders of its source tree; as a module they are
# published under v0.MINOR.PATCH, so those folders are replaced by these versions. What CoreDNS needs newer of the
# libraries below client-go is raised to that (Go takes the newest that is required): else client-go is compiled twice.
kubernetes_module() { # NAME
  local v=$KUBERNETES_VERSION staging dir module
  staging=v0.${v#v1.}
  dir=$(cd / && GOFLAGS=-mod=mod go mod download -json "k8s.io/kubernetes@$v" | sed -n 's/^\t*"Dir": "\(.*\)",*$/\1/p')
  [ -n "$dir" ] || die "the Go module k8s.io/kubernetes@$v could not be downloaded"
  scratch_folder "$1"
  sed "/^replace (/,/^)/d; s#^module .*#module scratch/$1#" "$dir/go.mod" >go.mod
  cp "$dir/go.sum" go.sum
  chmod u+w go.mod go.sum
  {
    echo "require k8s.io/kubernetes $v"
    sed -n '/^replace (/,/^)/s#^[[:space:]]*\(k8s.io/[a-z-]*\) =>.*#\1#p' "$dir/go.mod" |
      while read -r module; do echo "replace $module => $module $staging"; done
    required_by_coredns
  } >>go.mod
  sed -i "s#\(k8s.io/[a-z-]*\) v0\.0\.0\$#\1 $staging#" go.mod
}

# "require MODULE VERSION" of each library that CoreDNS and client-go have below them, and that moves.
required_by_coredns() {
  sed -n 's#^\t\(golang.org/x/[a-z0-9]*\|google.golang.org/g[^ ]*\|go.yaml.in/yaml/v2\) \(v[^ ]*\).*#require \1 \2#p' \
    "$KIND_DIR/coredns/go.mod"
}

kubernetes() { # NAME…
  local name missing=() ldflags='' package minor
  for name in "$@"; do have "$name" "$KUBERNETES_VERSION" || missing+=("$name"); done
  [ ${#missing[@]} = 0 ] && return 0
  kubernetes_module kubernetes
  minor=$(cut -d. -f2 <<<"$KUBERNETES_VERSION")
  for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    ldflags+=" -X $package.gitVersion=$KUBERNETES_VERSION -X $package.gitMajor=1 -X $package.gitMinor=$minor"
    ldflags+=" -X $package.gitTreeState=clean -X $package.buildDate=2026-01-01T00:00:00Z"
  done
  for name in "${missing[@]}"; do compile "$name" "$KUBERNETES_VERSION" "k8s.io/kubernetes/cmd/$name" "$ldflags"; done
}

etcd() {
  have etcd "$ETCD_VERSION" && return
  scratch_module etcd "go.etcd.io/etcd/server/v3@$ETCD_VERSION"
  compile etcd "$ETCD_VERSION" go.etcd.io/etcd/server/v3
}

containerd() {
  local program missing=()
  for program in containerd ctr containerd-shim-runc-v2; do
    have "$program" "$CONTAINERD_VERSION" || missing+=("$program")
  done
  [ ${#missing[@]} = 0 ] && return 0
  scratch_module containerd "github.com/containerd/containerd/v2@$CONTAINERD_VERSION"
  for program in "${missing[@]}"; do
    compile "$program" "$CONTAINERD_VERSION" "github.com/containerd/containerd/v2/cmd/$program" \
      "-X github.com/containerd/containerd/v2/version.Version=$CONTAINERD_VERSION"
  done
}

# With the cluster's own libraries: those that it names are another copy of them, which takes minutes to compile.
local_path_provisioner() {
  have local-path-provisioner "$LOCAL_PATH_PROVISIONER_VERSION" && return
  kubernetes_module local-path-provisioner
  require "github.com/rancher/local-path-provisioner@$LOCAL_PATH_PROVISIONER_VERSION"
  compile local-path-provisioner "$LOCAL_PATH_PROVISIONER_VERSION" github.com/rancher/local-path-provisioner
}

kind() {
  have kind "$KIND_VERSION" && return
  scratch_module kind "sigs.k8s.io/kind@$KIND_VERSION"
  compile kind "$KIND_VERSION" sigs.k8s.io/kind
}

# With the libraries that the operator's tests render the charts with, for the same reason.
helm() {
  have helm "$HELM_VERSION" && return
  scratch_folder helm
  sed -e 's#^module .*#module scratch/helm#' -e '/ramcloud\.dev\/client/d' "$RAMCLOUD_TOP/operator/go.mod" >go.mod
  cp "$RAMCLOUD_TOP/operator/go.sum" go.sum
  require "helm.sh/helm/v3/cmd/helm@$HELM_VERSION"
  compile helm "$HELM_VERSION" helm.sh/helm/v3/cmd/helm "-X helm.sh/helm/v3/internal/version.version=$HELM_VERSION"
}

# The repository's own small programs: their version is their source.
own() { # NAME FOLDER PACKAGE
  local version
  version=$(cd "$KIND_DIR/$2" && find . -name '*.go' -o -name 'go.*' | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c1-12)
  have "$1" "$version" && return
  cd "$KIND_DIR/$2"
  GOFLAGS="-mod=readonly -buildvcs=false -p=2 $RAMCLOUD_GO_COMPILE" compile "$1" "$version" "$3"
}
coredns() { own coredns coredns .; }
podnet() { own podnet nodetools ./podnet; }
crictl() { own crictl nodetools ./crictl; }
runcfront() { own runcfront nodetools ./runcfront; }
pause() {
  local version
  version=$(sha256sum "$KIND_DIR/pause.c" | cut -c1-12)
  have pause "$version" && return
  gcc -Os -static -s -Wall -Wextra -Werror -o "$COMPONENTS/pause-$version.tmp" "$KIND_DIR/pause.c"
  mv "$COMPONENTS/pause-$version.tmp" "$COMPONENTS/pause-$version"
  place pause "$COMPONENTS/pause-$version"
}

envtest() {
  kubernetes kube-apiserver kubectl
  etcd
}
cluster() {
  envtest
  kubernetes kube-controller-manager kube-scheduler kubelet kubeadm kube-proxy
  containerd
  local_path_provisioner
  coredns
  podnet
  crictl
  runcfront
  pause
  kind
  helm
}

# Two callers at once (make test and make up) must not build the same thing twice.
exec 9>"$COMPONENTS/.lock"
flock 9
if [ $# = 0 ]; then set -- cluster; fi
for what in "$@"; do
  case $what in
    cluster | envtest | etcd | containerd | coredns | podnet | crictl | runcfront | pause | kind | helm) "$what" ;;
    local-path-provisioner) local_path_provisioner ;;
    kube*) kubernetes "$what" ;;
    *) die "components.sh: \"$what\" is not known; known are cluster, envtest, kubectl, kube-…, etcd, containerd, coredns, podnet, crictl, runcfront, pause, local-path-provisioner, kind and helm" ;;
  esac
  [ "$what" != envtest ] || echo "$KUBE_BIN"
done
