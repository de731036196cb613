#!/usr/bin/env python3
"""Real stores: the store's contract against each, a whole server over it that is killed together with its store, and two servers
over it: under stress (stress.py), and under load while everything is killed or cut off (trouble.py).

    tests/stores/run.py --sealpost PATH [--only NAME …] [--messages 200] [--stress SECONDS] [--keep]

Starts and stops everything itself. What is not installed is left out and named (tests/stores/install.sh builds it). Exit status 1 if a
check failed, or if all that was asked for by --only was left out."""

import argparse
import contextlib
import imaplib
import json
import os
import re
import shutil
import signal
import smtplib
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import backends
import network
import stress
import trouble
from servers import ACCOUNT, PASSWORD, Server

ROOT = Path(__file__).resolve().parents[2]
MARK = "X-Number"
#: The message that is uploaded in many parts.
LARGE = 7


def is_large(number):
    """Whether it is uploaded in parts."""
    return number % 20 == 0 or number == LARGE


def message(number):
    # The large ones do not compress.
    body = "text of a message\r\n" * (number % 50)
    if number % 20 == 0:
        body += "\r\n".join(os.urandom(35).hex() for _ in range(3000))
    if number == LARGE:
        body += "\r\n".join(os.urandom(35).hex() for _ in range(130_000))
    return f"From: a@example.org\r\nTo: {ACCOUNT}\r\nSubject: number {number}\r\n{MARK}: {number}\r\n\r\n{body}\r\n"


def deliver(server, numbers):
    """Those that were acknowledged."""
    acknowledged = {}
    with server.lmtp() as lmtp:
        for number in numbers:
            text = message(number)
            try:
                lmtp.sendmail("sender@example.org", [ACCOUNT], text)
                acknowledged[number] = text
            except smtplib.SMTPResponseException as refused:
                assert 400 <= refused.smtp_code < 500, refused
            except smtplib.SMTPRecipientsRefused as refused:
                assert all(400 <= code < 500 for code, _ in refused.recipients.values()), refused
    return acknowledged


def read(server):
    """All messages by their number."""
    session = server.imap()
    try:
        found = {}
        _, [count] = session.select("INBOX")
        if int(count) == 0:
            return found
        status, fetched = session.fetch("1:*", "(UID BODY.PEEK[])")
        assert status == "OK", fetched
        for part in fetched:
            if not isinstance(part, tuple):
                continue
            text = part[1].decode()
            number = int(text.split(f"{MARK}: ")[1].split("\r\n")[0])
            assert number not in found, f"message {number} is there twice"
            found[number] = text
        return found
    finally:
        session.logout()


def compare(found, acknowledged, what):
    missing = sorted(set(acknowledged) - set(found))
    assert not missing, f"{what}: acknowledged and not there: {missing}"
    for number, text in acknowledged.items():
        assert found[number].endswith(text), f"{what}: message {number} is another"


def contract(backend):
    environment = {**os.environ, **backend.environment, "SEALPOST_TEST_STORE": backend.url + "-contract",
                   "SEALPOST_TEST_REGION": backend.region}
    if backend.endpoint:
        environment["SEALPOST_TEST_ENDPOINT"] = backend.endpoint
    command = ["cargo", "test", "--quiet", "-p", "sealpost-vault", "--lib", "contract::a_real_store"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1500:]
    assert "1 passed" in done.stdout, done.stdout[-500:]


def whole_server(sealpost, work, backend, messages):
    server = Server(sealpost, work, backend)
    numbers = [n for n in range(messages) if not is_large(n) or getattr(backend, "parts", True)]
    made = server.run("account", "add", ACCOUNT, "--password-file", str(work / "password"))
    assert made.returncode == 0, made.stderr
    # By now there is a store where it is a local one: the probe makes none.
    if getattr(backend, "parts", True):
        probed(server, backend)
    try:
        server.start()
        acknowledged = measured(server, f"{messages} messages delivered", lambda: deliver(server, numbers))
        assert len(acknowledged) == len(numbers)
        compare(measured(server, "all read", lambda: read(server)), acknowledged, "read")
        server.kill()
        shutil.rmtree(work / "data" / "cache", ignore_errors=True)
        server.start()
        compare(measured(server, "all read by a new server without a cache", lambda: read(server)), acknowledged, "cold")
        server.kill()
        server.start()
        compare(measured(server, "all read by a new server with a cache", lambda: read(server)), acknowledged, "warm")
        if getattr(backend, "durable", True):
            acknowledged |= killed(server, backend, acknowledged, messages)
        if hasattr(backend, "kill_one") and len(backend.processes) > 1:
            backend.kill_one()
            acknowledged |= deliver(server, range(messages + 3, messages + 23))
            assert len(acknowledged) == messages + 23, "refused with one node of three dead"
            backend.revive_one()
        server.kill()
        server.start()
        compare(read(server), acknowledged, "read at the end")
        copied(server, work, backend)
    finally:
        server.kill()
    checked = server.run("check", "--account", ACCOUNT, "--password-file", str(work / "password"))
    assert checked.returncode == 0, checked.stdout + checked.stderr


def probed(server, backend):
    probe = server.run("store", "probe", "--json")
    assert probe.returncode == 0, probe.stderr
    found = json.loads(probe.stdout)
    say(f"  probe: {probe.stdout.strip()}")
    if backend.conditional:
        assert found["conditional_create"] == backend.conditional, found


def killed(server, backend, acknowledged, messages):
    """Both are killed, then the store alone; what is acknowledged meanwhile."""
    server.kill()
    backend.kill()
    backend.start()
    server.start()
    compare(read(server), acknowledged, "read after both were killed")
    # The store goes while mail comes; what is refused then comes again, as senders do.
    backend.kill()
    during = deliver(server, range(messages, messages + 3))
    assert not during or backend.name == "local", "acknowledged without a store"
    backend.start()
    again = [n for n in range(messages, messages + 3) if n not in during]
    during |= deliver(server, again)
    assert len(during) == 3, "not all is well after the store came back"
    return during


def two_servers(sealpost, work, backend):
    """Over one store, with one key; on machines of their own if the backend has some."""
    places = getattr(backend, "servers", [network.HERE] * 2)
    endpoints = getattr(backend, "endpoints", [backend.endpoint])
    one, two = (Server(sealpost, work / f"server-{n}", backend, place, endpoints[n % len(endpoints)])
                for n, place in enumerate(places))
    made = one.run("account", "add", ACCOUNT, "--password-file", str(one.work / "password"))
    assert made.returncode == 0, made.stderr
    (two.work / "data").mkdir()
    shutil.copy(one.work / "data" / "server.key", two.work / "data" / "server.key")
    return one, two


def several(sealpost, work, backend, seconds):
    """Two servers, whatever happens to them and to the store; the backend's bucket is new to them."""
    backend.url += "-several"
    servers = two_servers(sealpost, work, backend)
    try:
        for server in servers:
            server.start()
        say(f"  stress of two servers for {seconds} s")
        done = stress.run(servers, seconds)
        say(f"  stress: {sum(done.values())} commands, both agree: {done}")
        for server in servers:
            server.kill()
        stress_end = checked(servers[0])
        trouble.run(backend, servers, getattr(backend, "machines", None), say)
    finally:
        for server in servers:
            server.kill()
    assert checked(servers[1]) >= stress_end


def checked(server):
    """`sealpost check` finds nothing; how many messages it has looked at."""
    done = server.run("check", "--account", ACCOUNT, "--password-file", str(server.work / "password"), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)["checked"]["messages"]


def measured(server, what, work):
    """Does the work and says how long it took and what was asked of the store."""
    requests, began = server.requests(), time.monotonic()
    done = work()
    say(f"  {what}: {time.monotonic() - began:.1f} s, {server.requests() - requests} requests")
    return done


def copied(server, work, backend):
    """A backup while the server runs, again, and what is in it."""
    backup = work / "backup"
    before = set()
    for round_ in range(6):
        done = server.run("backup", backend.url, str(backup), "--json")
        assert done.returncode == 0, done.stderr
        summary = json.loads(done.stdout)
        say(f"  copy: {summary['copied']} copied, {summary['already']} were there")
        new = objects(backup) - before
        assert summary["copied"] == len(new), f"what was there was copied again: {summary}, new: {sorted(new)}"
        # The server may be at its packs still, and has written nothing else.
        assert round_ == 0 or all("/pack/" in path for path in new), sorted(new)
        before |= new
        if not new:
            break
    else:
        raise AssertionError(f"there was something new each time: {sorted(new)}")
    (backup / "server.key").write_bytes((work / "data" / "server.key").read_bytes())
    checked = subprocess.run([str(server.sealpost), "check", "--dir", str(backup), "--account", ACCOUNT, "--password-file",
                              str(work / "password")], capture_output=True, text=True, timeout=300)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def objects(directory):
    """The paths of what a local store has."""
    with contextlib.closing(sqlite3.connect(f"file:{directory}/objects.sqlite?mode=ro", uri=True)) as index:
        return {path for path, in index.execute("SELECT path FROM objects")}


def say(text):
    print(text, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sealpost", type=Path, required=True)
    parser.add_argument("--only", action="append", choices=list(backends.all_of(None)))
    parser.add_argument("--messages", type=int, default=200)
    parser.add_argument("--stress", type=int, default=30, help="seconds of it; 0: no second server")
    parser.add_argument("--keep", action="store_true", help="leave the data and logs")
    parser.add_argument("--no-contract", action="store_true")
    arguments = parser.parse_args()
    # A backend that is interrupted is stopped like any other.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if not arguments.sealpost.exists():
        parser.error(f"there is no {arguments.sealpost}: cargo build -p sealpost")
    failed, left_out = 0, []
    for name, make in backends.all_of(None).items():
        if arguments.only and name not in arguments.only:
            continue
        work = Path(tempfile.mkdtemp(prefix=f"sealpost-{name}-"))
        backend, keep = None, arguments.keep
        try:
            backend = make(work)
            say(f"{name}: starting")
            backend.start()
            whole = backend.name != "local" and getattr(backend, "parts", True)
            if whole and not arguments.no_contract and not hasattr(backend, "machines"):
                say("  contract: building the test if it is not, then running it")
                contract(backend)
                say("  contract kept")
            if not hasattr(backend, "machines"):
                whole_server(arguments.sealpost.resolve(), work, backend, arguments.messages)
            if arguments.stress:
                several(arguments.sealpost.resolve(), work, backend, arguments.stress)
            say(f"{name}: ok")
        except backends.Missing as missing:
            left_out.append(name)
            say(f"{name}: left out. {missing}")
        except Exception as problem:  # noqa: BLE001 - whatever it was, the next store is tried
            failed += 1
            say(f"{name}: FAILED: {problem!r}\n  logs in {work}")
            keep = True
        finally:
            if backend:
                backend.stop()
        if not keep:
            backends.remove(work)
    if left_out:
        say(f"left out: {', '.join(left_out)}")
    if arguments.only and set(arguments.only) <= set(left_out):
        return 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
