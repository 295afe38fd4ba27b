#!/usr/bin/env python3
"""Replicated writes with two reactors a server beside one; see accept.sh.

Two clusters of the same programs, `ramcloudd dev --processes`, each with three servers and R = 2, which differ in
`--reactors` only. Their runs alternate, so that what else the machine does meets both; ratios are per pair. Beside the
throughput stands what a write costs all servers, which tells more where cores are scarce: two reactors need cores of
their own, and here client, master and backups share what there is.

  bench_reactors.py [--pairs N] [--operations N] [--clients N] [--bin DIR]
"""
import argparse
import os
import statistics

import bench

GOAL = 1.8


def run(cluster, operations, clients):
    """Writes a second, and seconds of CPU that the servers spend on one."""
    before = cluster.cpu_seconds()
    done = bench.run_json(os.path.join(bench.BIN, "ramcloud"), "--cluster", cluster.address, "bench", "write",
                          "--clients", str(clients), "--key-size", str(bench.KEY_BYTES), "--size",
                          str(bench.VALUE_BYTES), "--keys", "10000", "--ops", str(operations), "--json")
    after = cluster.cpu_seconds()
    spent = sum(after[name] - before[name] for name in before if "server" in name)
    return {"rate": done["operations_per_second"], "cpu": spent / operations}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5, help="alternating pairs (default 5)")
    parser.add_argument("--operations", type=int, default=50000, help="writes a run (default 50000)")
    parser.add_argument("--clients", type=int, default=8, help="clients of a run (default 8)")
    parser.add_argument("--bin", default=bench.BIN, help="folder of the programs")
    arguments = parser.parse_args()
    if arguments.pairs < 1 or arguments.operations < 100 or arguments.clients < 1:
        parser.error("--pairs and --clients must be at least 1, and --operations at least 100")
    bench.BIN = arguments.bin
    pairs = []
    with bench.Cluster(3, 2) as one, bench.Cluster(3, 2, flags=("--reactors", "2")) as two:
        for cluster in (one, two):
            run(cluster, arguments.operations // 10, arguments.clients)  # sessions, first heads
        for turn in range(arguments.pairs):
            first, second = (one, two) if turn % 2 == 0 else (two, one)
            results = {id(cluster): run(cluster, arguments.operations, arguments.clients)
                       for cluster in (first, second)}
            pairs.append((results[id(one)], results[id(two)]))
    ratio = statistics.median(b["rate"] / a["rate"] for a, b in pairs)
    cpu = statistics.median(b["cpu"] / a["cpu"] for a, b in pairs)
    one_us, two_us = (statistics.median(pair[i]["cpu"] for pair in pairs) * 1e6 for i in (0, 1))
    cores = len(bench.CPUS)
    # A client, a master and two backups, each server with two reactors.
    verdict = "pass" if ratio >= GOAL else "short" if cores >= 8 else f"{cores} cores cannot show it"
    print(f"{'writes a second, 2 reactors / 1, R = 2':40s} {ratio:8.2f} {'-':>8s} {GOAL:8.2f}  {verdict}")
    print(f"{'server CPU a write, 2 reactors / 1':40s} {cpu:8.2f} {'-':>8s} {'-':>8s}  (for information: {one_us:.1f} and "
          f"{two_us:.1f} us)")


if __name__ == "__main__":
    main()
