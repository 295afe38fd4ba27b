#!/usr/bin/env python3
"""Latency beside a bare ping-pong and a bare relay, idle CPU; see bench.sh and accept.sh.

Every figure is a median over alternating pairs: one run of the bare program (the same reactor and TCP transport,
as many processes as the operation needs, no store), one of the cluster (`ramcloudd dev --processes`, every role a
process), so that what else the machine does meets both. Ratios are per pair.

Both sides of a pair are placed alike: the client on one core, everything else on another. Left to the scheduler, two
processes sometimes share a core for a whole run and sometimes do not, and their latency is another by a factor of two:
a relay that was placed badly is slower than the cluster, which contains its messages. One row is left to the scheduler
on purpose, for information: it is what a user of such a machine sees.
"""
import argparse
import atexit
import datetime
import json
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BIN = os.path.join(TOP, "build", "bin")
PINGPONG = os.path.join(TOP, "build", "release", "bench", "pingpong")
OUT = os.path.join(TOP, "docs", "benchmarks")
KEY_BYTES, VALUE_BYTES = 30, 100
CPUS = sorted(os.sched_getaffinity(0))
SERVER_CPU, CLIENT_CPU = CPUS[0], CPUS[-1]
STALLED = 0.005  # of operations: half of those that p99 leaves out
FREE = "write, R = 3, unpinned"


def pinned(cpu):
    return ["taskset", "-c", str(cpu)]


def run_json(*command, env=None):
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def run_json_lines(*command):
    """What a program prints, line by line while it runs."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            yield json.loads(line)
    if process.returncode != 0:
        sys.exit(f"error: {' '.join(command)}: exit code {process.returncode}")


def free_port(room=60):
    """A port with room for the others of a dev cluster behind it."""
    for base in range(24100, 60000, 100):
        try:
            for port in range(base, base + room):
                with socket.socket() as s:
                    s.bind(("127.0.0.1", port))
            return base
        except OSError:
            continue
    sys.exit(f"error: no {room} free ports in a row on 127.0.0.1")


def cpu_seconds(pid):
    """Of all threads, to the nanosecond."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat", encoding="utf-8") as f:
            total += int(f.read().split()[0])
    return total / 1e9


class Cluster:
    """A dev cluster of processes, stopped at the end of the `with` block."""

    def __init__(self, servers, replicas, apart=False, flags=(), programs=BIN, under=None):
        self.servers, self.replicas, self.apart, self.flags, self.programs = servers, replicas, apart, flags, programs
        self.under = under  # the parent of its own folder; None: the system's temporary folder

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="ramcloud-bench-", dir=self.under)
        self.address = f"127.0.0.1:{free_port(max(60, 10 * self.servers + 10))}"
        log = open(os.path.join(self.folder, "log"), "w", encoding="utf-8")
        self.process = subprocess.Popen(
            [*(pinned(SERVER_CPU) if self.apart else []), os.path.join(self.programs, "ramcloudd"), "dev", "--servers", str(self.servers), "--replicas", str(self.replicas),
             "--dir", os.path.join(self.folder, "data"), "--listen", self.address, "--processes", *self.flags],
            stdout=subprocess.PIPE, stderr=log, text=True)
        atexit.register(self.stop)  # whatever goes wrong until __exit__
        if not self.process.stdout.readline().startswith("ready:"):
            sys.exit(f"error: the cluster did not start; see {log.name}")
        with open(os.path.join(self.folder, "data", "processes.json"), encoding="utf-8") as f:
            self.children = json.load(f)
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.folder)

    def stop(self):
        self.process.terminate()  # does nothing to one that has ended
        self.process.wait()

    def bench(self, what, operations, table=None):
        extra = ["--table", table] if table else []
        place = pinned(CLIENT_CPU) if self.apart else []
        return run_json(*place, os.path.join(self.programs, "ramcloud"), "--cluster", self.address, "bench", what, "--clients", "1",
                        "--key-size", str(KEY_BYTES), "--size", str(VALUE_BYTES), "--keys", "10000", "--warm-up",
                        "200ms", "--ops", str(operations), "--json", *extra)

    def cpu_seconds(self):
        return {child["name"]: cpu_seconds(child["pid"]) for child in self.children}

    def settle(self):
        """Waits until the daemons rest: what a program does after its last request would be counted against the next one
        on the same core."""
        for _ in range(40):
            before = sum(self.cpu_seconds().values())
            time.sleep(0.25)
            if sum(self.cpu_seconds().values()) - before < 0.05:
                return
        sys.exit("error: the cluster does not come to rest: its daemons use the processor without requests")

    def idle_share(self, seconds):
        time.sleep(1)  # until the last benchmark's remaining work is done
        before = self.cpu_seconds()
        time.sleep(seconds)
        after = self.cpu_seconds()
        return {name: (after[name] - before[name]) / seconds for name in before}


def latency_us(result):
    """p50 and p99 of `ramcloud bench --json`."""
    latency = result["latency_ns"]
    return latency["p50"] / 1000, latency["p99"] / 1000


def interval(values):
    """Median, and a 95 % interval of it (order statistics, by the binomial's normal approximation). Of fewer than six
    values no two of them are that: then the lowest and the highest."""
    ordered, n = sorted(values), len(values)
    half = 0.98 * n ** 0.5
    low, high = ordered[max(0, int(n / 2 - half))], ordered[min(n - 1, int(n / 2 + half))]
    return statistics.median(ordered), low, high


def span(rounds):
    """What interval() gives for so many values, for the head of a column."""
    return "95 %" if rounds >= 6 else "lowest to highest"


def stalls(seconds=1.0, longer_than_us=20):
    """How often a second a loop that only reads the clock loses its core for longer than that, on each of the two
    cores: interrupts, other processes, and on a virtual machine the host's other guests."""
    counts, home = [], os.sched_getaffinity(0)
    for cpu in sorted({SERVER_CPU, CLIENT_CPU}):
        os.sched_setaffinity(0, {cpu})
        found, now = 0, time.perf_counter_ns()
        end = now + int(seconds * 1e9)
        while now < end:
            before, now = now, time.perf_counter_ns()
            found += now - before > longer_than_us * 1000
        counts.append(found / seconds)
    os.sched_setaffinity(0, home)
    return counts


def undisturbed(values):
    """The lower quartile: what disturbs a run only adds to its p99, so the least disturbed runs say most of it."""
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 4]


def p99_ratio(row):
    """Each side's p99 in its least disturbed runs: pair by pair it would be noise divided by noise."""
    return undisturbed(x["p99"] for x in row["pairs"]) / undisturbed(x["bare_p99"] for x in row["pairs"])


def impossible(row):
    """No operation is faster than the messages it is made of. A ratio whose whole interval is below 1 says that the two
    did not run alike; one that only comes out a little below is as good as 1."""
    return interval([x["p50"] / x["bare_p50"] for x in row["pairs"]])[2] < 1


def verdict(figure, floor, goal, lower_is_better):
    """"pass" or "short" of the floor, and whether the goal is met."""
    sign = 1 if lower_is_better else -1
    return "pass, goal" if sign * figure <= sign * goal else "pass" if sign * figure <= sign * floor else "short"


def print_row(name, figure, floor, goal, lower_is_better, note=""):
    """A row of the acceptance table."""
    said = verdict(figure, floor, goal, lower_is_better)
    print(f"{name:40s} {figure:8.2f} {floor:8.2f} {goal:8.2f}  {said}{note}")


def stalled_share(row, data):
    """Of operations as long as the row's median, those that meet a stall of either core."""
    return sum(data["stalls"]) * statistics.median(x["p50"] for x in row["pairs"]) / 1e6


def measure(pairs, operations):
    rows, before = [], stalls()
    setups = [("read", "read", 4, 0), ("write, R = 0", "write", 4, 0), ("write, R = 1", "write", 4, 1),
              ("write, R = 3", "write", 4, 3), (FREE, "write", 4, 3)]
    idle = {}
    for name, what, servers, replicas in setups:
        pair_rows = []
        # The floor: a ping-pong, or a relay over as many backups.
        place = ["--client-cpu", str(CLIENT_CPU), "--server-cpu", str(SERVER_CPU)] if name != FREE else []
        floor = [PINGPONG, "--count", str(operations), "--replicas", str(replicas), *place, "--json"]
        with Cluster(servers, replicas, apart=name != FREE) as cluster:
            for _ in range(pairs):
                bare = run_json(*floor)
                ours = latency_us(cluster.bench(what, operations))
                pair_rows.append({"bare_p50": bare["p50_us"], "bare_p99": bare["p99_us"],
                                  "p50": ours[0], "p99": ours[1]})
            if name == FREE:
                idle = cluster.idle_share(10)
        rows.append({"name": name, "servers": servers, "replicas": replicas, "pairs": pair_rows})
        ratio = interval([p["p50"] / p["bare_p50"] for p in pair_rows])
        print(f"{name:14s} p50 {statistics.median(p['p50'] for p in pair_rows):7.1f} us   "
              f"{ratio[0]:.2f} ({ratio[1]:.2f} to {ratio[2]:.2f}) x the bare {'relay' if replicas else 'ping-pong'}", file=sys.stderr)
    # Stalls come and go: the mean of before and after.
    return {"rows": rows, "idle": idle, "stalls": [(a + b) / 2 for a, b in zip(before, stalls())]}


def machine():
    model = "unknown CPU"
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return f"{os.cpu_count()} cores of {model}, Linux {platform.release()}"


def made_by(script):
    """Where the figures of a page come from: its first words."""
    version = subprocess.run([os.path.join(TOP, "hack", "version.sh")], stdout=subprocess.PIPE, text=True, check=True)
    return (f"Made by `make bench` (`hack/{script}`) on {datetime.date.today().isoformat()}, "
            f"version {version.stdout.strip()},\n{machine()}")


def write_page(name, text, data, svg=None):
    """A page of docs/benchmarks, the figures that it was made from, and perhaps its plot."""
    os.makedirs(OUT, exist_ok=True)
    contents = {"md": text, "json": json.dumps(data, indent=1) + "\n"}
    if svg is not None:
        contents["svg"] = svg
    for ending, content in contents.items():
        with open(os.path.join(OUT, f"{name}.{ending}"), "w", encoding="utf-8") as f:
            f.write(content)
    print(f"wrote docs/benchmarks/{name}.{{{','.join(contents)}}}")


def table(data):
    lines = ["| | p50 µs | p99 µs | bare program p50 / p99 µs | ratio of p50 (" + span(len(data["rows"][0]["pairs"])) + ") | ratio of p99 |",
             "|---|---|---|---|---|---|"]
    for row in data["rows"]:
        p = row["pairs"]
        med = {k: statistics.median(x[k] for x in p) for k in ("p50", "bare_p50")}
        med |= {k: undisturbed(x[k] for x in p) for k in ("p99", "bare_p99")}
        r50, low, high = interval([x["p50"] / x["bare_p50"] for x in p])
        lines.append(f"| {row['name']} | {med['p50']:.1f} | {med['p99']:.1f} | {med['bare_p50']:.1f} / "
                     f"{med['bare_p99']:.1f} | {r50:.2f} ({low:.2f} to {high:.2f}) | {p99_ratio(row):.2f} |")
    return "\n".join(lines)


def validity(data):
    """What must be said of the ratios before anybody quotes one."""
    spans = []
    for row in data["rows"]:
        bare = sorted(x["bare_p50"] for x in row["pairs"])
        spans.append(f"{row['name']}: {bare[0]:.1f} to {bare[-1]:.1f}")
    text = f"The bare program's own median varied in this run: {'; '.join(spans)} µs.\n"
    low = [row["name"] for row in data["rows"] if impossible(row)]
    if low:
        text += ("**Not valid as ratios: p50 of " + "; ".join(low) + ".** A ratio below 1 is impossible for an operation\n"
                 "that contains the bare program's messages: the floor was measured badly, run it again.\n")
    share = {row["name"]: stalled_share(row, data) for row in data["rows"]}
    text += (f"A loop that only reads the clock lost its core for more than 20 µs {' and '.join(f'{s:.0f}' for s in data['stalls'])}\n"
             "times a second (the two cores): operations of these lengths meet that in "
             + ", ".join(f"{s * 100:.1f}" for s in share.values()) + " %\nof cases.")
    met = [name for name, s in share.items() if s > STALLED]
    text += (f" Where it is more than {STALLED * 100:g} %, **p99 is this machine's and says nothing of the program**: "
             + "; ".join(met) + ".\n" if met else " That leaves p99 to the programs.\n")
    return text


def plot(data):
    """Bars of the medians, ours beside the bare ping-pong of the same pairs."""
    rows, width, bar, top = data["rows"], 640, 18, 54
    height = top + len(rows) * (2 * bar + 22) + 30
    longest = max(undisturbed(x[k] for x in r["pairs"]) for r in rows for k in ("p99", "bare_p99")) * 1.08
    scale = (width - 230) / longest
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="Helvetica, Arial, sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="#fff"/>',
           '<text x="16" y="22" font-size="14">Latency, one client, 100-byte values: median, and 99th percentile as a line</text>',
           '<rect x="16" y="32" width="10" height="10" fill="#3b6fb6"/><text x="30" y="41">cluster</text>',
           '<rect x="90" y="32" width="10" height="10" fill="#b9c3d0"/><text x="104" y="41">bare ping-pong or relay</text>']
    y = top
    for row in rows:
        p = row["pairs"]
        out.append(f'<text x="16" y="{y + bar + 4}">{row["name"]}</text>')
        for key, colour in (("", "#3b6fb6"), ("bare_", "#b9c3d0")):
            p50 = statistics.median(x[key + "p50"] for x in p)
            p99 = undisturbed(x[key + "p99"] for x in p)
            out.append(f'<rect x="120" y="{y}" width="{p50 * scale:.1f}" height="{bar - 3}" fill="{colour}"/>')
            out.append(f'<line x1="{120 + p50 * scale:.1f}" x2="{120 + p99 * scale:.1f}" y1="{y + bar / 2 - 1.5}" y2="{y + bar / 2 - 1.5}" stroke="{colour}" stroke-width="2"/>')
            out.append(f'<text x="{126 + p99 * scale:.1f}" y="{y + bar - 6}" font-size="11">{p50:.1f} / {p99:.1f} µs</text>')
            y += bar
        y += 22
    out.append("</svg>\n")
    return "\n".join(out)


def write_docs(data, pairs, operations):
    idle = "\n".join(f"| {name} | {share * 100:.2f} % |" for name, share in data["idle"].items())
    text = f"""# Latency

{made_by("bench.py")}.
One client, {KEY_BYTES}-byte keys, {VALUE_BYTES}-byte values, loopback TCP, 4 servers and a coordinator, every role a
process of its own, the same wait policy everywhere (`--poll-us 50`); {pairs} alternating pairs of {operations} operations.
The bare program has the same reactor and transport and messages of 130 bytes, and no store: for reads and for R = 0
a ping-pong of two processes, for R > 0 a relay that answers when R others have. The client runs on one core and
everything else on another, on both sides; the last row is placed by the scheduler, on both sides, too.

{table(data)}

p50 is the median of all runs; p99 the lower quartile: what disturbs a run only adds to its p99.

![Latency](latency.svg)

{validity(data)}
A write with R = 3 waits for three other processes that share a core with the master: most of its time is the scheduler's.
What an operation costs is in [profile.md](profile.md).

## Idle

Share of a core that each daemon of an idle cluster uses, over 10 s:

| daemon | share of a core |
|---|---|
{idle}
"""
    write_page("latency", text, data, plot(data))


def accept(data):
    """Figure, floor, goal; the exit code stays 0: a short row is a fact, not a failed test."""
    by_name = {r["name"]: r for r in data["rows"]}

    def ratio(name, key):
        row = by_name[name]
        return p99_ratio(row) if key == "p99" else statistics.median(x[key] / x["bare_" + key] for x in row["pairs"])

    print(f"{'':40s} {'figure':>8s} {'floor':>8s} {'goal':>8s}")
    for name, bare, floor, goal in (("read", "ping-pong", 1.5, 1.2), ("write, R = 3", "relay", 2.0, 1.4)):
        for key in ("p50", "p99"):
            note = ""
            if key == "p99" and stalled_share(by_name[name], data) > STALLED:
                note = f"   (both sides meet {sum(data['stalls']):.0f} stalls of the machine a second)"
            elif key == "p50" and impossible(by_name[name]):
                note = "   (below the messages it is made of: the two did not run alike, run it again)"
            print_row(f"{name} {key} / bare {bare} {key}", ratio(name, key), floor, goal, True, note)
    print_row("idle CPU, worst daemon, % of a core", max(data["idle"].values()) * 100, 2.0, 2.0, True)
    for name, bare in (("write, R = 0", "ping-pong"), ("write, R = 1", "relay"), (FREE, "relay")):
        print(f"{name + ' p50 / bare ' + bare + ' p50':40s} {ratio(name, 'p50'):8.2f} {'-':>8s} {'-':>8s}  (for information)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20, help="alternating pairs a row (default 20)")
    parser.add_argument("--operations", type=int, default=5000, help="operations a run (default 5000)")
    parser.add_argument("--accept", action="store_true", help="print the acceptance table, write nothing")
    arguments = parser.parse_args()
    if arguments.pairs < 1 or arguments.operations < 100:
        parser.error("--pairs must be at least 1 and --operations at least 100")
    data = measure(arguments.pairs, arguments.operations)
    if arguments.accept:
        accept(data)
    else:
        write_docs(data, arguments.pairs, arguments.operations)


if __name__ == "__main__":
    main()
