#!/usr/bin/env bash
# Builds ramcloudd and ramcloud as they were at a former commit, once for all clones, for tests in which former and new
# programs run together; prints the folder they are in, which is the only output.
#   former_build.sh              both
#   former_build.sh ramcloudd    only that one
# The programs are not optimised, and have assertions as they were: they are for tests, not for measurements.
set -euo pipefail
. "$(dirname "$0")/env.sh"
cd "$RAMCLOUD_TOP"
commit=$(sed -n '/^[0-9a-f]/{p;q}' test/former-commit)
out=$RAMCLOUD_CACHE/former/$commit

[ $# -gt 0 ] || set -- ramcloudd ramcloud
for program in "$@"; do
  case $program in
    ramcloudd | ramcloud) ;;
    *) die "former_build.sh: \"$program\" is not known; accepted are ramcloudd and ramcloud" ;;
  esac
done

# have PROGRAM…: are all there?
have() {
  local program
  for program in "$@"; do [ -x "$out/$program" ] || return 1; done
}

build() { # PROGRAM…
  local source=$out/source program
  rm -rf "$source"
  mkdir -p "$source"
  git archive "$commit" node VERSION | tar -x -C "$source"
  # Its own paths are what the compiler cache must see as equal.
  (
    export CCACHE_BASEDIR=$source
    cd "$source/node"
    cmake --preset dev -DCMAKE_CXX_FLAGS_DEBUG=-O0 -DCMAKE_C_FLAGS_DEBUG=-O0 -DRAMCLOUD_PRECOMPILE=ON -DRAMCLOUD_TESTS=OFF \
      -DRAMCLOUD_VERSION="$(cat ../VERSION)-g${commit:0:9}"
    nice -n 5 cmake --build ../build/dev --target "$@" -- -j "$RAMCLOUD_JOBS"
  ) >"$out/build.log" 2>&1 || {
    tail -30 "$out/build.log" >&2
    die "$commit does not build; the whole output is in $out/build.log"
  }
  for program in "$@"; do
    cp "$source/build/dev/bin/$program" "$out/.$program.new"
    mv "$out/.$program.new" "$out/$program"
  done
  rm -rf "$source"
}

mkdir -p "$out"
exec 9>"$out/.lock"
flock 9
if ! have "$@"; then
  git cat-file -e "$commit:node/CMakeLists.txt" 2>/dev/null ||
    die "the history of this checkout lacks $commit, the former build (test/former-commit); fetch it: git fetch --unshallow"
  build "$@"
fi
echo "$out"
