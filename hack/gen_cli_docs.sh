#!/usr/bin/env bash
# Writes docs/reference/cli.md from the --help of ramcloudd and ramcloud in build/bin.
#   gen_cli_docs.sh           write the page
#   gen_cli_docs.sh --check   exit 1 if the page is not what the programs print
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
bin=$top/build/bin
page=$top/docs/reference/cli.md
# What the environment sets would show up as a default.
unset RAMCLOUD_CLUSTER

help_of() { # PROGRAM [COMMAND…]
  # shellcheck disable=SC2016 # these are marks of Markdown
  printf '\n## `%s`\n\n```text\n' "$*"
  # The blank lines around the help, and spaces at ends of lines, are the parser's.
  (cd "$bin" && "./$1" "${@:2}" --help) | sed -e 's/[[:space:]]*$//' | sed -e '/./,$!d' | cat -s
  printf '```\n'
}

# The commands in a help text: the first word of the lines under a heading that ends with "Subcommands:".
commands_of() { # PROGRAM [COMMAND…]
  (cd "$bin" && "./$1" "${@:2}" --help) |
    awk '/^[A-Za-z]*[Ss][Uu][Bb][Cc][Oo][Mm][Mm][Aa][Nn][Dd][Ss]:/ {on = 1; next} /^[^ ]/ {on = 0} on && /^  [a-z]/ {print $1}'
}

write() {
  cat <<'HEAD'
# Commands

<!-- Written by hack/gen_cli_docs.sh from the programs' --help. Change the texts there, then run it. -->

`ramcloudd` is the daemon; `ramcloud` is the user's command. Everything below is what the programs print
with `--help`.
HEAD
  local program command sub
  for program in ramcloudd ramcloud; do
    help_of $program
    for command in $(commands_of $program); do
      help_of $program "$command"
      for sub in $(commands_of $program "$command"); do help_of $program "$command" "$sub"; done
    done
  done
}

if [ ! -x "$bin/ramcloudd" ] || [ ! -x "$bin/ramcloud" ]; then
  echo "gen_cli_docs.sh: there is no build/bin/ramcloudd or build/bin/ramcloud; run: make build" >&2
  exit 1
fi
case ${1:-} in
  '') write >"$page" ;;
  --check)
    write | diff -u "$page" - || {
      echo "docs/reference/cli.md is not what the programs print; run hack/gen_cli_docs.sh" >&2
      exit 1
    }
    ;;
  *) echo "usage: gen_cli_docs.sh [--check] (got \"$*\")" >&2 && exit 2 ;;
esac
