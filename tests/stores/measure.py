#!/usr/bin/env python3
"""What a mailbox of a thousand messages costs on a bucket: requests to the store, time, and the server's peak memory, for each
command; beside the same on the local store.

    tests/stores/measure.py --sealpost PATH [--messages 1000] [--nats PATH] [--idle 60]

Garage, one node, on this machine (install.sh builds it). "Cold" is a server that was just started, without a cache on its disk. With
--nats, users in IDLE are counted with a bus too. Prints the table of docs/benchmarks.md."""

import argparse
import os
import random
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
IDLE_USERS = 16
#: By then what a login sets going is done, in seconds.
SETTLED = 20


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
    imap = server.wire()
    imap.command("SELECT INBOX")
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


def add(server, name):
    made = server.run("account", "add", name, "--password-file", str(server.work / "password"))
    assert made.returncode == 0, made.stderr


def rows(make, work, arguments):
    backend = make(work)
    nats, server, told = None, None, None
    try:
        backend.start()
        server = Server(arguments.sealpost.resolve(), work / "server", backend)
        add(server, ACCOUNT)
        found = {}
        for name, *counted in mailbox(server, arguments.messages):
            found[name] = counted
            say(f"  {backend.name}: {name}: {counted}")
        if backend.endpoint:
            for n in range(IDLE_USERS):
                add(server, f"user{n}@localhost")
            found[f"{IDLE_USERS} users in IDLE, {arguments.idle} s, polling"] = idle(server, arguments.idle)
            if arguments.nats:
                port = backends.free_port()
                nats = backends.Process([arguments.nats, "-a", "127.0.0.1", "-p", port], work / "nats.log", port)
                nats.start()
                lines = ["[bus]", f'url = "nats://127.0.0.1:{port}"']
                told = Server(arguments.sealpost.resolve(), work / "server", backend, lines=lines)
                found[f"{IDLE_USERS} users in IDLE, {arguments.idle} s, with a bus"] = idle(told, arguments.idle)
        return found
    finally:
        for one in (server, told):
            if one:
                one.kill()
        if nats:
            nats.stop()
        backend.stop()


def say(text):
    print(text, file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sealpost", type=Path, required=True)
    parser.add_argument("--messages", type=int, default=1000)
    parser.add_argument("--idle", type=int, default=60)
    parser.add_argument("--nats", type=Path)
    arguments = parser.parse_args()
    # What was started is stopped, however this ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    columns = {}
    for name, make in [("bucket", backends.Garage), ("local", backends.Local)]:
        work = Path(tempfile.mkdtemp(prefix="sealpost-measure-"))
        try:
            columns[name] = rows(make, work, arguments)
        finally:
            backends.remove(work)
    print(f"| {os.cpu_count()} cores | requests | time | peak memory | on the local store: time | peak memory |")
    print("|---|---|---|---|---|---|")
    for name, (requests, seconds, memory) in columns["bucket"].items():
        local = columns["local"].get(name)
        beside = f"{time_of(local[1])} | {local[2]:.0f} MiB" if local else " | "
        took = "" if "IDLE" in name else time_of(seconds)
        print(f"| {name} | {requests:.1f} | {took} | {memory:.0f} MiB | {beside} |".replace(".0 |", " |", 1))


def time_of(seconds):
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


if __name__ == "__main__":
    main()
