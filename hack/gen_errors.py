#!/usr/bin/env python3
"""Writes docs/reference/errors.md from the code: names and meanings from base/status.{h,cc}, what the
client library does with each from client/outcome.h, exit codes from cli/exit_codes.cc.

Usage: gen_errors.py           write the page
       gen_errors.py --check   exit 1 if the page is not what the code says
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(ROOT, "docs", "reference", "errors.md")

HEAD = """\
# Errors

<!-- Written by hack/gen_errors.py from the code. Change the comments there, then run it. -->

An error has a name, a number (on the wire) and usually a message. The message names the field, the value and what
is accepted, or the table, tablet and server. The CLI prints `ramcloud: NAME: message` to standard error; the client
libraries give the code and the message.

What the client library does with an answer:

- **final**: the caller gets it at once. Trying again gives the same until something changes.
- **retried**: the call was certainly not executed. The library refreshes its map of tables and servers and tries
  again, until the call's deadline (30 s unless you set another).
- **may have happened**: the call may have been executed. Reads and scans are repeated; a write, delete or increment
  is never sent a second time, and its caller gets `INDETERMINATE`.

The last column is the exit code of `ramcloud` when a command ends with the error.

| name | number | meaning | client library | exit code |
|---|---|---|---|---|
"""

TAIL = """
More about five of them:

- `UNAVAILABLE`: the server that owns the tablet is dead, and no other serves the tablet yet. The library waits for that
  until the deadline. Nothing was changed. If the tablet does not come back, `ramcloud recovery list` says why. See
  [troubleshooting](../operating/troubleshooting.md#a-call-ends-with-unavailable).
- `OUT_OF_MEMORY`: the log of the server that owns the key is full of live objects and of tombstones that are needed. Reads
  and deletes still work. Deletes and dropped tables make room (but not with `--cleaning off`). See
  [troubleshooting](../operating/troubleshooting.md#writes-end-with-out_of_memory).
- `INDETERMINATE`: read the object and compare its version with the one you knew before. Versions of a key rise with
  every change, also across delete and re-creation.
- `WRONG_CLUSTER`: final when every coordinator address that the client was given answers it. From one of several it
  means that another cluster has taken that address, and the client asks the next. From a server it means the same,
  and the client asks a coordinator where the tablet is.
- `DEADLINE_EXCEEDED`: no final answer came in time, and nothing was changed (or the call was one that
  changes nothing).
"""

ACTION = {"kFinal": "final", "kNotDone": "retried", "kMaybeDone": "may have happened"}


def read(*path):
    with open(os.path.join(ROOT, "node", "src", *path), encoding="utf-8") as file:
        return file.read()


def cases(text, function):
    """{code: what is returned} of the switch in a function, and the default's (or None)."""
    start = text.index(function)
    body = text[start:text.index("\n}\n", start)]
    found, waiting, default = {}, [], None
    for token in re.finditer(r"case StatusCode::(k\w+):|(default):|return (?:\w+::)*([^;]+);", body):
        code, is_default, value = token.groups()
        if code:
            waiting.append(code)
        elif is_default:
            waiting.append("default")
        else:
            for c in waiting:
                if c == "default":
                    default = value
                else:
                    found[c] = value
            waiting = []
    return found, default


# Codes that the client library handles itself and never returns to its caller.
HANDLED = {"UNKNOWN_TABLET", "RETRY", "NOT_LEADER", "STALE_TERM", "WRONG_SERVER", "CONNECTION_LOST", "CRASHED"}
# Files with the public codes, and the form of a code in each: {name} is the code's, {camel} in its
# capitals.
PUBLIC = {("include", "ramcloud", "ramcloud.h"): r"^  k{camel} = {number},",
          ("include", "ramcloud", "ramcloud_c.h"): r"^  RAMCLOUD_{name} = {number}\b",
          ("..", "clients", "python", "src", "ramcloud", "errors.py"): r"^    {name} = {number}$",
          ("..", "clients", "go", "errors.go"): r"^\t\w+ +Code = {number}$"}


def check_public(codes):
    """Every code that a caller may get has a name in every client."""
    for path, pattern in PUBLIC.items():
        with open(os.path.join(ROOT, "node", *path), encoding="utf-8") as file:
            text = file.read()
        for name, camel, number in codes:
            if name not in HANDLED and not re.search(pattern.format(name=name, camel=camel, number=number), text, re.M):
                sys.exit(f"gen_errors.py: {'/'.join(path)} has no {name} = {number}")


def exit_numbers(header):
    return dict(re.findall(r"(kExit\w+) = (\d+)", header))


def page():
    meanings = re.findall(r"^  (k\w+) = (\d+),[ \t]*(?://[ \t]*(.*))?$", read("base", "status.h"), re.M)
    names, _ = cases(read("base", "status.cc"), "std::string status_name(")
    actions, default_action = cases(read("client", "outcome.h"), "constexpr Outcome outcome_of(")
    exits, _ = cases(read("cli", "exit_codes.cc"), "ExitCode exit_code_of(")
    numbers = exit_numbers(read("cli", "exit_codes.h"))
    if len(meanings) < 20 or set(names) != {code for code, _, _ in meanings}:
        sys.exit("gen_errors.py: base/status.h and status.cc do not look as expected")
    check_public([(names[code].strip('"'), code[1:], number) for code, number, _ in meanings if code != "kOk"])
    rows = []
    for code, number, meaning in meanings:
        if code == "kOk":
            continue
        action = actions.get(code, default_action)
        rows.append(f"| `{names[code].strip(chr(34))}` | {number} | {meaning or 'the operation was cancelled'} "
                    f"| {ACTION[action]} | {numbers[exits[code]]} |\n")
    return HEAD + "".join(rows) + TAIL


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    text = page()
    if sys.argv[1:]:
        with open(PAGE, encoding="utf-8") as file:
            if file.read() != text:
                sys.exit("docs/reference/errors.md is not what the code says; run hack/gen_errors.py")
        return
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
