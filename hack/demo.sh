#!/usr/bin/env bash
# A whole cluster on this machine, without Kubernetes and without root: four servers over loopback, Debian's
# package index imported over all of them, counted, exported, and compared with what went in. Then one server
# is killed, and the others serve its data.
#   demo.sh [--limit N]    N takes fewer records
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
bin=$top/build/bin
for program in ramcloudd ramcloud; do
  [ -x "$bin/$program" ] || {
    echo "error: $bin/$program is missing; make build makes it" >&2
    exit 1
  }
done

metrics=(ramcloud_objects ramcloud_log_used_bytes ramcloud_segments_fully_replicated) # shown at the end

folder=$(mktemp -d "${TMPDIR:-/tmp}/ramcloud-demo.XXXXXX")
daemon=
clean_up() {
  if [ -n "$daemon" ]; then
    kill -TERM "$daemon" 2>/dev/null || true
    wait "$daemon" 2>/dev/null || true
  fi
  rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# A base port with everything that `ramcloudd dev` wants beside it free.
free_port() {
  python3 - <<'PYTHON'
import random, socket
wanted = [0, 1, 2] + [10 * server + extra for server in range(1, 5) for extra in (0, 2)]
for base in random.sample(range(12000, 30000, 100), 180):
    held = []
    try:
        for offset in wanted:
            held.append(socket.create_server(("127.0.0.1", base + offset)))
        print(base)
        break
    except OSError:
        continue
    finally:
        for one in held:
            one.close()
else:
    raise SystemExit("error: no free ports on 127.0.0.1 between 12000 and 30000")
PYTHON
}

fail() {
  echo "error: $*" >&2
  echo "-- the end of the daemon's log" >&2
  tail -20 "$folder/log" >&2
  exit 1
}

metric() { # PORT NAME: the value of the first sample of a metric
  local page
  page=$(curl -sf -m 20 "http://127.0.0.1:$1/metrics") || return 1
  awk -v name="$2" 'index($0, name " ") == 1 || index($0, name "{") == 1 {print $NF; found=1; exit} END {exit !found}' <<<"$page"
}

port=$(free_port)
export RAMCLOUD_CLUSTER=127.0.0.1:$port
"$bin/ramcloudd" dev --servers 4 --processes --dir "$folder/data" --listen "$RAMCLOUD_CLUSTER" >"$folder/log" 2>&1 &
daemon=$!
deadline=$((SECONDS + 60))
until grep -qs "^ready:" "$folder/log"; do
  kill -0 $daemon 2>/dev/null || fail "ramcloudd dev ended"
  [ $SECONDS -lt $deadline ] || fail "ramcloudd dev did not get ready in 60 s"
  sleep 0.1
done
grep '^ready:' "$folder/log"

"$top/hack/dataset.sh" "$@" >"$folder/in.jsonl"
"$bin/ramcloud" table create packages --span 4 >/dev/null || fail "the table could not be created"
"$bin/ramcloud" import packages "$folder/in.jsonl" || fail "the import failed"
"$bin/ramcloud" tablets || fail "the tablets could not be listed"
scanned=$("$bin/ramcloud" scan packages --count) || fail "the scan failed"
"$bin/ramcloud" export packages 2>/dev/null | "$top/hack/dataset.sh" --canonical >"$folder/out.jsonl" || fail "the export failed"

records=$(wc -l <"$folder/in.jsonl")
sum_in=$(sha256sum <"$folder/in.jsonl" | cut -d' ' -f1)
sum_out=$(sha256sum <"$folder/out.jsonl" | cut -d' ' -f1)
echo
echo "records imported  $records"
echo "records scanned   $scanned"
echo "records compared  $(wc -l <"$folder/out.jsonl")"
echo "sha256 imported   $sum_in"
echo "sha256 exported   $sum_out"
for name in "${metrics[@]}"; do
  value=$(metric $((port + 12)) "$name") || fail "server 1 shows no metric $name"
  printf '%-40s %s   (server 1)\n' "$name" "$value"
done
[ "$scanned" = "$records" ] || fail "the scan found $scanned records, $records were imported"
[ "$sum_in" = "$sum_out" ] || fail "what came out is not what went in"
echo "the same data came out as went in"

# Milliseconds since 1970.
now() { date +%s%3N; }
served() { # whether somebody serves every tablet, one server having been given up
  "$bin/ramcloud" status -o json | jq -e '.servers_crashed == 1 and .tablets_unavailable == 0' >/dev/null
}
victim=$(jq '.[] | select(.name == "server-2").pid' "$folder/data/processes.json")
killed=$(now)
kill -KILL "$victim"
until served; do
  [ $(($(now) - killed)) -lt 60000 ] || fail "what the killed server had is not served after 60 s"
  sleep 0.01
done
took=$(($(now) - killed))
scanned=$("$bin/ramcloud" scan packages --count) || fail "the scan failed"
echo
echo "server 2 was killed; after $took ms others served what it had"
echo "records scanned   $scanned"
[ "$scanned" = "$records" ] || fail "the scan found $scanned records, $records were imported"
