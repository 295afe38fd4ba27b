"""The two filters behind dataset.sh, which says what they are for."""

import base64
import json
import sys


def field(name, data):
    """A key or a value as a member of a JSON line: text where the bytes are UTF-8, base64 where they are not."""
    try:
        return {name: data.decode("utf-8")}
    except UnicodeDecodeError:
        return {name + "_b64": base64.b64encode(data).decode("ascii")}


def data_of(name, line):
    """The bytes behind a member that field() made; a line must have exactly one of its two spellings."""
    if (name in line) == (name + "_b64" in line):
        raise ValueError(f'needs one of "{name}" and "{name}_b64"')
    if name in line:
        return line[name].encode("utf-8")
    return base64.b64decode(line[name + "_b64"], validate=True)


def write(pairs):
    for key in sorted(pairs):
        line = field("key", key) | field("value", pairs[key])
        text = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
        sys.stdout.buffer.write(text.encode("utf-8") + b"\n")


def packages(limit):
    pairs = {}
    for record in sys.stdin.buffer.read().split(b"\n\n"):
        record = record.strip(b"\n")
        # A continuation line starts with a space, so no field of these names lies inside another.
        fields = dict(line.split(b": ", 1) for line in record.split(b"\n") if b": " in line and line[:1] != b" ")
        if b"Package" not in fields or b"Version" not in fields:
            continue
        key = fields[b"Package"].strip() + b"/" + fields[b"Version"].strip()
        # The same version in two lists may differ in small things; which one is taken must not depend on their order.
        if key not in pairs or record < pairs[key]:
            pairs[key] = record
    if not pairs:
        sys.exit("error: apt has no package lists on this machine; as root: apt-get update")
    if limit:
        pairs = {key: pairs[key] for key in sorted(pairs)[:limit]}
    write(pairs)


def canonical():
    pairs = {}
    for number, text in enumerate(sys.stdin.buffer, 1):
        try:
            line = json.loads(text)
            key, value = data_of("key", line), data_of("value", line)
        except (ValueError, AttributeError, TypeError) as error:
            sys.exit(f"error: line {number}: {error}")
        if key in pairs:
            sys.exit(f"error: line {number}: the key {key!r} is there twice")
        pairs[key] = value
    write(pairs)


if sys.argv[1] == "packages":
    packages(int(sys.argv[2]))
else:
    canonical()
