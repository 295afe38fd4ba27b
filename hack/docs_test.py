#!/usr/bin/env python3
"""Runs the commands that the documentation shows, and compares what they print.

In a Markdown file, a fenced block that begins with ```sh test is run by bash, all blocks of a file in
one shell, in an empty folder, with build/bin on the PATH. A block ```text output after it is what the
block before must have printed: a line `...` stands for any lines, `...` inside a line for any text.
A block ```sh cluster is run only when RAMCLOUD_DOCS_CLUSTER=1 says that `make up` has been done.
A block ```sh is shown only; the reason stands in the text around it.

Also, without arguments: the pages written by hack/gen_* are what the code and the programs say. Whether links lead
somewhere is references.py's to say.

Usage: docs_test.py [FILE.md...]   (all pages if none is given) Prints a line per check and
"N passed, N failed".
"""
import glob
import os
import re
import subprocess
import sys
import tempfile

MARK = "@@docs-test-block-end@@"
FENCE = re.compile(r"^```(\S*)[ \t]*(\S*)[ \t]*\n(.*?)^```[ \t]*$", re.S | re.M)


def blocks(path):
    """[(line, command, expected output or None)] of a file, in order."""
    text = open(path, encoding="utf-8").read()
    found = []
    wanted = {"test"} | ({"cluster"} if os.environ.get("RAMCLOUD_DOCS_CLUSTER") == "1" else set())
    last_runs = False
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        language, tag, body = match.groups()
        if language == "sh":
            last_runs = tag in wanted
            if last_runs:
                found.append([line, body, None])
        elif language == "text" and tag == "output" and last_runs:
            found[-1][2] = body
    return found


def pattern_of(expected):
    """A regular expression for expected output with `...` wildcards."""
    parts = []
    for line in expected.rstrip("\n").split("\n"):
        if line.strip() == "...":
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(".*?".join(re.escape(p) for p in line.split("...")) + r"[ \t]*\n")
    return re.compile("".join(parts) + r"\Z")


def run_file(path, bin_dir):
    todo = blocks(path)
    if not todo:
        return 0, 0
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        script = "set -eu -o pipefail\n" + "".join(
            f"{body}\necho; echo '{MARK}'\n" for _, body, _ in todo)
        environment = dict(os.environ, PATH=bin_dir + ":" + os.environ["PATH"],
                           RAMCLOUD_ROOT=os.path.dirname(os.path.dirname(bin_dir)))
        done = subprocess.run(["bash", "-c", script], cwd=folder, env=environment, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=900, check=False)
        outputs = done.stdout.split(MARK + "\n")
        for i, (line, body, expected) in enumerate(todo):
            name = f"{path}:{line}"
            if i >= len(outputs) - 1:
                failed += 1
                print(f"FAIL {name}: exit code {done.returncode}, printed:\n{outputs[-1] if i == len(outputs) - 1 else '(not reached)'}")
                continue
            output = outputs[i].rstrip("\n") + "\n"
            if expected is not None and not pattern_of(expected).match(output):
                failed += 1
                print(f"FAIL {name}: expected\n{expected}\nbut it printed\n{output}")
            else:
                passed += 1
                print(f"ok   {name}: {body.strip().splitlines()[0]}")
    return passed, failed


def check_generated(root):
    passed = failed = 0
    for script in ("gen_errors.py", "gen_cli_docs.sh", "gen_config.py", "gen_metrics.py"):
        done = subprocess.run([os.path.join(root, "hack", script), "--check"], check=False)
        if done.returncode == 0:
            passed += 1
            print(f"ok   hack/{script} --check")
        else:
            failed += 1
            print(f"FAIL hack/{script} --check")
    return passed, failed


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    pages = sys.argv[1:]
    passed = failed = 0
    if not pages:
        os.chdir(root)
        pages = sorted(glob.glob("*.md") + glob.glob("docs/*.md") + glob.glob("docs/*/*.md"))
        passed, failed = check_generated(root)
    for path in pages:
        p, f = run_file(path, os.path.join(root, "build", "bin"))
        passed, failed = passed + p, failed + f
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
