#!/usr/bin/env bash
# Runs shellcheck over every shell script of the repository, one line each.
set -euo pipefail
cd "$(dirname "$0")/.."
passed=0 failed=0
while read -r file; do
  case $file in
    *.sh | .ci/run) ;;
    *) head -c 64 "$file" 2>/dev/null | head -1 | grep -aqE '^#!.*\b(ba)?sh\b' || continue ;;
  esac
  if shellcheck -x "$file"; then passed=$((passed + 1)); else
    failed=$((failed + 1))
    echo "FAIL shellcheck $file"
  fi
done < <(git ls-files -co --exclude-standard 2>/dev/null || find . -type f -not -path './build/*')
echo "$passed passed, $failed failed"
[ $failed = 0 ]
