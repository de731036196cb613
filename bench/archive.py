#!/usr/bin/env python3
"""Measures `sealpost archive pull` and mbsync against a local Dovecot; see bench/archive.sh."""

import argparse
import asyncio
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

SERIES = "1 3 7 20 55 148 403 1097 2981 8103 22026 59874 162755"
PASSWORD = "correct horse battery"


def message(number, size=52):
    head = b"From: a@b.c\nSubject: m%07d\n\n" % number
    # Dovecot counts CRLF; the file has LF.
    return head + b"x" * (size - len(head) - head.count(b"\n") - 2) + b"\n"


def fill(directory, count):
    for sub in ("cur", "new", "tmp"):
        (directory / sub).mkdir(parents=True)
    for number in range(1, count + 1):
        text = message(number)
        name = f"16000{number:07d}.M1P1.h,S={len(text)},W={len(text) + text.count(bytes([10]))}:2,S"
        (directory / "cur" / name).write_bytes(text)


class Far(threading.Thread):
    """A proxy before the server: what goes through it arrives half a round trip later."""

    def __init__(self, port, round_trip):
        super().__init__(daemon=True)
        self.to, self.delay, self.port = port, round_trip / 2, None
        self.started = threading.Event()

    def run(self):
        asyncio.run(self.serve())

    async def serve(self):
        server = await asyncio.start_server(self.connection, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self.started.set()
        await server.serve_forever()

    async def connection(self, reader, writer):
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self.to)
        await asyncio.gather(self.pipe(reader, to_writer), self.pipe(to_reader, writer))

    async def pipe(self, reader, writer):
        queue = asyncio.Queue(4096)

        async def late():
            while True:
                at, data = await queue.get()
                await asyncio.sleep(max(0, at - time.monotonic()))
                if not data:
                    writer.close()
                    return
                writer.write(data)

        task = asyncio.create_task(late())
        while True:
            try:
                data = await reader.read(65536)
            except ConnectionError:
                data = b""
            await queue.put((time.monotonic() + self.delay, data))
            if not data:
                break
        await task


def timed(command):
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate()
    took = time.monotonic() - began
    if process.returncode != 0:
        sys.exit(f"{command}: {process.returncode}: {err.decode()}")
    return took, out


def measured(command, work):
    """Seconds and peak RSS in KiB."""
    report = work / "time"
    if shutil.which("/usr/bin/time"):
        command = ["/usr/bin/time", "-f", "%M", "-o", str(report), *command]
    took, out = timed(command)
    return took, report.read_text().split()[-1] if report.exists() else "?", out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--counts", default="")
    parser.add_argument("--formats", default="mbox maildir")
    parser.add_argument("--far", type=float, default=0, metavar="MS", help="a round trip of so many milliseconds")
    options = parser.parse_args()
    counts = [int(count) for count in (options.counts.split() or SERIES.split())]
    work = pathlib.Path(tempfile.mkdtemp(prefix="sealpost-archive-"))
    work.chmod(0o755)
    accounts = [f"u{count}@localhost" for count in counts]
    arguments = [argument for account in accounts for argument in ("--account", account)]
    server = subprocess.Popen([f"{options.bin}/sealpost-bench", "dovecot", "--dir", str(work / "server"), *arguments],
                              stdout=subprocess.PIPE)
    try:
        port = json.loads(server.stdout.readline())["imap"]["port"]
        (work / "password").write_text(PASSWORD + "\n")
        for count in counts:
            fill(work / "server" / "mail" / f"u{count}@localhost" / "maildir" , count)
        if os.getuid() == 0:
            subprocess.run(["chown", "-R", "mail:mail", str(work / "server" / "mail")], check=True)
        if options.far:
            far = Far(port, options.far / 1000)
            far.start()
            far.started.wait()
            port = far.port
        print("program messages seconds per_second peak_rss_kib", flush=True)
        for count in counts:
            user = f"u{count}@localhost"
            pull = [f"{options.bin}/sealpost", "archive", "pull", "--json", "--host", "127.0.0.1", "--port", str(port), "--tls", "none",
                    "--user", user, "--password-file", str(work / "password")]
            # Dovecot has its indexes before anybody is measured.
            measured([*pull, "--format", "mbox", "--into", str(work / "first")], work)
            shutil.rmtree(work / "first")
            for _ in range(options.runs):
                for kind in options.formats.split():
                    took, rss, out = measured([*pull, "--format", kind, "--into", str(work / "copy")], work)
                    assert json.loads(out)["new"] == count, out
                    shutil.rmtree(work / "copy")
                    print(f"sealpost-{kind} {count} {took:.3f} {count / took:.0f} {rss}", flush=True)
                if shutil.which("mbsync"):
                    for sync in ("no", "yes"):
                        (work / "mbsyncrc").write_text(
                            f"FSync {sync}\n\nIMAPAccount s\nHost 127.0.0.1\nPort {port}\nSSLType None\nAuthMechs LOGIN\nUser {user}\n"
                            f"Pass \"{PASSWORD}\"\n\nIMAPStore r\nAccount s\n\nMaildirStore l\nPath {work}/mb/\nInbox {work}/mb/INBOX\n\n"
                            f"Channel c\nFar :r:INBOX\nNear :l:INBOX\nSync Pull\nCreate Near\nSyncState *\n")
                        (work / "mb").mkdir()
                        took, rss, _ = measured(["mbsync", "-c", str(work / "mbsyncrc"), "c"], work)
                        shutil.rmtree(work / "mb")
                        print(f"mbsync-fsync-{sync} {count} {took:.3f} {count / took:.0f} {rss}", flush=True)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(20)
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
