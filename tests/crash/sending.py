#!/usr/bin/env python3
"""Kills a server that takes mail and sends it on, again and again, and counts what arrives.

    tests/crash/sending.py --sealpost PROGRAM [--kills 100] [--terms 10] [--seed N] [--json]

Clients hand in mail as fast as it is acknowledged; a server of our own takes what is sent, now and then slowly, and counts each mail. Every
second or so the server is killed (SIGKILL) and started again. In the end:

- Each mail that was acknowledged has arrived: none is lost.
- A mail may arrive twice only if it was on its way at a kill: at most so many as the server says in its log that it sends again.
- After a SIGTERM none arrives twice.

Needs only the standard library; nothing leaves this machine.
"""

import argparse
import asyncio
import json
import pathlib
import random
import re
import signal
import smtplib
import socket
import subprocess
import sys
import tempfile
import threading
import time

CLIENTS = 6
CONFIG = """
directory = "{top}/data"
hostname = "mx.crash.example"
[listen]
smtp = []
submission = ["127.0.0.1:{port}"]
imap = []
imaps = []
[sending]
trusted_clients = ["127.0.0.1"]
routes = ["* via [127.0.0.1]:{sink} none"]
resolver = "127.0.0.1"
"""


class Sink:
    """A mail server that counts: how often each Subject was taken with 250."""

    def __init__(self, chance):
        self.chance, self.counts = chance, {}
        self.ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self.serve()), daemon=True).start()
        self.ready.wait()

    async def serve(self):
        server = await asyncio.start_server(self.session, "127.0.0.1", 0, limit=1 << 20)
        self.port = server.sockets[0].getsockname()[1]
        self.ready.set()
        async with server:
            await server.serve_forever()

    async def session(self, reader, writer):
        try:
            await self.converse(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def converse(self, reader, writer):
        writer.write(b"220 sink ESMTP\r\n")
        while line := await reader.readline():
            verb = line[:4].upper()
            if verb == b"EHLO":
                writer.write(b"250-sink\r\n250-PIPELINING\r\n250 8BITMIME\r\n")
            elif verb == b"DATA":
                writer.write(b"354 go\r\n")
                await writer.drain()
                message = await reader.readuntil(b"\r\n.\r\n")
                if self.chance.random() < 0.05:
                    await asyncio.sleep(self.chance.random() * 0.3)
                subject = re.search(rb"^Subject: (\S+)", message, re.M).group(1).decode()
                # It is here before the reply is on its way: what is lost after that comes again.
                self.counts[subject] = self.counts.get(subject, 0) + 1
                writer.write(b"250 taken\r\n")
            elif verb == b"QUIT":
                writer.write(b"221 bye\r\n")
                return
            else:
                writer.write(b"250 ok\r\n")
            await writer.drain()


class Clients:
    """Hand mail in until they are stopped."""

    def __init__(self, port):
        self.port, self.acknowledged, self.offered = port, [], 0
        self.lock, self.stopping = threading.Lock(), threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(number,)) for number in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def run(self, client):
        number = 0
        while not self.stopping.is_set():
            try:
                with smtplib.SMTP("127.0.0.1", self.port, timeout=20) as server:
                    while not self.stopping.is_set():
                        subject = f"mail-{client}-{number}"
                        number += 1
                        with self.lock:
                            self.offered += 1
                        # One in ten is larger than the log takes.
                        body = "x" * 70 + "\r\n"
                        text = f"From: a@crash.example\r\nSubject: {subject}\r\n\r\n" + body * (1000 if number % 10 == 0 else 3)
                        server.sendmail("a@crash.example", [f"b{client}@there.example"], text)
                        with self.lock:
                            self.acknowledged.append(subject)
            except (OSError, smtplib.SMTPException):
                time.sleep(0.05)

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()


class Server:
    def __init__(self, program, top, sink):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.program, self.top = program, pathlib.Path(top)
        self.config = self.top / "sealpost.toml"
        self.config.write_text(CONFIG.format(top=top, port=self.port, sink=sink))
        (self.top / "password").write_text("one and two and three\n")
        self.command("account", "add", "a@crash.example", "--password-file", str(self.top / "password"))
        self.start()

    def command(self, *arguments):
        done = subprocess.run([self.program, "--config", self.config, *arguments], capture_output=True, check=False)
        if done.returncode:
            sys.exit(f"{arguments}: {done.stderr.decode()}")
        return done.stdout.decode()

    def start(self):
        log = open(self.top / "log", "ab")
        self.process = subprocess.Popen([self.program, "--config", self.config, "serve"], stdout=log, stderr=log)
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        sys.exit(f"the server does not listen; its log ends with:\n{(self.top / 'log').read_text()[-3000:]}")

    def end(self, how):
        self.process.send_signal(how)
        self.process.wait()

    def queued(self):
        return json.loads(self.command("queue", "list", "--json"))["queued"]


def drain(server, clients, sink):
    """Waits until the queue is empty; what was lost and what came again."""
    for _ in range(1200):
        if server.queued() == 0:
            break
        server.command("queue", "retry", "--all")
        time.sleep(0.25)
    lost = [subject for subject in clients.acknowledged if subject not in sink.counts]
    repeated = sum(count - 1 for count in sink.counts.values())
    return lost, repeated


def phase(options, chance, rounds, how):
    """A server that is ended so `how`, `rounds` times, while it works."""
    sink = Sink(chance)
    with tempfile.TemporaryDirectory(prefix="sealpost-crash-") as top:
        server = Server(options.sealpost, top, sink.port)
        clients = Clients(server.port)
        for _ in range(rounds):
            time.sleep(chance.random() * 1.2 + 0.2)
            server.end(how)
            server.start()
        clients.stop()
        lost, repeated = drain(server, clients, sink)
        server.end(signal.SIGTERM)
        again = sum(int(count) for count in re.findall(r"may arrive twice mails=(\d+)", (pathlib.Path(top) / "log").read_text()))
    return {"rounds": rounds, "acknowledged": len(clients.acknowledged), "lost": len(lost), "repeated": repeated, "announced": again}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sealpost", required=True)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--terms", type=int, default=10)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    result = {"seed": options.seed, "SIGKILL": phase(options, chance, options.kills, signal.SIGKILL),
              "SIGTERM": phase(options, chance, options.terms, signal.SIGTERM)}
    print(json.dumps(result) if options.json else "\n".join(f"{key}: {value}" for key, value in result.items()))
    killed, stopped = result["SIGKILL"], result["SIGTERM"]
    wrong = killed["lost"] or stopped["lost"] or stopped["repeated"] or killed["repeated"] > killed["announced"]
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
