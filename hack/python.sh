#!/usr/bin/env bash
# Builds the Python client's wheel from build/lib/libramcloud.so.2, installs it into a virtual environment of its own,
# checks its types and runs its tests against build/bin/ramcloudd. The last line says how many passed and failed.
set -euo pipefail
. "$(dirname "$0")/env.sh"
cd "$RAMCLOUD_TOP"
if [ ! -x build/bin/ramcloudd ] || [ ! -e build/lib/libramcloud.so.2 ]; then hack/build.sh; fi

python=$RAMCLOUD_TOP/build/python
rm -rf "$python/wheel"
# Debian's interpreter, which hack/deps.sh installs, whatever else is on the PATH.
/usr/bin/python3 -m venv --clear "$python/venv"
"$python/venv/bin/pip" install -q --disable-pip-version-check -r clients/python/requirements.txt
"$python/venv/bin/pip" wheel -q --no-build-isolation --no-deps -w "$python/wheel" clients/python
"$python/venv/bin/pip" install -q --no-index "$python"/wheel/ramcloud-*.whl
say "built $(basename "$python"/wheel/ramcloud-*.whl)"
"$python/venv/bin/mypy" --cache-dir "$python/mypy" --config-file clients/python/pyproject.toml clients/python/src/ramcloud
# The programs in hack/ have no types. But a name that moved to another module would be missed only when somebody
# runs the benchmark that uses it.
said=$(cd hack && "$python/venv/bin/mypy" --cache-dir "$python/mypy-hack" --ignore-missing-imports --check-untyped-defs ./*.py) ||
  [ $? = 1 ] || die "mypy cannot check hack/: $said" # 1: it found something; that types are not said is nothing here
gone=$(grep -E 'Module has no attribute|is not defined' <<<"$said" || true)
[ -z "$gone" ] || die "$gone"

status=0
export RAMCLOUDD_BIN=$RAMCLOUD_TOP/build/bin/ramcloudd
(cd clients/python/tests && PYTHONDONTWRITEBYTECODE=1 "$python/venv/bin/python" -W error run.py) || status=$?
exit $status
