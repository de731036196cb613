"""`sealpost archive` as a client: pull, kill, verify, restore, migrate, against the server under test."""

import base64
import contextlib
import imaplib
import json
import os
import random
import signal
import subprocess
import time

from harness import ADA, BOB, PASSWORD, Skip, body, check, ensure, equal, flags, ok, raw_append, search
from messages import MULTIPART, NULS, SIMPLE, TRICKY, numbered


class Archive:
    """A data directory of the archive's own, and the server under test as accounts `ada` and `bob`."""

    def __init__(self, context, kind, tls=True):
        self.context, self.kind = context, kind
        self.home = context.work / context.fresh("archive")
        self.home.mkdir()
        password = self.home / "password"
        password.write_text(PASSWORD + "\n")
        service = "imaps" if tls else "imap"
        host, port = context.address(service)
        trust = ["--tls", "implicit", "--ca", context.certificate] if tls else ["--tls", "none"]
        host = "localhost" if tls else host
        self.server = lambda user: ["--host", host, "--port", port, *trust, "--user", user, "--password-file", password]
        self.copy = self.home / "copy"
        # A sealed copy has a password of its own.
        self.opens = ["--copy-password-file", password] if kind == "sealpost" else []

    def run(self, *arguments, status=0):
        """What the command says as JSON, a value for each line."""
        out = self.context.run(self.context.binary, "--dir", self.home, "--json", "archive", *arguments, status=status)
        return [json.loads(line) for line in out.decode().splitlines() if line.startswith("{")]

    def pull(self, *arguments, user=ADA, status=0):
        (summary,) = self.run("pull", *self.server(user), "--format", self.kind, "--into", self.copy, *self.opens, *arguments,
                              status=status)
        return summary

    def verify(self, folder, user=ADA):
        for found in self.run("verify", *self.server(user), "--format", self.kind, "--from", self.copy, *self.opens, "--all",
                              "--folder", folder):
            ensure(found["good"], found)


def filled(context, prefix, count=40):
    session, name = context.mailbox(prefix)
    for number in range(count):
        raw_append(session, name, numbered(number), "\\Seen" if number % 2 else "\\Flagged kept", "17-Jul-1996 02:44:25 -0700")
    raw_append(session, name, MULTIPART)
    odd = 0
    for what, message in TRICKY.items():
        if what != "header without end":
            try:
                raw_append(session, name, message)
                odd += 1
            except AssertionError as error:
                # Cyrus takes no messages whose header it cannot read, nor any with NUL.
                ensure("invalid header" in str(error) or "NUL" in str(error) or "bare newlines" in str(error), error)
    return session, name, count + 1 + odd


def pulls(context, kind, tls):
    session, name, count = filled(context, "Pulled")
    archive = Archive(context, kind, tls)
    only = ["--folder", name]
    equal(archive.pull(*only)["new"], count, "new")
    archive.verify(name)
    equal(archive.pull(*only)["new"], 0, "new the second time")

    # Changes: flags, an expunge, a new message.
    ok(session.store("1", "+FLAGS", "(\\Answered)"))
    ok(session.store("2", "+FLAGS", "(\\Deleted)"))
    ok(session.expunge())
    raw_append(session, name, SIMPLE)
    changed = archive.pull(*only)
    equal((changed["new"], changed["flags"], changed["gone"]), (1, 1, 1), "new, flags, gone")
    archive.verify(name)
    equal(archive.pull(*only)["gone"], 0, "gone is told once")
    # Verified with what is gone; then followed.
    archive.pull(*only, "--delete")
    archive.verify(name)
    session.logout()


@check("archive: pulls into mbox over TLS, and follows changes", "imaps")
def into_mbox(context):
    pulls(context, "mbox", True)


@check("archive: pulls into mbox in the clear, and follows changes", "imap")
def into_mbox_in_the_clear(context):
    pulls(context, "mbox", False)


@check("archive: pulls into a Maildir in the clear on loopback, and follows changes", "imap")
def into_maildir(context):
    pulls(context, "maildir", False)


@check("archive: pulls into an account of its own, and follows changes", "imap")
def into_sealpost(context):
    pulls(context, "sealpost", False)


@check("archive: a wrong password and a certificate of somebody else are told", "imaps", sealpost_only=True)
def refused(context):
    archive = Archive(context, "mbox")
    (archive.home / "password").write_text("wrong\n")
    context.run(context.binary, "archive", "pull", *archive.server(ADA), "--format", "mbox", "--into", archive.copy, status=4)
    host, port = context.address("imaps")
    output = context.run(context.binary, "archive", "pull", "--host", "localhost", "--port", port, "--user", ADA, "--password-file",
                         archive.home / "password", "--format", "mbox", "--into", archive.copy, status=1)
    ensure(b"not trusted" in output, output)


@check("archive: exports a copy to another format, each message once", "imap")
def exports(context):
    session, name, count = filled(context, "Exported", 5)
    archive = Archive(context, "mbox", False)
    archive.pull("--folder", name)
    target = archive.home / "maildir"
    command = ["export", "--from", archive.copy, "--from-format", "mbox", "--format", "maildir", "--into", target]
    archive.run(*command)
    archive.run(*command)
    equal(sum(1 for file in target.rglob("*") if file.parent.name in ("new", "cur")), count, "messages in the Maildir")
    # The same bytes again, back from the second format.
    archive.copy, archive.kind = target, "maildir"
    archive.verify(name)
    session.logout()


@check("archive: messages with NUL come as they are, and go back so", "imap", sealpost_only=True)
def nuls(context):
    session, name = context.mailbox("Nuls")
    large = NULS + b"more \0\r\n" * 20_000
    for message in (NULS, large):
        raw_append(session, name, message)
    for kind in ("maildir", "mbox"):
        archive = Archive(context, kind, False)
        archive.pull("--folder", name)
        files = [file.read_bytes() for file in archive.copy.rglob("*") if file.is_file()]
        for message in (NULS, large):
            # Files of these formats have line ends of Unix.
            kept = message.replace(b"\r\n", b"\n")
            ensure(any(kept in file for file in files), f"{kind}: {len(message)} bytes are not in the copy")
        archive.verify(name)
    ok(session.select(name, readonly=True))
    equal([body(session, n, "BINARY.PEEK[]") for n in (1, 2)], [NULS, large])
    session.logout()


def noisy(context, prefix, count, size):
    """A mailbox of that many messages that do not compress, the same in every run."""
    session, name = context.mailbox(prefix)
    chance = random.Random(count)
    for number in range(count):
        body = base64.encodebytes(chance.randbytes(size)).replace(b"\n", b"\r\n")
        raw_append(session, name, numbered(number) + body)
    return session, name


@check("archive: what is damaged in a copy is found and repaired, and one of another account left alone", "imap")
def repairs(context):
    # Too large for the database of a sealed copy: they are in files.
    session, name = noisy(context, "Repaired", 12, 80_000)
    for kind in ("mbox", "maildir", "sealpost"):
        archive = Archive(context, kind, False)
        only = ["--folder", name]
        archive.pull(*only)
        # A byte within a message of the largest file changes.
        files = [path for path in archive.copy.rglob("*") if path.is_file() and "sqlite" not in path.name]
        largest = max(files, key=lambda path: path.stat().st_size)
        with largest.open("r+b") as file:
            file.seek(largest.stat().st_size * 3 // 7)
            byte = file.read(1)
            file.seek(-1, 1)
            file.write(bytes([byte[0] ^ 1]))
        verify = ["verify", *archive.server(ADA), "--format", kind, "--from", archive.copy, *archive.opens, *only]
        (found,) = archive.run(*verify, status=1)
        equal((found["missing"], len(found["damaged"])), (0, 1), f"{kind}: missing, damaged")
        (found,) = archive.run(*verify, "--repair")
        equal((found["repaired"], found["repaired_uids"].isdigit(), found["good"]), (1, True, True), kind)
        archive.verify(name)
        equal(archive.pull(*only)["new"], 0, f"{kind}: new after the repair")
        before = {path: path.stat().st_mtime_ns for path in archive.copy.rglob("*.mbox")}
        refused = archive.pull(user=BOB, status=1)
        ensure(ADA in refused["error"], refused)
        equal({path: path.stat().st_mtime_ns for path in archive.copy.rglob("*.mbox")}, before, "the files of another account")
        archive.run("pull", *archive.server(ADA), "--format", kind, "--into", archive.copy, *archive.opens, "--folder", "Nosuch", status=3)
    session.logout()


# The same command on a disk that is full, then has room, then is read-only. Nobody else sees these mounts.
DISKS = """
mount -t tmpfs -o size=400k tmpfs "$DISK" || exit 99
"$@"; echo "status $?"
mount -o remount,size=64m "$DISK"
"$@"; echo "status $?"
mount -o remount,ro "$DISK"
"$@"; echo "status $?"
"""


@check("archive: a full disk and a read-only one are told, and what comes next is complete", "imap", program="unshare")
def full_disk(context):
    session, name = noisy(context, "Disk", 60, 12_000)
    for kind in ("mbox", "maildir", "sealpost"):
        archive = Archive(context, kind, False)
        disk = archive.home / "disk"
        disk.mkdir()
        pull = [context.binary, "--dir", archive.home, "archive", "pull", *archive.server(ADA), "--format", kind,
                "--into", disk / "copy", *archive.opens, "--folder", name]
        run = subprocess.run(["unshare", "-rm", "sh", "-c", DISKS, "sh", *map(str, pull)], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "DISK": str(disk)}, timeout=120)
        if run.returncode and b"status" not in run.stdout:
            raise Skip("no mounts of one's own here")
        full, room, fixed, _ = run.stdout.decode().split("status ")
        ensure("the disk is full" in full and "os error" not in full, full)
        ensure(room.startswith("75") and " new messages" in room, room)
        ensure(fixed.startswith("0") and "the disk is read-only" in fixed, fixed)
        ensure(run.stdout.strip().endswith(b"75"), run.stdout.decode())
    session.logout()


@check("archive: killed at random moments, then continued to a complete copy", "imap")
def killed(context):
    session, name = context.mailbox("Killed")
    for number in range(1500):
        raw_append(session, name, numbered(number))
    archive = Archive(context, "mbox", tls=False)
    command = [context.binary, "archive", "pull", *archive.server(ADA), "--format", "mbox", "--into", archive.copy, "--folder", name]
    chance = random.Random(7)
    for attempt in range(12):
        process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0.01, 0.4))
        process.send_signal(signal.SIGKILL if attempt % 3 else signal.SIGTERM)
        # SIGTERM may come before anybody listens to it.
        ensure(process.wait(20) in (0, 75, -9, -15), f"status {process.returncode}")
    archive.pull("--folder", name)
    archive.verify(name)
    session.logout()


@check("archive: restores and migrates, nothing twice, dates and flags kept", "imap")
def restores(context):
    session, name, count = filled(context, "Restored")
    archive = Archive(context, "mbox", tls=False)
    archive.pull("--folder", name)
    restore = ["restore", "--from", archive.copy, "--format", "mbox", *archive.server(BOB), "--folder", name]
    (first,) = archive.run(*restore)
    equal((first["put"], first["failed"]), (count, 0), "put")
    (second,) = archive.run(*restore)
    equal((second["put"], second["there"]), (0, count), "put the second time")
    there = context.imap(BOB)
    ok(there.select(name))
    (uid,) = search(there, "SUBJECT", '"number 2"', "FLAGGED", uid=True)[:1]
    equal(flags(there, uid, uid=True) & {"\\Flagged", "kept", "\\Seen"}, {"\\Flagged", "kept"})
    date = there.uid("FETCH", str(uid), "(INTERNALDATE)")[1][0]
    ensure(b"17-Jul-1996" in date, date)
    for what in (MULTIPART,):
        found = search(there, "HEADER", "Message-ID", "multipart@", uid=True)
        equal(body(there, found[0], uid=True), what)
    ok(there.close())
    ok(there.delete(name))

    archive.run("add", "ada", *archive.server(ADA), "--format", "mbox", "--into", archive.home / "a")
    archive.run("add", "bob", *archive.server(BOB), "--format", "maildir", "--into", archive.home / "b")
    (first,) = archive.run("migrate", "ada", "bob", "--folder", name)
    equal((first["put"], first["failed"]), (count, 0), "migrated")
    (second,) = archive.run("migrate", "ada", "bob", "--folder", name)
    equal(second["put"], 0, "migrated the second time")
    lines = (archive.home / "archive" / "ada-bob.uids").read_text().splitlines()
    map_lines = [line for line in lines if "there" in json.loads(line)]
    equal(len(map_lines), count, "the map of UIDs")
    there.logout()
    session.logout()


@check("archive: what a restore put back is the copy's already, whatever ends the restore", "imap")
def restored_and_pulled(context):
    session, name, count = filled(context, "Again", 60)
    for kind in ("mbox", "maildir", "sealpost"):
        archive = Archive(context, kind, tls=False)
        archive.pull("--folder", name)
        restore = ["restore", "--from", archive.copy, *archive.opens, *archive.server(ADA), "--folder", name]
        for cycle in range(3):
            ok(session.select(name))
            ok(session.store("1:*" if cycle != 1 else "3:40", "+FLAGS.SILENT", "(\\Deleted)"))
            ok(session.expunge())
            ok(session.unselect())
            if cycle == 2:
                # One that is killed, and a pull before it is run again.
                command = [context.binary, "--dir", archive.home, "archive", *map(str, restore)]
                process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(0.1)
                process.send_signal(signal.SIGKILL)
                process.wait(60)
                archive.pull("--folder", name)
            archive.run(*restore)
            pulled = archive.pull("--folder", name)
            equal(pulled["new"], 0, f"{kind}: new messages in cycle {cycle}")
            archive.verify(name)
            (stats,) = archive.run("stats", "--from", archive.copy, *archive.opens)
            equal((stats["messages"], stats["gone"]), (count, 0), f"{kind}: in the copy after cycle {cycle}")
            ok(session.select(name, readonly=True))
            equal(len(search(session, "ALL")), count, f"{kind}: at the server after cycle {cycle}")
            ok(session.unselect())
    session.logout()


@check("archive: mirrors: flags follow, what is gone goes, what is the owner's stays", "imap")
def mirrors(context):
    session, name, count = filled(context, "Mirrored", 10)
    archive = Archive(context, "mbox", tls=False)
    archive.run("add", "ada", *archive.server(ADA), "--format", "mbox", "--into", archive.home / "a")
    archive.run("add", "bob", *archive.server(BOB), "--format", "maildir", "--into", archive.home / "b")
    there = context.imap(BOB)
    ok(there.create(name))
    raw_append(there, name, numbered(999))
    mirror = ["mirror", "ada", "bob", "--folder", name]
    (first,) = archive.run(*mirror)
    equal((first["put"], first["failed"], first["flags"], first["removed"]), (count, 0, 0, 0), "put")

    ok(session.store("1", "+FLAGS", "(\\Answered later)"))
    ok(session.store("2", "+FLAGS", "(\\Deleted)"))
    ok(session.expunge())
    (dry,) = archive.run(*mirror, "--dry-run")
    equal((dry["put"], dry["flags"], dry["removed"]), (0, 1, 1), "dry run")
    (second,) = archive.run(*mirror)
    equal((second["put"], second["flags"], second["removed"]), (0, 1, 1), "flags and removed")
    (third,) = archive.run(*mirror)
    equal((third["put"], third["flags"], third["removed"]), (0, 0, 0), "the third time")
    ok(there.select(name))
    equal(len(search(there, "ALL", uid=True)), count, "messages there, the owner's included")
    equal(len(search(there, "KEYWORD", "later", "ANSWERED", uid=True)), 1, "flags")
    equal(len(search(there, "SUBJECT", '"number 999"', uid=True)), 1, "the owner's")

    # All of it gone by mistake.
    ok(session.store("1:*", "+FLAGS", "(\\Deleted)"))
    ok(session.expunge())
    (refused,) = archive.run(*mirror, status=1)
    equal(refused["removed"], 0, "removed")
    ensure("--force" in refused["folders"][0]["error"], refused)
    (forced,) = archive.run(*mirror, "--force")
    equal(forced["removed"], count - 1, "removed with --force")
    ok(there.select(name))
    equal(len(search(there, "ALL", uid=True)), 1, "what is the owner's")
    there.logout()
    session.logout()


@check("archive: migrate killed at random moments, then continued: every message once", "imap")
def migrate_killed(context):
    session, name = context.mailbox("Moved")
    for number in range(600):
        # Some without a Message-ID.
        raw_append(session, name, numbered(number, **({"Message_ID": None} if number % 10 == 0 else {})), "\\Flagged")
    archive = Archive(context, "mbox", tls=False)
    archive.run("add", "ada", *archive.server(ADA), "--format", "mbox", "--into", archive.home / "a")
    archive.run("add", "bob", *archive.server(BOB), "--format", "mbox", "--into", archive.home / "b")
    command = [context.binary, "--dir", archive.home, "archive", "migrate", "ada", "bob", "--folder", name]
    chance = random.Random(11)
    killed = 0
    for attempt in range(12):
        process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0.02, 0.5))
        process.send_signal(signal.SIGKILL if attempt % 3 else signal.SIGTERM)
        killed += process.wait(20) != 0
    (last,) = archive.run("migrate", "ada", "bob", "--folder", name)
    equal(last["failed"], 0, "failed")
    there = context.imap(BOB)
    ok(there.select(name))
    equal(len(search(there, "ALL")), 600, f"messages after {killed} kills")
    for number in (0, 10, 299, 599):
        equal(len(search(there, "SUBJECT", f'"number {number}"', "TEXT", f'"message {number}."')), 1, f"number {number}")
    (again,) = archive.run("migrate", "ada", "bob", "--folder", name)
    equal((again["put"], again["there"]), (0, 600), "migrated again")
    there.logout()
    session.logout()


def attached(number, chance):
    """A mail of 30 kB, nearly all of it an attachment, with a word of its own in its text."""
    encoded = base64.encodebytes(chance.randbytes(21500)).replace(b"\n", b"\r\n")
    return (f"From: Ada <ada@localhost>\r\nSubject: kept {number}\r\nMessage-ID: <kept-{number}@interop.example>\r\n"
            "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n"
            f"--b\r\nContent-Type: text/plain\r\n\r\nThe word here is zanzibar{number}x.\r\n"
            "--b\r\nContent-Type: application/octet-stream\r\nContent-Transfer-Encoding: base64\r\n\r\n").encode() + encoded + b"--b--\r\n"


def disk(directory):
    # What was given up of a file with many messages is a hole in it.
    return sum(file.stat().st_blocks * 512 for file in directory.rglob("*") if file.is_file())


@contextlib.contextmanager
def served(archive):
    """An IMAP session of the copy, served."""
    configuration = archive.home / "serve.toml"
    configuration.write_text(f'directory = "{archive.copy}"\n[listen]\nsmtp = []\nimaps = []\nlmtp = []\nimap = ["127.0.0.1:0"]\n')
    process = subprocess.Popen([archive.context.binary, "serve", "--config", str(configuration), "--json"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        ready = json.loads(process.stdout.readline())
        session = imaplib.IMAP4("127.0.0.1", ready["imap"][0]["port"])
        ok(session.login(ADA, PASSWORD))
        yield session
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)
        process.stdout.close()


@check("archive: keeps few bodies: searches all, and fetches what was given up when it is opened", "imap")
def keeps_few_bodies(context):
    session, name = context.mailbox("Bodies")
    chance = random.Random(5)
    mails = [attached(number, chance) for number in range(200)]
    for number, mail in enumerate(mails):
        raw_append(session, name, mail, "\\Seen", f"{1 + number % 28:02}-Jul-{1996 + number // 28} 02:44:25 +0000")
    archive = Archive(context, "sealpost", tls=False)
    only = ["--folder", name]
    equal(archive.pull(*only)["new"], 200, "new")
    whole = disk(archive.copy)
    limit = 1_000_000
    dry = archive.pull(*only, "--body-limit", "1MB", "--dry-run")
    ensure(dry["bodies"]["now"] > 100 and dry["bodies"]["evicted"] == 0, dry)
    bodies = archive.pull(*only, "--body-limit", "1MB")["bodies"]
    ensure(bodies["kept_bytes"] <= limit and bodies["kept"] + bodies["evicted"] == 200 and bodies["now"] > 100, bodies)
    ensure(disk(archive.copy) < min(whole / 2, 3 * limit), (whole, disk(archive.copy)))
    # A copy that began like that.
    other = Archive(context, "sealpost", tls=False)
    bodies = other.pull(*only, "--body-limit", "1MB")["bodies"]
    ensure(bodies["kept_bytes"] <= limit and disk(other.copy) < 3 * limit, (bodies, disk(other.copy)))

    archive.verify(name)
    (found,) = archive.run("verify", *archive.server(ADA), "--format", "sealpost", "--from", archive.copy, *archive.opens, "--all", *only)
    equal((found["compared"], found["evicted"], found["lost"]), (200, bodies["evicted"], 0), "verified")
    (stats,) = archive.run("stats", "--from", archive.copy, "--format", "sealpost", *archive.opens)
    equal(stats["bodies"]["evicted"], bodies["evicted"], "stats")

    with served(archive) as there:
        (box,) = [line for line in there.list()[1] if name.encode() in line]
        ensure(box, there.list())
        ok(there.select(name, readonly=True))
        for number in (0, 60, 199):
            equal(len(search(there, "BODY", f"zanzibar{number}x")), 1, f"found by the text of {number}")
        for number in (0, 1, 150, 199, 0):
            (uid,) = search(there, "HEADER", "Message-ID", f"<kept-{number}@interop.example>", uid=True)
            equal(body(there, uid, uid=True), mails[number], f"number {number}")
            equal(body(there, uid, "BODY.PEEK[HEADER]", uid=True), mails[number].split(b"\r\n\r\n")[0] + b"\r\n\r\n")
        there.logout()

    target = archive.home / "exported"
    (exported,) = archive.run("export", "--from", archive.copy, "--from-format", "sealpost", *archive.opens, "--format", "maildir",
                              "--into", target)
    equal((exported["messages"], exported["failed"]), (200, []), "exported")
    found = sorted(file.read_bytes() for file in target.rglob("*") if file.parent.name in ("new", "cur"))
    equal(found == sorted(mail.replace(b"\r\n", b"\n") for mail in mails), True, "byte for byte, with the line ends of a Maildir")

    # The server loses one that was given up, and one that was not.
    ok(session.store("1,200", "+FLAGS", "(\\Deleted)"))
    ok(session.expunge())
    summary = archive.pull(*only, "--body-limit", "1MB")
    equal((summary["gone"], summary["lost"]), (2, 1), "gone, lost")
    (found,) = archive.run("verify", *archive.server(ADA), "--format", "sealpost", "--from", archive.copy, *archive.opens, *only, status=1)
    equal(found["lost"], 1, "lost, says verify")
    session.logout()


def uidvalidity(session, name):
    (line,) = ok(session.status(name, "(UIDVALIDITY)"))
    return int(line.split()[-1].rstrip(b")"))


@check("archive: a folder that is renamed is followed, and one that is made again is superseded and restored", "imap")
def renamed_and_made_anew(context):
    session, name = context.mailbox("Renamed")
    follows = b"OBJECTID" in session.capability()[1][0]
    mails = [numbered(number) for number in range(12)]
    for number, mail in enumerate(mails):
        raw_append(session, name, mail, "\\Flagged" if number % 2 else "", "17-Jul-1996 02:44:25 -0700")
    copies = [Archive(context, kind, False) for kind in ("mbox", "maildir", "sealpost")]
    for archive in copies:
        equal(archive.pull("--folder", name)["new"], 12, f"{archive.kind}: new")
    ok(session.close())
    other = context.fresh("Renamed")
    ok(session.rename(name, other))
    for archive in copies:
        pulled = archive.pull("--folder", other)
        equal(pulled["new"], 0 if follows else 12, f"{archive.kind}: new after it was renamed")
        archive.verify(other)
    before = uidvalidity(session, other)
    while True:
        ok(session.delete(other))
        ok(session.create(other))
        # Some have one for each second.
        if uidvalidity(session, other) != before:
            break
    raw_append(session, other, mails[3])
    for nth, archive in enumerate(copies):
        archive.pull("--folder", other)
        archive.verify(other)
        restore = ["restore", "--from", archive.copy, "--format", archive.kind, *archive.opens, *archive.server(ADA), "--include-superseded",
                   "--folder", other]
        (dry,) = archive.run(*restore, "--dry-run")
        (put,) = archive.run(*restore)
        equal((dry["put"], put["put"], put["failed"]), (0, 0, 0) if nth else (11, 11, 0), f"{archive.kind}: put back")
        archive.pull("--folder", other)
        archive.verify(other)
    ok(session.select(other))
    equal(len(search(session, "ALL")), 12, "messages")
    equal(sorted(body(session, uid, uid=True) for uid in search(session, "ALL", uid=True)), sorted(mails), "what was put back")
    session.logout()


@check("archive: what was given up of a copy is restored elsewhere, and what is nowhere any more is named", "imap")
def restores_what_was_given_up(context):
    session, name = context.mailbox("Given")
    chance = random.Random(6)
    mails = [attached(number, chance) for number in range(20)]
    for mail in mails:
        raw_append(session, name, mail, "\\Seen", "17-Jul-1996 02:44:25 -0700")
    archive = Archive(context, "sealpost", tls=False)
    only = ["--folder", name]
    equal(archive.pull(*only, "--body-limit", "0")["bodies"]["evicted"], 20, "evicted")
    ok(session.store("1:2", "+FLAGS", "(\\Deleted)"))
    ok(session.expunge())
    equal(archive.pull(*only, "--body-limit", "0")["lost"], 2, "lost")
    restore = ["restore", "--from", archive.copy, "--format", "sealpost", *archive.opens, *archive.server(BOB), *only]
    for options in (["--dry-run"], []):
        (done,) = archive.run(*restore, *options, status=1)
        equal((done["put"], done["failed"]), (18, 2), f"put, failed {options}")
    there = context.imap(BOB)
    ok(there.select(name))
    equal(sorted(body(there, uid, uid=True) for uid in search(there, "ALL", uid=True)), sorted(mails[2:]), "what is there")
    there.logout()
    session.logout()
