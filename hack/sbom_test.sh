#!/usr/bin/env bash
# What hack/sbom.py lists: what is in the program, not what was replaced and not the project's own modules.
set -euo pipefail
cd "$(dirname "$0")/.."
passed=0 failed=0

# check NAME WANTED KIND: the components that are made of standard input.
check() {
  local got
  got=$(hack/sbom.py "$3" image 1.0 | python3 -c 'import json, sys; print(" ".join(c["purl"] for c in json.load(sys.stdin)["components"]))')
  if [ "$2" = "$got" ]; then passed=$((passed + 1)); else
    printf 'FAIL %s: wanted\n%s\ngot\n%s\n' "$1" "$2" "$got"
    failed=$((failed + 1))
  fi
}

tab=$'\t'
check "modules of a Go program" "pkg:golang/example.com/a@v1.0.0 pkg:golang/example.com/fork@v2.1.0" go <<END
program: go1.26.8
${tab}path${tab}example.com/program
${tab}mod${tab}example.com/program${tab}(devel)${tab}
${tab}dep${tab}example.com/a${tab}v1.0.0${tab}h1:a=
${tab}dep${tab}example.com/b${tab}v2.0.0
${tab}=>${tab}example.com/fork${tab}v2.1.0${tab}h1:b=
${tab}dep${tab}ramcloud.dev/client${tab}v0.0.0
${tab}=>${tab}../clients/go${tab}(devel)${tab}
${tab}build${tab}-buildmode=exe
END
check "packages of Debian" "pkg:deb/debian/libc6@2.41-12?arch=amd64" dpkg <<'END'
Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.41-12

Package: removed
Status: deinstall ok config-files
Architecture: amd64
Version: 1
END
echo "$passed passed, $failed failed"
[ $failed = 0 ]
