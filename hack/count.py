#!/usr/bin/env python3
"""Turns the report of a test run into the names of what failed or was skipped and one line "N passed, N failed".

  count.py ctest FILE   the JUnit file of `ctest --output-junit`
  count.py go FILE      the output of `go test -json`

A skipped test is neither; with CI=true in the environment it counts as failed, unless a line of test/skips.txt
(PATTERN  REASON) names it. The exit code is 1 when something failed or nothing ran.
"""

import fnmatch
import json
import os
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
                print(line, end="")
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
        elif not any(p == package and t and t.startswith(test + "/") for p, t in results):
            yield f"{package}.{test}", action, text
        elif action == "fail":
            print(text, end="")


def allowed_skips():
    path = os.path.join(TOP, "test", "skips.txt")
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as lines:
        return [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("ctest", "go"):
        sys.exit(__doc__)
    read = {"ctest": ctest_results, "go": go_results}[sys.argv[1]]
    strict, allowed = os.environ.get("CI") == "true", allowed_skips()
    passed = failed = 0
    try:
        for name, result, text in read(sys.argv[2]):
            if result == "skip":
                print(f"SKIP {name}: {text.strip()[-300:]}")
                if strict and not any(fnmatch.fnmatch(name, pattern) for pattern in allowed):
                    print(f"FAIL {name}: skipped, and test/skips.txt does not name it")
                    failed += 1
            elif result == "fail":
                print(f"FAIL {name}\n{text[-6000:]}")
                failed += 1
            else:
                passed += 1
    except (OSError, xml.etree.ElementTree.ParseError) as error:
        print(f"FAIL {sys.argv[2]}: {error}")
        failed += 1
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


main()
