#!/usr/bin/env bash
# Are the events of log lines named in one way, component.event_in_snake_case? What changes from line to line is in fields,
# so that people and alerts can search for an event.
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"
git ls-files -co --exclude-standard -- 'node/src/*.cc' 'node/src/*.h' | grep -v '_test\.cc$' | python3 -c '
import os, re, sys
CALL = re.compile(r"\blog_(?:debug|info|warn|error)\(\s*(\"[^\"]*\"(?:\s*\"[^\"]*\")*)")
passed = failed = 0
for path in filter(os.path.isfile, sys.stdin.read().splitlines()):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for call in CALL.finditer(text):
        event = "".join(re.findall(r"\"([^\"]*)\"", call.group(1)))
        if re.fullmatch(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*", event):
            passed += 1
        else:
            failed += 1
            line = text.count("\n", 0, call.start()) + 1
            print(f"FAIL {path}:{line}: log event \"{event}\"; accepted is component.event_in_snake_case, with values as fields")
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0 or passed == 0)
'
