#!/usr/bin/env bash
# Generates what is checked in but not written by hand: deep copies, apply configurations, the CRDs (for
# kustomize and for the chart), the references of the CRDs and of conditions in docs/ and the admin API's Go code. The
# generators' versions are in go.mod.
#
#   hack/generate.sh [DIR]   into the repository, or into a copy of its layout under DIR (for the test
#                            that compares)
set -euo pipefail
operator=$(cd "$(dirname "$0")/.." && pwd)
top=$(dirname "$operator")
out=${1:-$top}
cd "$operator"

if [ "$out" != "$top" ]; then # the generators write beside the sources
  mkdir -p "$out/operator"
  cp -r go.mod go.sum api hack "$out/operator/"
  mkdir -p "$out/clients/go"
  cp ../clients/go/go.mod "$out/clients/go/" # go.mod says that the client's module is there
fi
mkdir -p "$out/manifests/crds" "$out/charts/ramcloud-operator/templates/crds"

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
go build -o "$tools/" sigs.k8s.io/controller-tools/cmd/controller-gen \
  google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc

(cd "$out/operator" && "$tools/controller-gen" \
  object:headerFile=hack/boilerplate.go.txt \
  applyconfiguration:headerFile=hack/boilerplate.go.txt \
  crd:crdVersions=v1 output:crd:dir=../manifests/crds \
  paths=./api/...)

# The chart has the same CRDs, with a switch around them and the policy that keeps them.
for crd in "$out"/manifests/crds/ramcloud.dev_*.yaml; do
  chart=$out/charts/ramcloud-operator/templates/crds/$(basename "$crd")
  {
    echo '{{- if .Values.crds.enabled }}'
    sed -e '/^---$/d' \
      -e 's/^  annotations:$/&\n    {{- if .Values.crds.keep }}\n    helm.sh\/resource-policy: keep\n    {{- end }}/' "$crd"
    echo '{{- end }}'
  } >"$chart"
  if grep -q '{{' "$crd"; then
    echo "error: $crd contains {{, which the chart would interpret" >&2
    exit 1
  fi
done

mkdir -p "$out/docs/reference"
go run ./hack/crddoc "$out"/manifests/crds/ramcloud.dev_*.yaml >"$out/docs/reference/crd.md"
go run ./hack/conditiondoc api/v1alpha1/cluster_status.go api/v1alpha1/server_types.go >"$out/docs/reference/conditions.md"

if command -v protoc >/dev/null; then
  mkdir -p "$out/clients/go/adminpb"
  PATH=$tools:$PATH protoc -I "$top/node/proto" --go_out="$out/clients/go/adminpb" --go_opt=paths=source_relative \
    --go-grpc_out="$out/clients/go/adminpb" --go-grpc_opt=paths=source_relative admin.proto
else
  echo "SKIP generating clients/go/adminpb: no protoc (Debian package protobuf-compiler)" >&2
fi
