#!/usr/bin/env python3
"""What log-structured memory is for: how full it can be, at which price. The log and the store as a library, without a
network and replicas; `server`, `backups` and `overwrites` of whole servers:

  throughput   overwrites a second against memory utilisation, with the cleaner at work (node/bench/memory_bench.cc)
  server       the same of a whole server, under one client (bench_full_server.py)
  allocation   memory that changing sizes of objects take, beside allocators (node/bench/allocation.cc)
  latency      of writes with the cleaner at 90 %, and without one (node/bench/write_latency.cc)
  capacity     objects in some memory, beside memcached and Redis or Valkey (node/bench/capacity.cc)
  backups      overwrites a second with R = 3 while disks are slow (bench_backups.py); only as root
  overwrites   ten minutes of overwrites with changing sizes, beside Valkey (bench_overwrites.py)

What is compared takes turns in one run. An allocator or a peer that is not installed is left out, with a message
(`hack/deps.sh bench`). See bench.sh.
"""
import argparse
import json
import math
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import bench
import bench_backups
import bench_full_server
import bench_overwrites

BUILT = os.path.join(bench.TOP, "build", "release", "bench")
UTILISATIONS = [30, 50, 70, 80, 90, 95, 98]
SIZES = [100, 1000, 10000]
ACCESS = ["uniform", "zipfian", "hot-and-cold"]
CLEANINGS = ["one-level", "two-level"]
WORKLOADS = ["W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8"]
ALLOCATORS = {"glibc": None, "jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4",
              "mimalloc": "libmimalloc.so.2"}
OURS = "RAMCloud"
# The memory of a log for each live byte. The result is the least with which a workload completes.
FACTORS = [1.12, 1.15, 1.20, 1.30, 1.50, 2.00]
KEY_BYTES, FIXED_BYTES, MOST_BYTES = 12, 25, 8192
# Writes a second of 100 bytes, uniform, by one core at 30 %; and the percentage of it that must
# remain.
LEAST_RATE = 1.5e6
LEAST_LEFT = {80: 80, 90: 50, 95: 35, 98: 10}
MOST_MEMORY = 1.20
MOST_P50, MOST_P999 = 1.05, 3.0
LEAST_TWO_TO_ONE = 2.0
PLACED = ["--writer-cpu", str(bench.SERVER_CPU), "--cleaner-cpu", str(bench.CLIENT_CPU)]


def program(name):
    return os.path.join(BUILT, name)


def say(text):
    print(text, file=sys.stderr, flush=True)


def lines_of(*command):
    for run in bench.run_json_lines(*command, "--json"):
        say(str(run))
        yield run


def many(values):
    return ",".join(str(value) for value in values)


# ---- writes against utilisation

def throughput(a):
    """All patterns and sizes on one core; the smallest values more often, also with a cleaner beside the writer. One-level and
    two-level cleaning take turns."""
    command = [program("memory_bench"), "--memory-mib", str(a.memory_mib), "--seconds", str(a.seconds), "--warm-seconds",
               str(2 * a.seconds), "--utilisation", many(UTILISATIONS), *PLACED]
    runs = []
    for _ in range(a.rounds):
        for cleaning in CLEANINGS:
            runs += lines_of(*command, "--cleaning", cleaning, "--access", ACCESS[0], "--value-bytes", str(SIZES[0]),
                             "--cleaner-threads", "0,1")
    for access in a.access:
        sizes = [size for size in a.sizes if access != ACCESS[0] or size != SIZES[0]]
        for cleaning in CLEANINGS:
            if sizes:
                runs += lines_of(*command, "--cleaning", cleaning, "--access", access, "--value-bytes", many(sizes),
                                 "--cleaner-threads", "0")
    return runs


def pick(runs, **wanted):
    return [run for run in runs if all(run[name] == value for name, value in wanted.items())]


def rates(runs, **wanted):
    """Of each utilisation: a rate for each round."""
    return {u: [run["writes_per_s"] for run in pick(runs, utilisation=u, **wanted)] for u in UTILISATIONS}


def left(runs, **wanted):
    """What of the rate at 30 % is left at each utilisation, in percent; round by round."""
    all_rates = rates(runs, **wanted)
    return {u: [100 * rate / first for rate, first in zip(all_rates[u], all_rates[UTILISATIONS[0]])] for u in UTILISATIONS}


def rows_of(runs):
    """What was measured, with a title."""
    for threads in (0, 1):
        for size in SIZES:
            for access in ACCESS:
                for cleaning in CLEANINGS:
                    wanted = {"cleaner_threads": threads, "value_bytes": size, "access": access, "cleaning": cleaning}
                    where = "one core for all" if threads == 0 else "cleaner beside it"
                    if pick(runs, **wanted):
                        yield f"{size} B, {access}, {where}, {cleaning}", wanted


def throughput_table(runs):
    lines = ["| million writes a second (bytes copied for each freed) | " + " | ".join(f"{u} %" for u in UTILISATIONS) + " |",
             "|---" * (1 + len(UTILISATIONS)) + "|"]
    for title, wanted in rows_of(runs):
        cells = []
        for u in UTILISATIONS:
            these = pick(runs, utilisation=u, **wanted)
            if any(run["full"] for run in these):
                cells.append("no memory")
                continue
            mark = "" if all(run["settled"] for run in these) else "*"
            cells.append(f"{statistics.median(run['writes_per_s'] for run in these) / 1e6:.3f} "
                         f"({statistics.median(run['copied_per_freed'] for run in these):.2f}){mark}")
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def left_table(runs):
    lines = ["| % of the rate at 30 % | " + " | ".join(f"{u} %" for u in UTILISATIONS[1:]) + " |",
             "|---" * len(UTILISATIONS) + "|"]
    for title, wanted in rows_of(runs):
        cells = []
        for u in UTILISATIONS[1:]:
            middle, low, high = bench.interval(left(runs, **wanted)[u])
            cells.append(f"{middle:.0f}" + (f" ({low:.0f} to {high:.0f})" if high > low else ""))
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def plot(runs):
    """What is left of the rate at 30 %, over utilisation, on one core with one-level cleaning, the default."""
    width, height, low, bottom, top = 640, 340, 60, 40, 44
    colours = dict(zip(SIZES, ["#3b6fb6", "#c0504d", "#7f9f4f"]))
    dashes = dict(zip(ACCESS, ["", "6 3", "2 3"]))
    most = 120
    at_x = {u: low + (u - 30) / 68 * (width - low - 20) for u in UTILISATIONS}

    def at_y(value):
        return height - bottom - min(value, most) / most * (height - bottom - top)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="Helvetica, Arial, sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="#fff"/>',
           '<text x="16" y="20" font-size="14">Overwrites a second, in % of those at 30 %, over memory utilisation</text>']
    for y in range(0, most + 1, 20):
        out.append(f'<text x="{low - 8}" y="{at_y(y) + 4:.0f}" text-anchor="end">{y}</text>')
        out.append(f'<line x1="{low}" x2="{width - 20}" y1="{at_y(y):.1f}" y2="{at_y(y):.1f}" stroke="#ddd"/>')
    for u in UTILISATIONS:
        out.append(f'<text x="{at_x[u]:.0f}" y="{height - bottom + 18}" text-anchor="middle">{u}</text>')
    row = 0
    for size in SIZES:
        for access in ACCESS:
            shares = left(runs, cleaning=CLEANINGS[0], cleaner_threads=0, value_bytes=size, access=access)
            if not all(shares.values()):
                continue
            points = " ".join(f"{at_x[u]:.0f},{at_y(statistics.median(shares[u])):.1f}" for u in UTILISATIONS)
            style = f'stroke="{colours[size]}" stroke-width="2" stroke-dasharray="{dashes[access]}"'
            out.append(f'<polyline points="{points}" fill="none" {style}/>')
            y = height - bottom - 14 * (len(SIZES) * len(ACCESS) - row) - 4
            out.append(f'<line x1="{low + 8}" x2="{low + 36}" y1="{y - 4}" y2="{y - 4}" {style}/>')
            out.append(f'<text x="{low + 42}" y="{y}" font-size="11">{size} B, {access}</text>')
            row += 1
    out.append("</svg>\n")
    return "\n".join(out)


# ---- a whole server

def server(a):
    runs = []
    for _ in range(a.rounds):
        for cleaning in CLEANINGS:
            for utilisation in UTILISATIONS:
                runs.append(bench_full_server.measure(cleaning, utilisation, a))
                say(str(runs[-1]))
    return runs


def server_table(runs):
    lines = ["| | " + " | ".join(f"{u} %" for u in UTILISATIONS) + " |", "|---" * (1 + len(UTILISATIONS)) + "|"]
    for cleaning in CLEANINGS:
        shares, all_rates = left(runs, cleaning=cleaning), rates(runs, cleaning=cleaning)
        lines.append(f"| {cleaning}, million writes a second | "
                     + " | ".join(f"{statistics.median(all_rates[u]) / 1e6:.3f}" for u in UTILISATIONS) + " |")
        lines.append(f"| {cleaning}, % of the rate at 30 % | "
                     + " | ".join("{:.0f} ({:.0f} to {:.0f})".format(*bench.interval(shares[u])) for u in UTILISATIONS) + " |")
        for thread in bench_full_server.THREADS:
            used = [statistics.median(run[thread] for run in pick(runs, cleaning=cleaning, utilisation=u)) for u in UTILISATIONS]
            lines.append(f"| {cleaning}, {thread}, % of a core | " + " | ".join(f"{100 * share:.0f}" for share in used) + " |")
    return "\n".join(lines)


# ---- memory that changing sizes take

def library_path(name):
    done = subprocess.run(["/sbin/ldconfig", "-p"], stdout=subprocess.PIPE, text=True, check=True)
    for line in done.stdout.splitlines():
        if line.split(" ", 1)[0].strip() == name:
            return line.rsplit("=> ", 1)[1].strip()
    return None


def allocators():
    found = {}
    for name, library in ALLOCATORS.items():
        path = library and library_path(library)
        if library and not path:
            say(f"{name} is left out: there is no {library}")
        else:
            found[name] = path
    return found


def with_malloc(command, path):
    env = dict(os.environ)
    if path:
        env["LD_PRELOAD"] = path
    return bench.run_json(*command, "--writer-cpu", str(bench.SERVER_CPU), "--json", env=env)


def with_log(command, factor):
    """None: there was no memory for a write, or a delete."""
    done = subprocess.run([*command, "--log", str(factor), *PLACED, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False)
    if done.returncode == 0:
        return json.loads(done.stdout)
    if "found no memory" not in done.stderr:
        sys.exit(f"error: {' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return None


def allocation(a):
    rows, found = [], allocators()
    for workload in WORKLOADS:
        command = [program("allocation"), "--workload", workload, "--live-mib", str(a.live_mib), "--turnover", str(a.turnover)]
        runs = {name: with_malloc(command, path) for name, path in found.items()}
        for factor in FACTORS:
            runs[OURS] = with_log(command, factor)
            if runs[OURS] is not None:
                break
            say(f"{workload}: {factor} times the live bytes are not enough for the log")
        rows.append({"workload": workload, "runs": runs})
        say(f"{workload}: " + ", ".join(f"{name} {run['factor']:.2f} x in {run['cpu_seconds']:.1f} s of CPU"
                                        for name, run in runs.items() if run is not None))
    return rows


def allocation_table(rows):
    names = list(rows[0]["runs"])
    order = [OURS, *[name for name in names if name != OURS]]
    lines = ["| memory for each live byte (seconds of CPU) | " + " | ".join(order) + " |", "|---" * (1 + len(order)) + "|"]
    for row in rows:
        cells = [f"{run['factor']:.2f} ({run['cpu_seconds']:.1f})" if (run := row["runs"][name]) else f"above {FACTORS[-1]:.2f}"
                 for name in order]
        lines.append(f"| {row['workload']} | {' | '.join(cells)} |")
    return "\n".join(lines)


# ---- latency

def latency(a):
    return list(lines_of(program("write_latency"), "--memory-mib", str(a.memory_mib), "--rounds", str(a.rounds),
                         "--writes", str(a.writes), *PLACED))


def latency_ratios(runs, gap, key):
    on, off = (pick(runs, gap_us=gap, cleaner=cleaner) for cleaner in (True, False))
    return [a[key] / b[key] for a, b in zip(on, off)]


def latency_table(runs):
    lines = ["| a write each | cleaner | p50 ns | p99 ns | p99.9 ns | cleaner, % of a core |", "|---|---|---|---|---|---|"]
    for gap in dict.fromkeys(run["gap_us"] for run in runs):
        title = f"{gap} µs" if gap else "back to back"
        for cleaner in (False, True):
            these = pick(runs, gap_us=gap, cleaner=cleaner)
            cells = [f"{statistics.median(run[key] for run in these):.0f}" for key in ("p50_ns", "p99_ns", "p999_ns")]
            lines.append(f"| {title} | {'on, 90 %' if cleaner else 'off'} | {' | '.join(cells)} | "
                         f"{100 * statistics.median(run['cleaner_share'] for run in these):.0f} |")
        cells = ["{:.2f} ({:.2f} to {:.2f})".format(*bench.interval(latency_ratios(runs, gap, key)))
                 for key in ("p50_ns", "p99_ns", "p999_ns")]
        lines.append(f"| {title} | ratio | {' | '.join(cells)} | |")
    return "\n".join(lines)


# ---- objects in some memory

def value_sizes(values):
    """As capacity.cc draws them."""
    drawn = random.Random(1)
    while True:
        yield FIXED_BYTES if values == "fixed" else int(math.exp(drawn.random() * math.log(MOST_BYTES + 1))) - 1


class Server:
    """A peer in a process of its own, and a connection to it."""

    def __init__(self, name, command, port):
        self.name = name
        self.folder = tempfile.mkdtemp(prefix="ramcloud-bench-")
        self.process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.time() + 30
        while True:
            try:
                self.socket = socket.create_connection(("127.0.0.1", port))
                break
            except OSError:
                if time.time() > deadline or self.process.poll() is not None:
                    sys.exit(f"error: {name} does not answer on port {port}")
                time.sleep(0.05)
        self.answers = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def set_all(self, pairs, *answers):
        """One group of requests, and as many answers, each one of these."""
        self.socket.sendall(b"".join(self.set_request(key, value) for key, value in pairs))
        for _ in pairs:
            line = self.answers.readline()
            if line not in answers:
                sys.exit(f"error: {self.name} answers {line!r} to a write")

    def resident(self):
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as f:
            return next(int(line.split()[1]) << 10 for line in f if line.startswith("VmRSS:"))


class Memcached(Server):
    """It gives up the oldest objects when its memory is full, or refuses one when it has no page for that size. So it is
    filled several times."""
    TIMES = 3
    FULL = b"SERVER_ERROR out of memory storing object\r\n"

    def __init__(self, memory_mib):
        port = bench.free_port()
        command = ["memcached", "-l", "127.0.0.1", "-p", str(port), "-U", "0", "-t", "1", "-m", str(memory_mib)]
        super().__init__("memcached", command + (["-u", "nobody"] if os.getuid() == 0 else []), port)

    @staticmethod
    def set_request(key, value):
        return b"set %s 0 0 %d\r\n%s\r\n" % (key, len(value), value)

    def fill(self, groups, memory_mib):
        written = 0
        for pairs in groups:
            self.set_all(pairs, b"STORED\r\n", self.FULL)
            written += sum(len(key) + len(value) for key, value in pairs)
            if written > self.TIMES * (memory_mib << 20):
                return

    def objects(self):
        self.socket.sendall(b"stats\r\n")
        count = 0
        while (line := self.answers.readline()) != b"END\r\n":
            if line.startswith(b"STAT curr_items "):
                count = int(line.split()[2])
        return count


class Redis(Server):
    def __init__(self, memory_mib, binary):
        del memory_mib  # it is filled to that
        port = bench.free_port()
        super().__init__(os.path.basename(binary).split("-")[0].capitalize(),
                         [binary, "--port", str(port), "--save", "", "--appendonly", "no"], port)

    @staticmethod
    def set_request(key, value):
        return b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % (len(key), key, len(value), value)

    def fill(self, groups, memory_mib):
        for number, pairs in enumerate(groups):
            self.set_all(pairs, b"+OK\r\n")
            if number % 16 == 0 and self.resident() >= memory_mib << 20:
                return

    def objects(self):
        self.socket.sendall(b"*1\r\n$6\r\nDBSIZE\r\n")
        return int(self.answers.readline()[1:])


def groups_of(values, count=1000):
    """Keys and values, so many at once, without end."""
    body, number, sizes = b"v" * MOST_BYTES, 0, value_sizes(values)
    while True:
        yield [(b"%0*d" % (KEY_BYTES, number + i), body[:next(sizes)]) for i in range(count)]
        number += count


def peers():
    made = {}
    for name, binary, make in (("memcached", "memcached", Memcached),
                               ("Redis", "redis-server", lambda mib: Redis(mib, "redis-server")),
                               ("Valkey", os.environ.get("VALKEY_SERVER", "valkey-server"),
                                lambda mib: Redis(mib, os.environ.get("VALKEY_SERVER", "valkey-server")))):
        if shutil.which(binary):
            made[name] = make
        else:
            say(f"{name} is left out: there is no {binary}")
    return made


def capacity(a):
    rows, made = [], peers()
    for values in ("fixed", "zipfian"):
        ours = bench.run_json(program("capacity"), "--values", values, "--log-mib", str(a.capacity_mib), "--json")
        # As much memory for the peers as this process has in all.
        memory_mib = ours["resident_bytes"] >> 20
        runs = {OURS: {"objects": ours["objects"], "resident_bytes": ours["resident_bytes"]}}
        for name, make in made.items():
            with make(memory_mib) as server:
                server.fill(groups_of(values), memory_mib)
                runs[name] = {"objects": server.objects(), "resident_bytes": server.resident()}
        rows.append({"values": values, "runs": runs})
        say(f"{values}: " + ", ".join(f"{name} {per_mb(run):.0f} objects per MB" for name, run in runs.items()))
    return rows


def per_mb(run):
    return run["objects"] / (run["resident_bytes"] / 1e6)


def metadata(run):
    """Bytes beside key and value, of an object of the fixed size."""
    return run["resident_bytes"] / run["objects"] - KEY_BYTES - FIXED_BYTES


def capacity_table(rows):
    names = list(rows[0]["runs"])
    lines = ["| | " + " | ".join(names) + " |", "|---" * (1 + len(names)) + "|"]
    for row in rows:
        title = f"{FIXED_BYTES}-byte values" if row["values"] == "fixed" else "values of 0 to 8 KB, zipfian"
        ours = per_mb(row["runs"][OURS])
        cells = [f"{per_mb(run):.0f}" + ("" if name == OURS else f" (ours: {ours / per_mb(run):.2f} x)")
                 for name, run in row["runs"].items()]
        lines.append(f"| objects per MB, {title} | {' | '.join(cells)} |")
    fixed = rows[0]["runs"]
    lines.append(f"| metadata bytes an object, {FIXED_BYTES}-byte values | "
                 + " | ".join(f"{metadata(run):.1f}" for run in fixed.values()) + " |")
    return "\n".join(lines)


# ---- slow disks

def backups(a):
    why = bench_backups.why_not(tempfile.gettempdir())
    if why:
        say(f"backups is left out: {why}")
        return []
    runs = []
    for _ in range(a.rounds):
        for utilisation in a.backups_utilisation:
            for cleaning in CLEANINGS:
                runs.append(bench_backups.measure(bench.BIN, cleaning, utilisation, a))
                say(str(runs[-1]))
    return runs


def two_to_one(runs, utilisation):
    one, two = ([run["writes_per_s"] for run in pick(runs, cleaning=cleaning, utilisation=utilisation)] for cleaning in CLEANINGS)
    return [b / a for a, b in zip(one, two)]


def backups_table(runs):
    lines = ["| utilisation | cleaning | writes a second | bytes copied to disk, for each written | and in memory alone |", "|---|---|---|---|---|"]
    for utilisation in dict.fromkeys(run["utilisation"] for run in runs):
        for cleaning in CLEANINGS:
            these = pick(runs, cleaning=cleaning, utilisation=utilisation)
            cells = [statistics.median(run[key] for run in these) for key in ("writes_per_s", "to_survivors", "compacted")]
            lines.append(f"| {utilisation} % | {cleaning} | {cells[0]:,.0f} | {cells[1]:.2f} | {cells[2]:.2f} |")
        middle, low, high = bench.interval(two_to_one(runs, utilisation))
        lines.append(f"| {utilisation} % | ratio | {middle:.2f} ({low:.2f} to {high:.2f}) | | |")
    return "\n".join(lines)


# ---- ten minutes

def overwrites(a):
    return bench_overwrites.measure(a)


# ---- floors

def throughput_floors(runs):
    rows = []
    for title, wanted in rows_of(pick(runs, value_bytes=SIZES[0], access=ACCESS[0])):
        if wanted["cleaner_threads"] == 0:
            first = statistics.median(rates(runs, **wanted)[30])
            rows.append((f"{title}, 30 %: M writes/s", first / 1e6, LEAST_RATE / 1e6, False))
        shares = left(runs, **wanted)
        for u, least in LEAST_LEFT.items():
            rows.append((f"{title}, {u} %: % left", statistics.median(shares[u]), least, False))
    return rows


def server_floors(runs):
    rows = []
    for cleaning in CLEANINGS:
        shares = left(runs, cleaning=cleaning)
        rows += [(f"server, {cleaning}, {u} %: % left", statistics.median(shares[u]), least, False) for u, least in LEAST_LEFT.items()]
    return rows


def allocation_floors(rows):
    return [(f"{row['workload']}: memory for each live byte", row["runs"][OURS]["factor"] if row["runs"][OURS] else math.inf,
             MOST_MEMORY, True) for row in rows]


def latency_floors(runs):
    gap = runs[0]["gap_us"]
    return [(f"a write each {gap} µs, {title} with the cleaner / without", statistics.median(latency_ratios(runs, gap, key)), most, True)
            for key, title, most in (("p50_ns", "p50", MOST_P50), ("p999_ns", "p99.9", MOST_P999))]


def capacity_floors(rows):
    return [(f"objects per MB, {row['values']} / {name}", per_mb(row["runs"][OURS]) / per_mb(run), 1, False)
            for row in rows for name, run in row["runs"].items() if name != OURS]


def backups_floors(runs):
    shares = two_to_one(runs, 90)
    return [("slow disks, 90 %: two-level / one-level", statistics.median(shares), LEAST_TWO_TO_ONE, False)] if shares else []


def floors(data):
    """Name, figure, floor, whether lower is better; of what was measured."""
    makers = {"throughput": throughput_floors, "server": server_floors, "allocation": allocation_floors, "latency": latency_floors, "capacity": capacity_floors,
              "backups": backups_floors}
    return [row for part, make in makers.items() if part in data for row in make(data[part])]


def floors_table(data):
    lines = ["| what must be reached | measured | floor | |", "|---|---|---|---|"]
    for name, figure, floor, lower in floors(data):
        met = figure <= floor if lower else figure >= floor
        lines.append(f"| {name} | {figure:.2f} | {'at most' if lower else 'at least'} {floor:.2f} | {'met' if met else '**short**'} |")
    return "\n".join(lines)


# ---- the page

def throughput_section(runs, a):
    return f"""## Writes against utilisation

A log of {a["memory_mib"]} MiB. *Utilisation* is what live objects take at rest, in percent of the memory that they may have:
the log without what is kept for deletes and for cleaning, and without two heads. Each run fills the log, overwrites until
twice its memory was written, or for {2 * a["seconds"]:g} s (then it has a star), and measures {a["seconds"]:g} s at most. *Zipfian*: 90 % of
the writes go to 15 % of the objects. *Hot-and-cold*: 90 % to 10 %.

- *One core for all*: the writer cleans in its turns (`--cleaner-threads 0`). Seconds are of its CPU time.
- *Cleaner beside it*: on a core of its own, as in a server.

*One-level*: combined cleaning alone. *Two-level*: compaction as well ([cleaning](../design/log.md#cleaning)). In brackets:
bytes of live entries that the cleaner copied, in memory, for each byte that it freed.

{throughput_table(runs)}

{left_table(runs)}

![What is left of the rate at 30 %, on one core, one-level](memory.svg)
"""


def server_section(runs, a):
    return f"""## A whole server against utilisation

A server without replicas, with a log of {a["memory_mib"]} MiB, under one client: ten multi-writes of 75 objects at a time, with
{bench_full_server.VALUE_BYTES}-byte values and {bench_full_server.KEY_BYTES}-byte keys, uniform; {a["rounds"]} rounds. Each run fills the log, overwrites for {2 * a["seconds"]:g} s, and measures
{a["seconds"]:g} s. This is what a client sees of cleaning: the network takes its part of each write, also at 30 %. Client, reactor and
cleaner are three threads; on a machine with two cores they share them.

{server_table(runs)}
"""


def allocation_section(rows, a):
    return f"""## Changing sizes of objects

The workloads W1 to W8 of [Rumble14 §2](../papers.md), with {a["live_mib"]} MiB of live objects. Each phase allocates {a["turnover"]:g} times as
much, in the place of others. Objects are as large on both sides: an entry of the log with its header has as many bytes as
`malloc` is asked for. What finds objects is not counted on either side. For allocators it is the most that was
resident. A log has all of its memory from the start: it was given {", ".join(f"{f:.2f}" for f in FACTORS)} times the live bytes
in turn, and the first one with which no write failed is shown.

{allocation_table(rows)}

The time of the log is that of its cleaner's thread, too.
"""


def latency_section(runs, a):
    return f"""## Latency of writes

100-byte values, {a["memory_mib"]} MiB, {a["writes"]:,} writes a run; both take turns. Without a cleaner the log has room for all that is
written. A client that waits for each answer begins a write each 16 µs at most.

{latency_table(runs)}

Back to back, the writer needs memory faster than the cleaner frees it at 90 %, and waits.
"""


def capacity_section(rows, a):
    return f"""## Objects in a megabyte

Objects with {KEY_BYTES}-byte keys until {a["capacity_mib"]} MiB of log are full, and the peers with as much memory as that process has
resident, hash table included. Memcached gives up old objects; it is filled {Memcached.TIMES} times.

{capacity_table(rows)}
"""


def backups_section(runs, a):
    if not runs:
        return ""
    return f"""## Slow disks

A server with a log of {a["backups_log_mib"]} MiB, and {bench_backups.REPLICAS} others with its replicas: R = {bench_backups.REPLICAS}, `--durability synced`, {bench_backups.FRAMES:g} times the memory as
disk for each replica. {bench_backups.CLIENTS} writes at a time overwrite random values of {bench_backups.VALUE_BYTES} bytes. The disks write {a["backups_mib_per_s"]} MiB/s together, at
most. So what a cleaner writes to disk is missing for clients. Utilisation is here what live objects take of the log
without {bench_backups.NOT_FOR_OBJECTS} segments.

{backups_table(runs)}
"""


def overwrites_section(runs, a):
    rounds = len(runs) // len(bench_overwrites.names(runs))
    sizes = ", ".join(f"{least} to {most}" for least, most in bench_overwrites.SIZES)
    return f"""## Ten minutes of overwrites

{a["overwrites_objects"]:,} objects with keys of {bench_overwrites.KEY_BYTES} bytes, in one server without replicas. Ten groups of 75 writes at a time overwrite random ones, for
{rounds} turns of {a["overwrites_turn"]} seconds; servers take turns. From turn to turn the bytes of values change: {sizes}, and from the beginning again.
Our log is so large that the largest objects take {a["overwrites_utilisation"]} % of it; memory is that of the whole process, beside keys and values of the
largest objects.

{bench_overwrites.table(runs, a["overwrites_objects"])}
"""


PARTS = {"throughput": (throughput, throughput_section), "server": (server, server_section), "allocation": (allocation, allocation_section),
         "latency": (latency, latency_section), "capacity": (capacity, capacity_section),
         "backups": (backups, backups_section), "overwrites": (overwrites, overwrites_section)}


def write_docs(data):
    """Each part with the arguments that it was measured with."""
    sections = "\n".join(section(data[part], data["arguments"][part]) for part, (_, section) in PARTS.items() if part in data)
    text = f"""# Memory

{bench.made_by("bench_memory.py")}.

How full the memory of a log can be, and what that costs. The log and the store as a library: no network, no replicas,
30-byte keys unless a section says more. Cleaning is one-level unless a row says more. "A whole server", "Slow disks" and
"Ten minutes of overwrites" are about whole servers.

{sections}
## Floors

{floors_table(data)}
"""
    bench.write_page("memory", text, data, plot(data.get("throughput", [])))


def earlier():
    """What the page was made of."""
    try:
        with open(os.path.join(bench.OUT, "memory.json"), encoding="utf-8") as f:
            return json.load(f)
    except FileNotFoundError:
        return {"arguments": {}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="measure these; the page keeps the others (default: all)")
    parser.add_argument("--memory-mib", type=int, default=1024, help="of the log whose utilisation varies (default 1024)")
    parser.add_argument("--seconds", type=float, default=5, help="that a rate is measured for, at most (default 5)")
    parser.add_argument("--rounds", type=int, default=3, help="of what alternates (default 3)")
    parser.add_argument("--access", nargs="+", choices=ACCESS, default=ACCESS, help="patterns of access (default all)")
    parser.add_argument("--sizes", nargs="+", type=int, choices=SIZES, default=SIZES, help="of values; 100 is always measured, uniform (default all)")
    parser.add_argument("--live-mib", type=int, default=512, help="of live objects in W1 to W8 (default 512)")
    parser.add_argument("--turnover", type=float, default=5, help="times that is allocated in a phase (default 5)")
    parser.add_argument("--writes", type=int, default=500_000, help="of a run of latencies (default 500000)")
    parser.add_argument("--capacity-mib", type=int, default=512, help="of the log that is filled (default 512)")
    parser.add_argument("--backups-utilisation", nargs="+", type=int, default=[80, 90], metavar="PERCENT", help="with slow disks (default 80 90)")
    parser.add_argument("--backups-log-mib", type=int, default=1024, help="of the log, with slow disks (default 1024)")
    parser.add_argument("--backups-mib-per-s", type=int, default=60, help="that slow disks write together (default 60)")
    parser.add_argument("--backups-settle", type=float, default=90, help="seconds of overwrites before the disks become slow, and again before the rate is measured (default 90)")
    parser.add_argument("--backups-seconds", type=float, default=60, help="that the rate with slow disks is measured for (default 60)")
    parser.add_argument("--overwrites-objects", type=int, default=500_000, help="that are overwritten for ten minutes (default 500000)")
    parser.add_argument("--overwrites-utilisation", type=int, default=90, metavar="PERCENT", help="of our log by the largest ones (default 90)")
    parser.add_argument("--overwrites-seconds", type=int, default=600, help="of overwrites of each server (default 600)")
    parser.add_argument("--overwrites-turn", type=int, default=20, help="seconds of a turn (default 20)")
    parser.add_argument("--trial", action="store_true", help="all of it, as small as it can be, and write nothing")
    parser.add_argument("--accept", action="store_true", help="print the acceptance rows, write nothing")
    a = parser.parse_args()
    if min(a.rounds, a.writes, a.seconds, a.turnover) <= 0 or min(a.memory_mib, a.live_mib, a.capacity_mib, a.backups_log_mib) < 64:
        parser.error("--rounds, --writes, --seconds and --turnover must be above 0, and memory at least 64 MiB")
    if min(a.backups_settle, a.backups_seconds) <= 0 or a.backups_mib_per_s < 1 or not all(0 < u < 99 for u in a.backups_utilisation):
        parser.error("seconds and MiB/s must be above 0, and --backups-utilisation from 1 to 98")
    if min(a.overwrites_objects, a.overwrites_seconds, a.overwrites_turn) < 1 or not 0 < a.overwrites_utilisation < 99:
        parser.error("--overwrites-objects and its seconds must be above 0, and --overwrites-utilisation from 1 to 98")
    for part in a.parts:
        if part not in PARTS:
            parser.error(f'"{part}" is not a part; parts are {", ".join(PARTS)}')
    if a.trial:
        a.memory_mib, a.live_mib, a.capacity_mib = 128, 64, 64
        a.seconds, a.rounds, a.turnover, a.writes = 0.2, 1, 1, 10_000
        a.backups_utilisation, a.backups_log_mib, a.backups_settle, a.backups_seconds = [90], 64, 2, 2
        a.overwrites_objects, a.overwrites_seconds, a.overwrites_turn = 20_000, 6, 1
    data = earlier() if a.parts else {"arguments": {}}
    if a.accept or a.trial:
        data = {"arguments": {}}
    for part in a.parts or PARTS:
        data[part] = PARTS[part][0](a)
        data["arguments"][part] = {k: v for k, v in vars(a).items() if k not in ("parts", "trial", "accept")}
        if not (a.accept or a.trial):
            write_docs(data)  # now: the next part may take long
    if a.accept or a.trial:
        for name, figure, floor, lower in floors(data):
            bench.print_row(name, figure, floor, floor, lower)


if __name__ == "__main__":
    main()
