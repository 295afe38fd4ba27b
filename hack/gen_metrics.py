#!/usr/bin/env python3
"""Writes docs/reference/metrics.md from what running daemons say at /metrics.

Usage: gen_metrics.py           write the page
       gen_metrics.py --check   exit 1 if the page is not what the daemons say
"""
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request

import generated
from generated import DAEMON

HEAD = """# Metrics

<!-- Written by hack/gen_metrics.py from what daemons say. Change the texts in the code, then run it. -->

Every daemon serves them in Prometheus' text format at `/metrics` of its HTTP port (`--http-listen`). Names that
end in `_total` are counters; histograms are in seconds and have the series `_bucket`, `_sum` and `_count`.
"""


def free_base():
    """A port below the ephemeral ones with those free that a dev cluster of one server derives from it."""
    for _ in range(200):
        base = random.randrange(20000, 31000)
        try:
            for port in (base, base + 1, base + 2, base + 10, base + 12):
                with socket.socket() as s:
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    s.bind(("127.0.0.1", port))
            return base
        except OSError:
            continue
    sys.exit("gen_metrics.py: no free ports on 127.0.0.1")


def read(port):
    """{name: (type, help, set of label names)} of the daemon at this HTTP port."""
    # Straight there: a proxy of the environment knows nothing of loopback.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    found = {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            _, _, name, about = line.split(" ", 3)
            found[name] = ["", about, set()]
        elif line.startswith("# TYPE "):
            found[line.split()[2]][0] = line.split()[3]
        else:
            series = line.split("{")[0].split(" ")[0]
            name = series if series in found else re.sub(r"_(bucket|sum|count)$", "", series)
            found[name][2].update(re.findall(r'[{,]([a-z_]+)="', line))
    return found


def section(title, metrics):
    lines = [f"\n## {title}\n", "| name | type | labels | what |", "|---|---|---|---|"]
    for name, (kind, about, labels) in sorted(metrics.items()):
        shown = ", ".join(f"`{label}`" for label in sorted(labels - {"le"})) or "–"
        lines.append(f"| `{name}` | {kind} | {shown} | {about.rstrip('.').replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


def page():
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "data")
        daemon = subprocess.Popen([DAEMON, "dev", "--servers", "1", "--replicas", "0", "--dir", data, "--listen",
                                   f"127.0.0.1:{free_base()}", "--log-memory", "64MiB", "--cleaning", "one-level",
                                   "--processes"],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            if not any(line.startswith("ready:") for line in daemon.stdout):
                sys.exit("gen_metrics.py: ramcloudd dev did not become ready")
            with open(os.path.join(data, "processes.json"), encoding="utf-8") as f:
                ports = {child["role"]: child["ports"]["http"] for child in json.load(f)}
            server, coordinator = read(ports["server"]), read(ports["coordinator"])
        finally:
            daemon.send_signal(signal.SIGTERM)
            daemon.wait()
    both = {name: server[name] for name in server if name in coordinator}
    return (HEAD + section("Every daemon", both)
            + section("Servers", {n: m for n, m in server.items() if n not in both})
            + section("Coordinators", {n: m for n, m in coordinator.items() if n not in both}))


generated.main(__doc__, "metrics.md", page)
