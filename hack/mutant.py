#!/usr/bin/env python3
"""Plants one bug of test/mutants.

  mutant.py check FILE…        can they be planted in the current folder? Says what is wrong, and ends with 1
  mutant.py plant FILE FOLDER  plants it in the copy of the tree in FOLDER; prints the files it changed

A bug NAME.mutant is a header, then changes by search and replace:

  Bug: what is wrong, in a sentence
  Program: the test program (a CMake target)
  Tests: what must turn red, as for --gtest_filter
  Preset: tsan                      (plain, if there is no such line)

or, of the operator, with a package below operator/ and names of its tests, separated by | (a package below clients/ is
the Go client's):

  Bug: what is wrong, in a sentence
  Go: internal/plan
  Tests: TestDecide|TestArbitraryHistories

Then come the changes:

  File: node/src/store/object_store.cc
  Search:
    result.depends_on = found.depends_on;
  Replace:
    if (found.exists()) result.depends_on = found.depends_on;

Several "Search:" may follow one "File:", and several "File:" each other. The text to search for must occur exactly
once in the file; any white space stands for any other, so that neither an edit elsewhere nor a new indentation breaks
it. An empty "Replace:" deletes. NAME.patch, the same header before a diff, is applied by git.
"""

import os
import re
import subprocess
import sys

REQUIRED = ("Bug", "Tests")
KNOWN = REQUIRED + ("Program", "Go", "Promise", "Preset")


class Wrong(Exception):
    """What is wrong with a planted bug, for people."""


def read_header(lines):
    """The fields up to the first change, and the number of lines that they take."""
    fields = {}
    for number, line in enumerate(lines):
        if re.match(r"(--- |File: )", line):
            break
        name, colon, value = line.partition(": ")
        if line.strip() and (not colon or name not in KNOWN):
            raise Wrong(f'line {number + 1} is "{line}"; accepted are {", ".join(KNOWN)}, each once, then the change')
        if line.strip():
            fields[name] = value.strip()
    else:
        raise Wrong("there is no change in it")
    for name in REQUIRED:
        if not fields.get(name):
            raise Wrong(f'no line "{name}: …" before the change')
    if bool(fields.get("Program")) == bool(fields.get("Go")):
        raise Wrong('one line of "Program: …" and "Go: …" must stand before the change, not both')
    return fields, number


def read_changes(lines):
    """[(file, text to search for, replacement)] of the lines after the header."""
    changes, file, part, open_search = [], None, None, False
    for line in lines:
        if open_search and (line == "Search:" or line.startswith("File: ")):
            raise Wrong('"Search:" without its "Replace:"')
        if line.startswith("File: "):
            file, part = line[len("File: ") :].strip(), None
        elif line == "Search:":
            if file is None:
                raise Wrong('"Search:" stands before any "File: …"')
            changes.append((file, [], []))
            open_search = True
            part = changes[-1][1]
        elif line == "Replace:":
            if not open_search or not "".join(part).strip():
                raise Wrong('"Replace:" must follow "Search:" and the text to search for')
            part = changes[-1][2]
            open_search = False
        elif part is not None:
            part.append(line)
        elif line.strip():
            raise Wrong(f'"{line}" stands where "Search:" is expected')
    if not changes or open_search:
        raise Wrong('"File: …" needs "Search:" and "Replace:"')
    return [(file, "\n".join(search).strip(), "\n".join(replace).strip()) for file, search, replace in changes]


def find_once(text, searched, where):
    """The (begin, end) of the one place of what is searched for, with any white space for any other."""
    pattern = r"\s+".join(re.escape(word) for word in searched.split())
    found = [match.span() for match in re.finditer(f"(?={pattern})", text)]
    if len(found) != 1:
        first = searched.splitlines()[0].strip()
        raise Wrong(f'what it searches for ("{first}" …) occurs {len(found)} times in {where}; it must occur once')
    return re.compile(pattern).match(text, found[0][0]).span()


def changed_files(changes, folder):
    """{file: its text with the bug}."""
    spans = {}
    for file, searched, replacement in changes:
        try:
            with open(os.path.join(folder, file), encoding="utf-8") as source:
                text = source.read()
        except OSError as error:
            raise Wrong(f"{file}: {error.strerror}") from error
        spans.setdefault(file, (text, []))[1].append((*find_once(text, searched, file), replacement))
    result = {}
    for file, (text, edits) in spans.items():
        edits.sort()
        for (_, end, _), (begin, _, _) in zip(edits, edits[1:]):
            if begin < end:
                raise Wrong(f"two of its changes of {file} overlap")
        for begin, end, replacement in reversed(edits):
            text = text[:begin] + replacement + text[end:]
        if text == spans[file][0]:
            raise Wrong(f"it changes nothing in {file}")
        result[file] = text
    return result


def git_apply(path, folder, *options):
    environment = dict(os.environ, GIT_CEILING_DIRECTORIES=os.path.dirname(os.path.abspath(folder)))
    command = ["git", "-C", folder, "apply", *options, os.path.abspath(path)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if run.returncode:
        raise Wrong("it does not apply: what it changes has changed; make it again\n" + run.stderr.strip())


def check_or_plant(path, folder, checking):
    """The files with the bug, which are written unless it is only checked."""
    with open(path, encoding="utf-8") as source:
        lines = source.read().splitlines()
    _, header = read_header(lines)
    if path.endswith(".patch"):
        git_apply(path, folder, *(["--check"] if checking else []))
        return [line[len("+++ b/") :] for line in lines if line.startswith("+++ b/")]
    texts = changed_files(read_changes(lines[header:]), folder)
    for file, text in texts.items() if not checking else ():
        with open(os.path.join(folder, file), "w", encoding="utf-8") as out:
            out.write(text)
    return list(texts)


def main():
    action, *arguments = sys.argv[1:] or [""]
    if action == "check" and arguments:
        checking, paths, folder = True, arguments, "."
    elif action == "plant" and len(arguments) == 2:
        checking, paths, folder = False, arguments[:1], arguments[1]
    else:
        sys.exit(__doc__)
    failed = 0
    for path in paths:
        try:
            files = check_or_plant(path, folder, checking)
            if not checking:
                print("\n".join(files))
        except (Wrong, OSError) as error:
            print(f"FAIL {path}: {error}")
            failed += 1
    if checking:
        print(f"{len(paths) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
