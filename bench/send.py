#!/usr/bin/env python3
"""The race: smtp-source -> a mail server -> smtp-sink, one server after the other, several times.

    bench/send.sh [--servers sealpost,postfix] [--mails 20000] [--runs 3] [--signed] [--json]
    bench/send.sh --backlog 100000 [--servers sealpost,postfix]
    bench/send.sh --behind 10000

Ten connections hand in mails of 5,120 bytes and the server sends each on to a sink: the time is from the first connection until the sink
has all. Each server keeps what it accepts as it does by default on a disk that can lose power (Postfix and Exim sync each mail; OpenSMTPD
does not sync what it accepts). CPU time is that of the server alone, memory the most that its processes had (proportional set size).
fsyncs are counted in a run of their own, by strace, which stops the server at nothing else. --signed: Sealpost signs each mail with
RSA-2048 and Ed25519. --backlog and --behind measure what waits: see bench/backlog.py.

Needs Linux, root and `smtp-source`, `smtp-sink` (Debian: postfix); for fsyncs strace. A peer that is not installed is left out. Debian lets
only one mail server be installed: see tests/internet/mail.py for $PROGRAMS. Haraka: `npm install Haraka`, and $HARAKA is the directory
that then has node_modules. Runs in a mount namespace; nothing is left behind.
"""

import argparse
import json
import pathlib
import shutil
import statistics
import sys
import tempfile
import time

import backlog
from peers import KINDS, Sealpost, Sink, directory, hand_in

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "internet"))

import namespace  # noqa: E402

# Seconds between two looks at memory.
LOOK = 0.5


def race(kind, options, mails, trace=None):
    """One run; what it came to."""
    with directory(kind, options) as top:
        server, sink, most = kind(options, top), Sink(), 0
        try:
            server.start(trace)
            time.sleep(1)
            before, begun = server.cpu(), time.monotonic()
            source = hand_in(mails)
            accepted, last, looked = None, (begun, 0), begun
            while sink.count < mails:
                time.sleep(0.02)
                now = time.monotonic()
                if accepted is None and source.poll() is not None:
                    accepted = now - begun
                if int(now / LOOK) != int(looked / LOOK):
                    looked, most = now, max(most, server.memory())
                if sink.count > last[1]:
                    last = (now, sink.count)
                elif now - last[0] > 120:
                    return {"lost": mails - sink.count, "after": round(now - begun)}
            seconds = time.monotonic() - begun
            return {"seconds": seconds, "accepted": accepted or seconds, "rate": mails / seconds, "cpu": server.cpu() - before,
                    "memory": max(most, server.memory())}
        finally:
            server.stop()
            sink.stop()


def syncs(kind, options):
    """fsyncs for each mail, in a run of a quarter of the mails."""
    if not shutil.which("strace"):
        return None
    mails = max(options.mails // 4, 100)
    with tempfile.NamedTemporaryFile() as trace:
        race(kind, options, mails, trace.name)
        return pathlib.Path(trace.name).read_text(errors="replace").count("sync(") / mails


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sealpost", help="the program")
    parser.add_argument("--servers", default=",".join(kind.name for kind in KINDS))
    parser.add_argument("--mails", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--signed", action="store_true")
    parser.add_argument("--backlog", type=int, metavar="MAILS", help="how the servers bear so many deferred mails")
    parser.add_argument("--behind", type=int, metavar="MAILS", help="how long Sealpost makes one sender wait behind so many of another")
    parser.add_argument("--pause", type=float, default=330, help="seconds between kill and start of --backlog: all mails are due then")
    parser.add_argument("--no-syncs", action="store_true", help="do not count fsyncs")
    parser.add_argument("--dir", help="the directory for the servers' data")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    namespace.enter(__doc__, ["smtp-source", "smtp-sink", "ip", "unshare"], [])
    wanted = options.servers.split(",")
    kinds = [kind for kind in KINDS if kind.name in wanted and kind.is_there(options)]
    if options.backlog:
        return backlog.report([backlog.backlog(kind, options) for kind in kinds], options)
    if options.behind:
        return backlog.report([backlog.behind(Sealpost, options)], options)
    results = {kind.name: [] for kind in kinds}
    for _ in range(options.runs):
        for kind in kinds:
            result = race(kind, options, options.mails)
            results[kind.name].append(result)
            print(f"{kind.name}: {result}", file=sys.stderr)
    table = []
    for kind in kinds:
        whole = [result for result in results[kind.name] if "rate" in result]
        if not whole:
            table.append({"server": kind.name, "failed": results[kind.name]})
            continue
        row = {key: statistics.median(result[key] for result in whole) for key in whole[0]}
        row.update(server=kind.name, runs=len(whole), syncs=None if options.no_syncs else syncs(kind, options))
        table.append(row)
    if options.json:
        return print(json.dumps(table))
    print("| server | mails/s | until accepted | until delivered | CPU ms/mail | memory | fsyncs/mail |\n|---|---:|---:|---:|---:|---:|---:|")
    for row in table:
        if "failed" in row:
            print(f"| {row['server']} | failed: {row['failed']} |")
            continue
        sync = "" if row["syncs"] is None else f"{row['syncs']:.2f}"
        print(f"| {row['server']} | {row['rate']:.0f} | {row['accepted']:.1f} s | {row['seconds']:.1f} s | "
              f"{row['cpu'] / options.mails * 1000:.2f} | {row['memory'] / 2**20:.0f} MiB | {sync} |")
    return None


if __name__ == "__main__":
    main()
