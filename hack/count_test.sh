#!/usr/bin/env bash
# What hack/count.py makes of reports: what counts, what is run again, what is never forgiven.
set -euo pipefail
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# A copy, because it writes build/logs beside itself and reads test/ there.
mkdir -p "$scratch/hack" "$scratch/test"
cp hack/count.py "$scratch/hack/"
printf 'TcpTest.*  sockets\nlocal.dev/a/b.*  processes\n' >"$scratch/test/retries.txt"
printf 'Some.Skip  reason\n' >"$scratch/test/skips.txt"
passed=0 failed=0

# check NAME WANTED GOT
check() {
  if [ "$2" = "$3" ]; then passed=$((passed + 1)); else
    printf 'FAIL %s: wanted\n%s\ngot\n%s\n' "$1" "$2" "$3"
    failed=$((failed + 1))
  fi
}
# junit NAME:STATUS[:TEXT]…
junit() {
  local case name status text
  printf '<testsuite>'
  for case in "$@"; do
    IFS=: read -r name status text <<<"$case"
    printf '<testcase name="%s" status="%s"><system-out>%s</system-out></testcase>' "$name" "$status" "$text"
  done
  printf '</testsuite>'
}
count() { CI=true "$scratch/hack/count.py" "$@" 2>/dev/null | tail -1; }
again() { "$scratch/hack/count.py" again "$@" 2>/dev/null; }

junit TcpTest.A:run Log.B:run Some.Skip:notrun >"$scratch/good"
check 'all passed' '2 passed, 0 failed' "$(count ctest "$scratch/good")"
check 'nothing to run again' '' "$(again ctest "$scratch/good")"
junit Other.Skip:notrun Log.B:run >"$scratch/skip"
check 'an unnamed skip' '1 passed, 1 failed' "$(count ctest "$scratch/skip")"

junit TcpTest.A/1:fail:late Log.B:run >"$scratch/late"
junit TcpTest.A/1:run >"$scratch/late-again"
check 'what to run again' '^(TcpTest.A/1)$' "$(again ctest "$scratch/late")"
check 'passed alone' '2 passed, 0 failed' "$(count ctest "$scratch/late" "$scratch/late-again")"
check 'noted as flaky' 'TcpTest.A/1' "$(cat "$scratch/build/logs/flaky.txt")"
check 'failed twice' '1 passed, 1 failed' "$(count ctest "$scratch/late" "$scratch/late")"

junit Log.B:fail:wrong TcpTest.A:fail:late >"$scratch/sure"
check 'a deterministic test failed too' '' "$(again ctest "$scratch/sure")"
for text in 'WARNING: ThreadSanitizer: data race' 'panic: x' 'an Acknowledged write is gone' 'not linearizable' 'Subprocess aborted'; do
  junit "TcpTest.A:fail:$text" >"$scratch/never"
  check "never forgiven: $text" '' "$(again ctest "$scratch/never")"
  check "never forgiven: $text" '0 passed, 1 failed' "$(count ctest "$scratch/never" "$scratch/good")"
done
junit TcpTest.{A,B,C,D}:fail:late >"$scratch/many"
check 'too many at once' '' "$(again ctest "$scratch/many")"

cat >"$scratch/go" <<'JSON'
{"Action":"output","Package":"local.dev/a/b","Test":"TestX/part","Output":"late\n"}
{"Action":"fail","Package":"local.dev/a/b","Test":"TestX/part"}
{"Action":"fail","Package":"local.dev/a/b","Test":"TestX"}
{"Action":"pass","Package":"local.dev/a/b","Test":"TestY"}
{"Action":"fail","Package":"local.dev/a/b"}
JSON
sed 's/"fail"/"pass"/' "$scratch/go" >"$scratch/go-again"
check 'go: what to run again' 'local.dev/a/b ^(TestX)$' "$(again go "$scratch/go")"
check 'go: failed' '1 passed, 1 failed' "$(count go "$scratch/go")"
check 'go: passed alone' '2 passed, 0 failed' "$(count go "$scratch/go" "$scratch/go-again")"
sed '/TestX\/part/s/"fail"/"pass"/' "$scratch/go" >"$scratch/parent"
check 'go: a test fails, its parts do not' '2 passed, 1 failed' "$(count go "$scratch/parent")"
printf '{"Action":"fail","Package":"local.dev/a/b"}\n' >"$scratch/unbuilt"
check 'go: a package that does not build' '' "$(again go "$scratch/unbuilt")"

echo "$passed passed, $failed failed"
[ $failed = 0 ]
