"""What servers do with much that waits: `bench/send.sh --backlog 100000` and `bench/send.sh --behind 10000`.

**backlog**: a sink defers each mail once (450). Then all processes are killed at once. When all mails are due the server is started again
and the sink takes everything. Told are: mails a second until all are deferred, the most memory that the processes had until then and
afterwards (proportional set size), seconds from the start until connections are taken, until the first mail arrives and until all have.

**behind**: one user's mails wait for a destination that takes half a second for each. Another user sends one to the same destination, again
and again: the time from the reply to the sender until the destination has it.
"""

import asyncio
import json
import re
import smtplib
import statistics
import threading
import time

from peers import PASSWORD, PORT, SINK, Sink, directory, hand_in

# Seconds between two looks.
LOOK = 0.25
# A server that uses less than this of a core has nothing to do.
IDLE = 0.03
# Seconds that the slow destination takes for a mail.
SLOW = 0.5
# Mails of the other user.
LONE = 10
CLIENTS = 8


class Memory(threading.Thread):
    """The most that a server's processes had."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.most, self.ended = server, 0, threading.Event()
        self.start()

    def run(self):
        while not self.ended.wait(LOOK):
            self.most = max(self.most, self.server.memory())

    def end(self):
        self.ended.set()
        self.join()
        return self.most


def backlog(kind, options):
    """What the server came to with the mails of --backlog."""
    mails = options.backlog
    with directory(kind, options) as top:
        server, sink = kind(options, top), Sink(refuses=True)
        try:
            server.start()
            memory, begun = Memory(server), time.monotonic()
            hand_in(mails).wait()
            accepted = time.monotonic() - begun
            deferred = wait_until_idle(server) - begun
            held, before = memory.end(), server.memory()
            server.kill()
            sink.stop()
            time.sleep(options.pause)
            sink, begun = Sink(), time.monotonic()
            server.run()
            memory = Memory(server)
            server.wait()
            listens = time.monotonic() - begun
            first = wait_for(sink, 1, begun)
            everything = wait_for(sink, mails, begun)
            return {"server": kind.name, "mails": mails, "accepted": accepted, "deferred": deferred, "memory": held, "memory_idle": before,
                    "listens": listens, "first": first, "all": everything, "arrived": sink.count, "memory_after": memory.end()}
        finally:
            server.stop()
            sink.stop()


def wait_until_idle(server):
    """When it began to do nothing, for three seconds."""
    since, used = time.monotonic(), server.cpu()
    while time.monotonic() - since < 3:
        time.sleep(0.5)
        now = server.cpu()
        if (now - used) / 0.5 > IDLE:
            since = time.monotonic()
        used = now
    return since


def wait_for(sink, mails, begun):
    """Seconds until the sink has so many; None if nothing came for a quarter of an hour."""
    last, looked = sink.count, time.monotonic()
    while sink.count < mails:
        time.sleep(0.005)
        if sink.count > last:
            last, looked = sink.count, time.monotonic()
        elif time.monotonic() - looked > 900:
            return None
    return time.monotonic() - begun


class SlowSink:
    """A destination that takes its time, and when it had each Subject."""

    def __init__(self):
        self.at, ready = {}, threading.Event()
        threading.Thread(target=lambda: asyncio.run(self.serve(ready)), daemon=True).start()
        ready.wait()

    async def serve(self, ready):
        server = await asyncio.start_server(self.session, "127.0.0.1", SINK, limit=1 << 20)
        ready.set()
        await server.serve_forever()

    async def session(self, reader, writer):
        writer.write(b"220 slow ESMTP\r\n")
        while line := await reader.readline():
            verb = line[:4].upper()
            if verb == b"EHLO":
                writer.write(b"250-slow\r\n250 PIPELINING\r\n")
            elif verb == b"DATA":
                writer.write(b"354 go\r\n")
                message = await reader.readuntil(b"\r\n.\r\n")
                self.at[re.search(rb"^Subject: (\S+)", message, re.M).group(1).decode()] = time.monotonic()
                await asyncio.sleep(SLOW)
                writer.write(b"250 taken\r\n")
            elif verb == b"QUIT":
                break
            else:
                writer.write(b"250 ok\r\n")
            await writer.drain()
        writer.close()


def behind(kind, options):
    """How long one user's mails wait behind those of another."""
    with directory(kind, options) as top:
        server, sink = kind(options, top), SlowSink()
        server.trusts = ""
        try:
            server.start()
            share = range(0, options.behind, CLIENTS)
            crowd = [threading.Thread(target=send, args=("jane", [f"crowd-{first + n}" for first in share])) for n in range(CLIENTS)]
            for client in crowd:
                client.start()
            for client in crowd:
                client.join()
            waits, alone = [], login("june")
            for number in range(LONE):
                subject = f"lone-{number}"
                submit(alone, "june", subject)
                acknowledged = time.monotonic()
                while subject not in sink.at and time.monotonic() < acknowledged + 60:
                    time.sleep(0.001)
                waits.append(max(0, sink.at.get(subject, float("inf")) - acknowledged))
                time.sleep(0.7)
            queued = json.loads(server.command("queue", "list", "--json"))["queued"]
            return {"server": kind.name, "mails": options.behind, "still_waiting": queued, "median": statistics.median(waits),
                    "most": max(waits)}
        finally:
            server.stop()


def login(user):
    client = smtplib.SMTP("127.0.0.1", PORT, timeout=60)
    client.login(f"{user}@race.example", PASSWORD)
    return client


def submit(client, user, subject):
    text = f"From: {user}@race.example\r\nSubject: {subject}\r\n\r\n" + ("x" * 70 + "\r\n") * 70
    client.sendmail(f"{user}@race.example", ["bob@there.example"], text)


def send(user, subjects):
    client = login(user)
    for subject in subjects:
        submit(client, user, subject)
    client.quit()


def report(rows, options):
    """Prints what was measured."""
    if options.json:
        return print(json.dumps(rows))
    for row in rows:
        print(", ".join(f"{key}: {shown(key, value)}" for key, value in row.items()))
    return None


def shown(key, value):
    if value is not None and key.startswith("memory"):
        return f"{value / 2**20:.0f} MiB"
    return f"{value:.2f} s" if isinstance(value, float) else str(value)
