"""A page of docs/reference that a script writes: written, or with --check compared."""
import difflib
import os
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DAEMON = os.path.join(TOP, "build", "bin", "ramcloudd")


def main(usage, path, page):
    """Writes what page() gives to docs/reference/PATH, or with --check exits 1, showing how the file differs."""
    script = os.path.basename(sys.argv[0])
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(usage)
    if not os.path.exists(DAEMON):
        sys.exit(f"{script}: there is no build/bin/ramcloudd; run: make build")
    text, file = page(), os.path.join(TOP, "docs", "reference", path)
    if not sys.argv[1:]:
        with open(file, "w", encoding="utf-8") as out:
            out.write(text)
        return
    old = ""
    if os.path.exists(file):
        with open(file, encoding="utf-8") as current:
            old = current.read()
    if old != text:
        sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), text.splitlines(True), "page", "program"))
        sys.exit(f"docs/reference/{path} is not what ramcloudd says; run hack/{script}")
