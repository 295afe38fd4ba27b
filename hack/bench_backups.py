#!/usr/bin/env python3
"""What cleaning costs when disks are slow: overwrites a second of one server whose replicas (R = 3, `synced`) three others
write to disks of so many bytes a second together, with one-level and with two-level cleaning.

A cgroup limits the disk (blkio of version 1, or io of version 2), so this needs root, and direct I/O: what goes through
the operating system's cache is not limited. It is part `backups` of bench_memory.py. See bench.sh.
"""
import contextlib
import os
import subprocess
import sys
import time
import urllib.request

import bench

REPLICAS = 3
SEGMENT_MIB, NOT_FOR_OBJECTS = 8, 3  # segments of a log
VALUE_BYTES, HEADER_BYTES = 1000, 48
CLIENTS = 750
FRAMES = 2.5  # of disk for each byte of memory, times R: what two-level cleaning may use
ROOTS = {1: "/sys/fs/cgroup/blkio", 2: "/sys/fs/cgroup"}


def device_of(folder):
    """MAJOR:MINOR of the whole disk that has the folder."""
    number = os.stat(folder).st_dev
    path = os.path.realpath(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if os.path.exists(os.path.join(path, "partition")):
        path = os.path.dirname(path)
    try:
        with open(os.path.join(path, "dev"), encoding="utf-8") as f:
            return f.read().strip()
    except FileNotFoundError:
        return None


def version_here():
    """Of the cgroups that can limit a disk here; None: neither."""
    if os.path.exists(os.path.join(ROOTS[1], "cgroup.procs")):
        return 1
    try:
        with open(os.path.join(ROOTS[2], "cgroup.subtree_control"), encoding="utf-8") as f:
            return 2 if "io" in f.read().split() else None
    except FileNotFoundError:
        return None


def why_not(folder):
    """Why a disk cannot be limited here; None if it can."""
    if os.geteuid() != 0:
        return "a limit of a disk needs root"
    if device_of(folder) is None:
        return f"{folder} is on no disk (TMPDIR says where)"
    if version_here() is None:
        return "no cgroup can limit a disk here"
    return None


class DiskLimit:
    """Of the processes of a cluster together, until the end of the `with` block."""

    def __init__(self, cluster, bytes_per_second):
        self.version, self.device = version_here(), device_of(cluster.folder)
        self.pids, self.limit = [child["pid"] for child in cluster.children], bytes_per_second
        self.group = os.path.join(ROOTS[self.version], f"ramcloud-bench-{os.getpid()}")

    def write(self, name, text):
        with open(os.path.join(self.group, name), "w", encoding="utf-8") as f:
            f.write(text)

    def __enter__(self):
        os.mkdir(self.group)
        if self.version == 1:
            self.write("blkio.throttle.write_bps_device", f"{self.device} {self.limit}")
        else:
            self.write("io.max", f"{self.device} wbps={self.limit}")
        for pid in self.pids:
            self.write("cgroup.procs", str(pid))
        return self

    def __exit__(self, *_):
        for pid in self.pids:
            with contextlib.suppress(OSError), open(os.path.join(ROOTS[self.version], "cgroup.procs"), "w", encoding="utf-8") as f:
                f.write(str(pid))
        os.rmdir(self.group)


def entry_bytes():
    return (bench.KEY_BYTES + VALUE_BYTES + HEADER_BYTES + 7) // 8 * 8


def keys_at(utilisation, log_mib):
    """Objects that take so many percent of the memory that objects may have."""
    for_objects = (log_mib - NOT_FOR_OBJECTS * SEGMENT_MIB) << 20
    return int(for_objects * utilisation / 100 / entry_bytes())


@contextlib.contextmanager
def overwriting(cluster, keys):
    """All keys are written once, and random ones from then on, until the end of the `with` block."""
    command = [os.path.join(cluster.programs, "ramcloud"), "--cluster", cluster.address]
    subprocess.run([*command, "table", "create", "load"], check=True, stdout=subprocess.DEVNULL)
    with subprocess.Popen([*command, "bench", "write", "--table", "load", "--clients", str(CLIENTS), "--keys", str(keys), "--key-size",
                           str(bench.KEY_BYTES), "--size", str(VALUE_BYTES), "--warm-up", "0s", "--duration", "3600s"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as load:
        try:
            while counters(cluster)["written"] == 0:  # what is written at first counts as another operation
                if load.poll() is not None:
                    sys.exit(f"error: the load ended with exit code {load.returncode}\n{load.stderr.read()}")
                time.sleep(0.2)
            yield
        finally:
            load.terminate()


COUNTED = {'ramcloud_operations_total{op="write"}': "written", 'ramcloud_cleaner_bytes_total{kind="written"}': "to_survivors",
           'ramcloud_cleaner_bytes_total{kind="compacted"}': "compacted"}


def counters(cluster):
    """Of all servers together."""
    sums = dict.fromkeys(COUNTED.values(), 0.0)
    for child in cluster.children:
        if child["role"] != "server":
            continue
        with urllib.request.urlopen(f"http://127.0.0.1:{child['ports']['http']}/metrics") as answer:
            for line in answer.read().decode().splitlines():
                name, _, value = line.rpartition(" ")
                if name in COUNTED:
                    sums[COUNTED[name]] += float(value)
    return sums


def measure(programs, cleaning, utilisation, a):
    """Writes a second, and bytes that cleaning wrote for each byte that was written."""
    flags = ["--log-memory", f"{a.backups_log_mib}MiB", "--backup-size", f"{int(FRAMES * REPLICAS * a.backups_log_mib)}MiB", "--durability",
             "synced", "--direct-io", "always", "--cleaning", cleaning, "--log-level", "warn"]
    keys = keys_at(utilisation, a.backups_log_mib)
    with bench.Cluster(REPLICAS + 1, REPLICAS, flags=flags, programs=programs) as cluster, overwriting(cluster, keys):
        time.sleep(a.backups_settle)
        with DiskLimit(cluster, a.backups_mib_per_s << 20):
            time.sleep(a.backups_settle)
            before, begin = counters(cluster), time.time()
            time.sleep(a.backups_seconds)
            after, seconds = counters(cluster), time.time() - begin
    did = {name: after[name] - before[name] for name in after}
    return {"cleaning": cleaning, "utilisation": utilisation, "objects": keys, "writes_per_s": did["written"] / seconds,
            **{name: did[name] / (did["written"] * entry_bytes()) for name in ("to_survivors", "compacted")}}
