"""Trouble under load: two servers on one store, clients that deliver and append through both, while nodes of either kind are killed,
stand still, and are cut off from each other. In the end every acknowledged message is there exactly once, whichever server is
asked, and `sealpost check` finds nothing.

A client never repeats a message, so none may be there twice, acknowledged or not."""

import re
import signal
import smtplib
import threading
import time
from collections import Counter

import wire
from servers import ACCOUNT

MARK = "X-Number"
#: Clients of each kind for each server.
CLIENTS = 2
#: How long each trouble lasts, and the peace after it, in seconds.
LASTS, PEACE = 8, 4


def message(number):
    body = "text of a message\r\n" * (number % 40)
    return f"From: a@example.org\r\nTo: {ACCOUNT}\r\nSubject: number {number}\r\n{MARK}: {number}\r\n\r\n{body}\r\n"


class Load:
    """Clients that go on until they are told to end."""

    def __init__(self, servers):
        self.servers, self.lock, self.ending = servers, threading.Lock(), threading.Event()
        self.acknowledged, self.number = {}, 0
        self.counts, self.failures, self.longest = Counter(), [], 0.0
        work = [(kind, server) for server in servers for kind in (self.deliver, self.append) for _ in range(CLIENTS)]
        self.threads = [threading.Thread(target=self.client, args=one) for one in work]
        for thread in self.threads:
            thread.start()

    def next(self):
        with self.lock:
            self.number += 1
            return self.number

    def client(self, kind, server):
        while not self.ending.is_set():
            try:
                kind(server)
            except (smtplib.SMTPException, wire.Unknown, OSError):
                # The connection ended. Whoever was not answered does not know.
                self.counts["lost connections"] += 1
                time.sleep(0.3)
            except Exception as error:  # noqa: BLE001 - told when all have ended
                self.failures.append(repr(error))
                return

    def deliver(self, server):
        lmtp = server.lmtp(timeout=60)
        while not self.ending.is_set():
            number = self.next()
            try:
                lmtp.sendmail("sender@example.org", [ACCOUNT], message(number))
                self.acknowledged[number] = None
                self.counts["delivered"] += 1
            except smtplib.SMTPRecipientsRefused as refused:
                self.refused(max(code for code, _ in refused.recipients.values()), refused)
            except smtplib.SMTPServerDisconnected:
                raise
            except smtplib.SMTPResponseException as refused:
                self.refused(refused.smtp_code, refused)

    def refused(self, status, why):
        """For now, and never for good."""
        if not 400 <= status < 500:
            self.failures.append(f"refused for good: {why!r}")
            self.ending.set()
        self.counts["refused for now"] += 1
        time.sleep(0.2)

    def append(self, server):
        imap = server.wire(timeout=60)
        while not self.ending.is_set():
            number = self.next()
            try:
                lines = imap.command("APPEND INBOX", message(number).encode())
            except wire.Refused as refused:
                if "[UNAVAILABLE]" not in str(refused):
                    self.failures.append(f"refused for good: {refused}")
                    self.ending.set()
                self.counts["refused for now"] += 1
                time.sleep(0.2)
                continue
            validity, uid = wire.code(lines, "APPENDUID").split(" ")
            self.acknowledged[number] = (int(validity), int(uid))
            self.counts["appended"] += 1

    def end(self):
        self.ending.set()
        for thread in self.threads:
            thread.join()
        assert not self.failures, self.failures[:5]


def shown(server):
    """Number to UIDVALIDITY and UID, as a server shows it; no number may be there twice."""
    imap = server.wire()
    validity = int(wire.code(imap.command("EXAMINE INBOX"), "UIDVALIDITY"))
    found = {}
    for line in imap.command(f"UID FETCH 1:* (BODY.PEEK[HEADER.FIELDS ({MARK})])"):
        number, uid = re.search(MARK.encode() + rb": (\d+)", line, re.I), re.search(rb"\bUID (\d+)", line)
        if line.startswith(b"* ") and number and uid:
            assert int(number[1]) not in found, f"message {int(number[1])} is there twice"
            found[int(number[1])] = (validity, int(uid[1]))
    imap.close()
    return found


def judge(servers, acknowledged):
    views = [shown(server) for server in servers]
    assert all(view == views[0] for view in views), "the servers do not agree"
    missing = sorted(set(acknowledged) - set(views[0]))
    assert not missing, f"acknowledged and not there: {missing[:10]} ({len(missing)})"
    moved = [n for n, uid in acknowledged.items() if uid and views[0][n] != uid]
    assert not moved, f"acknowledged under another UID: {[(n, acknowledged[n], views[0][n]) for n in moved[:5]]}"
    return len(views[0])


def steps(backend, servers, machines):
    """What goes wrong, one thing after the other: its name, what does it, and what ends it."""
    one, two = servers

    def restart(server):
        server.start()

    yield "a server is killed", two.kill, lambda: restart(two)
    yield "a server stands still", lambda: two.signal(signal.SIGSTOP), lambda: two.signal(signal.SIGCONT)
    if machines:
        for server, name in [(one, "one"), (two, "the other")]:
            yield f"{name} server is cut off from the store", server.place.cut, server.place.mend
    processes = getattr(backend, "processes", [])
    for node, process in list(enumerate(processes))[::-1] if len(processes) > 1 else []:
        yield f"node {node} of the store is killed", lambda p=process: p.stop(signal.SIGKILL), process.start
        if machines and node:
            yield f"node {node} of the store is cut off", machines[node].cut, machines[node].mend
    if backend.endpoint and len(processes) <= 1 and getattr(backend, "durable", True):
        yield "the store is killed", backend.kill, backend.start


def run(backend, servers, machines, say):
    """The load and the trouble. `machines`: of the store's nodes, if its network can be cut."""
    for server in servers:
        server.start()
    load = Load(servers)
    try:
        time.sleep(PEACE)
        for name, begin, finish in steps(backend, servers, machines):
            before = len(load.acknowledged)
            begin()
            time.sleep(LASTS)
            during = len(load.acknowledged)
            finish()
            if hasattr(backend, "meet"):
                backend.meet()
            time.sleep(PEACE)
            assert not load.ending.is_set(), load.failures
            say(f"    {name}: {during - before} acknowledged meanwhile, {len(load.acknowledged) - during} after it")
        time.sleep(2 * PEACE)
        before = len(load.acknowledged)
        time.sleep(PEACE)
        assert len(load.acknowledged) > before, "nothing is acknowledged when all is well again"
    finally:
        load.end()
    there = judge(servers, load.acknowledged)
    say(f"  trouble: {len(load.acknowledged)} acknowledged and there once, {there - len(load.acknowledged)} there that were "
        f"not acknowledged; {dict(load.counts)}")
