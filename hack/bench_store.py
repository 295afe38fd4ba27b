#!/usr/bin/env python3
"""The single-node store alone, on one core, without a network: appends, overwrites and random reads of objects in a
table far larger than the caches, beside std::unordered_map taking turns in the same program (node/bench/store_bench.cc).
See bench.sh.
"""
import argparse
import os
import statistics
import sys

import bench

PROGRAM = os.path.join(bench.TOP, "build", "release", "bench", "store_bench")
KINDS = [("append", "append (new keys)"), ("overwrite", "overwrite"), ("read", "random read"),
         ("read_group", "random read, 16 at once")]
# Million operations a second and core: the required value, and the target.
FIGURES = {"append": (1.5, 2.5), "read_group": (3.0, 5.0)}


def measure(objects, rounds):
    command = [*bench.pinned(bench.SERVER_CPU), PROGRAM, "--objects", str(objects), "--operations", str(objects),
               "--rounds", str(rounds), "--json"]
    runs = {}
    for run in bench.run_json_lines(*command):
        name = run.pop("store")
        runs.setdefault(name, []).append(run)
        print(f"{name:14s} " + ", ".join(f"{kind} {run[kind] / 1e6:.2f} M/s" for kind, _ in KINDS), file=sys.stderr)
    return runs


def write_docs(runs, objects, rounds):
    lines = ["| million a second, one core | RAMCloud | std::unordered_map | ratio (of the medians' rounds) |", "|---|---|---|---|"]
    for kind, title in KINDS:
        ours, theirs = ([run[kind] for run in runs[name]] for name in ("RAMCloud", "unordered_map"))
        ratio, low, high = bench.interval([a / b for a, b in zip(ours, theirs)])
        lines.append(f"| {title} | {statistics.median(ours) / 1e6:.2f} | {statistics.median(theirs) / 1e6:.2f} "
                     f"| {ratio:.2f} ({low:.2f} to {high:.2f}) |")
    text = f"""# The store alone

{bench.made_by("bench_store.py")}.

One core, no network, no replicas: {objects:,} objects with 30-byte keys and 100-byte values, many times what the
caches hold; {rounds} rounds in which ours and a `std::unordered_map` take turns, each rebuilt. A read copies the
value out. Ours appends to a log with two checksums, gives every object a version, and keeps the tombstones of what
was overwritten; the map does none of that.

{chr(10).join(lines)}

A random read is two cache misses (bucket, entry). Sixteen at once, as a multi-read does them, have their misses
together: buckets first, then entries, then the reading.
"""
    bench.write_page("store", text, runs)


def accept(runs):
    """Figure, floor, goal; see bench.accept()."""
    for kind, (floor, goal) in FIGURES.items():
        figure = statistics.median(run[kind] for run in runs["RAMCloud"]) / 1e6
        bench.print_row(f"store alone, {kind}, M/s/core", figure, floor, goal, False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=4_000_000, help="objects in the table (default 4000000)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (default 5)")
    parser.add_argument("--accept", action="store_true", help="print the acceptance rows, write nothing")
    arguments = parser.parse_args()
    if arguments.rounds < 1 or arguments.objects < 1000:
        parser.error("--rounds must be at least 1 and --objects at least 1000")
    runs = measure(arguments.objects, arguments.rounds)
    if arguments.accept:
        accept(runs)
    else:
        write_docs(runs, arguments.objects, arguments.rounds)


if __name__ == "__main__":
    main()
