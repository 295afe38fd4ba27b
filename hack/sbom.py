#!/usr/bin/env python3
"""Writes what an image contains as CycloneDX 1.5 JSON to standard output.

  sbom.py dpkg NAME VERSION   standard input is the dpkg status file of the image
  sbom.py go NAME VERSION     standard input is what `go version -m PROGRAM` prints
"""

import json
import sys


def dpkg_components(text):
    for record in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in record.splitlines() if ": " in line and not line.startswith(" "))
        if fields.get("Status", "").endswith(" installed"):
            name, version, arch = fields["Package"], fields["Version"], fields["Architecture"]
            yield name, version, f"pkg:deb/debian/{name}@{version}?arch={arch}"


def go_components(text):
    found = []
    for line in text.splitlines():
        words = line.split()
        if len(words) < 3 or words[0] not in ("dep", "=>"):
            continue
        if words[0] == "=>":
            found.pop()  # "=> MODULE VERSION" replaces the line before, which is then not in the program
            if words[1].startswith((".", "/")):
                continue  # a folder: a module of this repository
        found.append((words[1], words[2], f"pkg:golang/{words[1]}@{words[2]}"))
    return found


def main():
    readers = {"dpkg": dpkg_components, "go": go_components}
    if len(sys.argv) != 4 or sys.argv[1] not in readers:
        sys.exit(__doc__)
    kind, name, version = sys.argv[1:]
    found = sorted(set(readers[kind](sys.stdin.read())))
    if not found:
        sys.exit(f"error: sbom.py: standard input names no {kind} component")
    json.dump({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "container", "name": name, "version": version}},
        "components": [{"type": "library", "name": n, "version": v, "purl": p} for n, v, p in found],
    }, sys.stdout, indent=1)
    print()


main()
