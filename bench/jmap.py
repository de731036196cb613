#!/usr/bin/env python3
"""Times JMAP requests to a mailbox of many messages, over HTTP/1.1 on one connection.

    bench/jmap.py --sealpost PATH [--messages 100000] [--memory 256MiB]

Makes the mail from a seed, imports it, starts `sealpost try` on it, and prints p50, p99 and the longest time
of each kind of request in milliseconds, as a table. Needs a release build of sealpost.
"""

import argparse
import base64
import email.utils
import http.client
import json
import pathlib
import random
import subprocess
import tempfile
import time

PASSWORD = "a password for one run"
LIST = ["id", "threadId", "mailboxIds", "keywords", "from", "to", "subject", "receivedAt", "size", "preview",
        "hasAttachment"]
USING = ["urn:ietf:params:jmap:core", "urn:ietf:params:jmap:mail"]


def write_mbox(path, count):
    """Messages of about 1.1 kB, in threads of three."""
    choose = random.Random(5)
    words = ["".join(choose.choices("abcdefghijklmnopqrstuvwxyz", k=choose.randint(2, 9))) for _ in range(5000)]
    with path.open("w") as mbox:
        for n in range(count):
            mbox.write(
                "From x@example.org Thu Jan  1 00:00:00 2024\n"
                f"From: {choose.choice(words)} <{choose.choice(words)}@example.org>\nTo: u@example.org\n"
                f"Subject: {' '.join(choose.choices(words, k=5))}\n"
                f"Date: {email.utils.formatdate(1_700_000_000 + n * 60)}\nMessage-ID: <{n}@example.org>\n"
                f"References: <{n // 3}.first@example.org>\n\n{' '.join(choose.choices(words, k=120))}\n\n")


class Client:
    """A caller of the account."""

    def __init__(self, server):
        secret = base64.b64encode(f"{server['account']}:{PASSWORD}".encode()).decode()
        self.fields = {"Authorization": f"Basic {secret}", "Content-Type": "application/json"}
        self.connection = http.client.HTTPConnection(server["http"]["host"], server["http"]["port"])
        self.connection.request("GET", "/.well-known/jmap", headers=self.fields)
        self.account = next(iter(json.loads(self.connection.getresponse().read())["accounts"]))

    def call(self, *calls):
        """The arguments of the responses."""
        calls = [[name, {"accountId": self.account, **arguments}, str(n)] for n, (name, arguments) in enumerate(calls)]
        request = json.dumps({"using": USING, "methodCalls": calls})
        self.connection.request("POST", "/jmap/api", request, self.fields)
        answer = json.loads(self.connection.getresponse().read())
        for name, arguments, _ in answer["methodResponses"]:
            if name == "error":
                raise SystemExit(f"{calls[0][0]}: {arguments}")
        return [arguments for _, arguments, _ in answer["methodResponses"]]


def measure(name, client, calls, times):
    took = []
    for _ in range(times):
        begun = time.perf_counter()
        client.call(*calls)
        took.append((time.perf_counter() - begun) * 1000)
    first = took[0]
    took.sort()
    p99 = took[min(times - 1, times * 99 // 100)]
    print(f"| {name} | {times} | {first:.2f} | {took[times // 2]:.2f} | {p99:.2f} | {took[-1]:.2f} |", flush=True)


def run(client):
    mailboxes = client.call(("Mailbox/get", {"ids": None}))[0]["list"]
    many = next(mailbox["id"] for mailbox in mailboxes if mailbox["name"] == "Many")

    def pair(condition=None, by="receivedAt"):
        query = {"filter": {"inMailbox": many, **(condition or {})}, "limit": 50,
                 "sort": [{"property": by, "isAscending": by != "receivedAt"}]}
        ids = {"resultOf": "0", "name": "Email/query", "path": "/ids"}
        return [("Email/query", query), ("Email/get", {"#ids": ids, "properties": LIST})]

    print("| requests | times | first | p50 | p99 | longest |\n|---|---:|---:|---:|---:|---:|")
    measure("Email/query of the newest 50, Email/get of their list properties", client, pair(), 500)
    measure("Email/query alone", client, pair()[:1], 200)
    measure("Mailbox/get of all", client, [("Mailbox/get", {"ids": None})], 200)
    got = client.call(*pair())[1]
    ids = [mail["id"] for mail in got["list"]]
    for value in (True, None):
        client.call(("Email/set", {"update": {each: {"keywords/$flagged": value} for each in ids}}))
    measure("Email/changes after 100 changes", client, [("Email/changes", {"sinceState": got["state"]})], 200)
    measure("the pair by subject", client, pair(by="subject"), 50)
    measure("the pair with a word in the text", client, pair({"text": "zebra"}), 20)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sealpost", required=True, type=pathlib.Path)
    options.add_argument("--messages", type=int, default=100_000)
    options.add_argument("--memory", default="256MiB")
    options = options.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        directory = pathlib.Path(temporary)
        mail, password, data = directory / "mail.mbox", directory / "password", directory / "data"
        write_mbox(mail, options.messages)
        password.write_text(PASSWORD)
        secret = ["--dir", data, "--password-file", password]
        start = [options.sealpost, "try", "--json", "--ports", "free", "--no-samples", "--account", "u@localhost",
                 "--memory", options.memory, *secret]
        server = subprocess.Popen(start, stdout=subprocess.PIPE, text=True)
        try:
            ports = json.loads(server.stdout.readline())
            subprocess.run([options.sealpost, "import", "--quiet", "--account", "u@localhost", "--mailbox", "Many",
                            *secret, mail], check=True)
            run(Client(ports))
            status = pathlib.Path(f"/proc/{ports['pid']}/status").read_text()
            peak = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
            print(f"\nThe most memory: {int(peak) // 1024} MiB.")
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
