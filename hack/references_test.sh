#!/usr/bin/env bash
# Do references of code and pages lead somewhere (references.py), and would it be seen if they did not?
set -euo pipefail
. "$(dirname "$0")/env.sh"
cd "$RAMCLOUD_TOP"
output=$(hack/references.py) || true
read -r passed _ failed _ < <(tail -1 <<<"$output")
sed '$d' <<<"$output"

# refused FILE TEXT: a checkout with this file has one reference that leads nowhere.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
refused() {
  rm -rf "$folder/top"
  mkdir -p "$folder/top/docs/design" "$folder/top/$(dirname "$1")"
  git -C "$folder/top" init --quiet
  printf '# Log\n\n## Heads\n\n- *Open before close.* One.\n' >"$folder/top/docs/design/log.md"
  printf '| Doe99 | x |\n' >"$folder/top/docs/papers.md"
  printf '%s\n' "docs/design/log.md#heads" '(docs/design/log.md, "Open before close")' '[Doe99 §1]' >"$folder/top/good.h"
  printf '%s\n' "$2" >"$folder/top/$1"
  if [ "$(hack/references.py "$folder/top" | tail -1)" = "3 passed, 1 failed" ]; then
    passed=$((passed + 1))
  else
    echo "FAIL \"$2\" in $1 is not the one reference that leads nowhere"
    failed=$((failed + 1))
  fi
}
refused a.md 'see [there](docs/none.md)'
refused a.md 'see [there](docs/design/log.md#tails)'
refused docs/a.md 'see [here](#nowhere)'
refused a.go '// docs/none.md says why.'
refused a.cc '// As docs/design/log.md#tails says.'
refused a.cc '// As docs/design/log.md ("Tails") says.'
refused a.h '// The heads (engine.md).'
refused a.h '// The heads [Roe98].'
refused a.py '# The heads (paper §4.5).'
refused a.go '// The heads (docs/design/ log.md).'
refused a.md '| a | b | |---|---| | 1 | 2 |'
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
