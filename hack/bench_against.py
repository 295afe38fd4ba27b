#!/usr/bin/env python3
"""`make accept AGAINST=COMMIT`: every figure of this tree beside the same one of another commit, taking turns.

What is measured, and how, is this tree's; only the programs differ. Who is first changes from pair to pair, so that what
else the machine does meets both. A figure is worse when the whole 95 % interval of the ratio is on the wrong side of 1,
and passes otherwise: a difference that the spread hides is none that was seen. See accept.sh.
"""
import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys

import bench
import bench_peers

LATENCIES = [("read", "read", 0, True), ("write, R = 0", "write", 0, True), ("write, R = 3", "write", 3, True),
             ("write, R = 3, unpinned", "write", 3, False)]
STORE_OBJECTS = 1_000_000


class Tree:
    """A checkout that was built."""

    def __init__(self, top, with_store):
        self.programs = os.path.join(top, "build", "bin")
        self.store_bench = os.path.join(top, "build", "release", "bench", "store_bench")
        for program in (os.path.join(self.programs, "ramcloudd"), *([self.store_bench] if with_store else [])):
            if not os.access(program, os.X_OK):
                sys.exit(f"error: {program} is missing: the tree was not built")


def alternate(pairs, run_ours, run_theirs):
    """[(ours, theirs)] of so many pairs."""
    results = []
    for number in range(pairs):
        if number % 2 == 0:
            ours = run_ours()
            theirs = run_theirs()
        else:
            theirs = run_theirs()
            ours = run_ours()
        results.append((ours, theirs))
    return results


def judge(ratios, lower_is_better):
    """Median and interval of the ratios, and pass or worse."""
    middle, low, high = bench.interval(ratios)
    worse = low > 1 if lower_is_better else high < 1
    return middle, low, high, "worse" if worse else "pass"


def print_head(pairs):
    print(f"{'':40s} {'this':>10s} {'other':>10s}  ratio ({bench.span(pairs)})")


def report(name, results, lower_is_better, worse):
    ours, theirs = (statistics.median(side) for side in zip(*results))
    if any(b <= 0 for _, b in results):  # both round to nothing: an idle daemon
        verdict, text = ("pass" if ours <= theirs + 0.1 else "worse"), "–"
    else:
        middle, low, high, verdict = judge([a / b for a, b in results], lower_is_better)
        text = f"{middle:.3f} ({low:.3f} to {high:.3f})"
    if verdict == "worse":
        worse.append(name)
    print(f"{name:40s} {ours:10.2f} {theirs:10.2f}  {text:24s} {verdict}", flush=True)


def wanted(rows, title):
    """Is this one of the rows that were asked for? Each is asked for by a part of its title."""
    return not rows or any(row.lower() in title.lower() for row in rows)


def latencies(trees, pairs, operations, rows, worse):
    """Of clusters of which new ones are started for every two pairs. Before each run both rest: on one core, a cluster that is
    busy for half a second after its load would make the other's writes take twice as long."""
    for name, what, replicas, apart in LATENCIES:
        if not wanted(rows, name):
            continue
        results, idle = [], []
        for number in range((pairs + 1) // 2):
            order = trees if number % 2 == 0 else trees[::-1]
            with bench.Cluster(4, replicas, apart=apart, programs=order[0].programs) as first, \
                    bench.Cluster(4, replicas, apart=apart, programs=order[1].programs) as second:
                clusters = (first, second) if number % 2 == 0 else (second, first)
                def run(cluster):
                    for c in clusters:
                        c.settle()
                    return bench.latency_us(cluster.bench(what, operations))

                results += alternate(2, *(lambda c=c: run(c) for c in clusters))
                if not apart and number < 2:
                    idle.append(tuple(max(c.idle_share(5).values()) * 100 for c in clusters))
        for i, key in enumerate(("p50", "p99")):
            report(f"{name}, {key}, us", [(a[i], b[i]) for a, b in results], True, worse)
        if idle:
            report("idle CPU, worst daemon, % of a core", idle, True, worse)


def throughput(trees, pairs, rows, worse):
    """Each row on clusters of its own: without cleaning nothing frees a log's memory, and every run loads its keys again."""
    for replicas, kinds in ((0, bench_peers.ROWS), (bench_peers.REPLICAS, bench_peers.DURABLE_ROWS)):
        for title, what, at_once, depth, operations, *connections in kinds:
            if not wanted(rows, title):
                continue
            if connections and not knows_connections(trees[1]):
                print(f"{title:40s} left out: the other commit has no --connections")
                continue
            with contextlib.ExitStack() as running:
                # Two clusters of four servers at once: half the memory each.
                servers = [running.enter_context(bench_peers.Ours(replicas, tree.programs, "1536MiB" if replicas else "4GiB"))
                           for tree in trees]
                results = alternate(pairs, *(lambda s=s: s.run(what, at_once, depth, operations, *connections) / 1e3
                                             for s in servers))
            report(f"{title}, k/CPU-s", results, False, worse)


def knows_connections(tree):
    done = subprocess.run([os.path.join(tree.programs, "ramcloud"), "bench", "read", "--help"], stdout=subprocess.PIPE,
                          text=True, check=False)
    return "--connections" in done.stdout


def store(trees, pairs, worse):
    def run(tree):
        done = subprocess.run([*bench.pinned(bench.SERVER_CPU), tree.store_bench, "--objects", str(STORE_OBJECTS),
                               "--operations", str(STORE_OBJECTS), "--rounds", "1", "--json"],
                              check=True, stdout=subprocess.PIPE, text=True)
        return next(r for r in map(json.loads, done.stdout.splitlines()) if r["store"] == "RAMCloud")

    results = alternate(pairs, *(lambda t=t: run(t) for t in trees))
    for kind in ("append", "overwrite", "read", "read_group"):
        report(f"store alone, {kind}, M/s/core", [(a[kind] / 1e6, b[kind] / 1e6) for a, b in results], False, worse)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", help="folder of the other commit, built")
    parser.add_argument("--pairs", type=int, default=10, help="pairs a figure (default 10)")
    parser.add_argument("--operations", type=int, default=5000, help="operations of a latency (default 5000)")
    parser.add_argument("--rows", nargs="+", default=[], metavar="PART", help="of latency and peers only rows whose title "
                        "has one of these in it, say to measure once more what the machine may have disturbed")
    parser.add_argument("--parts", nargs="+", default=["latency", "peers", "store"], choices=["latency", "peers", "store"])
    arguments = parser.parse_args()
    if arguments.pairs < 1 or arguments.operations < 100:
        parser.error("--pairs must be at least 1 and --operations at least 100")
    trees = [Tree(top, "store" in arguments.parts) for top in (bench.TOP, arguments.tree)]
    worse = []
    print_head(arguments.pairs)
    if "latency" in arguments.parts:
        latencies(trees, arguments.pairs, arguments.operations, arguments.rows, worse)
    if "peers" in arguments.parts:
        throughput(trees, arguments.pairs, arguments.rows, worse)
    if "store" in arguments.parts:
        store(trees, arguments.pairs, worse)
    print(f"{len(worse)} worse" + (": " + ", ".join(worse) if worse else ""))


if __name__ == "__main__":
    main()
