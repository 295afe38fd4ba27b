#!/usr/bin/env python3
"""Prints the ten slowest steps of the last run of hack/test.sh: what to make faster first.

  slowest.py SINCE    SINCE is when the run began, in seconds since 1970

A step is one file compiled or program linked (build/*/.ninja_log), one test (the reports of ctest and Go in
build/logs), one of the cluster's programs built, or one script (build/logs/steps.txt, lines "SECONDS NAME"). The
seconds are of the clock: two steps side by side both take longer.
"""

import glob
import json
import os
import re
import sys
import xml.etree.ElementTree

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LOGS = os.path.join(TOP, "build", "logs")
SHOWN = 10


def reports(pattern, since):
    """The files of build/logs that this run wrote."""
    return [path for path in glob.glob(os.path.join(LOGS, pattern)) if os.path.getmtime(path) >= since]


def compiled(since):
    commands = set()  # one may have several outputs
    for path in glob.glob(os.path.join(TOP, "build", "*", ".ninja_log")):
        preset = os.path.basename(os.path.dirname(path))
        with open(path, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                fields = line.rstrip("\n").split("\t")
                # BEGIN END TIME OUTPUT COMMAND: milliseconds since the build began, nanoseconds since 1970.
                if len(fields) == 5 and int(fields[2]) >= since * 1e9 and (preset, fields[4]) not in commands:
                    commands.add((preset, fields[4]))
                    name = re.sub(r".*/build/[^/]*/|CMakeFiles/[^/]*\.dir/", "", fields[3])
                    yield (int(fields[1]) - int(fields[0])) / 1000, f"build {preset}: {name}"


def tested(since):
    for path in reports("*.xml", since):
        preset = os.path.basename(path)[: -len(".xml")]
        for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
            yield float(case.get("time") or 0), f"test {preset}: {case.get('name')}"
    for path in reports("go-*.json", since):
        with open(path, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                try:
                    event = json.loads(line)
                except ValueError:
                    continue
                test = event.get("Test", "")
                if event.get("Action") in ("pass", "fail") and test and "/" not in test:
                    yield event.get("Elapsed", 0), f"test go: {event['Package'].rsplit('/', 1)[-1]}.{test}"


def noted(since):
    for path in reports("*.log", since):
        with open(path, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                found = re.search(r"built (\S+ v\S+) in (\d+) s$", line.rstrip())
                if found:
                    yield float(found[2]), f"build cluster: {found[1]}"
    for path in reports("steps.txt", since):
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                seconds, _, name = line.strip().partition(" ")
                yield float(seconds), name


def main():
    if len(sys.argv) != 2 or not sys.argv[1].isdigit():
        sys.exit(__doc__)
    # One name once: an output can be listed twice, and so can a test that was run again.
    steps, since = {}, int(sys.argv[1])
    for source in (compiled(since), tested(since), noted(since)):
        try:
            for seconds, name in source:
                steps[name] = max(seconds, steps.get(name, 0))
        except (OSError, ValueError, xml.etree.ElementTree.ParseError) as error:
            print(f"a report cannot be read: {error}")
    print("the slowest steps:")
    for name, seconds in sorted(steps.items(), key=lambda step: -step[1])[:SHOWN]:
        print(f"  {seconds:7.1f} s  {name}")


if __name__ == "__main__":
    main()
