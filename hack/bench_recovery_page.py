"""The page of bench_recovery.py: docs/benchmarks/recovery.md and its plot."""
import statistics
import sys

import bench

# Of the phases that the timeline shows: until when, what it is, its colour.
PHASES = [("verdict", "detection", "#c0504d"), ("queried", "log's end", "#e0903d"), ("planned", "plan", "#8064a2"),
          ("replayed", "read and replay", "#3b6fb6"), ("replicated", "commit", "#7f9f4f"), ("served", "hand-over", "#b9c3d0")]
BOUND_COLOUR = "#555"
BUSY = 15  # percent of the CPU time for others that the kernel's own threads do not explain


def median(runs, of):
    """Of those runs that know it; None if none does."""
    known = [value for value in map(of, runs) if value is not None]
    return statistics.median(known) if known else None


def ms(value):
    return "–" if value is None else f"{value:,.0f}"


def durations(row):
    """Of each phase, the median of its length; None for what the recovery does not have."""
    result = {}
    for number, (until, _, _) in enumerate(PHASES):
        def length(run, until=until, number=number):
            before = [run["at"][step] for step, _, _ in PHASES[:number] if step in run["at"]]
            return max(0.0, run["at"][until] - max(before, default=0)) if until in run["at"] else None
        result[until] = median(row["runs"], length)
    return result


def clients_table(rows):
    lines = ["| | first key | half | all | longest read | of other servers' keys |", "|---|---|---|---|---|---|"]
    for row in rows:
        cells = [ms(median(row["runs"], lambda r, what=what: r["client"][what])) for what in ("first", "half", "all", "longest", "others")]
        lines.append(f"| {row['title']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def phases_table(rows):
    lines = ["| | " + " | ".join(name for _, name, _ in PHASES) + " | CPU s |", "|---" * (len(PHASES) + 2) + "|"]
    for row in rows:
        lengths = durations(row)
        lines.append(f"| {row['title']} | " + " | ".join(ms(lengths[until]) for until, _, _ in PHASES)
                     + f" | {median(row['runs'], lambda r: r['cpu_s']):.2f} |")
    return "\n".join(lines)


def since_verdict(run):
    return (run["at"]["served"] - run["at"]["verdict"]) / 1e3


def bound_table(rows):
    lines = ["| | objects | verdict to all served, s | the bound, s | ratio (median, lowest to highest) | CPU s, beside the bound's | pairs |",
             "|---|---|---|---|---|---|---|"]
    for row in rows:
        runs = row["runs"]
        cells = [row["title"], f"{row['keys']:,}", f"{median(runs, since_verdict):.2f}"]
        if runs[0]["bound_s"] is None:
            cells += ["–", "nothing is recovered"]
        else:
            ratios = [since_verdict(run) / run["bound_s"] for run in runs]
            cells += [f"{median(runs, lambda r: r['bound_s']):.2f}",
                      f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"]
        cpu, bound_cpu = (median(runs, lambda r, what=what: r[what]) for what in ("cpu_s", "bound_cpu_s"))
        cells += [f"{cpu:.2f}" + (f" / {bound_cpu:.2f} = {median(runs, cpu_beside_bound):.2f}" if bound_cpu else ""), str(len(runs))]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def cpu_beside_bound(run):
    return run["cpu_s"] / run["bound_cpu_s"] if run["bound_cpu_s"] else None


def not_the_least(rows):
    """What must be said where the bound is none."""
    below = [row["title"] for row in rows if row["runs"][0]["bound_s"]
             and statistics.median(since_verdict(run) / run["bound_s"] for run in row["runs"]) < 1]
    if not below:
        return ""
    return ("\n**Not valid as ratios of times: " + "; ".join(below) + ".** Nothing is faster than its bound: that was disturbed, by other\n"
            "programs or by the disk, on which it syncs in the end, and a recovery while it goes. Measure it again (`--add`).\n")


def figures_table(figures, under_load):
    lines = ["| | figure | floor | goal | |", "|---|---|---|---|---|"]
    for title, figure, floor, goal in figures:
        said = {"pass, goal": "goal met", "pass": "floor met, goal missed", "short": "**floor missed**"}[
            bench.verdict(figure, floor, goal, True)]
        if "bound" in title or "tmpfs" in title:
            said = "not judged, beside other programs" if under_load else "not valid: below the bound" if figure < 1 else said
        if under_load and "missed" in said:
            said += ", beside other programs"
        lines.append(f"| {title} | {figure:.2f} | ≤ {floor:g} | ≤ {goal:g} | {said} |")
    return "\n".join(lines)


# Kinds of work, by what the symbol has in it; the first that fits counts.
KINDS = [("waiting, waking and switching", ("raw_spin_unlock_irq", "finish_task_switch", "sched_yield", "schedule", "idle", "futex", "__schedule", "pv_native")),
         ("checksums", ("crc32", "crc_")),
         ("copies in user space", ("memcpy", "memmove", "__memset")),
         ("key hashes", ("XXH", "key_hash")),
         ("replay: slots, log, entries", ("replay", "store::", "log::", "Segment", "HashTable")),
         ("copies between kernel and user space", ("copy_user", "rep_movs", "copy_to_iter", "copy_from_iter", "_copy_", "copyin", "copyout")),
         ("page faults and clearing pages", ("clear_page", "fault", "clear_huge", "alloc_pages", "zap_", "charge")),
         ("file system and device", ("ext4", "jbd2", "folio", "page_cache", "filemap", "blk", "virtio", "writeback", "iomap", "bio_", "shmem", "fsync", "xas_")),
         ("sockets", ("tcp", "skb", "sock", "ip_", "__ip", "net_rx", "loopback", "netif", "inet", "softirq", "recv", "send"))]


def kind_of(entry):
    for kind, words in KINDS:
        if any(word in entry["symbol"] for word in words):
            return kind
    return "other, in the kernel" if entry["kernel"] else "other, in user space"


# What a recovery does, and the function below which it does it.
STEPS = [("replay: an entry is verified, and put into the log and the hash table", "TabletReplay::replay"),
         ("of it, the function itself: it waits for the key's bucket, which is in no cache", None),
         ("recovered tablets' buckets are looked through for tombstones", "RecoveredSlots::step"),
         ("a backup reads a segment from its file", "read_frame"),
         ("a backup verifies it, and hashes its keys", "IndexedSegments::index"),
         ("a backup makes pages of entries", "FetchService::answer_page"),
         ("a new owner sends replicas", "ReplicaManager::on_turn"),
         ("a backup takes replicas, and writes them to its files", "ReplicaService::append"),
         ("looking for events, and sleeping until there are some", "do_epoll_wait")]


def steps_table(profile):
    def share_of(entries, function):
        shares = [e["share"] for e in entries if name(e["symbol"]).endswith(function)]
        if not shares:
            sys.exit(f"error: the profile has no {function}; was it renamed? The steps are in bench_recovery_page.py")
        return max(shares)

    lines = ["| step | share | below |", "|---|---|---|"]
    for what, function in STEPS:
        share = share_of(profile["whole"], function) if function else share_of(profile["own"], "TabletReplay::replay")
        lines.append(f"| {what} | {share:.1f} % | " + (f"`{function}` |" if function else "|"))
    return "\n".join(lines)


def profile_text(profile):
    if not profile:
        return "No profile was taken: perf is not installed."
    own, kinds = profile["own"], {}
    for entry in own:
        kinds[kind_of(entry)] = kinds.get(kind_of(entry), 0) + entry["share"]
    lines = ["| kind of work | share | most of it |", "|---|---|---|"]
    for kind, share in sorted(kinds.items(), key=lambda item: -item[1]):
        most = [e for e in own if kind_of(e) == kind][:3]
        lines.append(f"| {kind} | {share:.1f} % | " + ", ".join(f"`{name(e['symbol'])}` {e['share']:.1f} %" for e in most) + " |")
    rest = 100 - sum(entry["share"] for entry in own)
    return ("Samples of the survivors' CPU time (`perf record -e cpu-clock -g`) in one more recovery of the first setup, which no\n"
            "figure counts. By what it is done for (the rest is the transport, and what has less than 0.4 %):\n\n" + steps_table(profile)
            + f"\n\nBy kind; functions with less than 0.4 % are left out ({rest:.0f} % in all):\n\n" + "\n".join(lines))


def name(symbol):
    """Without arguments and template arguments."""
    cut = symbol.split("(")[0].split("<")[0].replace("ramcloud::", "").replace("|", "")
    return cut or symbol[:40]


def bar(at, y, tall, lengths, scale):
    out, x = [], at
    for until, _, colour in PHASES:
        wide = (lengths[until] or 0) * scale
        out.append(f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{tall}" fill="{colour}"/>')
        x += wide
    return out


def plot(rows):
    """The phases of each setup on one axis of time since the kill, what clients saw above them, the bound below."""
    width, left, top, step, tall = 760, 190, 74, 34, 12
    height = top + len(rows) * step + 30
    longest = max(max(median(r["runs"], lambda x: x["client"]["all"]), sum(v or 0 for v in durations(r).values())) for r in rows) * 1.05
    scale = (width - left - 20) / longest
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="Helvetica, Arial, sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="#fff"/>',
           '<text x="16" y="20" font-size="14">Milliseconds since the kill (medians)</text>']
    x = 16
    for label, colour in [(name_, colour) for _, name_, colour in PHASES] + [("bound, from the verdict", BOUND_COLOUR)]:
        out.append(f'<rect x="{x}" y="32" width="10" height="10" fill="{colour}"/><text x="{x + 14}" y="41">{label}</text>')
        x += 26 + 7 * len(label)
    out.append('<text x="16" y="60">Marks: a client\'s first key, half and all of them</text>')
    y = top
    for row in rows:
        lengths = durations(row)
        out.append(f'<text x="16" y="{y + tall}">{row["title"]}</text>')
        out += bar(left, y, tall, lengths, scale)
        for what in ("first", "half", "all"):
            at = left + median(row["runs"], lambda r, what=what: r["client"][what]) * scale
            out.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{y - 4}" y2="{y + tall + 2}" stroke="#000" stroke-width="1.5"/>')
        least = median(row["runs"], lambda r: r["bound_s"])
        if least:
            out.append(f'<rect x="{left + lengths["verdict"] * scale:.1f}" y="{y + tall + 3}" width="{least * 1e3 * scale:.1f}" height="4" fill="{BOUND_COLOUR}"/>')
        y += step
    for share in range(0, 6):
        at = left + share * (width - left - 20) / 5
        out.append(f'<line x1="{at:.0f}" x2="{at:.0f}" y1="{top - 8}" y2="{y}" stroke="#ddd"/>')
        out.append(f'<text x="{at:.0f}" y="{y + 16}" text-anchor="middle">{share * longest / 5:,.0f}</text>')
    out.append("</svg>\n")
    return "\n".join(out)


def built_text(preset):
    if preset == "release":
        return "Both sides are the build that users get (preset `release`)."
    return (f"**Both sides are the build of the preset `{preset}`** (`-O1`, no optimisation across files), not the one that\n"
            "users get: absolute times are longer than theirs, and ratios are those of this build.")


def shares_of_others(rows):
    """Of all CPU time during each run, in percent."""
    return sorted(100 * run["others_cpu_s"] / (run["others_cpu_s"] + run["cpu_s"] + run["client_cpu_s"])
                  for row in rows for run in row["runs"])


def busy(rows):
    return statistics.median(shares_of_others(rows)) >= BUSY


def load_text(rows):
    """Whether the machine was theirs alone."""
    shares = shares_of_others(rows)
    middle, most = statistics.median(shares), shares[-1]
    text = (f"Beside the cluster and its clients, the kernel's own threads, which write files, and other programs used the\n"
            f"cores. That was {middle:.0f} % of all CPU time (median), and {most:.0f} % at most.")
    if not busy(rows):
        return text
    return text + ("\n**So other programs ran beside it. Times are longer than they would be alone, and ratios say little**: a floor\n"
                   "that is missed here may be met on a machine that does nothing else, and no ratio is judged.")


def cold_text(rows):
    stayed = [run["still_cached_bytes"] for row in rows for run in row["runs"] if run["still_cached_bytes"] is not None]
    if not stayed:
        return ""
    return (f"\n*Cold*: before the kill, `posix_fadvise(DONTNEED)` drops the pages of the survivors' files, and of nothing else; at most\n"
            f"{max(stayed) / 2**20:.0f} MiB stayed in the page cache (`fincore`). What the device or a virtual machine's host has cached stays there.\n")


def write(data):
    rows, main = data["rows"], data["rows"][0]
    first = main["runs"][0]
    text = f"""# Crash recovery

{data["made_by"]}.
{built_text(data["preset"])}

{main["setup"]["servers"]} servers and a coordinator over loopback TCP, every role a process of its own, on the cores that the clients use, too.
One server has a table of {data["mib"]} MiB of log in one tablet ({bench.KEY_BYTES}-byte keys); a second table is spread over all servers. That
server is killed (SIGKILL), and the others serve what it had. Each recovery has a new cluster, and is checked: every object
was replayed, and every reader found its key. Files are on this machine's disk, or on tmpfs where a row says so.
{load_text(rows)}

## Floors and goals

Of {main["title"]} ({len(main["runs"])} recoveries, medians):

{figures_table(data["figures"], busy(rows))}

The first key cannot come before the dead server's lease is over, which takes 525 ms after the log's end is known
([leases](../design/recovery.md#leases)). The bound has no such wait, and no detection, plan or hand-over.

## What clients see

{main["runs"][0]["client"]["readers"]} readers, each with a key of the dead server, read it every 20 ms. Milliseconds from the kill until the first, half, and all
of them had their answer from a new owner; the longest read; and the longest read of a key that another server has.

{clients_table(rows)}

With R = 0 there is nothing to recover: the tablets come back empty, once the lease is over, and the readers are told
NOT_FOUND.

![Timeline](recovery.svg)

## Phases

Milliseconds, by the coordinator's record (`ramcloud recovery show ID -o json`), and the log of the recovery masters for
where replay ends. *Read and replay* are one pipeline: pages are read, sent, replayed and replicated at the same time. *CPU s*
are seconds of CPU time of all survivors from half a second before the kill until all readers were answered.

{phases_table(rows)}

| phase | is |
|---|---|
| detection | from the kill to the verdict |
| log's end | all backups freeze the dead server's replicas and say what they have |
| plan | tablets are split and shared out ({first["parts"]} parts in the first row) |
| read and replay | until the last recovery master has replayed its part |
| commit | until the last of it is on the devices of R backups and in the new owner's log |
| hand-over | what is left of the lease, and the metadata's transaction |
{cold_text(rows)}
## Beside the least that it takes

`node/bench/recovery_bound` does what no recovery can do without, by as many processes and with as many bytes: it reads
files, checks each entry, divides entries by key hash, sends them over loopback, copies them, takes a slot for each, and sends R
copies to others. These write them to files, and sync. It has no coordinator, log format, lease or normal service. It and
the recovery take turns. CPU seconds are of all processes, of the recovery those of the table of phases.

{bound_table(rows)}
{not_the_least(rows)}
## Where the time goes

{profile_text(data["profile"])}
"""
    bench.write_page("recovery", text, data, plot(rows))
