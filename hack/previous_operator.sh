#!/usr/bin/env bash
# The operator as it was before the last commit that changed it or its chart, for the test of upgrades: the chart
# in build/previous/charts, the image in the nodes of the running cluster, its tag in build/previous/tag. Where the
# history does not reach that far, build/previous/why-not says so.
#   previous_operator.sh [COMMIT]    as it was at COMMIT; the last change alone may be one that no pod shows
set -euo pipefail
. "$(dirname "$0")/../e2e/kind/lib.sh"
cd "$RAMCLOUD_TOP"
folder=$RAMCLOUD_TOP/build/previous
rm -rf "$folder"
mkdir -p "$folder/source" "$folder/image"

without() {
  say "$*" >"$folder/why-not"
  say "no former operator: $*"
  exit 0
}

[ -n "$(cluster_way)" ] || die "there is no cluster: make up starts one"
if [ -n "${1:-}" ]; then
  commit=$(git rev-parse --verify --quiet "$1^{commit}") || die "\"$1\" names no commit of this checkout"
  tag=of-$(git rev-parse --short=9 "$commit")
else
  changed=$(git rev-list -1 HEAD -- operator clients/go/adminpb charts/ramcloud-operator 2>/dev/null) || without "this is no git checkout"
  [ -n "$changed" ] || without "no commit of the history changed the operator"
  commit=$(git rev-parse --verify --quiet "$changed~1") || without "the history ends at $changed, the last commit that changed the operator"
  tag=before-$(git rev-parse --short=9 "$changed")
fi
git cat-file -e "$commit:charts/ramcloud-operator/Chart.yaml" 2>/dev/null || without "at $commit there was no operator"

sources=(operator charts/ramcloud-operator images/operator)
# The client was a part of operator/ before it had a module of its own.
if git cat-file -e "$commit:clients/go" 2>/dev/null; then sources+=(clients/go); fi
git archive "$commit" "${sources[@]}" | tar -x -C "$folder/source"
mv "$folder/source/charts" "$folder/charts"
(cd "$folder/source/operator" && CGO_ENABLED=0 go build -buildvcs=false -trimpath -ldflags "-s -w -X main.version=$tag" \
  -p "$RAMCLOUD_JOBS" -o "$folder/image/ramcloud-operator" ./cmd/operator) || die "the operator of $commit does not build"

docker=docker
if [ "$(cluster_way)" = airgapped ]; then
  use_sandbox_docker
  [ ! -x /usr/bin/docker ] || docker=/usr/bin/docker
fi
DOCKER_BUILDKIT=0 $docker build -q -t "ramcloud/operator:$tag" -f "$folder/source/images/operator/Containerfile" \
  --build-arg "VERSION=$tag" --build-arg "REVISION=$commit" "$folder/image" >/dev/null 2>"$folder/build.log" || {
  cat "$folder/build.log" >&2
  die "building the image of the former operator failed"
}
e2e/kind/cluster.sh load "ramcloud/operator:$tag" >"$folder/load.log" 2>&1 || {
  cat "$folder/load.log" >&2
  die "the image of the former operator could not be loaded into the nodes"
}
rm -rf "$folder/source"
say "$tag" >"$folder/tag"
say "the former operator, of $(git log -1 --format='%h (%s)' "$commit"): ramcloud/operator:$tag"
