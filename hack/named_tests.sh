# shellcheck shell=bash
# Sourced by checks of pages that name tests: is a test of this name in the sources? Run at the top of the checkout.

# A definition may be on two lines.
named_cases=$(find node clients \( -name '*_test.cc' -o -path 'node/model/*.cc' \) -print0 | xargs -0 sed -n '/^TEST\(_F\|_P\)\?(/{/)/!{N;s/,\n */, /};s/).*/)/;p}')

# named_test NAME: Suite.Case or Suite (C++), TestName (Go), test_name (Python). A case that is named with a durability
# (/buffered, /synced) is of a suite that has both; another /PARAMETER counts for nothing.
named_test() {
  local name=${1%%/*} kinds='(_F|_P)?'
  if [[ $1 == *.*/buffered || $1 == *.*/synced ]]; then
    kinds=_P
    grep -rq --include='*_test.cc' "^INSTANTIATE_TEST_SUITE_P(Durability, ${name%%.*}, " node || return 1
  fi
  case $name in
    Test*) grep -rqE "^func $name\(" --include='*_test.go' clients operator e2e ;;
    test_*) grep -rqE "def $name\(" --include='*.py' clients ;;
    *.*) grep -qE "^TEST$kinds\(${name%%.*}, ${name#*.}\)" <<<"$named_cases" ;;
    *) grep -qE "^TEST(_F|_P)?\($name, " <<<"$named_cases" ;;
  esac
}
