#!/usr/bin/env python3
"""What guesses from many addresses do to right logins.

    bench/guessing.py [--sealpost PROGRAM] [--addresses 0,100,700] [--seconds 60] [--json]

Starts a server, has each of N addresses of 127.0.0.0/8 (each in a /24 of its own) guess passwords of a few accounts, all beginning at
once and each going on as soon as it is answered, and logs other accounts in with the right password all the while: half of the logins come
from an address from which that account has logged in before, half from addresses that nobody has seen. Logins are not remembered
(login.cache_ttl = "0"), so each is a password check. Says for each N how long right logins took and how many were refused.

Needs Linux: every address of 127.0.0.0/8 is this machine's there. Nothing is left behind.
"""

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

KNOWN = 40
ATTACKED = 10
PER_SECOND = 4
PASSWORD = "one and two and three"
# Longer than the server lets anybody wait.
PATIENCE = 60


def attacker(n):
    """An address in a /24 of its own."""
    return f"127.{16 + n // 200}.{1 + n % 200}.7"


async def connect(address, port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
    greeting = await reader.readline()
    if not greeting.startswith(b"* OK"):
        writer.close()
        raise ConnectionError(greeting.decode(errors="replace").strip())
    return reader, writer


async def login(reader, writer, name, password):
    """The tagged answer, or nothing if the connection ended."""
    writer.write(f'a LOGIN {name} "{password}"\r\n'.encode())
    while line := await reader.readline():
        if line.startswith(b"a "):
            return line[2:].decode(errors="replace").strip()
    return ""


async def visit(address, port, name, password=PASSWORD):
    """How long a login took, and its answer."""
    try:
        reader, writer = await connect(address, port)
    except OSError as e:
        return 0.0, f"no connection: {e}"
    began = time.monotonic()
    try:
        answer = await asyncio.wait_for(login(reader, writer, name, password), PATIENCE)
    except (OSError, TimeoutError) as e:
        answer = f"no answer: {e}"
    took = time.monotonic() - began
    writer.close()
    return took, answer


async def guess(address, port, counts, nth):
    guesses = 0
    while True:
        try:
            reader, writer = await connect(address, port)
            while True:
                name = f"attacked{(nth + guesses) % ATTACKED}@example.org"
                answer = await login(reader, writer, name, f"wrong {nth} {guesses}")
                guesses += 1
                counts["refused" if "UNAVAILABLE" in answer else "answered"] += 1
                if not answer:
                    break
        except OSError:
            counts["cut off"] += 1
            await asyncio.sleep(0.2)


async def measure(port, addresses, seconds):
    for n in range(KNOWN):
        took, answer = await visit(f"127.200.{n}.1", port, f"known{n}@example.org")
        assert answer.startswith("OK"), answer
    counts = {"answered": 0, "refused": 0, "cut off": 0}
    attackers = [asyncio.create_task(guess(attacker(n), port, counts, n)) for n in range(addresses)]
    visits, began = {"known": [], "new": []}, time.monotonic()
    for n in range(seconds * PER_SECOND):
        await asyncio.sleep(max(0.0, began + n / PER_SECOND - time.monotonic()))
        account = f"known{n // 2 % KNOWN}@example.org"
        kind = "known" if n % 2 else "new"
        address = f"127.200.{n // 2 % KNOWN}.1" if kind == "known" else f"127.{210 + n // 200}.{n % 200}.9"
        visits[kind].append(asyncio.create_task(visit(address, port, account)))
    found = {kind: await asyncio.gather(*tasks) for kind, tasks in visits.items()}
    for task in attackers:
        task.cancel()
    await asyncio.gather(*attackers, return_exceptions=True)
    return counts, found


def summary(visits):
    times = sorted(took for took, answer in visits if answer.startswith("OK"))
    at = lambda part: round(times[min(len(times) - 1, int(len(times) * part))] * 1000) if times else None
    return {
        "logins": len(visits),
        "refused": len(visits) - len(times),
        "p50_ms": at(0.5),
        "p99_ms": at(0.99),
        "longest_ms": round(times[-1] * 1000) if times else None,
    }


class Server:
    """A server of its own with its accounts, in a directory that goes with it."""

    def __init__(self, program):
        self.program = program
        self.home = tempfile.TemporaryDirectory(prefix="sealpost-guessing-")
        self.config = os.path.join(self.home.name, "sealpost.toml")
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(
                'directory = "data"\n'
                'hostname = "mail.example.org"\n'
                '[listen]\nsmtp = []\nsmtps = []\nlmtp = []\nimaps = []\nimap = ["127.0.0.1:0"]\n'
                '[login]\ncache_ttl = "0"\n'
            )
        self.password = os.path.join(self.home.name, "password")
        with open(self.password, "w", encoding="utf-8") as file:
            file.write(PASSWORD)
        for name in [f"known{n}" for n in range(KNOWN)] + [f"attacked{n}" for n in range(ATTACKED)]:
            self.run("account", "add", f"{name}@example.org", "--password-file", self.password)

    def command(self, *arguments):
        return [self.program, *arguments, "--config", self.config]

    def run(self, *arguments):
        subprocess.run(self.command(*arguments), check=True, cwd=self.home.name, stdout=subprocess.DEVNULL)

    def __enter__(self):
        self.process = subprocess.Popen(
            self.command("serve", "--json"), cwd=self.home.name, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        ready = json.loads(self.process.stdout.readline())
        return ready["imap"][0]["port"]

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)
        self.home.cleanup()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sealpost", default="sealpost", help="the program")
    parser.add_argument("--addresses", default="0,100,700", help="how many addresses guess, several runs")
    parser.add_argument("--seconds", type=int, default=60, help="how long each run is")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 16384), hard))
    runs = []
    for addresses in [int(n) for n in arguments.addresses.split(",")]:
        server = Server(os.path.abspath(arguments.sealpost) if os.path.sep in arguments.sealpost else arguments.sealpost)
        with server as port:
            counts, found = asyncio.run(measure(port, addresses, arguments.seconds))
        runs.append({"addresses": addresses, "guesses": counts, **{kind: summary(v) for kind, v in found.items()}})
        print(f"{addresses} addresses: done", file=sys.stderr)
    if arguments.json:
        print(json.dumps(runs))
        return
    print("| addresses that guess | guesses answered | right logins from | refused | p50 | p99 | longest |")
    print("|---|---|---|---|---|---|---|")
    for run in runs:
        for kind, where in [("known", "an address known for the account"), ("new", "an address that nobody has seen")]:
            s = run[kind]
            rate = round(run["guesses"]["answered"] / arguments.seconds)
            print(
                f"| {run['addresses']} | {rate}/s | {where} | {s['refused']} of {s['logins']} "
                f"| {s['p50_ms']} ms | {s['p99_ms']} ms | {s['longest_ms']} ms |"
            )


if __name__ == "__main__":
    main()
