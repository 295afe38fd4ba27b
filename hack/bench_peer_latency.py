#!/usr/bin/env python3
"""Latency of one client, beside Redis (GET, and SET with WAIT for three replicas) and memcached (get); see bench.sh.

Ours and the peers' take turns in one run. Clients of all wait in the same way (look for 50 us, giving the core away,
then sleep); servers wait as they do by themselves: ours with `--poll-us 50`, the peers' asleep. The row "ours asleep"
is ours with `--poll-us 0`, which is how the peers wait.
"""
import argparse
import os
import statistics
import sys
import tempfile

import bench
import bench_peers

EXCHANGE = os.path.join(bench.TOP, "build", "release", "bench", "exchange")
REPLICAS = bench_peers.REPLICAS


def peer_latency(peer, what, operations, cpu):
    request, reply_bytes = (peer.read if what == "read" else peer.multiwrite)([bench_peers.key(1)])
    with tempfile.NamedTemporaryFile() as file:
        file.write(request)
        file.flush()
        pin = ["--cpu", str(cpu)] if cpu is not None else []
        got = bench.run_json(EXCHANGE, "--port", str(peer.port), "--request", file.name, "--reply-bytes", str(reply_bytes),
                             "--count", str(operations), *pin)
    return got["p50_us"], got["p99_us"]


def row(title, what, replicas, pairs, operations):
    """One line: reads with servers on one core and clients on the other, writes placed by the scheduler."""
    apart = what == "read"
    place = bench.pinned(bench.SERVER_CPU) if apart else []
    cpu = bench.CLIENT_CPU if apart else None
    base = bench.free_port()
    peers = [bench_peers.Redis(base + 50, replicas, place)]
    if what == "read":
        peers.append(bench_peers.Memcached(base + 55, place))
    runs = []
    try:
        with bench.Cluster(4, replicas, apart=apart) as ours, \
                bench.Cluster(4, replicas, apart=apart, flags=["--poll-us", "0"]) as asleep:
            sides = [("RAMCloud", lambda: bench.latency_us(ours.bench(what, operations))),
                     ("ours asleep", lambda: bench.latency_us(asleep.bench(what, operations)))]
            sides += [(peer.name, lambda p=peer: peer_latency(p, what, operations, cpu)) for peer in peers]
            for number in range(pairs):
                turn = number % len(sides)
                runs.append({name: run() for name, run in sides[turn:] + sides[:turn]})
    finally:
        for peer in peers:
            peer.stop()
    medians = {name: statistics.median(r[name][0] for r in runs) for name in runs[0]}
    print(f"{title:16s} " + ", ".join(f"{name} {us:.1f} us" for name, us in medians.items()), file=sys.stderr)
    return {"title": title, "runs": runs}


def write_docs(rows, pairs, operations):
    names = ["RAMCloud", "ours asleep", "Redis", "memcached"]
    lines = ["| p50 / p99 µs | RAMCloud | RAMCloud, `--poll-us 0` | Redis | memcached | Redis to RAMCloud (" + bench.span(pairs) + ") | Redis to RAMCloud asleep |",
             "|---|---|---|---|---|---|---|"]
    for one in rows:
        cells = []
        for name in names:
            if name not in one["runs"][0]:
                cells.append("—")
                continue
            p50, p99 = (statistics.median(r[name][i] for r in one["runs"]) for i in (0, 1))
            cells.append(f"{p50:.1f} / {p99:.1f}")
        for name in ("RAMCloud", "ours asleep"):
            cells.append("{:.2f} ({:.2f} to {:.2f})".format(*bench.interval([r["Redis"][0] / r[name][0] for r in one["runs"]])))
        lines.append(f"| {one['title']} | {' | '.join(cells)} |")
    text = f"""# Latency beside Redis and memcached

{bench.made_by("bench_peer_latency.py")}; {bench_peers.version_of("redis-server", "--version").split(" sha")[0]}, {bench_peers.version_of("memcached", "--version")}.

One client, {bench.KEY_BYTES}-byte keys, {bench.VALUE_BYTES}-byte values, loopback TCP; {pairs} rounds of {operations} operations in which all take
turns. A write is durable on three others: ours with R = 3, Redis' a `SET` and a `WAIT {REPLICAS} 0` sent together to a server
with {REPLICAS} replicas (all in memory, as ours: page cache). Every client waits in the same way (looks for 50 µs, then
sleeps). Servers wait as they do by themselves: ours look for 50 µs, the peers' sleep at once; the second column is ours
waiting like them. Reads run with servers on one core and the client on another, writes where the scheduler puts them.

{chr(10).join(lines)}
"""
    bench.write_page("peer_latency", text, rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=12, help="rounds a row (default 12)")
    parser.add_argument("--operations", type=int, default=5000, help="operations a run (default 5000)")
    arguments = parser.parse_args()
    if arguments.pairs < 1 or arguments.operations < 100:
        parser.error("--pairs must be at least 1 and --operations at least 100")
    rows = [row(title, what, replicas, arguments.pairs, arguments.operations)
            for title, what, replicas in (("read", "read", 0), (f"write, R = {REPLICAS}", "write", REPLICAS))]
    write_docs(rows, arguments.pairs, arguments.operations)


if __name__ == "__main__":
    main()
