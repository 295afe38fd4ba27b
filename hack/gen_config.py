#!/usr/bin/env python3
"""Writes docs/reference/config.md from what ramcloudd says of its flags: --help, and its refusals.

What is accepted is learnt by giving each flag a value that none accepts; the message says it. A flag that does not
complain takes any text.

Usage: gen_config.py           write the page
       gen_config.py --check   exit 1 if the page is not what the program says
"""
import os
import re
import subprocess
import sys

import generated
from generated import DAEMON

COMMANDS = [["coordinator"], ["server"], ["dev"], ["metadata", "export"], ["metadata", "import"]]
HEAD = """# Configuration

<!-- Written by hack/gen_config.py from what ramcloudd says. Change the texts in the code, then run it. -->

Every flag of `ramcloudd` can be given in three ways, of which the first counts for most:

1. on the command line: `--log-memory 1GiB` or `--log-memory=1GiB`;
2. in the environment: `RAMCLOUD_LOG_MEMORY=1GiB`;
3. in the file that `--config` (or `RAMCLOUD_CONFIG`) names: a line `log-memory=1GiB`, the flag without its dashes. Blanks
   around name and value do not count, nor do empty lines and those that begin with `#`. A name that the command does not
   know is an error, and so is a name that is there twice.

All values are checked before anything is started; an error names the flag, the value and what is accepted. Sizes are
bytes, or have a unit: KiB, MiB, GiB, TiB; durations have one: ns, us, ms, s, m, h.
"""
FLAG = re.compile(r"^  (--[a-z-]+)(?:=(\S+))?(?: +(REQUIRED))?(?: +\(Env:(\w+)\))?(?: +(\S.*))?$")


def run(*arguments):
    """What the program prints; in an environment that gives it nothing."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RAMCLOUD_")}
    done = subprocess.run([DAEMON, *arguments], env=clean, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=60, check=False)
    return done.returncode, done.stdout


def flags(command):
    """[(group, flag, default, required, environment variable, help)] in the order of --help."""
    found, group = [], ""
    for line in run(*command, "--help")[1].splitlines():
        match = FLAG.match(line)
        if re.match(r"^\S.*:$", line):
            group = line[:-1]
        elif match:
            flag, default, required, variable, about = match.groups()
            found.append([group, flag, default or "", bool(required), variable or "", about or ""])
        elif line.startswith(" " * 20) and found:
            found[-1][5] = (found[-1][5] + " " + line.strip()).strip()
    return [row for row in found if row[1] != "--help"]


def accepted(command, flag, takes_value):
    if not takes_value:
        return "(no value)"
    if flag == "--config":
        return "a file"
    # Should the value be taken, the unknown flag still keeps the program from starting.
    code, said = run(*command, f"{flag}=?", "--no-such-flag")
    if code != 2:
        sys.exit(f"gen_config.py: {' '.join(command)} {flag}=?: exit code {code}, want 2:\n{said}")
    if not said.startswith(flag):
        return "any text"
    match = re.search(r"accepted(?: is| are|:)? (.*)", said.splitlines()[0])
    if not match:
        sys.exit(f"gen_config.py: the refusal of {flag} does not say what is accepted: {said}")
    return match.group(1).rstrip(".")


def cell(text):
    return text.replace("|", r"\|") or "–"


def page():
    parts = [HEAD]
    for command in COMMANDS:
        name = " ".join(command)
        parts.append(f"\n## `ramcloudd {name}`\n\n| flag | environment | default | accepted | what |\n|---|---|---|---|---|\n")
        rows = flags(command)
        if not rows:
            sys.exit(f"gen_config.py: ramcloudd {name} --help lists no flags")
        for _, flag, default, required, variable, about in rows:
            shown = "required" if required else f"`{default}`" if default else ""
            parts.append(f"| `{flag}` | {cell(f'`{variable}`' if variable else '')} | {cell(shown)} | "
                         f"{cell(accepted(command, flag, bool(variable)))} | {cell(about)} |\n")
    return "".join(parts)


generated.main(__doc__, "config.md", page)
