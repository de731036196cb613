"""Two servers on one store: what either acknowledged is there exactly once, and both say the same."""

import contextlib
import json
import re
import signal
import subprocess
import threading

from harness import BOB, Context, Skip, check, ensure, equal, fetch, ok, raw_append

#: Per server: deliveries, and messages that a session appends and moves about.
DELIVERIES, APPENDS = 60, 40


@contextlib.contextmanager
def second(context, services=("imap", "lmtp"), connections=""):
    """Another server on the data directory of the one under test, with these services, and lines for its section of connections."""
    if not context.binary:
        raise Skip("the binary is not known")
    configuration = context.work / "second.toml"
    listen = "".join(f"{name} = {json.dumps(['127.0.0.1:0'] if name in services else [])}\n"
                     for name in ("smtp", "lmtp", "imap", "imaps"))
    configuration.write_text(f'directory = "{context.work / "server"}"\n[listen]\n{listen}[connections]\n{connections}\n')
    log = open(context.work / "second.log", "wb")
    process = subprocess.Popen([context.binary, "serve", "--config", str(configuration), "--json"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
    try:
        line = process.stdout.readline()
        ensure(line, (context.work / "second.log").read_text())
        ready = {name: value[0] for name, value in json.loads(line).items() if name in services and value}
        yield Context(ready, context.work, sealpost=True)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)
        process.stdout.close()
        log.close()


def message(subject):
    return f"From: ada@localhost\r\nSubject: {subject}\r\n\r\n{subject}\r\n".encode()


def subjects(context, mailbox):
    """UIDVALIDITY, and the subject of every UID."""
    session = context.imap(BOB)
    ok(session.select(mailbox, readonly=True))
    validity = session.response("UIDVALIDITY")[1][0]
    rows = fetch(session, "1:*", "(UID BODY.PEEK[HEADER.FIELDS (SUBJECT)])", uid=True)
    session.logout()
    found = {}
    for line, literals in rows:
        uid = int(re.search(rb"UID (\d+)", line)[1])
        found[uid] = literals[0].decode().split(":", 1)[1].strip()
    return validity, found


@check("two servers on one store: everything once, and both agree", "imap", "lmtp", sealpost_only=True)
def both(context):
    with second(context) as other:
        servers = [context, other]
        session = context.imap(BOB)
        prefix = context.fresh("Nodes")
        boxes = [prefix, f"{prefix}-moved"]
        for box in boxes:
            ok(session.create(box))
        session.logout()
        acknowledged, uids, failures = [], [], []

        def guarded(work):
            def run(*arguments):
                try:
                    work(*arguments)
                except Exception as error:  # told when all have ended
                    failures.append(repr(error))
            return run

        @guarded
        def deliver(server, name):
            with server.lines("lmtp") as lmtp:
                lmtp.expect(220)
                lmtp.command("LHLO interop.example", 250)
                for number in range(DELIVERIES):
                    subject = f"{prefix}-{name}-{number}"
                    lmtp.command("MAIL FROM:<sender@interop.example>", 250)
                    lmtp.command(f"RCPT TO:<{BOB}>", 250)
                    lmtp.command("DATA", 354)
                    lmtp.data(message(subject))
                    acknowledged.append(subject)

        @guarded
        def append(server, name):
            session = server.imap(BOB)
            ok(session.select(boxes[0]))
            for number in range(APPENDS):
                subject = f"{prefix}-{name}-{number}"
                uid = raw_append(session, boxes[0], message(subject))
                acknowledged.append(subject)
                if number % 4 == 0:
                    ok(session.uid("STORE", str(uid), "+FLAGS", r"(\Flagged)"))
                if number % 4 == 1:
                    ok(session.uid("MOVE", str(uid), boxes[1]))
                else:
                    uids.append((uid, subject))
            session.logout()

        threads = []
        for at, server in enumerate(servers):
            threads += [threading.Thread(target=deliver, args=(server, f"lmtp{at}{n}")) for n in range(2)]
            threads += [threading.Thread(target=append, args=(server, f"imap{at}{n}")) for n in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        equal(failures, [], "commands that failed")

        seen = [[subjects(server, box) for box in ["INBOX", *boxes]] for server in servers]
        equal(seen[0], seen[1], "the two servers")
        there = [subject for _, found in seen[0] for subject in found.values() if subject.startswith(f"{prefix}-")]
        equal(sorted(there), sorted(acknowledged), "what is there, and what was acknowledged")
        equal(len(acknowledged), 4 * (DELIVERIES + APPENDS))
        placed = seen[0][1][1]
        for uid, subject in uids:
            equal(placed.get(uid), subject, f"UID {uid}")


@check("a session is told of what another server takes", "imap", "lmtp", sealpost_only=True)
def told(context):
    with second(context) as other, context.lines("imap") as idle:
        idle.line()
        idle.send(f'a LOGIN {BOB} "correct horse battery"\r\n')
        idle.tagged(b"a")
        idle.send("b SELECT INBOX\r\n")
        idle.tagged(b"b")
        idle.send("c IDLE\r\n")
        ensure(idle.line().startswith(b"+"), "IDLE goes on")
        other.deliver(message(context.fresh("told")), BOB)
        while True:
            line = idle.line()
            if line.endswith(b" EXISTS\r\n"):
                break
            ensure(line.startswith(b"* "), line)
        idle.send("DONE\r\n")
        idle.tagged(b"c")
