#!/usr/bin/env python3
"""Measures `sealpost archive pull` and others against a local Dovecot; see bench/archive.sh."""

import argparse
import base64
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from far import Far

# What is deleted makes its file system look for room among it for minutes (ext4 does not use an inode again that went just
# now, and passes over each of them for every new file), so everything stays until nothing is measured any more.
LEFT = []
SERIES = "1 3 7 20 55 148 403 1097 2981 8103 22026 59874 162755"
PASSWORD = "correct horse battery"


def message(number, size=52):
    head = b"From: a@b.c\nSubject: m%07d\n\n" % number
    # Dovecot counts CRLF; the file has LF.
    return head + b"x" * (size - len(head) - head.count(b"\n") - 2) + b"\n"


class Mail:
    """Mail of the sizes that mail has, 27 kB on average: text of words up to some 24 kB, with as much HTML again in every other
    one; what is larger has attachments in base64, of which a third would compress."""

    SIGMA, MU, MOST, TEXT = 1.6, 8.9, 20_000_000, 24_000

    def __init__(self, seed):
        self.chance = random.Random(seed)
        letters = "etaoinshrdlu"
        words = ["".join(self.chance.choices(letters, k=self.chance.randrange(2, 11))) for _ in range(5000)]
        # What bodies are cut from: lines of words, as often as words are in texts, and of base64.
        weights = [1 / (rank + 3) for rank in range(len(words))]
        self.words = self.lines(" ".join(self.chance.choices(words, weights, k=300_000)).encode(), 72)
        self.dense = self.lines(base64.b64encode(self.chance.randbytes(3_000_000)), 76)
        self.loose = self.lines(base64.b64encode(b"".join(self.chance.randbytes(8) + bytes(16) for _ in range(125_000))), 76)

    @staticmethod
    def lines(octets, width):
        return [octets[at:at + width] for at in range(0, len(octets), width)]

    def cut(self, pool, octets):
        """So many octets of a pool, from anywhere in it."""
        taken, count = [], 0
        at = self.chance.randrange(len(pool))
        while count < octets:
            taken.append(pool[at % len(pool)])
            count += len(taken[-1]) + 1
            at += 1
        return b"\n".join(taken)[:octets]

    def body(self, size):
        if size <= self.TEXT and self.chance.random() < 0.5:
            return b"Content-Type: text/plain\n\n" + self.cut(self.words, size)
        text = min(size, self.TEXT) // 2
        html = b"<html><body>\n<p>" + self.cut(self.words, text).replace(b"\n", b"</p>\n<p>", 40) + b"</p>\n</body></html>"
        parts = [b"Content-Type: text/plain\n\n" + self.cut(self.words, text), b"Content-Type: text/html\n\n" + html]
        left = size - 2 * text
        if left > 100:
            pool = self.loose if self.chance.random() < 1 / 3 else self.dense
            head = b'Content-Type: application/octet-stream\nContent-Transfer-Encoding: base64\n'
            parts.append(head + b'Content-Disposition: attachment; filename="a"\n\n' + self.cut(pool, left))
        return (b'Content-Type: multipart/mixed; boundary="b"\n\n' + b"".join(b"--b\n" + part + b"\n" for part in parts) + b"--b--")

    def message(self, number):
        head = (b"Received: from mx.example.org by mail.example.net; Thu, 1 Jan 2026 00:00:00 +0000\nFrom: a@b.c\nTo: d@e.f\n"
                b"Subject: m%07d\nMessage-ID: <%d@x>\nMIME-Version: 1.0\n" % (number, number))
        return head + self.body(min(int(self.chance.lognormvariate(self.MU, self.SIGMA)), self.MOST)) + b"\n"


def fill(directory, count, make=message):
    for sub in ("cur", "new", "tmp"):
        (directory / sub).mkdir(parents=True, exist_ok=True)
    octets = 0
    for number in range(1, count + 1):
        text = make(number)
        wire = len(text) + text.count(b"\n")
        octets += wire
        name = f"16000{number:07d}.M1P1.h,S={len(text)},W={wire}:2,S"
        (directory / "cur" / name).write_bytes(text)
    return octets


def bare(port, user):
    """Everything by one FETCH, looked at for its end and thrown away: what the server gives to whoever does nothing else. Seconds."""
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", port)) as to:
        to.sendall(f'a LOGIN {user} "{PASSWORD}"\r\nb EXAMINE INBOX\r\n'.encode()
                   + b"c UID FETCH 1:* (UID FLAGS INTERNALDATE BODY.PEEK[])\r\nd LOGOUT\r\n")
        last, buffer = b"", bytearray(1 << 20)
        while count := to.recv_into(buffer):
            last = (last + buffer[max(0, count - 100):count])[-100:]
    assert b"d OK" in last, last
    return time.monotonic() - began


def timed(command):
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate()
    took = time.monotonic() - began
    if process.returncode != 0:
        sys.exit(f"{command}: {process.returncode}: {err.decode()}")
    return took, out


class Bench:
    """A Dovecot with an account for each size, and what pulls from it."""

    def __init__(self, options, users):
        self.options, self.work = options, pathlib.Path(tempfile.mkdtemp(prefix="sealpost-archive-"))
        self.work.chmod(0o755)
        accounts = [argument for user in users for argument in ("--account", user)]
        self.server = subprocess.Popen(
            [f"{options.bin}/sealpost-rig", "dovecot", "--dir", str(self.work / "server"), *accounts], stdout=subprocess.PIPE)
        self.port = json.loads(self.server.stdout.readline())["imap"]["port"]
        (self.work / "password").write_text(PASSWORD + "\n")
        (self.work / "password").chmod(0o600)
        self.far = None
        self.copies = 0

    def new(self):
        """A directory that nothing was in."""
        self.copies += 1
        return self.work / f"copy-{self.copies}"

    def maildir(self, user):
        return self.work / "server" / "mail" / user / "maildir"

    def ready(self):
        if os.getuid() == 0:
            subprocess.run(["chown", "-R", "mail:mail", str(self.work / "server" / "mail")], check=True)
        if self.options.far:
            self.far = Far(self.port, self.options.far / 1000)
            self.port = self.far.listen()

    def close(self):
        self.server.send_signal(signal.SIGTERM)
        self.server.wait(20)
        if self.far:
            self.far.close()
        LEFT.append(self.work)

    def pull(self, user, form, into):
        """Seconds, peak RSS in KiB, and what it said."""
        password = str(self.work / "password")
        command = [f"{self.options.bin}/sealpost", "archive", "pull", "--json", "--host", "127.0.0.1", "--port", str(self.port),
                   "--tls", "none", "--user", user, "--password-file", password, "--format", form, "--into", str(into)]
        if form == "sealpost":
            command += ["--copy-password-file", password]
        took, rss, out = self.measured(command)
        return took, rss, json.loads(out)

    def mbsync(self, user, sync):
        mb = self.new()
        (self.work / "mbsyncrc").write_text(
            f"FSync {sync}\n\nIMAPAccount s\nHost 127.0.0.1\nPort {self.port}\nSSLType None\nAuthMechs LOGIN\nUser {user}\n"
            f"Pass \"{PASSWORD}\"\n\nIMAPStore r\nAccount s\n\nMaildirStore l\nPath {mb}/\nInbox {mb}/INBOX\n\n"
            f"Channel c\nFar :r:INBOX\nNear :l:INBOX\nSync Pull\nCreate Near\nSyncState *\n")
        mb.mkdir()
        took, rss, _ = self.measured(["mbsync", "-c", str(self.work / "mbsyncrc"), "c"])
        return took, rss

    def imap_backup(self, user, strategy):
        command = [*self.options.imap_backup.split(), "single", "backup", "--email", user, "--server", "127.0.0.1",
                   "--password-file", str(self.work / "password"), "--path", str(self.new()), "--quiet",
                   "--connection-options", json.dumps({"port": self.port, "ssl": False}),
                   "--folder", "INBOX", "--multi-fetch-size", "100", "--download-strategy", strategy]
        return self.measured(command)[:2]

    def measured(self, command):
        report = self.work / "time"
        if shutil.which("/usr/bin/time"):
            command = ["/usr/bin/time", "-f", "%M", "-o", str(report), *command]
        took, out = timed(command)
        return took, report.read_text().split()[-1] if report.exists() else "?", out

    def programs(self, user, count):
        """What is measured, by name: seconds, and peak RSS in KiB."""
        def pull(form):
            took, rss, said = self.pull(user, form, self.new())
            assert said["new"] == count, said
            return took, rss
        yield "bare-fetch", lambda: (bare(self.port, user), "-")
        for form in self.options.formats.split():
            yield f"sealpost-{form}", lambda form=form: pull(form)
        if shutil.which("mbsync"):
            for sync in self.options.mbsync.split():
                yield f"mbsync-fsync-{sync}", lambda sync=sync: self.mbsync(user, sync)
        if self.options.imap_backup:
            for strategy in ("delay", "direct"):
                yield f"imap-backup-{strategy}", lambda strategy=strategy: self.imap_backup(user, strategy)

    def each(self, user, count):
        """A line for every program, into an empty copy each."""
        most = dict(limit.split("=") for limit in self.options.most.split())
        for name, run in self.programs(user, count):
            if count <= int(most.get(name, count)):
                took, rss = run()
                print(f"{name} {count} {took:.3f} {count / took:.0f} {rss}", flush=True)


def series(options):
    counts = [int(count) for count in (options.counts.split() or SERIES.split())]
    bench = Bench(options, [f"u{count}@localhost" for count in counts])
    try:
        for count in counts:
            fill(bench.maildir(f"u{count}@localhost"), count)
        bench.ready()
        if options.far:
            print(f"The server is {options.far:g} ms away", flush=True)
        print("program messages seconds per_second peak_rss_kib", flush=True)
        for count in counts:
            # Dovecot has its indexes before anybody is measured.
            bare(bench.port, f"u{count}@localhost")
            for _ in range(options.runs):
                bench.each(f"u{count}@localhost", count)
    finally:
        bench.close()


def real_sizes(options):
    user = "real@localhost"
    bench = Bench(options, [user])
    try:
        octets = fill(bench.maildir(user), options.real, Mail(1).message)
        bench.ready()
        print(f"{options.real} messages of {octets / 1e6:.0f} MB together")
        print("program messages seconds per_second peak_rss_kib", flush=True)
        bare(bench.port, user)
        for _ in range(options.runs):
            bench.each(user, options.real)
    finally:
        bench.close()


def nothing_new(options):
    """Pulls that find nothing new, over a proxy that counts how often the client waits for the server."""
    user = "idle@localhost"
    bench = Bench(options, [user])
    try:
        fill(bench.maildir(user), 10)
        for folder in range(1, options.idle):
            directory = bench.maildir(user) / f".f{folder:03d}"
            fill(directory, 10)
            (directory / "maildirfolder").touch()
        bench.ready()
        print("Nothing new in any folder", flush=True)
        print("program folders seconds round_trips peak_rss_kib", flush=True)
        for form in options.formats.split():
            copy = bench.new()
            first = bench.pull(user, form, copy)[2]
            assert first["new"] == 10 * options.idle, first["new"]
            for _ in range(options.runs):
                took, rss, said = bench.pull(user, form, copy)
                assert said["new"] == 0 and not said["changed"], said["changed"]
                with Far(bench.port, 0) as counted:
                    direct, bench.port = bench.port, counted.listen()
                    bench.pull(user, form, copy)
                    bench.port = direct
                print(f"sealpost-{form} {said['folders']} {took:.3f} {counted.turns()} {rss}", flush=True)
    finally:
        bench.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", required=True, help="the directory of sealpost and sealpost-rig")
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--counts", default="", help="messages of the series")
    parser.add_argument("--formats", default="mbox maildir sealpost")
    parser.add_argument("--mbsync", default="no yes", help="with FSync no, with FSync yes")
    parser.add_argument("--imap-backup", default="", metavar="COMMAND", help="how imap-backup is started; without it, it is left out")
    parser.add_argument("--most", default="mbsync-fsync-yes=22026 imap-backup-direct=1097", metavar="PROGRAM=COUNT…",
                        help="no more messages for these, which take minutes otherwise")
    parser.add_argument("--leave", default="", metavar="FILE", help="delete nothing, and add to FILE what is to be deleted")
    parser.add_argument("--far", type=float, default=0, metavar="MS", help="a round trip of so many milliseconds")
    parser.add_argument("--real", type=int, default=0, metavar="COUNT", help="so many messages of the sizes of mail instead")
    parser.add_argument("--idle", type=int, default=0, metavar="FOLDERS", help="pulls without anything new instead")
    options = parser.parse_args()
    try:
        if options.idle:
            nothing_new(options)
        elif options.real:
            real_sizes(options)
        else:
            series(options)
    finally:
        if options.leave:
            with open(options.leave, "a") as left:
                left.writelines(f"{work}\n" for work in LEFT)
        else:
            for work in LEFT:
                shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
