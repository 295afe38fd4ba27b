#!/usr/bin/env bash
# Tests dataset.sh: order, repeatability, and that equal data gives equal bytes however an export spells it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
passed=0 failed=0

check() { # NAME COMMAND…
  local name=$1
  shift
  if "$@" >out 2>&1; then
    passed=$((passed + 1))
    echo "ok   $name"
  else
    failed=$((failed + 1))
    echo "FAIL $name: $(tail -3 out)"
  fi
}
canonical_is() { # INPUT WANT
  [ "$(printf '%b' "$1" | "$here/dataset.sh" --canonical)" = "$2" ]
}
canonical_refuses() { # INPUT MESSAGE
  ! printf '%b' "$1" | "$here/dataset.sh" --canonical 2>refused && grep -q "$2" refused
}
refuses() { # MESSAGE ARGUMENT…
  local message=$1
  shift
  ! "$here/dataset.sh" "$@" 2>refused && grep -q "$message" refused
}

# Records as apt prints them: out of order, one twice in two spellings, one with bytes that are not UTF-8.
mkdir bin
cat >bin/apt-cache <<'FAKE'
#!/bin/bash
printf 'Package: b\nVersion: 2\nDescription: second\n more: text\n\nPackage: a\nVersion: 1\nX: 2\n\n'
printf 'Package: a\nVersion: 1\nX: 1\n\nVersion: 3\n\nPackage: c\nVersion: 1\nX: \xff\n\n'
FAKE
chmod +x bin/apt-cache
cat >want <<'WANT'
{"key":"a/1","value":"Package: a\nVersion: 1\nX: 1"}
{"key":"b/2","value":"Package: b\nVersion: 2\nDescription: second\n more: text"}
{"key":"c/1","value_b64":"UGFja2FnZTogYwpWZXJzaW9uOiAxClg6IP8="}
WANT
PATH=$PWD/bin:$PATH "$here/dataset.sh" >small
check "records are keyed, sorted and unique" diff want small
PATH=$PWD/bin:$PATH "$here/dataset.sh" --limit 2 >limited
check "--limit takes the first" diff <(head -2 want) limited
check "canonical leaves the data set as it is" diff want <("$here/dataset.sh" --canonical <want)
check "order and escapes of an export do not matter" canonical_is \
  '{"value": "\\u00e9", "key": "b"}\n{"key_b64":"YQ==","value":"1"}\n' "$(printf '{"key":"a","value":"1"}\n{"key":"b","value":"é"}')"
check "a lost value is refused" canonical_refuses '{"key":"a"}\n' 'line 1: needs one of "value"'
check "a key twice is refused" canonical_refuses '{"key":"a","value":"1"}\n{"key":"a","value":"2"}\n' 'line 2: the key .* twice'
check "a cut line is refused" canonical_refuses '{"key":"a","va' 'line 1'
check "a wrong limit is refused" refuses 'limit is "0"' --limit 0
check "a wrong argument is refused" refuses 'does not know "--all"' --all
"$here/dataset.sh" >first
"$here/dataset.sh" | "$here/dataset.sh" --canonical >second
check "the real data set is the same twice, and canonical" cmp first second
check "the real data set has ten thousands of records" test "$(wc -l <first)" -gt 10000

echo "$passed passed, $failed failed"
[ $failed = 0 ]
