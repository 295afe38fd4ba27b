#!/usr/bin/env python3
"""Turns the report of a test run into the names of what failed or was skipped and one line "N passed, N failed".

  count.py ctest FILE [AGAIN]   the JUnit file of `ctest --output-junit`
  count.py go FILE [AGAIN]      the output of `go test -json`
  count.py again ctest|go FILE  what to run once more: for ctest the value of -R, for go lines "PACKAGE REGEX"

A skipped test is neither; with CI=true in the environment it counts as failed, unless a line of test/skips.txt
(PATTERN  REASON) names it. The exit code is 1 when something failed or nothing ran.

A test that test/retries.txt names depends on real time, processes or threads: when it fails it is run once more,
alone, and AGAIN is the report of that run. If it passes then, it counts as passed, is printed as FLAKY with what
it said first, and is added to build/logs/flaky.txt. What shows a fault whenever it is seen (a crash, a sanitizer's
report, a lost write, a history that is not linearizable) is never forgiven.
"""

import fnmatch
import json
import os
import re
import sys
import xml.etree.ElementTree

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def ctest_results(path):
    """Yields (name, "pass"|"fail"|"skip", output)."""
    outcome = {"run": "pass", "fail": "fail", "notrun": "skip", "disabled": "skip"}
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        result = outcome.get(case.get("status"), "fail")
        # ctest also says "run" of a case that reported a skip.
        if case.find("skipped") is not None:
            result = "skip"
        yield case.get("name"), result, case.findtext("system-out") or ""


def go_results(path):
    """Like ctest_results, of the innermost tests; a package that does not build is one failed test."""
    results, output = {}, {}
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:
                print(line, end="", file=sys.stderr)
                continue
            package = event.get("Package") or event.get("ImportPath", "")
            key = (package, event.get("Test"))
            action = event.get("Action")
            if action in ("output", "build-output"):
                output.setdefault(key, []).append(event.get("Output", ""))
            elif action in ("pass", "fail", "skip"):
                results[key] = action
    failed_tests = {package for (package, test), action in results.items() if test and action == "fail"}
    for (package, test), action in sorted(results.items(), key=str):
        text = "".join(output.get((package, test), []))
        if test is None:
            # A package fails by its tests, or by itself: it does not build, or ends early.
            if action == "fail" and package not in failed_tests:
                yield package, "fail", text
        else:
            parts = [a for (p, t), a in results.items() if p == package and t and t.startswith(test + "/")]
            # A test with parts counts by them, unless it failed although none of them did.
            if not parts or (action == "fail" and "fail" not in parts):
                yield f"{package}.{test}", action, text
            elif action == "fail":
                print(text, end="", file=sys.stderr)


def patterns(name):
    """The first words of the lines of test/NAME, which are patterns of tests' names."""
    path = os.path.join(TOP, "test", name)
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as lines:
        return [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]


def named(name, of):
    return any(fnmatch.fnmatch(name, pattern) for pattern in of)


# Failures that a second run does not excuse.
UNFORGIVABLE = re.compile(
    r"Sanitizer|runtime error:|DATA RACE|panic:|SEGFAULT|Segmentation fault|core dumped|Subprocess aborted"
    r"|linearizab|acknowledged|invariant",
    re.IGNORECASE,
)
# More failures than this at once are no accident.
MOST_FLAKY = 3

READ = {"ctest": ctest_results, "go": go_results}


def to_run_again(kind, path):
    """The failed tests that a second run may acquit, by name; none if one failed that it may not."""
    retries = patterns("retries.txt")
    failed = [(name, text) for name, result, text in READ[kind](path) if result == "fail"]
    if len(failed) > MOST_FLAKY or any(not named(n, retries) or UNFORGIVABLE.search(t) for n, t in failed):
        return []
    return [name for name, _ in failed]


def print_again(kind, names):
    if kind == "ctest":
        if names:
            # CMake's expressions know no escape for every character.
            print("^(" + "|".join(re.sub(r"[^A-Za-z0-9_/-]", ".", name) for name in names) + ")$")
        return
    by_package = {}
    for name in names:
        # PACKAGE.TestName/part: the last dot before the test's name; packages have dots too.
        package, _, test = name.partition(".Test")
        by_package.setdefault(package, set()).add("Test" + test.split("/")[0])
    for package, tests in sorted(by_package.items()):
        print(package, "^(" + "|".join(sorted(tests)) + ")$")


def note_flaky(name, text):
    print(f"FLAKY {name}: failed, and passed when run alone; it said first\n{text[-6000:]}")
    folder = os.path.join(TOP, "build", "logs")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "flaky.txt"), "a", encoding="utf-8") as out:
        out.write(f"{name}\n")


def count(kind, path, again):
    """Prints what failed, was skipped or flaky; returns how many passed and failed."""
    strict, allowed = os.environ.get("CI") == "true", patterns("skips.txt")
    passed = failed = 0
    acquitted = set()
    if again:
        candidates = to_run_again(kind, path)
        acquitted = {name for name, result, _ in READ[kind](again) if result == "pass" and name in candidates}
    for name, result, text in READ[kind](path):
        if result == "skip":
            print(f"SKIP {name}: {text.strip()[-300:]}")
            if strict and not named(name, allowed):
                print(f"FAIL {name}: skipped, and test/skips.txt does not name it")
                failed += 1
        elif result == "fail" and name in acquitted:
            note_flaky(name, text)
            passed += 1
        elif result == "fail":
            print(f"FAIL {name}\n{text[-6000:]}")
            failed += 1
        else:
            passed += 1
    return passed, failed


def main():
    arguments = sys.argv[1:]
    if len(arguments) == 3 and arguments[0] == "again" and arguments[1] in READ:
        print_again(arguments[1], to_run_again(*arguments[1:]))
        return
    if len(arguments) not in (2, 3) or arguments[0] not in READ:
        sys.exit(__doc__)
    try:
        passed, failed = count(arguments[0], arguments[1], arguments[2] if len(arguments) == 3 else None)
    except (OSError, xml.etree.ElementTree.ParseError) as error:
        print(f"FAIL {arguments[1]}: {error}")
        passed, failed = 0, 1
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
