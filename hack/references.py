#!/usr/bin/env python3
"""Do the references of code and pages lead somewhere? A reader of a clone must be able to open each.

  - a link in a page: to a file of the repository, and to a heading if it has a #part
  - docs/PAGE.md in code or prose: a page; docs/PAGE.md#part and docs/PAGE.md ("Title"): a heading of it
  - any other NAME.md in the engine's code: a file beside it or at the top
  - a section sign: only of a paper of docs/papers.md by its key, as in [Ousterhout15 §4.5], or of an RFC

Nor may a path be split by a space, as filling a paragraph does, or the rows of a table stand on one line.

Usage: references.py [FOLDER]   (a checkout; this one if none is given) Prints what leads nowhere and "N passed, N failed".
"""
import functools
import os
import re
import subprocess
import sys

FENCE = re.compile(r"^```.*?^```[ \t]*$", re.S | re.M)
LINK = re.compile(r"\]\(([^)\s]+)\)")
# A page, then perhaps a part of it, or a title in quotes; comment marks may stand between.
PAGE = re.compile(r'(?<![\w/.$-])((?:[\w.-]+/)*[\w-]+\.md)(#[\w-]+)?(?:,?[\s/*#]+\(?"([A-Z][^"\n]*(?:\n[^"\n]*)?)")?')
SPLIT = re.compile(r"docs/(?:[\w-]+/)*[ \t]+[\w-]+\.md")
FILLED_TABLE = re.compile(r"^.*[^\s|:-].*\|[ \t]*:?-{3,}:?[ \t]*\|.*$", re.M)
SIGN = re.compile(r"§")
CITED = re.compile(r"\[([A-Z][a-z]+\d\d[A-Z]?)\b([^\]]*)\]")
# References to formats of other projects.
EXCLUDED = re.compile(r"(^|/)(go\.(mod|sum)|package-lock\.json|.*\.(svg|json|patch|mutant|pb\.go|golden))$|(^|/)testdata/"
                      r"|^hack/references")


def tracked(top):
    """Text files of the checkout, without those that only have others' references."""
    names = subprocess.run(["git", "-C", top, "ls-files", "-co", "--exclude-standard"], check=True,
                           stdout=subprocess.PIPE, text=True).stdout.splitlines()
    return [n for n in names if not EXCLUDED.search(n) and os.path.isfile(os.path.join(top, n))]


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except UnicodeDecodeError:
        return ""


def anchor(title):
    """The #part that Markdown viewers make of a heading."""
    title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")


@functools.cache
def headings(path):
    """({anchor}, {title}) of a page. A rule's name, in italics at its definition, is a title too."""
    text = FENCE.sub("", read(path))
    rules = {" ".join(r.split()) for r in re.findall(r"\*([A-Z][^*]+?)[.:]?\*", text)}
    titles = re.findall(r"^#+ +(.*?) *$", text, re.M)
    return {anchor(t) for t in titles}, {t.replace("`", "") for t in titles} | rules


def keys(top):
    """The keys of docs/papers.md."""
    return set(re.findall(r"^\| ([A-Z][a-z]+\d\d[A-Z]?) \|", read(os.path.join(top, "docs", "papers.md")), re.M))


def broken_links(top, name, text):
    """Of the links in a page: [(what, why)] for each; why is None when it leads somewhere."""
    for target in LINK.findall(FENCE.sub("", text)):
        if "://" in target or target.startswith("mailto:"):
            continue
        file, _, part = target.partition("#")
        path = os.path.normpath(os.path.join(top, os.path.dirname(name), file)) if file else os.path.join(top, name)
        if not os.path.exists(path):
            yield target, "there is no such file"
        elif part and path.endswith(".md") and part not in headings(path)[0]:
            yield target, "the page has no such heading"
        else:
            yield target, None


def broken_pages(top, name, text):
    """Of the pages that are named in prose and comments."""
    for match in PAGE.finditer(re.sub(r"\[[^\]]*\]\([^)]*\)", "", text)):
        page, part, title = match.groups()
        if not page.startswith("docs/") and not name.endswith((".h", ".cc", ".proto")):
            continue
        places = [os.path.join(top, page), os.path.join(top, os.path.dirname(name), page)]
        path = next((p for p in places if os.path.isfile(p)), None)
        what = match.group(0).strip()
        if path is None:
            yield what, "there is no such page"
        elif part and part[1:] not in headings(path)[0]:
            yield what, "the page has no such heading"
        elif title and re.sub(r"[\s/*#]+", " ", title).strip() not in headings(path)[1]:
            yield what, "the page has no such heading"
        else:
            yield what, None


def broken_by_filling(name, text):
    """Of what a paragraph's filling destroys: paths with a space in them, and tables on one line."""
    for match in SPLIT.finditer(text):
        yield match.group(0), "the path is split by a space"
    if name.endswith(".md"):
        for match in FILLED_TABLE.finditer(FENCE.sub("", text)):
            yield match.group(0)[:60], "the rows of a table need lines of their own"


def broken_citations(text, known):
    """Of papers by key, and section signs without one."""
    plain = re.sub(r"\n[ \t]*(?:///?|#|\*)?[ \t]*", " ", text)
    cited = []
    for match in CITED.finditer(plain):
        cited.append(match.span())
        yield match.group(0), None if match.group(1) in known else "docs/papers.md has no such key"
    for match in SIGN.finditer(plain):
        around = plain[max(0, match.start() - 12):match.end() + 8]
        if not any(a <= match.start() < b for a, b in cited) and "RFC" not in around:
            yield around.strip(), "a section sign, and of which paper? write [Key §section]"


def check(top):
    passed = failed = 0
    known = keys(top)
    for name in tracked(top):
        text = read(os.path.join(top, name))
        found = list(broken_pages(top, name, text)) + list(broken_by_filling(name, text))
        if name != "docs/papers.md":
            found += broken_citations(text, known)
        if name.endswith(".md"):
            found += broken_links(top, name, text)
        for what, why in found:
            if why is None:
                passed += 1
            else:
                failed += 1
                print(f"FAIL {name}: {' '.join(what.split())}: {why}")
    return passed, failed


def main():
    top = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    passed, failed = check(top)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
