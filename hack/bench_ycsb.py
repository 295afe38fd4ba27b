#!/usr/bin/env python3
"""YCSB's workloads A, B, C, D and F with zipfian keys (theta 0.99) against a cluster of processes, with the share and
the delay of replies that waited for the log to be durable; see bench.sh.
"""
import argparse
import os
import statistics
import sys
import urllib.request

import bench

WORKLOADS = [("A", "half reads, half updates"), ("B", "95 % reads, 5 % updates"), ("C", "reads only"),
             ("D", "95 % reads of the newest, 5 % inserts"), ("F", "half reads, half read-modify-writes")]
SERVERS, KEYS = 4, 100_000


def held(cluster):
    """Replies sent at once, replies held, and the seconds that those waited, of all servers together."""
    at_once = waited = seconds = 0.0
    for child in cluster.children:
        if child["role"] != "server":
            continue
        with urllib.request.urlopen(f"http://127.0.0.1:{child['ports']['http']}/metrics", timeout=10) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith('ramcloud_replies_total{held="false"}'):
                    at_once += float(line.split()[-1])
                elif line.startswith('ramcloud_replies_total{held="true"}'):
                    waited += float(line.split()[-1])
                elif line.startswith("ramcloud_held_reply_seconds_sum"):
                    seconds += float(line.split()[-1])
    return at_once, waited, seconds


def ycsb(cluster, letter, clients, *length):
    """One run, and what it added to held()'s counts."""
    before = held(cluster)
    result = bench.run_json(os.path.join(bench.BIN, "ramcloud"), "--cluster", cluster.address, "bench", f"ycsb-{letter.lower()}",
                            "--clients", str(clients), "--keys", str(KEYS), "--key-size", str(bench.KEY_BYTES), "--size",
                            str(bench.VALUE_BYTES), "--span", str(SERVERS), "--json", *length)
    return result, [b - a for a, b in zip(before, held(cluster))]


def run(cluster, letter, clients, duration, loading):
    """`loading` is what writing the keys adds to held()'s counts, which every run does first."""
    result, counts = ycsb(cluster, letter, clients, "--duration", f"{duration}s")
    at_once, waited, seconds = (max(a - b, 0) for a, b in zip(counts, loading))
    p50, p99 = bench.latency_us(result)
    return {"rate": result["operations_per_second"], "p50": p50, "p99": p99, "held": waited / (at_once + waited),
            "held_us": seconds / waited * 1e6 if waited else 0.0}


def measure(clients, rounds, duration):
    data = {}
    for replicas in (0, 3):
        with bench.Cluster(SERVERS, replicas, flags=["--log-memory", "1GiB"]) as cluster:
            _, loading = ycsb(cluster, "C", clients, "--ops", "1", "--warm-up", "0s")
            for number in range(rounds):
                for letter, _ in WORKLOADS[number % len(WORKLOADS):] + WORKLOADS[:number % len(WORKLOADS)]:
                    got = run(cluster, letter, clients, duration, loading)
                    data.setdefault(f"{letter}{replicas}", []).append(got)
                    print(f"{letter}, R = {replicas}: {got['rate'] / 1e3:.0f} k/s, p50 {got['p50']:.0f} us, p99 {got['p99']:.0f} us, "
                          f"held {got['held'] * 100:.0f} %", file=sys.stderr)
    return data


def plot(data):
    """Bars of the rate, a group a workload."""
    width, height, left, bottom = 640, 280, 60, 40
    most = max(statistics.median(r["rate"] for r in runs) for runs in data.values()) * 1.1
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="Helvetica, Arial, sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="#fff"/>',
           '<text x="16" y="20" font-size="14">YCSB: thousand operations a second (median)</text>',
           '<rect x="400" y="10" width="10" height="10" fill="#3b6fb6"/><text x="414" y="19">R = 0</text>',
           '<rect x="470" y="10" width="10" height="10" fill="#b9c3d0"/><text x="484" y="19">R = 3</text>']
    step = (width - left) / len(WORKLOADS)
    for i, (letter, _) in enumerate(WORKLOADS):
        for j, (replicas, colour) in enumerate(((0, "#3b6fb6"), (3, "#b9c3d0"))):
            rate = statistics.median(r["rate"] for r in data[f"{letter}{replicas}"])
            tall = rate / most * (height - bottom - 50)
            x = left + i * step + j * 40
            out.append(f'<rect x="{x:.0f}" y="{height - bottom - tall:.1f}" width="34" height="{tall:.1f}" fill="{colour}"/>')
            out.append(f'<text x="{x + 17:.0f}" y="{height - bottom - tall - 4:.1f}" text-anchor="middle" font-size="11">{rate / 1e3:.0f}</text>')
        out.append(f'<text x="{left + i * step + 37:.0f}" y="{height - bottom + 18}" text-anchor="middle">{letter}</text>')
    out.append("</svg>\n")
    return "\n".join(out)


def write_docs(data, clients, rounds, duration):
    lines = ["| workload | R | operations/s | p50 / p99 µs | replies held | of those, mean delay µs |", "|---|---|---|---|---|---|"]
    for letter, what in WORKLOADS:
        for replicas in (0, 3):
            median = {k: statistics.median(r[k] for r in data[f"{letter}{replicas}"]) for k in ("rate", "p50", "p99", "held", "held_us")}
            delay = f"{median['held_us']:.0f}" if median["held"] >= 0.001 else "–"
            lines.append(f"| {letter}: {what} | {replicas} | {median['rate'] / 1e3:.0f} k | {median['p50']:.0f} / {median['p99']:.0f} "
                         f"| {median['held'] * 100:.1f} % | {delay} |")
    text = f"""# YCSB

{bench.made_by("bench_ycsb.py")}.

{SERVERS} servers and a coordinator, every role a process of its own, on the cores that the load generator also uses; {clients} operations
in flight at a time, {KEYS:,} keys of {bench.KEY_BYTES} bytes with {bench.VALUE_BYTES}-byte values in {SERVERS} tablets, zipfian θ = 0.99 (D: the newest);
medians of {rounds} rounds of {duration} s.

{chr(10).join(lines)}

![YCSB](ycsb.svg)

A reply is *held* until the log is durable up to what it depends on: all writes are, and reads of objects that were
written a moment ago, which with θ = 0.99 are the popular ones. Other reads pass them. Where nobody writes (C) none is held.
"""
    bench.write_page("ycsb", text, data, plot(data))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=16, help="operations in flight at a time (default 16)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (default 3)")
    parser.add_argument("--duration", type=int, default=3, help="seconds a run (default 3)")
    arguments = parser.parse_args()
    if min(arguments.clients, arguments.rounds, arguments.duration) < 1:
        parser.error("--clients, --rounds and --duration must be at least 1")
    write_docs(measure(arguments.clients, arguments.rounds, arguments.duration), arguments.clients, arguments.rounds, arguments.duration)


if __name__ == "__main__":
    main()
