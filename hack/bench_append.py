#!/usr/bin/env python3
"""How writing scales with the threads that write to one store, without network and replication: whole writes, and
appends to the log alone (node/bench/append.cc). See bench.sh.
"""
import argparse
import json
import os
import statistics
import sys

import bench

PROGRAM = os.path.join(bench.TOP, "build", "release", "bench", "append")
LOADS = [("write", "a whole write: hash table, stripe lock, log"), ("log", "an append to the log, nothing else")]


def measure(threads, rounds):
    command = [PROGRAM, "--threads", str(threads), "--rounds", str(rounds), "--json"]
    data = {}
    for run in bench.run_json_lines(*command):
        data.setdefault(run["load"], []).append(run["rates"])
    for load, title in LOADS:
        print(f"{title}: " + ", ".join(f"{i + 1} threads {statistics.median(rates) / 1e6:.2f} M/s"
                                       for i, rates in enumerate(data[load])), file=sys.stderr)
    return data


def write_docs(data, rounds):
    lines = ["| million a second | threads | median (lowest to highest) | x one thread (" + bench.span(rounds) + ") |", "|---|---|---|---|"]
    for load, title in LOADS:
        for i, rates in enumerate(data[load]):
            ratio = bench.interval([many / one for many, one in zip(rates, data[load][0])])
            lines.append(f"| {title} | {i + 1} | {statistics.median(rates) / 1e6:.2f} ({min(rates) / 1e6:.2f} to "
                         f"{max(rates) / 1e6:.2f}) | {ratio[0]:.2f} ({ratio[1]:.2f} to {ratio[2]:.2f}) |")
    text = f"""# Writing with several threads

{bench.made_by("bench_append.py")}.

Threads of one process write new objects (16-byte keys, 100-byte values) to one store until its memory is full, as
reactors do, without a network and without replicas; {rounds} rounds in which the numbers of threads take turns.

{chr(10).join(lines)}

Of a whole write only the last part happens under the head lock: taking a place in the head and copying the group.
The second load does nothing but that, without a pause, so that the lock and the lines it guards go from core to core
with each append: it is the limit that a server with ever more reactors runs into, not a load that a server has.
"""
    bench.write_page("append", text, data)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=len(bench.CPUS), help="most threads (default: one a core)")
    parser.add_argument("--rounds", type=int, default=9, help="rounds (default 9)")
    arguments = parser.parse_args()
    if min(arguments.threads, arguments.rounds) < 1:
        parser.error("--threads and --rounds must be at least 1")
    write_docs(measure(arguments.threads, arguments.rounds), arguments.rounds)


if __name__ == "__main__":
    main()
