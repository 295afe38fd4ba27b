#!/usr/bin/env python3
"""What a client sees of cleaning: overwrites a second of a whole server without replicas, against the utilisation of its
memory, as in [Rumble14 §8.1]: one client with ten multi-writes of 75 objects at a time.

Unlike in the measurement of the library, the network is part of each write, and the client needs a core, too. So each
run also tells what the server's reactor and its cleaner used of a core. It is part `server` of bench_memory.py. See
bench.sh.
"""
import os
import time

import bench
import bench_overwrites
import bench_peers

KEY_BYTES, VALUE_BYTES = bench_overwrites.KEY_BYTES, 100
SEGMENT_MIB = 8
SEGLETS = 128  # of a segment
HEADER_BYTES = 35  # of an object at rest, with its share of a group
THREADS = ("reactor", "cleaner")


def not_for_objects(log_mib):
    """MiB of a log that are kept for deletes and for cleaning (docs/design/log.md), or that the two heads take."""
    for_deletes = max(1, -(-3 * (log_mib // SEGMENT_MIB) // SEGLETS))
    for_cleaning = min(16, max(1, -(-log_mib // 100 // SEGMENT_MIB)))
    return SEGMENT_MIB * (for_deletes + for_cleaning + 2)


def objects_at(utilisation, log_mib):
    """Objects that take so many percent of the memory that objects may have."""
    for_objects = (log_mib - not_for_objects(log_mib)) << 20
    return int(for_objects * utilisation / 100 / (KEY_BYTES + VALUE_BYTES + HEADER_BYTES))


def thread_seconds(pid):
    """CPU time of the threads that clean, and of all others: of the reactor, nearly."""
    used = dict.fromkeys(THREADS, 0.0)
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/comm", encoding="utf-8") as f:
            name = "cleaner" if f.read().strip() == "cleaner" else "reactor"
        with open(f"/proc/{pid}/task/{task}/schedstat", encoding="utf-8") as f:
            used[name] += int(f.read().split()[0]) / 1e9
    return used


def load(server, objects, *arguments):
    return bench.run_json(bench_overwrites.PROGRAM, "--cluster", server.cluster.address, "--table", "bench", "--objects", str(objects),
                          "--least-bytes", str(VALUE_BYTES), "--most-bytes", str(VALUE_BYTES), *arguments)


def measure(cleaning, utilisation, a):
    objects = objects_at(utilisation, a.memory_mib)
    seconds = max(1, round(a.seconds))
    with bench_peers.Ours(log_memory=f"{a.memory_mib}MiB", flags=["--cleaning", cleaning]) as server:
        load(server, objects, "--fill")
        load(server, objects, "--seconds", str(2 * seconds), "--seed", "1")
        before, begin = thread_seconds(server.pid), time.time()
        run = load(server, objects, "--seconds", str(seconds), "--seed", "2")
        after, elapsed = thread_seconds(server.pid), time.time() - begin
    used = {name: (after[name] - before[name]) / elapsed for name in THREADS}
    return {"cleaning": cleaning, "utilisation": utilisation, "objects": objects, "writes_per_s": run["writes"] / run["seconds"],
            **used}
