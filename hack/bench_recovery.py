#!/usr/bin/env python3
"""Crash recovery: a cluster of processes over loopback, filled, one server killed with SIGKILL; what its clients see
(node/bench/outage.cc), how long each phase takes, and how long the least that a recovery must do takes the same number
of processes with the same bytes (node/bench/recovery_bound.cc). The two take turns. See bench.sh and accept.sh.

Who is measured first changes from pair to pair. Every recovery has a new cluster. The figures of a setup are medians, and
ratios are per pair, so that what else the machine does meets both.
"""
import argparse
import dataclasses
import datetime
import json
import os
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

import bench
import bench_recovery_page

MIB = 512  # of the dead server's log
LEASE_MS = 500  # --read-lease
SERVERS = 5
READERS = 128  # of each table: so many that some read keys of the first part, 1/32 of the log
OTHER_KEYS = 1000
# Of an object in the log, beside its key and value: entry header and body (log/format.h).
ENTRY_BYTES = 32
COMMITTING, READY = 2, 3  # wire::RecoveryPhase


@dataclasses.dataclass(frozen=True)
class Setup:
    """One row."""
    replicas: int = 3
    value_bytes: int = 1024
    cold: bool = False
    in_memory: bool = False  # files on tmpfs
    servers: int = SERVERS

    @property
    def title(self):
        size = f"{self.value_bytes // 1024} KiB" if self.value_bytes >= 1024 else f"{self.value_bytes} B"
        where = "tmpfs" if self.in_memory else "cold" if self.cold else "warm"
        return f"R = {self.replicas}, {size}, {where}" + (f", {self.servers} servers" if self.servers != SERVERS else "")

    @property
    def keys(self):
        return (MIB << 20) // (ENTRY_BYTES + bench.KEY_BYTES + self.value_bytes)


MAIN, IN_MEMORY = Setup(), Setup(in_memory=True)
SETUPS = [MAIN, Setup(cold=True), IN_MEMORY, Setup(servers=8),
          *(Setup(replicas, size, cold) for replicas, size in ((3, 100), (3, 10240), (1, 1024), (1, 100), (1, 10240))
            for cold in (False, True)),
          Setup(replicas=0)]
MEMORY_FOLDER = "/dev/shm"


@dataclasses.dataclass
class Programs:
    """Of one build: ours and the bound's are optimised alike."""
    preset: str

    @property
    def ours(self):
        return bench.BIN if self.preset == "release" else os.path.join(bench.TOP, "build", self.preset, "bin")

    def bench(self, name):
        return os.path.join(bench.TOP, "build", self.preset, "bench", name)


def busy_seconds():
    """Of all cores together, whoever used them; and what the host of a virtual machine took away."""
    with open("/proc/stat", encoding="utf-8") as f:
        ticks = [int(field) for field in f.readline().split()[1:]]
    user, nice, system, _, _, irq, softirq, stolen = ticks[:8]
    per_second = os.sysconf("SC_CLK_TCK")
    return (user + nice + system + irq + softirq) / per_second, stolen / per_second


def children_seconds():
    """CPU time of programs that this one ran, and that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Cluster(bench.Cluster):
    """With a table on one server that has most of the data, and one on all of them."""

    def __init__(self, setup, programs):
        memory = 2 * MIB << 20
        super().__init__(setup.servers, setup.replicas, programs=programs.ours, under=MEMORY_FOLDER if setup.in_memory else None,
                         flags=["--log-memory", str(memory), "--backup-size", str(3 * memory), "--log-format", "json"])
        self.setup, self.built = setup, programs

    def __enter__(self):
        super().__enter__()
        self.ramcloud("table", "create", "lost")
        self.ramcloud("table", "create", "others", "--span", str(self.setup.servers))
        tablet = json.loads(self.ramcloud("tablets", "lost", "-o", "json"))[0]
        self.server_id = tablet["server_id"]
        self.victim = next(c for c in self.children if tablet["locator"].endswith(f"port={c['ports']['rpc']}"))
        self.survivors = [c for c in self.children if c is not self.victim]
        return self

    def stop(self):
        """At once: servers that are asked to stop would have their tablets recovered by the others, one after the other."""
        if self.process.poll() is None:
            for child in self.children:
                os.kill(child["pid"], signal.SIGKILL)  # those that are dead are not waited for before their parent ends
        super().stop()

    def ramcloud(self, *arguments):
        return subprocess.run([os.path.join(self.programs, "ramcloud"), "--cluster", self.address, *arguments],
                              check=True, stdout=subprocess.PIPE, text=True).stdout

    def fill(self):
        for table, keys in (("lost", self.setup.keys), ("others", OTHER_KEYS)):
            self.ramcloud("bench", "read", "--table", table, "--keys", str(keys), "--key-size", str(bench.KEY_BYTES),
                          "--size", str(self.setup.value_bytes), "--ops", "1", "--warm-up", "0s", "--json")
        self.settle()

    def files(self):
        return [os.path.join(folder, name) for child in self.survivors if child["role"] == "server"
                for folder, _, names in os.walk(child["dir"]) for name in names]

    def drop_cached(self):
        """Only these files' pages. Gives the bytes that stayed."""
        stayed = 0
        for name in self.files():
            fd = os.open(name, os.O_RDONLY)
            os.fdatasync(fd)  # pages that are not on the device are not dropped
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)
            shown = subprocess.run(["fincore", "--bytes", "--noheadings", "--output", "RES", name], check=True,
                                   stdout=subprocess.PIPE, text=True).stdout
            stayed += int(shown or 0)
        return stayed

    def cpu(self):
        return sum(bench.cpu_seconds(c["pid"]) for c in self.survivors)

    def kill_and_read(self):
        return bench.run_json(self.built.bench("outage"), "--cluster", self.address, "--table", "lost", "--table", "others",
                              "--keys", str(OTHER_KEYS), "--key-size", str(bench.KEY_BYTES), "--readers", str(READERS),
                              "--kill", str(self.victim["pid"]), "--server-id", str(self.server_id))

    def record(self):
        """Of the recovery, when it has ended."""
        for _ in range(200):
            found = json.loads(self.ramcloud("recovery", "show", str(self.server_id), "-o", "json"))
            if found["ended"]:
                return found
            time.sleep(0.1)
        sys.exit(f"error: the recovery of server {self.server_id} did not end in 20 s")

    def replayed(self):
        total = 0
        for child in self.survivors:
            if child["role"] != "server":
                continue
            with urllib.request.urlopen(f"http://127.0.0.1:{child['ports']['http']}/metrics", timeout=10) as answer:
                for line in answer.read().decode().splitlines():
                    if line.startswith('ramcloud_recovery_entries_total{outcome="replayed"}'):
                        total += int(float(line.split()[-1]))
        return total

    def logged(self):
        """When recovery masters had replayed all (they commit from then on), in Unix milliseconds."""
        times = []
        with open(os.path.join(self.folder, "log"), encoding="utf-8") as log:
            for line in log:
                if '"recovery.phase"' not in line or f'"phase":{COMMITTING},' not in line:
                    continue
                at = datetime.datetime.fromisoformat(json.loads(line)["time"].replace("Z", "+00:00"))
                times.append(at.timestamp() * 1000)
        return times


def client_times(seen):
    """What readers of the dead server's keys waited, from the kill on, and readers of other keys for one answer."""
    lost = sorted(r["answered_ms"] for r in seen["readers"] if r["lost"])
    return {"first": lost[0], "half": lost[(len(lost) - 1) // 2], "all": lost[-1],
            "longest": max(r["answered_ms"] - r["asked_ms"] for r in seen["readers"] if r["lost"]),
            "others": max(r["answered_ms"] - r["asked_ms"] for r in seen["readers"] if not r["lost"]),
            "readers": len(lost), "found_nothing": sum(r["lost"] and r["absent"] > 0 for r in seen["readers"])}


def phase_times(record, seen, committing):
    """Since the kill, in milliseconds."""
    begin = record["crashed_at_ms"] - seen["killed_unix_ms"]
    told = {step: begin + at for step, at in record["timeline_ms"].items() if at is not None}
    return told | ({"replayed": max(committing) - seen["killed_unix_ms"]} if committing else {})


def check(cluster, outage, client):
    """A recovery that loses something is not measured."""
    setup, replayed = cluster.setup, cluster.replayed()
    if setup.replicas == 0:
        if client["found_nothing"] != client["readers"]:
            sys.exit(f"error: {setup.title}: {client['readers'] - client['found_nothing']} readers still found objects")
    elif client["found_nothing"] or replayed < setup.keys:
        sys.exit(f"error: {setup.title}: {client['found_nothing']} of {client['readers']} readers found nothing; {replayed} of "
                 f"{setup.keys} objects were replayed")
    if outage["outcome"] not in ("COMPLETE", None):
        sys.exit(f"error: {setup.title}: the outcome is {outage['outcome']}")


def recover(setup, programs, beside=None):
    """One recovery. `beside` is started with the cluster just before the kill, and given the end."""
    with Cluster(setup, programs) as cluster:
        cluster.fill()
        os.sync()
        stayed = cluster.drop_cached() if setup.cold else None
        if beside:
            beside(cluster)
        before = [cluster.cpu(), children_seconds(), *busy_seconds()]
        seen = cluster.kill_and_read()
        used, client_cpu, busy, stolen = (b - a for a, b in zip(before, [cluster.cpu(), children_seconds(), *busy_seconds()]))
        record = cluster.record()
        client = client_times(seen)
        check(cluster, record, client)
        return {"client": client, "at": phase_times(record, seen, cluster.logged()), "bytes": record["bytes"],
                "parts": record["parts"], "cpu_s": used, "client_cpu_s": client_cpu, "others_cpu_s": max(0.0, busy - used - client_cpu),
                "stolen_s": stolen, "still_cached_bytes": stayed}


def bound(setup, programs):
    """What the least takes: seconds, and seconds of CPU time of all processes together."""
    command = [programs.bench("recovery_bound"), "--mib", str(MIB), "--bytes", str(setup.value_bytes), "--replicas",
               str(setup.replicas), "--processes", str(setup.servers - 1)]
    folder = tempfile.mkdtemp(prefix="ramcloud-bench-", dir=MEMORY_FOLDER if setup.in_memory else None)
    try:
        os.sync()
        return bench.run_json(*command, "--folder", folder, *(["--cold"] if setup.cold else []))
    finally:
        shutil.rmtree(folder)


def measure(setup, pairs, programs):
    runs = []
    for number in range(pairs):
        least = bound(setup, programs) if setup.replicas and number % 2 == 0 else None
        run = recover(setup, programs)
        if setup.replicas and number % 2:
            least = bound(setup, programs)
        runs.append(run | {"bound_s": least and least["seconds"], "bound_cpu_s": least and least.get("cpu_seconds")})
        say(setup, runs[-1])
    return {"title": setup.title, "setup": dataclasses.asdict(setup), "keys": setup.keys, "runs": runs}


def say(setup, run):
    client, at = run["client"], run["at"]
    least = f", {(at['served'] - at['verdict']) / run['bound_s'] / 1e3:.2f} x {run['bound_s']:.2f} s" if run["bound_s"] else ""
    print(f"{setup.title:28s} verdict {at['verdict']:5.0f} ms, first key {client['first']:5.0f}, half {client['half']:5.0f}, "
          f"all {client['all']:5.0f}, cpu {run['cpu_s']:.2f} s, "
          f"others' {run['others_cpu_s']:.2f} s{least}", file=sys.stderr, flush=True)


def profile(programs):
    """Where the survivors' CPU time goes in one more recovery, by function; None without perf."""
    if not shutil.which("perf"):
        print("profile: left out, perf is not installed", file=sys.stderr)
        return None
    with tempfile.TemporaryDirectory(prefix="ramcloud-bench-") as folder:
        data = os.path.join(folder, "perf.data")
        recorders = []

        def record(cluster):
            pids = ",".join(str(c["pid"]) for c in cluster.survivors)
            recorders.append(subprocess.Popen(["perf", "record", "-q", "-e", "cpu-clock", "-F", "999", "-g", "-o", data, "-p", pids],
                                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            time.sleep(1)  # until it is attached

        try:
            run = recover(MAIN, programs, record)
        finally:
            for recorder in recorders:
                recorder.send_signal(signal.SIGINT)
                recorder.wait()
        own, whole = reported(data, "overhead"), reported(data, "overhead_children")
    say(MAIN, run | {"bound_s": None})
    return {"own": own, "whole": whole}


def reported(data, which):
    """Of each function its own share, or that of all that it calls as well."""
    children = "--no-children" if which == "overhead" else "--children"
    shown = subprocess.run(["perf", "report", "-i", data, children, "-g", "none", "--stdio", "-F", f"{which},dso,symbol",
                            "--percent-limit", "0.4"], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    found = re.findall(r"^\s*([\d.]+)%\s+(\S+)\s+\[([.k])\]\s+(.*?)\s*$", shown, re.MULTILINE)
    if not found:
        sys.exit("error: perf saw nothing of the survivors; what it shows begins with: " + shown[:500])
    return [{"share": float(share), "kernel": where == "k", "symbol": symbol} for share, _, where, symbol in found]


def figures(rows):
    """Name, figure, floor, goal: of what this machine can be measured for (docs/design/recovery.md)."""
    runs = {row["title"]: row["runs"] for row in rows}

    def median(setup, of):
        return statistics.median(of(run) for run in runs[setup.title])

    def beside_the_bound(run):
        return (run["at"]["served"] - run["at"]["verdict"]) / 1e3 / run["bound_s"]

    found = [("detection of a killed process, ms", median(MAIN, lambda r: r["at"]["verdict"]), 400, 50),
             ("512 MiB, kill to all served, s", median(MAIN, lambda r: r["client"]["all"] / 1e3), 3, 1.8),
             ("first key since the verdict, ms", median(MAIN, lambda r: r["client"]["first"] - r["at"]["verdict"]),
              LEASE_MS + 500, LEASE_MS + 150),
             ("verdict to all served / the bound", median(MAIN, beside_the_bound), 1.5, 1.25)]
    if IN_MEMORY.title in runs:
        found.append(("the same on tmpfs", median(IN_MEMORY, beside_the_bound), 1.5, 1.25))
    return found


def made_by():
    return bench.made_by("bench_recovery.py")


def before(programs):
    """What the page that is there was made from."""
    with open(os.path.join(bench.OUT, "recovery.json"), encoding="utf-8") as f:
        data = json.load(f)
    for what, now in (("made_by", made_by()), ("preset", programs.preset), ("mib", MIB)):
        if data[what] != now:
            sys.exit(f"error: --add: the page that is there has {what} {data[what]!r}, and now it is {now!r}; without --add all is measured")
    return data


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10, help=f"of the setup with figures to reach, {MAIN.title} (default 10)")
    parser.add_argument("--other-pairs", type=int, default=3, help="of each other setup (default 3)")
    parser.add_argument("--setups", nargs="+", default=[], metavar="PART", help="of those only the ones whose title has one of these in it")
    parser.add_argument("--preset", default="release", help="whose programs are measured, ours and the bound (default release)")
    parser.add_argument("--add", action="store_true", help="to the page that is there, of the same day and version: its rows stay")
    parser.add_argument("--accept", action="store_true", help="print the acceptance rows, write nothing")
    arguments = parser.parse_args()
    if min(arguments.pairs, arguments.other_pairs) < 1:
        parser.error("--pairs and --other-pairs must be at least 1")
    programs = Programs(arguments.preset)
    for program in (os.path.join(programs.ours, "ramcloudd"), programs.bench("outage"), programs.bench("recovery_bound")):
        if not os.access(program, os.X_OK):
            sys.exit(f"error: {program} is missing; hack/bench.sh recovery builds it")
    if arguments.accept:
        for name, figure, floor, goal in figures([measure(s, arguments.pairs, programs) for s in (MAIN, IN_MEMORY)]):
            bench.print_row(name, figure, floor, goal, True)
        return
    there = before(programs) if arguments.add else None
    kept = there["rows"] if there else []
    wanted = [s for s in SETUPS if not arguments.setups or any(part in s.title for part in arguments.setups)
              or (s in (MAIN, IN_MEMORY) and not kept)]
    rows = [measure(s, arguments.pairs if s == MAIN else arguments.other_pairs, programs) for s in wanted]
    titles = [s.title for s in SETUPS]
    rows = sorted(rows + [row for row in kept if row["title"] not in {r["title"] for r in rows}], key=lambda r: titles.index(r["title"]))
    data = {"made_by": made_by(), "preset": programs.preset, "mib": MIB, "rows": rows, "figures": figures(rows),
            "profile": there["profile"] if there else profile(programs)}
    bench_recovery_page.write(data)


if __name__ == "__main__":
    main()
