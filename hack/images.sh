#!/usr/bin/env bash
# Builds the images ramcloud/node:VERSION and ramcloud/operator:VERSION from build/bin and ramcloud/etcd:VERSION
# from etcd's Go module, in the docker of the test cluster, and lists what is in them in
# build/images/*.cdx.json (CycloneDX).
#   images.sh          build
#   images.sh load     and bring them to the nodes of the running cluster
# BASE=IMAGE takes another base for the node image than the one made from images/base.
# What a debugger needs of the node's programs is in build/images/debug, not in the image: it is two thirds of them.
set -euo pipefail
. "$(dirname "$0")/../e2e/kind/lib.sh"
cd "$RAMCLOUD_TOP"
version=$(hack/version.sh)
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
contexts=$RAMCLOUD_TOP/build/images
docker=docker

for program in ramcloudd ramcloud ramcloud-operator; do
  [ -x "build/bin/$program" ] || die "build/bin/$program is missing: make build"
done

build() { # TAG CONTEXT CONTAINERFILE [ARGUMENT…]
  local tag=$1 context=$2 file=$3
  shift 3
  # The builder without a front end of its own: that would be an image from a registry.
  DOCKER_BUILDKIT=0 $docker build -q -t "$tag" -f "$file" "$@" "$context" >/dev/null 2>"$contexts/build.log" || {
    cat "$contexts/build.log" >&2
    die "building the image $tag failed"
  }
}

make_base() {
  local tar
  if [ "$way" = ordinary ]; then
    base=ramcloud/base:$DEBIAN_SUITE
    build "$base" images/base images/base/Containerfile --build-arg "DEBIAN=debian:$DEBIAN_SUITE-slim"
    return
  fi
  tar=$(e2e/kind/rootfs.sh product images/base/packages.txt)
  base=ramcloud/base:$(basename "$tar" .tar)
  $docker image inspect "$base" >/dev/null 2>&1 || $docker import "$tar" "$base" >/dev/null
}

# Every library must be found inside the image, not only here.
check_libraries() { # IMAGE PROGRAM…
  local image=$1 missing
  shift
  missing=$($docker run --rm --network none --entrypoint ldd "$image" "$@" | grep 'not found' | sort -u || true)
  [ -z "$missing" ] || die "in $image these libraries are missing (images/base/packages.txt lists the packages): $missing"
}

# without_debug PROGRAM FOLDER: into the folder; functions keep their names, lines and types go to build/images/debug,
# where gdb finds them by the program's build id (set debug-file-directory).
without_debug() {
  local id file
  id=$(llvm-readelf-19 -n "$1" | sed -n 's/.*Build ID: //p')
  [ -n "$id" ] || die "$1 has no build id"
  file=$contexts/debug/.build-id/${id:0:2}/${id:2}.debug
  mkdir -p "$(dirname "$file")"
  llvm-objcopy-19 --only-keep-debug "$1" "$file"
  llvm-objcopy-19 --strip-debug "$1" "$2/$(basename "$1")"
}

way=$(cluster_way)
[ -n "$way" ] || read -r way _ <<<"$(e2e/kind/choose.sh "$KINDEST_NODE")"
if [ "$way" = airgapped ]; then
  need_root "building images without a container registry"
  was=$(e2e/kind/sandbox.sh status)
  e2e/kind/components.sh runcfront
  e2e/kind/sandbox.sh up
  # A sandbox that only this run needed goes again: its images stay in the cache.
  [ "$was" != stopped ] || [ -n "${RAMCLOUD_KEEP_SANDBOX:-}" ] || trap 'e2e/kind/sandbox.sh down' EXIT
  use_sandbox_docker
  [ ! -x /usr/bin/docker ] || docker=/usr/bin/docker
fi

rm -rf "$contexts"
mkdir -p "$contexts/node/data" "$contexts/operator" "$contexts/etcd"
e2e/kind/components.sh etcd
cp -L "$KUBE_BIN/etcd" "$contexts/etcd/"
base=${BASE:-}
[ -n "$base" ] || make_base
for program in ramcloudd ramcloud; do without_debug "build/bin/$program" "$contexts/node"; done
cp build/bin/ramcloud-operator "$contexts/operator/"
arguments=(--build-arg "VERSION=$version" --build-arg "REVISION=$revision")
build "ramcloud/node:$version" "$contexts/node" images/node/Containerfile --build-arg "BASE=$base" "${arguments[@]}"
check_libraries "ramcloud/node:$version" /usr/bin/ramcloudd /usr/bin/ramcloud
build "ramcloud/operator:$version" "$contexts/operator" images/operator/Containerfile "${arguments[@]}"
build "ramcloud/etcd:$version" "$contexts/etcd" images/etcd/Containerfile --build-arg "ETCD_VERSION=$ETCD_VERSION" "${arguments[@]}"

$docker run --rm --network none --entrypoint cat "ramcloud/node:$version" /var/lib/dpkg/status |
  hack/sbom.py dpkg "ramcloud/node" "$version" >"$contexts/node.cdx.json"
go version -m build/bin/ramcloud-operator | hack/sbom.py go "ramcloud/operator" "$version" >"$contexts/operator.cdx.json"
go version -m "$contexts/etcd/etcd" | hack/sbom.py go "ramcloud/etcd" "$version" >"$contexts/etcd.cdx.json"

if [ "${1:-}" = load ]; then
  e2e/kind/cluster.sh load "ramcloud/node:$version" "ramcloud/operator:$version" "ramcloud/etcd:$version" >"$contexts/load.log" 2>&1 || {
    cat "$contexts/load.log" >&2
    die "the images could not be loaded into the nodes"
  }
fi
# Images of earlier versions are disk space; those that a container still uses stay.
for name in node operator etcd base; do
  $docker image ls "ramcloud/$name" --format '{{.Repository}}:{{.Tag}}' | grep -vx -e "ramcloud/$name:$version" -e "$base" |
    xargs -r $docker image rm >/dev/null 2>&1 || true
done
size_mb=$(($($docker image inspect -f '{{.Size}}' "ramcloud/node:$version") / 1000000))
[ "$size_mb" -le 90 ] || say "ramcloud/node:$version has $size_mb MB, more than the 90 that it should have at most: images/base/packages.txt, e2e/kind/rootfs.sh"
$docker image ls --format '{{.Repository}}:{{.Tag}} {{.Size}}' | grep -E "^ramcloud/(node|operator|etcd):$version "
