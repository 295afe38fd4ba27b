#!/usr/bin/env bash
# Prints the version of this checkout: one place decides it for binaries, images and charts.
# A tag vX.Y.Z gives X.Y.Z; commits after it give X.Y.Z-N-gHASH; a checkout without tags or
# without git gives the version in the file VERSION with the commit as a suffix.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
base=$(cat "$top/VERSION")
described=$(git -C "$top" describe --tags --match 'v[0-9]*' --dirty 2>/dev/null || true)
if [ -n "$described" ]; then
  echo "${described#v}"
elif commit=$(git -C "$top" rev-parse --short=9 HEAD 2>/dev/null); then
  echo "$base-g$commit"
else
  echo "$base"
fi
