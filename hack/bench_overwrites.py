#!/usr/bin/env python3
"""Ten minutes of overwrites whose values change their sizes, beside Valkey: the memory that a server needs, and what a
write costs it.

Both servers have the same objects, one replica (memory alone), one connection with ten groups of 75 writes, and take
turns; before each turn the sizes change. Ours has a log that is as large as its most live bytes at the utilisation that
is asked for; Valkey takes what it needs. Where its allocator allows it, a second Valkey defragments itself meanwhile.
It is part `overwrites` of bench_memory.py. See bench.sh.
"""
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import bench
import bench_peers

PROGRAM = os.path.join(bench.TOP, "build", "release", "bench", "overwrites")
OURS, VALKEY, DEFRAGMENTING = "RAMCloud", "Valkey", "Valkey, active defragmentation"
KEY_BYTES, HEADER_BYTES, NOT_FOR_OBJECTS_MIB = 16, 48, 24
# Bytes of values, one pair after the other: least and most.
SIZES = [(100, 200), (600, 1000), (20, 80), (1000, 1500), (200, 400), (40, 60)]


def live_bytes(objects, sizes):
    """Keys and values of all objects."""
    return int(objects * (KEY_BYTES + sum(sizes) / 2))


def log_mib(objects, utilisation):
    """Of a log that objects of the largest sizes fill to so many percent."""
    most = max(live_bytes(objects, sizes) for sizes in SIZES) + objects * HEADER_BYTES
    return max(64, int(most * 100 / utilisation) // (1 << 20) + NOT_FOR_OBJECTS_MIB)


class Server:
    """Of a process: what it used."""

    def __init__(self, pid):
        self.pid = pid

    def status(self, field):
        with open(f"/proc/{self.pid}/status", encoding="utf-8") as f:
            return next(int(line.split()[1]) << 10 for line in f if line.startswith(field + ":"))

    def load(self, *arguments):
        """Runs the load, and tells what it did and what it cost this server."""
        before = bench.cpu_seconds(self.pid)
        run = bench.run_json(PROGRAM, *self.place(), *arguments)
        return {**run, "cpu_seconds": bench.cpu_seconds(self.pid) - before, "resident_bytes": self.status("VmRSS"),
                "peak_bytes": self.status("VmHWM")}


class Ours(Server):
    def __init__(self, objects, utilisation):
        self.server = bench_peers.Ours(log_memory=f"{log_mib(objects, utilisation)}MiB")
        super().__init__(self.server.pid)

    def place(self):
        return ["--cluster", self.server.cluster.address, "--table", "bench"]

    def stop(self):
        self.server.stop()


class Valkey(Server):
    def __init__(self, defragment):
        self.port = bench.free_port()
        self.folder = tempfile.mkdtemp(prefix="ramcloud-bench-")
        self.process = subprocess.Popen([bench_peers.valkey_server(), "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
                                         "--appendonly", "no", *(["--activedefrag", "yes"] if defragment else [])],
                                        cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        super().__init__(self.process.pid)

    def answers(self):
        """False: it ended, as one does that cannot defragment."""
        while self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return True
            except OSError:
                time.sleep(0.05)
        return False

    def place(self):
        return ["--redis-port", str(self.port)]

    def stop(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def servers(a):
    """Name and server of each that runs on this machine."""
    found = {OURS: Ours(a.overwrites_objects, a.overwrites_utilisation)}
    if bench_peers.valkey_server() is None:
        print("Valkey is left out: there is no valkey-server", file=sys.stderr)
        return found
    for name, defragment in ((VALKEY, False), (DEFRAGMENTING, True)):
        peer = Valkey(defragment)
        if peer.answers():
            found[name] = peer
        else:
            print(f"{name} is left out: this build cannot do that", file=sys.stderr)
            peer.stop()
    return found


def measure(a):
    """A run a turn: server, sizes, writes, seconds, CPU-seconds of the server, its memory now and at most."""
    runs, found = [], servers(a)
    objects = ["--objects", str(a.overwrites_objects)]
    turns = max(len(SIZES), round(a.overwrites_seconds / a.overwrites_turn))
    try:
        for turn in range(turns):
            sizes = SIZES[turn % len(SIZES)]
            arguments = [*objects, "--least-bytes", str(sizes[0]), "--most-bytes", str(sizes[1]), "--seed", str(turn)]
            for name in list(found) if turn % 2 == 0 else reversed(list(found)):
                if turn == 0:
                    found[name].load(*arguments, "--fill")
                run = found[name].load(*arguments, "--seconds", str(a.overwrites_turn))
                runs.append({"server": name, "sizes": sizes, **run})
                print(runs[-1], file=sys.stderr, flush=True)
    finally:
        for server in found.values():
            server.stop()
    return runs


def names(runs):
    return list(dict.fromkeys(run["server"] for run in runs))


def totals(runs, name):
    """Of a server over all turns: writes a second, writes for each second of CPU time, and memory at most."""
    these = [run for run in runs if run["server"] == name]
    written = sum(run["writes"] for run in these)
    return {"per_s": written / sum(run["seconds"] for run in these), "per_cpu_s": written / sum(run["cpu_seconds"] for run in these),
            "peak_bytes": max(run["peak_bytes"] for run in these)}


def table(runs, objects):
    """A row for each server; the ratios are of pairs of turns."""
    most = max(live_bytes(objects, run["sizes"]) for run in runs)
    lines = ["| | memory at most, MiB | for each live byte | writes a second | writes for each second of its CPU time | ours / its, in turns |",
             "|---|---|---|---|---|---|"]
    ours = [run for run in runs if run["server"] == OURS]
    for name in names(runs):
        total, ratio = totals(runs, name), ""
        if name != OURS:
            theirs = [run for run in runs if run["server"] == name]
            pairs = [a["writes"] / a["cpu_seconds"] / (b["writes"] / b["cpu_seconds"]) for a, b in zip(ours, theirs)]
            middle, low, high = bench.interval(pairs)
            ratio = f"{middle:.2f} ({low:.2f} to {high:.2f})"
        lines.append(f"| {name} | {total['peak_bytes'] >> 20:,} | {total['peak_bytes'] / most:.2f} | {total['per_s']:,.0f} "
                     f"| {total['per_cpu_s']:,.0f} | {ratio} |")
    return "\n".join(lines)
