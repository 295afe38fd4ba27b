#!/usr/bin/env python3
"""What an operation costs a server, beside Redis, Valkey (with and without I/O threads) and memcached: operations per
CPU-second.

Ours and the peers' alternate in one run, every server is one process on the same cores, and everybody sleeps when
there is nothing to do (`--poll-us 0`), as the peers do. What is counted is the time that all threads of the server
process used, user and system (with replicas: the one that has the data), so it does not matter how fast a load
generator is; all of them send the same number of requests at a time over as many connections. See bench.sh.

A peer that is not installed is left out, with a message. VALKEY_SERVER=PATH names another binary than the valkey-server
of Debian's bookworm-backports.
"""
import argparse
import atexit
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import bench

TOP = bench.TOP
# More than the caches of a core hold; --keys changes it.
KEYS = 100_000
KEY_BYTES, VALUE_BYTES, BATCH = 30, 100, 80
VALUE = b"v" * VALUE_BYTES


def key(i):
    return b"%0*d" % (KEY_BYTES, i)


def keys_of(n, round_number):
    """n keys, others in each round, the same ones in each run."""
    return [key((i * 7919 + round_number * 104_729) % KEYS) for i in range(n)]


class Connection:
    """A blocking socket that is read by count of bytes."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def exchange(self, request, reply_bytes):
        self.socket.sendall(request)
        got = 0
        while got < reply_bytes:
            part = self.socket.recv(1 << 20)
            if not part:
                sys.exit("error: a peer closed the connection")
            got += len(part)
        if got != reply_bytes:
            sys.exit(f"error: a peer answered {got} bytes, expected are {reply_bytes}")


class Peer:
    """A server process of somebody else, and how to speak with it."""

    def __init__(self, name, command, port, place=()):
        self.name, self.port = name, port
        self.others = []  # connections behind the first
        self.process = subprocess.Popen([*place, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        atexit.register(self.stop)  # whatever goes wrong until somebody does
        deadline = time.time() + 30
        while True:
            try:
                self.connection = Connection(port)
                break
            except OSError:
                if time.time() > deadline or self.process.poll() is not None:
                    sys.exit(f"error: {name} does not answer on port {port}")
                time.sleep(0.05)
        for i in range(0, KEYS, BATCH):
            self.connection.exchange(*self.write([key(k) for k in range(i, min(i + BATCH, KEYS))]))

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def cpu(self):
        return bench.cpu_seconds(self.process.pid)

    def run_on_connections(self, what, connections, operations):
        """One request on each connection, then all their answers."""
        make = getattr(self, what)
        while len(self.others) < connections - 1:
            self.others.append(Connection(self.port))
        used = [self.connection, *self.others[:connections - 1]]
        before = self.cpu()
        for done in range(0, operations, connections):
            made = [make([key]) for key in keys_of(connections, done)]
            for connection, (request, _) in zip(used, made):
                connection.socket.sendall(request)
            for connection, (_, size) in zip(used, made):
                connection.exchange(b"", size)
        return (done + connections) / (self.cpu() - before)

    def run(self, what, at_once, depth, operations, connections=1):
        """Operations per CPU-second; at_once requests, or `depth` ones with so many keys, leave together."""
        if connections > 1:
            return self.run_on_connections(what, connections, operations)
        make = getattr(self, what)
        before = self.cpu()
        done = 0
        while done < operations:
            made = [make(keys_of(at_once, done + i * at_once)) for i in range(depth)]
            self.connection.exchange(b"".join(request for request, _ in made), sum(size for _, size in made))
            done += at_once * depth
        return done / (self.cpu() - before)


class Redis(Peer):
    """A Redis server, or one that speaks its protocol, with its replicas on the ports behind its own."""

    def __init__(self, port, replicas=0, place=(), name="Redis", program="redis-server", more=()):
        self.program, self.more = program, more
        # Folders of their own: a replica that joins gets a file.
        self.folders = [tempfile.mkdtemp(prefix="ramcloud-bench-") for _ in range(replicas + 1)]
        self.replicas = []
        super().__init__(name, self.server(0, port), port, place)
        for i in range(1, replicas + 1):
            self.replicas.append(subprocess.Popen([*place, *self.server(i, port + i), "--replicaof", "127.0.0.1", str(port)],
                                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        deadline = time.time() + 60
        while self.online() < replicas:
            if time.time() > deadline:
                sys.exit("error: Redis' replicas do not come online within 60 s")
            time.sleep(0.2)

    def server(self, i, port):
        return [self.program, "--port", str(port), "--dir", self.folders[i], "--save", "", "--appendonly", "no", *self.more]

    def online(self):
        asking = Connection(self.port).socket
        asking.sendall(self.command(b"INFO", b"replication"))
        return asking.recv(1 << 16).count(b"state=online")

    def stop(self):
        for process in self.replicas:
            process.terminate()
            process.wait()
        super().stop()
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)

    @staticmethod
    def command(*words):
        return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)

    def read(self, keys):
        answer = len(b"$%d\r\n" % VALUE_BYTES) + VALUE_BYTES + 2
        return b"".join(self.command(b"GET", k) for k in keys), answer * len(keys)

    def write(self, keys):
        return b"".join(self.command(b"SET", k, VALUE) for k in keys), len(b"+OK\r\n") * len(keys)

    def multiread(self, keys):
        answer = len(b"$%d\r\n" % VALUE_BYTES) + VALUE_BYTES + 2
        return self.command(b"MGET", *keys), len(b"*%d\r\n" % len(keys)) + answer * len(keys)

    def multiwrite(self, keys):
        """Written on all replicas when the last answer is there."""
        request, size = self.write(keys)
        if not self.replicas:
            return request, size
        return (request + self.command(b"WAIT", b"%d" % len(self.replicas), b"0"), size + len(b":%d\r\n" % len(self.replicas)))


class Memcached(Peer):
    def __init__(self, port, place=()):
        command = ["memcached", "-l", "127.0.0.1", "-p", str(port), "-U", "0", "-t", "1", "-m", "256"]
        super().__init__("memcached", command + (["-u", "nobody"] if os.getuid() == 0 else []), port, place)

    @staticmethod
    def value_reply():
        return len(b"VALUE ") + KEY_BYTES + len(b" 0 %d\r\n" % VALUE_BYTES) + VALUE_BYTES + 2

    def read(self, keys):
        return b"".join(b"get %s\r\n" % k for k in keys), (self.value_reply() + len(b"END\r\n")) * len(keys)

    def write(self, keys):
        line = b"set %s 0 0 %d\r\n%s\r\n"
        return b"".join(line % (k, VALUE_BYTES, VALUE) for k in keys), len(b"STORED\r\n") * len(keys)

    def multiread(self, keys):
        # A key that is asked for twice is answered twice.
        return b"get %s\r\n" % b" ".join(keys), self.value_reply() * len(keys) + len(b"END\r\n")

    multiwrite = write


class Ours:
    """The server of a dev cluster of processes that has the one table; others hold its replicas."""

    name = "RAMCloud"

    def __init__(self, replicas=0, programs=bench.BIN, log_memory=None, flags=()):
        self.cluster = bench.Cluster(replicas + 1, replicas, programs=programs, flags=["--poll-us", "0", "--log-memory",
                                                                                         log_memory or ("3GiB" if replicas else "8GiB"), *flags])
        self.cluster.__enter__()
        self.ramcloud("table", "create", "bench")
        locator = json.loads(self.ramcloud("tablets", "bench", "-o", "json"))[0]["locator"]
        self.pid = next(c["pid"] for c in self.cluster.children if locator.endswith(f"port={c['ports']['rpc']}"))

    def ramcloud(self, *arguments):
        return subprocess.run([os.path.join(self.cluster.programs, "ramcloud"), "--cluster", self.cluster.address, *arguments],
                              check=True, stdout=subprocess.PIPE, text=True).stdout

    def run(self, what, at_once, depth, operations, connections=1):
        multi = what.startswith("multi")
        calls = operations // at_once if multi else operations
        common = ["bench", what, "--table", "bench", "--keys", str(KEYS), "--key-size", str(KEY_BYTES), "--size",
                  str(VALUE_BYTES), "--warm-up", "0s", "--json",
                  *(["--batch", str(at_once), "--clients", str(depth)] if multi else ["--clients", str(at_once)]),
                  *(["--connections", str(connections)] if connections > 1 else [])]
        # Every run loads the keys first. The cost of that is measured by a run that does almost
        # nothing else.
        start = bench.cpu_seconds(self.pid)
        self.ramcloud(*common, "--ops", "1")
        loading = bench.cpu_seconds(self.pid) - start
        start = bench.cpu_seconds(self.pid)
        self.ramcloud(*common, "--ops", str(calls))
        used = bench.cpu_seconds(self.pid) - start - loading
        return calls * (at_once if multi else 1) / used

    def stop(self):
        self.cluster.__exit__()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


# So many requests at a time in the table of throughput.
AT_A_TIME = (1, 2, 4, 8, 16, 32, 64)
MESSAGES = 16
# Title, operation, requests at a time or objects in one, such requests at a time, operations in all, connections (1).
ROWS = [("read, 1 at a time", "read", 1, 1, 20_000), ("read, 50 at a time", "read", 50, 1, 200_000),
        ("write, 1 at a time", "write", 1, 1, 20_000), ("write, 50 at a time", "write", 50, 1, 200_000),
        ("read, 50 connections", "read", 50, 1, 100_000, 50), ("write, 50 connections", "write", 50, 1, 100_000, 50),
        (f"multi-read of {BATCH}", "multiread", BATCH, 1, 400_000),
        (f"multi-read of {BATCH}, {MESSAGES} at a time", "multiread", BATCH, MESSAGES, 800_000),
        (f"multi-write of {BATCH}", "multiwrite", BATCH, 1, 400_000),
        (f"multi-write of {BATCH}, {MESSAGES} at a time", "multiwrite", BATCH, MESSAGES, 800_000)]
# The same with replicas on other servers; the peer's requests end with a WAIT for them.
REPLICAS = 3
DURABLE_ROWS = [(f"multi-write of {BATCH}, R = {REPLICAS}", "multiwrite", BATCH, 1, 200_000),
                (f"multi-write of {BATCH}, R = {REPLICAS}, {MESSAGES} at a time", "multiwrite", BATCH, MESSAGES, 400_000)]
# Objects per CPU-second of the server, ours to theirs: the required ratio, and the target.
VALKEY, VALKEY_THREADS = "Valkey", "Valkey, io-threads"


def speaking_redis(floor, goal):
    return {name: (floor, goal) for name in ("Redis", VALKEY, VALKEY_THREADS)}


FIGURES = {**{f"read, {more}": {**speaking_redis(1.2, 2.0), "memcached": (1.0, 1.2)}
              for more in ("1 at a time", "50 at a time", "50 connections")},
           **{f"{what} of {BATCH}{more}": speaking_redis(2.0, 3.0) for what in ("multi-read", "multi-write")
              for more in ("", f", {MESSAGES} at a time")},
           **{title: speaking_redis(2.0, 3.0) for title, *_ in DURABLE_ROWS}}


def sweep_rows():
    """Reads and writes with ever more requests at a time."""
    return [(f"{what}, {n} at a time", what, n, 1, 20_000 * min(n, 10)) for what in ("read", "write") for n in AT_A_TIME]


def valkey_server():
    """The binary, or None; an error if VALKEY_SERVER names none."""
    named = os.environ.get("VALKEY_SERVER")
    found = shutil.which(named or "valkey-server")
    if named and not found:
        sys.exit(f"error: VALKEY_SERVER is '{named}', which is no program; accepted is a path of valkey-server")
    return found


def redis_like(base, replicas=0):
    """Redis and Valkey, as far as they are installed, with room for their replicas' ports."""
    made = []
    if shutil.which("redis-server"):
        made.append(Redis(base + 40, replicas))
    if valkey := valkey_server():
        made.append(Redis(base + 45, replicas, name=VALKEY, program=valkey))
        threads = ("--io-threads", str(max(2, len(bench.CPUS))))
        made.append(Redis(base + 50, replicas, name=VALKEY_THREADS, program=valkey, more=threads))
    return made


def say_what_is_left_out():
    """And end when nothing is there to compare with."""
    there = {"Redis": shutil.which("redis-server"), "memcached": shutil.which("memcached"), "Valkey": valkey_server()}
    how = {"Redis": "apt-get install redis-server", "memcached": "apt-get install memcached",
           "Valkey": "apt-get install -t bookworm-backports valkey-server, or VALKEY_SERVER=PATH"}
    for name, found in there.items():
        if not found:
            print(f"beside {name}: left out, it is not installed ({how[name]})", file=sys.stderr)
    if not any(there.values()):
        sys.exit("error: none of the peers is installed")


def alone():
    base = bench.free_port()
    memcached = [Memcached(base + 55)] if shutil.which("memcached") else []
    return [Ours(), *redis_like(base), *memcached]


def replicated():
    return [Ours(REPLICAS), *redis_like(bench.free_port(), REPLICAS)]


def measure(servers, wanted, pairs):
    results = []
    try:
        for title, what, at_once, depth, operations, *connections in wanted:
            runs = []
            for number in range(pairs):
                # The order changes, so that no peer is always measured after the same one.
                order = servers[number % len(servers):] + servers[:number % len(servers)]
                runs.append({s.name: s.run(what, at_once, depth, operations, *connections) for s in order})
            results.append({"title": title, "runs": runs})
            ratios = ", ".join(f"{bench.interval([r['RAMCloud'] / r[peer] for r in runs])[0]:.2f} x {peer}"
                               for peer in (s.name for s in servers[1:]))
            print(f"{title:32s} {statistics.median(r['RAMCloud'] for r in runs) / 1e3:8.0f} k/CPU-s   {ratios}",
                  file=sys.stderr)
    finally:
        for server in servers:
            server.stop()
    return results


def relay_cpu_us(rounds):
    """CPU time of a process that takes a message, asks REPLICAS others and answers, and stores nothing; the messages
    are as large as those of a multi-write of BATCH (what it appends is larger than what was asked: tombstones)."""
    command = [bench.PINGPONG, "--replicas", str(REPLICAS), "--poll-us", "0", "--bytes", "13016", "--copy-bytes", "20512",
               "--answer-bytes", "56", "--count", "10000", "--json"]
    return [json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)["server_cpu_us"]
            for _ in range(rounds)]


def version_of(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout.split("\n")[0].strip()


def peers_in(results):
    """Names, in the order in which they were measured."""
    return [name for name in dict.fromkeys(n for row in results for n in row["runs"][0]) if name != "RAMCloud"]


def table(results):
    span = bench.span(len(results[0]["runs"]))
    peers = peers_in(results)
    lines = [f"| | RAMCloud | {' | '.join(peers)} | " + " | ".join(f"ratio to {p} ({span})" for p in peers) + " |",
             "|---" * (2 + 2 * len(peers)) + "|"]
    for row in results:
        there = row["runs"][0]
        rates = [f"{statistics.median(r[n] for r in row['runs']) / 1e3:.0f} k" if n in there else "–"
                 for n in ("RAMCloud", *peers)]
        ratios = ["{:.2f} ({:.2f} to {:.2f})".format(*bench.interval([r["RAMCloud"] / r[p] for r in row["runs"]]))
                  if p in there else "–" for p in peers]
        lines.append(f"| {row['title']} | {' | '.join(rates + ratios)} |")
    return "\n".join(lines)


def plot(results):
    """Reads: a line for each store, over the requests at a time."""
    width, height, left, bottom, top = 640, 300, 60, 40, 40
    colours = {"RAMCloud": "#3b6fb6", "Redis": "#c0504d", VALKEY: "#e0903d", VALKEY_THREADS: "#8064a2", "memcached": "#7f9f4f"}
    colours = {name: colours[name] for name in ("RAMCloud", *peers_in(results))}
    rows = [row for row in results if row["title"].startswith("read")]
    rates = {name: [statistics.median(r[name] for r in row["runs"]) for row in rows] for name in colours}
    most = max(max(values) for values in rates.values()) * 1.1
    x = [left + i * (width - left - 20) / (len(rows) - 1) for i in range(len(rows))]
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="Helvetica, Arial, sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="#fff"/>',
           '<text x="16" y="20" font-size="14">Reads per CPU-second of the server, in thousands, over requests at a time</text>']
    for i, (name, values) in enumerate(rates.items()):
        points = " ".join(f"{a:.0f},{height - bottom - v / most * (height - bottom - top):.1f}" for a, v in zip(x, values))
        out.append(f'<polyline points="{points}" fill="none" stroke="{colours[name]}" stroke-width="2"/>')
        out.append(f'<text x="{left + 10}" y="{top + 16 + 16 * i}" fill="{colours[name]}">{name}</text>')
    for share in (0.25, 0.5, 0.75, 1):
        y = height - bottom - share * (height - bottom - top)
        out.append(f'<text x="{left - 8}" y="{y:.0f}" text-anchor="end">{share * most / 1e3:.0f}</text>')
        out.append(f'<line x1="{left}" x2="{width - 20}" y1="{y:.0f}" y2="{y:.0f}" stroke="#ddd"/>')
    for at, n in zip(x, AT_A_TIME):
        out.append(f'<text x="{at:.0f}" y="{height - bottom + 18}" text-anchor="middle">{n}</text>')
    out.append("</svg>\n")
    return "\n".join(out)


def versions():
    """Of the peers that are installed."""
    programs = ["redis-server", valkey_server(), "memcached"]
    return ", ".join(version_of(p, "--version").split(" sha")[0] for p in programs if p and shutil.which(p))


def write_docs(results, swept, pairs, sweep_pairs):
    relays = relay_cpu_us(pairs)
    relay = statistics.median(relays)
    text = f"""# Beside Redis, Valkey and memcached

{bench.made_by("bench_peers.py")}; {versions()}.

Objects per second of CPU time (user and system) of the server process that has the data: one connection over
loopback TCP unless the row says more, {KEY_BYTES}-byte keys, {VALUE_BYTES}-byte values, {KEYS:,} keys; {pairs} rounds in which all take turns.
So many objects are more than the caches of one core hold, as in a store whose memory is worth keeping elsewhere, too. With
`--keys 10000` they are not: then the peers' figures rise, and ours do not, because they do not wait for memory.
Nobody polls (`--poll-us 0`): a server sleeps when it has nothing to do. With one request at a time nearly all of
the time is the kernel's; the more requests come together, the more of it is the server's own.

{table(results)}

The peers' load generator sends its requests in groups and waits for all their answers; ours sends new requests
for the answers that came together. A multi-write is one request of ours, and as many pipelined ones of the peers'.
Where R is not named, nothing is replicated. With R = {REPLICAS} a multi-write is answered when {REPLICAS} other servers have it;
Redis' and Valkey's pipelined `SET`s are followed by a `WAIT {REPLICAS} 0`, the server has {REPLICAS} replicas, and neither side waits for a disk.

A relay on the same reactor and transport, which stores nothing, takes {relay:.0f} µs of CPU ({min(relays):.0f} to {max(relays):.0f}) to be
asked with a message of that size, to ask {REPLICAS} others and to answer: {BATCH / relay * 1e3:.0f} k objects a CPU-second if they cost
nothing more. That is what bounds the row with one such message at a time: there the kernel has most of the time, on
both sides, for sleeping and being woken.

## Throughput with 1 to 64 at a time

The same, {sweep_pairs} rounds; the peers' requests are pipelined, ours are calls in flight at a time.

{table(swept)}

![Reads per CPU-second](peers.svg)
"""
    bench.write_page("peers", text, {"rows": results, "sweep": swept, "relay_cpu_us": relays}, plot(swept))


def accept(results):
    """Figure, floor, goal; see bench.accept()."""
    for row in results:
        for peer, (floor, goal) in FIGURES.get(row["title"], {}).items():
            if peer not in row["runs"][0]:
                continue
            figure = statistics.median(r["RAMCloud"] / r[peer] for r in row["runs"])
            bench.print_row(f"{row['title']} / {peer}", figure, floor, goal, False)


def main():
    global KEYS  # of every server and every request
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10, help="rounds a row (default 10)")
    parser.add_argument("--sweep-pairs", type=int, default=6, help="rounds a row of the throughput table (default 6)")
    parser.add_argument("--keys", type=int, default=KEYS, help=f"in the table (default {KEYS})")
    parser.add_argument("--accept", action="store_true", help="print the acceptance rows, write nothing")
    arguments = parser.parse_args()
    if arguments.pairs < 1 or arguments.sweep_pairs < 1:
        parser.error("--pairs and --sweep-pairs must be at least 1")
    if arguments.keys < 1:
        parser.error("--keys must be at least 1")
    KEYS = arguments.keys
    say_what_is_left_out()
    results = measure(alone(), ROWS, arguments.pairs) + measure(replicated(), DURABLE_ROWS, arguments.pairs)
    if arguments.accept:
        accept(results)
    else:
        write_docs(results, measure(alone(), sweep_rows(), arguments.sweep_pairs), arguments.pairs, arguments.sweep_pairs)


if __name__ == "__main__":
    main()
