#!/usr/bin/env python3
"""What a mailbox of a thousand messages costs on a bucket: requests to the store, time, and the server's peak memory, for each
command; beside the same on the local store. And how soon what one server appends is told by another.

    tests/stores/measure.py --sealpost target/release/sealpost [--messages 1000] [--nats PATH] [--idle 60] [--told 40] [--write]

Garage, one node, on this machine (tests/stores/install.sh builds it). It takes some minutes, and says what it does. "Cold" is a server that was just started, without a cache on its disk. With
--nats, what a bus changes is measured too. Prints the generated part of docs/benchmarks.md; --write puts it there."""

import argparse
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import backends
from servers import ACCOUNT, Server

COMMANDS = [
    ("FETCH 1:* FULL", "FETCH 1:* FULL"),
    ("FETCH 1:* (BODY.PEEK[])", "FETCH 1:* (BODY.PEEK[])"),
    ("SEARCH BODY, the first", 'SEARCH BODY "is number 77."'),
    ("SORT (SUBJECT), the first", "SORT (SUBJECT) UTF-8 ALL"),
]
CHANGES = [
    ("the first change of a server that was just started", "STORE 1 +FLAGS.SILENT (\\Seen)"),
    ("STORE 1:* +FLAGS", "STORE 1:* +FLAGS.SILENT (\\Flagged)"),
    ("COPY 1:*", "COPY 1:* Archive"),
    ("MOVE 1:*", "MOVE 1:* Archive"),
]
#: What was to be reached, by the beginning of a row's name.
BARS = {
    "a delivery": "3 requests",
    "FETCH 1:* FULL, cold": "20 requests, 1 s",
    "STORE 1:*": "3 requests",
    "COPY 1:*": "3 requests",
    "MOVE 1:*": "3 requests",
    "16 users in IDLE, with a bus": "no requests",
    "told by polling": "10 s",
    "told by a bus": "200 ms",
}
IDLE_USERS = 16
BEGIN, END = "<!-- begin generated: stores -->", "<!-- end generated: stores -->"
#: By then what a login sets going is done, in seconds, and servers that connected to a bus when they started poll no more.
SETTLED = 60


def message(number):
    """8 KiB that compress to about half."""
    source = random.Random(number)
    lines = "\r\n".join("".join(f"{source.getrandbits(64):016x}" for _ in range(4)) for _ in range(122))
    return (f"From: a{number}@example.org\r\nTo: {ACCOUNT}\r\nSubject: message {number}\r\n\r\n"
            f"this is number {number}.\r\n{lines}\r\n")


def status(server, key):
    for line in Path(f"/proc/{server.running.pid}/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) / 1024
    raise KeyError(key)


def measured(server, work):
    """Requests, seconds, and the most memory in MiB meanwhile."""
    Path(f"/proc/{server.running.pid}/clear_refs").write_text("5")
    requests, began = server.requests(), time.monotonic()
    work()
    seconds = time.monotonic() - began
    return server.requests() - requests, seconds, status(server, "VmHWM:")


def settle(server):
    """Until nothing is asked any more but by polling: packs and the like have been made."""
    while True:
        before = server.requests()
        time.sleep(4)
        if server.requests() - before <= 2:
            return


def cold(server):
    server.kill()
    shutil.rmtree(server.work / "data" / "cache", ignore_errors=True)
    server.start()
    imap = server.wire()
    imap.command("SELECT INBOX")
    return imap


def mailbox(server, messages):
    """Rows: what, requests, seconds, MiB."""
    server.start()
    lmtp = server.lmtp()
    lmtp.sendmail("sender@example.org", [ACCOUNT], message(0))

    def deliver():
        for number in range(1, messages):
            lmtp.sendmail("sender@example.org", [ACCOUNT], message(number))

    requests, seconds, memory = measured(server, deliver)
    yield "a delivery, one after the other", requests / (messages - 1), seconds / (messages - 1), memory
    lmtp.quit()
    # Nobody has opened the account yet, so nothing is packed.
    imap = cold(server)
    yield "FETCH 1:* FULL, of what came while nobody was logged in", *measured(server, lambda: imap.command("FETCH 1:* FULL"))
    settle(server)
    for name, command in COMMANDS:
        imap = cold(server)
        yield f"{name}, cold", *measured(server, lambda i=imap, c=command: i.command(c))
        if command.startswith("FETCH"):
            yield f"{name}, again", *measured(server, lambda i=imap, c=command: i.command(c))
    imap = cold(server)
    for name, command in CHANGES:
        yield name, *measured(server, lambda c=command: imap.command(c))
    server.kill()


def idle(server, seconds):
    """Requests while users wait in IDLE."""
    server.start()
    sessions = []
    for n in range(IDLE_USERS):
        server.user = f"user{n}@localhost"
        imap = server.wire()
        imap.command("SELECT INBOX")
        imap.socket.sendall(b"i IDLE\r\n")
        imap.line()
        sessions.append(imap)
    # Polling goes on, so there is nothing to wait for the end of.
    time.sleep(SETTLED)
    counted = measured(server, lambda: time.sleep(seconds))
    for imap in sessions:
        imap.close()
    server.kill()
    return counted


def told(one, two, times):
    """Seconds from the reply to a delivery to one server until a session that idles on the other is told, sorted."""
    for server in (one, two):
        server.start()
    imap, lmtp = two.wire(), one.lmtp()
    imap.command("SELECT INBOX")
    imap.socket.sendall(b"i IDLE\r\n")
    imap.line()
    time.sleep(SETTLED)
    seconds, source = [], random.Random(1)
    for number in range(times):
        # At any moment between two polls.
        time.sleep(source.uniform(0, 2))
        lmtp.sendmail("sender@example.org", [one.user], message(number))
        began = time.monotonic()
        while b"EXISTS" not in imap.line():
            pass
        seconds.append(time.monotonic() - began)
    imap.close()
    lmtp.quit()
    for server in (one, two):
        server.kill()
    return sorted(seconds)


def two(arguments, work, backend, first, lines=()):
    """A second server beside `first`, and that one with the same lines of configuration."""
    one = Server(arguments.sealpost.resolve(), work / "server", backend, lines=lines)
    other = Server(arguments.sealpost.resolve(), work / "other", backend, lines=lines)
    (other.work / "data").mkdir(exist_ok=True)
    shutil.copy(first.work / "data" / "server.key", other.work / "data" / "server.key")
    for server in (one, other):
        server.user = "user0@localhost"
    return one, other


def add(server, name):
    made = server.run("account", "add", name, "--password-file", str(server.work / "password"))
    assert made.returncode == 0, made.stderr


def rows(make, work, arguments):
    """Name to requests, seconds and MiB; and name to how long it took to tell others."""
    backend = make(work)
    nats, servers = None, []
    try:
        backend.start()
        server = Server(arguments.sealpost.resolve(), work / "server", backend)
        servers.append(server)
        add(server, ACCOUNT)
        say(f"{backend.name}: {arguments.messages} messages")
        found, heard = {}, {}
        for name, *counted in mailbox(server, arguments.messages):
            found[name] = counted
            requests, seconds, memory = counted
            say(f"  {name}: {requests:.2f} requests, {time_of(seconds)}, {memory:.0f} MiB")
        if backend.endpoint:
            for n in range(IDLE_USERS):
                add(server, f"user{n}@localhost")
            say(f"  {IDLE_USERS} users in IDLE, polling: {SETTLED + arguments.idle} s")
            found[f"{IDLE_USERS} users in IDLE, {arguments.idle} s, polling"] = idle(server, arguments.idle)
            say(f"  {arguments.told} deliveries that another server tells of by polling: some seconds each")
            servers += two(arguments, work, backend, server)
            heard["told by polling"] = told(*servers[-2:], arguments.told)
            if arguments.nats:
                port = backends.free_port()
                nats = backends.Process([arguments.nats, "-a", "127.0.0.1", "-p", port], work / "nats.log", port)
                nats.start()
                servers += two(arguments, work, backend, server, ["[bus]", f'url = "nats://127.0.0.1:{port}"'])
                say(f"  the same with a bus, and {5 * arguments.told} deliveries: about a second each")
                found[f"{IDLE_USERS} users in IDLE, {arguments.idle} s, with a bus"] = idle(servers[-2], arguments.idle)
                servers[-2].user = "user0@localhost"
                heard["told by a bus"] = told(*servers[-2:], 5 * arguments.told)
            for name, seconds in heard.items():
                say(f"  {name}: {time_of(seconds[len(seconds) // 2])} in the middle, {time_of(seconds[-1])} at most")
        return found, heard
    finally:
        for server in servers:
            server.kill()
        if nats:
            nats.stop()
        backend.stop()


def say(text):
    print(text, file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sealpost", type=Path, required=True, help="a release build: cargo build --release -p sealpost")
    parser.add_argument("--messages", type=int, default=1000)
    parser.add_argument("--idle", type=int, default=60, help="seconds that users wait in IDLE while requests are counted")
    parser.add_argument("--nats", type=Path, help="nats-server: what a bus changes is measured too")
    parser.add_argument("--told", type=int, default=40, help="deliveries to one server of which another is to tell; five times as many with a bus")
    parser.add_argument("--write", action="store_true", help="into docs/benchmarks.md")
    arguments = parser.parse_args()
    for program in filter(None, [arguments.sealpost, arguments.nats]):
        if not program.exists():
            parser.error(f"there is no {program}")
    # What was started is stopped, however this ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    columns, heard = {}, {}
    for name, make in [("bucket", backends.Garage), ("local", backends.Local)]:
        work = Path(tempfile.mkdtemp(prefix="sealpost-measure-"))
        try:
            columns[name], told_there = rows(make, work, arguments)
            heard |= told_there
        except backends.Missing as missing:
            sys.exit(f"{missing}")
        finally:
            backends.remove(work)
    text = "\n".join(table(columns, heard))
    print(text)
    if arguments.write:
        page = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
        before, rest = page.read_text().split(BEGIN)
        page.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}")


def bar(name):
    return next((bar for begins, bar in BARS.items() if re.sub(r", \d+ s,", ",", name).startswith(begins)), "")


def table(columns, heard):
    load = os.getloadavg()[0]
    yield f"{os.cpu_count()} cores, a load of {load:.0f} at the end.\n"
    yield "| | requests | time | peak memory | bar | local store: time | peak memory |"
    yield "|---|---|---|---|---|---|---|"
    for name, (requests, seconds, memory) in columns["bucket"].items():
        local = columns["local"].get(name)
        beside = f"{time_of(local[1])} | {local[2]:.0f} MiB" if local else " | "
        took = "" if "IDLE" in name else time_of(seconds)
        row = f"| {name} | {requests:.2f} | {took} | {memory:.0f} MiB | {bar(name)} | {beside} |"
        yield row.replace(".00 |", " |", 1)
    yield "\nFrom the reply to a delivery on one server to `EXISTS` in an idle session on another:\n"
    yield "| | times | median | p99 | longest | bar |"
    yield "|---|---|---|---|---|---|"
    for name, seconds in heard.items():
        middle, most = seconds[len(seconds) // 2], seconds[max(0, -(-len(seconds) * 99 // 100) - 1)]
        yield (f"| {name} | {len(seconds)} | {time_of(middle)} | {time_of(most)} | {time_of(seconds[-1])} | {bar(name)} |")


def time_of(seconds):
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


if __name__ == "__main__":
    main()
