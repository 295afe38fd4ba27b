#!/usr/bin/env bash
# Is the C++ code as clang-format writes it? `hack/lint.sh --fix` lets it write.
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t files < <(git ls-files -co --exclude-standard -- 'node/*.cc' 'node/*.h' 'clients/*.cc' 'clients/*.c')
mapfile -t differ < <(clang-format-19 --dry-run "${files[@]}" 2>&1 | sed -n 's/:[0-9]*:[0-9]*: warning: .*//p' | sort -u)
failed=${#differ[@]}
[ "$failed" = 0 ] || printf 'FAIL clang-format %s\n' "${differ[@]}"
echo "$((${#files[@]} - failed)) passed, $failed failed"
[ "$failed" = 0 ]
