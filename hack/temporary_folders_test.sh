#!/usr/bin/env bash
# A test of C++ that needs files gets its folder from base/testing/temporary_folder.h: tests run at the same time as
# others of their program, and as themselves in another build, so a name that a test chooses is soon used twice.
set -euo pipefail
cd "$(dirname "$0")/.."
passed=0 failed=0
while read -r file; do
  if found=$(grep -nE 'TempDir\(\)|mkdtemp|mkstemp|tmpnam' "$file"); then
    failed=$((failed + 1))
    printf 'FAIL %s: a folder for a test is a TemporaryFolder (base/testing/temporary_folder.h)\n%s\n' "$file" "$found"
  else
    passed=$((passed + 1))
  fi
done < <(git ls-files -co --exclude-standard -- 'node/*_test.cc' 'node/*/testing/*' | grep -v '/temporary_folder\.h$')
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
