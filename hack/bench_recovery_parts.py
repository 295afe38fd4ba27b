#!/usr/bin/env python3
"""Parts of recovery that can be measured alone: replay on one core beside a plain loop (node/bench/replay.cc),
requested restarts of all servers under load (e2e/local), and a model of very large clusters
(node/bench/recovery_scale.cc). See bench.sh and accept.sh.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import bench

SIZES = [(100, "100 B"), (1024, "1 KiB"), (10240, "10 KiB")]
MAIN_BYTES = 1024
MASTERS = [6, 20, 60, 200, 600, 1000]
IN_ONE_ORDER = [6, 60, 200]
ONE_BY_ONE = [200, 1000]
ROLLING_TEST = "TestARollingRestartCopiesNoClosedReplica"


def program(name):
    return os.path.join(bench.TOP, "build", "release", "bench", name)


def replays(rounds):
    found = {}
    for size, title in SIZES:
        command = [*bench.pinned(bench.SERVER_CPU), program("replay"), "--bytes", str(size), "--rounds", str(rounds), "--json"]
        found[size] = list(bench.run_json_lines(*command))
        print(f"replay, {title}: {replay_ratio(found[size])[0]:.2f} of a plain loop's rate", file=sys.stderr)
    return found


def replay_ratio(runs):
    return bench.interval([run["plain_ns"] / run["replay_ns"] for run in runs])


def restarts(rounds):
    found = []
    for _ in range(rounds):
        with tempfile.NamedTemporaryFile(prefix="ramcloud-bench-") as report:
            done = subprocess.run(["go", "test", "-count=1", "-timeout", "10m", "-run", f"^{ROLLING_TEST}$", "./local"],
                                  cwd=os.path.join(bench.TOP, "e2e"), env=os.environ | {"RAMCLOUD_ROLLING_REPORT": report.name},
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            if done.returncode != 0:
                sys.exit(f"error: {ROLLING_TEST} did not pass:\n{done.stdout}")
            found.append(json.load(report))
        print(f"restarts: {found[-1]}", file=sys.stderr)
    return found


def scales():
    def model(masters, *flags):
        command = [program("recovery_scale"), "--json", *flags]
        for number in masters:
            command += ["--masters", str(number)]
        return list(bench.run_json_lines(*command))
    return {"rounds": model(MASTERS), "one_order": model(IN_ONE_ORDER, "--one-order"),
            "one_by_one": model(ONE_BY_ONE, "--one-by-one"), "no_first_part": model(MASTERS[:1], "--no-first-part")}


def growth(rows):
    """From the fewest masters to the most, in percent."""
    return 100 * (rows[-1]["served_s"] / rows[0]["served_s"] - 1)


def figures(data):
    """Name, figure, floor, goal, and whether less is better."""
    model = data["scale"]["rounds"]
    return [("replay, 1 KiB / a plain loop", replay_ratio(data["replay"][MAIN_BYTES])[0], 0.6, 0.8, False),
            ("all servers restarted, longest wait, ms", max(run["longest_ms"] for run in data["restarts"]), 1000, 50, True),
            ("1,000 masters (model), s", model[-1]["served_s"], 2, 1.5, True),
            ("growth from 6 masters (model), %", growth(model), 25, 25, True)]


def figures_table(data):
    words = {"pass, goal": "goal met", "pass": "floor met, goal missed", "short": "**floor missed**"}
    lines = ["| | figure | floor | goal | |", "|---|---|---|---|---|"]
    for name, figure, floor, goal, less in figures(data):
        sign = "≤" if less else "≥"
        lines.append(f"| {name} | {figure:.2f} | {sign} {floor:g} | {sign} {goal:g} | {words[bench.verdict(figure, floor, goal, less)]} |")
    return "\n".join(lines)


def replay_table(found):
    lines = ["| values of | replay, ns an entry | a plain loop | its rate | sixteen entries at once |", "|---|---|---|---|---|"]
    for size, title in SIZES:
        runs = found[size]
        ours, plain, at_once = (statistics.median(run[f"{kind}_ns"] for run in runs) for kind in ("replay", "plain", "at_once"))
        ratio, low, high = replay_ratio(runs)
        lines.append(f"| {title} | {ours:.0f} | {plain:.0f} | {ratio:.2f} ({low:.2f} to {high:.2f}) | {at_once:.0f} |")
    return "\n".join(lines)


def scale_table(found):
    lines = ["| recovery masters | dead log | all ordered, s | an order, KB | segments of a fetch | busiest reactor, s | served, s "
             "| one by one | in one order |", "|---|---|---|---|---|---|---|---|---|"]
    others = [{run["masters"]: f"{run['served_s']:.2f}" for run in found[kind]} for kind in ("one_by_one", "one_order")]
    for run in found["rounds"]:
        cells = [f"{run['masters']:,}", f"{run['masters'] / 2:,.0f} GB", f"{run['ordered_s']:.2f}", f"{run['order_bytes'] / 1e3:,.0f}",
                 f"{run['segments_of_a_fetch']:.1f}", f"{run['reactor_s']:.2f}", f"{run['served_s']:.2f}",
                 *(other.get(run["masters"], "") for other in others)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def write_page(data):
    waits = ", ".join(f"{run['longest_ms']:,}" for run in data["restarts"])
    text = f"""# Parts of recovery

{bench.made_by("bench_recovery_parts.py")}.
Whole recoveries are on [another page](recovery.md).

{figures_table(data)}

## Replay alone

What a recovery master does with pages that it fetched, on one core: it verifies an entry, looks for its key, copies it into a
side log, and sets its slot. 128 MiB of entries with 30-byte keys; a hash table of 128 MiB, so that a key's bucket is in no
cache. The plain loop walks the same pages: for each entry CRC32C of its body, XXH3 of its key, a copy, and the first free
slot of its bucket. It has no log format, versions or locks, and compares no keys. *Its rate*: replay beside it, 1 is as fast
(median of {len(data["replay"][MAIN_BYTES])} rounds, in which they take turns, and its 95 % interval).

{replay_table(data["replay"])}

The last column is the same loop, but it verifies sixteen entries and asks for their buckets before it uses them, as replay
does. It is faster than replay because it has no locks: replay takes one for each slot, which waits until the entry that was
copied before is in the cache. To copy sixteen entries before their slots are set was tried, and was no faster.

## All servers restarted

Each of five servers, R = 3, is asked to stop, stays away for 3 s, is started again, and all replicas are whole, before the
next one is asked. Four clients write and delete without a pause of more than 2 ms; the servers have 120 MB of other data.
No operation failed. The longest one took {waits} ms ({len(data["restarts"])} runs): a stopped server's tablets are recovered
by the others before they are served again. To move them away first would take less, and needs migration.

## Many servers

A model: no machine here has 500 GB of memory. 1,000 servers are left, a dead one had 500 MB for each recovery master, with
values of 1 KiB and R = 3. What the coordinator does is the real code on messages of the real size: it decodes all answers,
decides the log's end, plans, and packs and encodes the orders. Replicas were placed by the real code, and masters fetch in
their real order. The rest is a simulation of events: each server has a reactor that fetches, replays, sends replicas and
answers fetches, another one that takes replicas, a device (2 GB/s), and a network card (25 Gbit/s). Steps cost what they cost
when they were measured with the kernel's TCP; a transaction of metadata takes 5 ms (`recovery_scale --help`).

{scale_table(data["scale"])}

With 6 recovery masters a small [first part](../design/recovery.md#the-first-part) is recovered before the others begin; without it
everything would be served after {data["scale"]["no_first_part"][0]["served_s"]:.2f} s. From 16 masters on there is none,
because every part is small. So from 20 to {MASTERS[-1]:,} masters the time grows by {growth(data['scale']['rounds'][1:]):.0f} %.

Two things grow. The coordinator's network card sends the list of all segments {MASTERS[-1]:,} times, so the last order leaves after
{data["scale"]["rounds"][-1]["ordered_s"]:.2f} s. And each server does more as a backup: it verifies {data["scale"]["rounds"][-1]["device_s"] * 2 / 0.00838861:.0f} segments, and sends a small part of each one to each
master. The goal of 1.5 s needs the fetches to be answered by another reactor than the one that replays.

*One by one*: each fetch is for one segment, as before. *In one order*: all masters begin with the same backup, so they ask the same
ones at a time ([design](../design/recovery.md#recovery-of-one-server)).
"""
    bench.write_page("recovery_parts", text, data)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="of replay (default 15)")
    parser.add_argument("--restarts", type=int, default=3, help="runs of the restart of all servers (default 3)")
    parser.add_argument("--accept", action="store_true", help="print the acceptance rows, write nothing")
    arguments = parser.parse_args()
    if min(arguments.rounds, arguments.restarts) < 1:
        parser.error("--rounds and --restarts must be at least 1")
    data = {"replay": replays(arguments.rounds), "restarts": restarts(arguments.restarts), "scale": scales()}
    if arguments.accept:
        for name, figure, floor, goal, less in figures(data):
            bench.print_row(name, figure, floor, goal, less)
    else:
        write_page(data)


if __name__ == "__main__":
    main()
