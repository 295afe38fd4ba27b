#!/usr/bin/env bash
# The data set of the demo and the tests: Debian's package index as JSON lines, about 63,000 records and 50 MB.
#
#   dataset.sh [--limit N]     one line a package version, {"key":"PACKAGE/VERSION","value":"its whole record"},
#                              sorted by key, each key once; N takes the first N of them
#   dataset.sh --canonical     brings JSON lines of an export on standard input into the same order and spelling,
#                              so that equal data has the same sha256
#
# It reads the package lists that apt has on this machine, and writes nothing: any user can run it.
set -euo pipefail
here=$(dirname "$0")
case ${1:-} in
  --canonical) exec python3 "$here/dataset.py" canonical ;;
  --limit)
    [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || {
      echo "error: --limit is \"${2:-}\"; accepted is a number from 1" >&2
      exit 2
    }
    limit=$2
    ;;
  '') limit=0 ;;
  *)
    echo "error: dataset.sh does not know \"$1\"; accepted are --limit N and --canonical" >&2
    exit 2
    ;;
esac
command -v apt-cache >/dev/null || {
  echo "error: there is no apt-cache here; the data set is Debian's package index" >&2
  exit 1
}
# The caches of apt's own are only for root to write.
apt-cache -o Dir::Cache::pkgcache='' -o Dir::Cache::srcpkgcache='' dumpavail | python3 "$here/dataset.py" packages "$limit"
