#!/usr/bin/env python3
"""Times JMAP requests to mailboxes of many messages, over HTTP/1.1, beside Cyrus where its httpd is installed.

    bench/jmap.py --sealpost PATH --rig PATH [--sizes 1000,10000,100000] [--cyrus] [--memory 256MiB]

Makes the mail from a seed, imports it into a new server, and sends each kind of request again and again with `sealpost-rig http-load`.
Prints p50, p99 and the longest time in milliseconds, the server's CPU time for one request, and how many of the first pair are answered in a
second over four connections. Needs release builds. Debian has Cyrus's httpd in the package cyrus-caldav; it needs root.
"""

import argparse
import base64
import email.utils
import http.client
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time

PASSWORD = "a password for one run"
LIST = ["id", "threadId", "mailboxIds", "keywords", "from", "to", "subject", "receivedAt", "size", "preview",
        "hasAttachment"]
USING = ["urn:ietf:params:jmap:core", "urn:ietf:params:jmap:mail"]
# Connections of the measurement of requests a second: as many requests as Sealpost takes from one user at the same time.
CONNECTIONS = 4
FOLDERS = 100
CHANGES = 100


def messages(count):
    """Messages of about 1.1 kB, in threads of three."""
    choose = random.Random(5)
    words = ["".join(choose.choices("abcdefghijklmnopqrstuvwxyz", k=choose.randint(2, 9))) for _ in range(5000)]
    for n in range(count):
        word = "zebra " if n % 100 == 0 else ""
        yield (f"From: {choose.choice(words)} <{choose.choice(words)}@example.org>\nTo: u@example.org\n"
               f"Subject: {' '.join(choose.choices(words, k=5))}\n"
               f"Date: {email.utils.formatdate(1_700_000_000 + n * 60)}\nMessage-ID: <{n}@example.org>\n"
               f"References: <{n // 3}.first@example.org>\n\n{word}{' '.join(choose.choices(words, k=120))}\n")


class Sealpost:
    """`sealpost try`."""

    name = "Sealpost"

    def __init__(self, options, directory, count):
        self.options, self.count = options, count
        mail, password, data = directory / "mail.mbox", directory / "password", directory / "data"
        with mail.open("w") as mbox:
            for message in messages(count):
                mbox.write(f"From x@example.org Thu Jan  1 00:00:00 2024\n{message}\n")
        password.write_text(PASSWORD)
        secret = ["--dir", data, "--password-file", password]
        start = [options.sealpost, "try", "--json", "--ports", "free", "--no-samples", "--account", "u@localhost",
                 "--memory", options.memory, *secret]
        self.process = subprocess.Popen(start, stdout=subprocess.PIPE, text=True)
        ready = json.loads(self.process.stdout.readline())
        self.user, self.address, self.pid = ready["account"], (ready["http"]["host"], ready["http"]["port"]), ready["pid"]
        subprocess.run([options.sealpost, "import", "--quiet", "--account", "u@localhost", "--mailbox", "Many",
                        *secret, mail], check=True)
        mail.unlink()

    def peak(self):
        """The most memory of the process, in MiB."""
        return field(f"/proc/{self.pid}/status", "VmHWM:") // 1024

    def stop(self):
        self.process.terminate()
        self.process.wait()


IMAPD = """configdirectory: {work}/lib
partition-default: {work}/spool
defaultpartition: default
cyrus_user: {user}
allowplaintext: yes
sasl_pwcheck_method: auxprop
sasl_auxprop_plugin: sasldb
sasl_sasldb_path: {work}/sasldb2
sasl_mech_list: PLAIN LOGIN
virtdomains: off
defaultdomain: localhost
servername: localhost
unixhierarchysep: yes
altnamespace: yes
autocreate_quota: 0
autocreate_users: anyone
conversations: yes
httpmodules: jmap
search_engine: xapian
search_index_headers: no
search_batchsize: 8192
defaultsearchtier: t1
t1searchpartition-default: {work}/search
proc_path: {work}/proc
mboxname_lockpath: {work}/lock
idlesocket: {work}/idle
lmtpsocket: {work}/lmtp
"""

MASTER = """START {{
  recover cmd="{programs}/ctl_cyrusdb -C {work}/imapd.conf -r"
}}
SERVICES {{
  imap cmd="{programs}/imapd -C {work}/imapd.conf -U 30" listen="127.0.0.1:{imap}" prefork=0
  http cmd="{programs}/httpd -C {work}/imapd.conf -U 1000000" listen="127.0.0.1:{http}" prefork=4
}}
EVENTS {{
}}
"""


class Cyrus:
    """A Cyrus of our own, with httpd's module jmap, conversations and Xapian."""

    name = "Cyrus"
    programs = pathlib.Path("/usr/lib/cyrus/bin")

    @classmethod
    def is_there(cls):
        return (cls.programs / "httpd").exists()

    def __init__(self, options, directory, count):
        del options
        self.count, work = count, directory / "cyrus"
        os.chmod(directory, 0o755)
        for name in ("", "lib", "spool", "proc", "lock", "search"):
            (work / name).mkdir()
        ports = [free_port(), free_port()]
        values = {"work": work, "user": "cyrus", "imap": ports[0], "http": ports[1], "programs": self.programs}
        (work / "imapd.conf").write_text(IMAPD.format(**values))
        (work / "cyrus.conf").write_text(MASTER.format(**values))
        subprocess.run(["saslpasswd2", "-p", "-c", "-f", work / "sasldb2", "-u", "localhost", "u"], input=PASSWORD.encode(), check=True)
        for path in [work, *work.rglob("*")]:
            shutil.chown(path, "cyrus")
        log = (work / "master.log").open("wb")
        self.process = subprocess.Popen([self.programs / "master", "-D", "-C", work / "imapd.conf", "-M", work / "cyrus.conf",
                                         "-p", work / "master.pid"], stdout=log, stderr=log)
        self.user, self.address, self.pid = "u", ("127.0.0.1", ports[1]), self.process.pid
        for port in ports:
            wait_for(port, work / "master.log")
        self.fill(ports[0])
        squatter = f"{self.programs}/squatter -C {work}/imapd.conf -u u"
        subprocess.run(["su", "-s", "/bin/sh", "cyrus", "-c", squatter], check=True, stdout=log, stderr=log)

    def fill(self, port):
        """Appends the messages, many in each command (RFC 3502), with literals that wait for nothing (RFC 7888)."""
        with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rwb") as imap:
            imap.readline()

            def command(*pieces):
                imap.write(b"a " + b"".join(pieces) + b"\r\n")
                imap.flush()
                while not (line := imap.readline()).startswith(b"a "):
                    if not line:
                        raise SystemExit("Cyrus closed the connection")
                if not line.startswith(b"a OK"):
                    raise SystemExit(line.decode())

            command(f'LOGIN u "{PASSWORD}"'.encode())
            command(b"CREATE Many")
            batch = []
            for n, message in enumerate(messages(self.count)):
                message = message.replace("\n", "\r\n").encode()
                when = time.strftime("%d-%b-%Y %H:%M:%S +0000", time.gmtime(1_700_000_000 + n * 60))
                batch.append(f' "{when}" {{{len(message)}+}}\r\n'.encode() + message)
                if len(batch) == 500:
                    command(b"APPEND Many", *batch)
                    batch = []
            if batch:
                command(b"APPEND Many", *batch)

    def peak(self):
        """Memory of all its processes now, what they share counted once, in MiB."""
        pids, found = [self.pid], []
        while pids:
            pid = pids.pop()
            found.append(pid)
            for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
                pids += [int(child) for child in task.read_text().split()]
        return sum(field(f"/proc/{pid}/smaps_rollup", "Pss:") for pid in found) // 1024

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def field(path, name):
    """A number of kilobytes in a file of /proc."""
    try:
        return next(int(line.split()[1]) for line in pathlib.Path(path).read_text().splitlines() if line.startswith(name))
    except (OSError, StopIteration):
        return 0


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def wait_for(port, log):
    for _ in range(100):
        try:
            return socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"Cyrus does not start: {log.read_text(errors='replace')}")


class Client:
    """A caller of the account, to prepare what is measured."""

    def __init__(self, server):
        secret = base64.b64encode(f"{server.user}:{PASSWORD}".encode()).decode()
        self.fields = {"Authorization": f"Basic {secret}", "Content-Type": "application/json", "Accept": "application/json"}
        self.connection = http.client.HTTPConnection(*server.address)
        session = self.get("/.well-known/jmap")
        self.account = session["primaryAccounts"][USING[1]]
        self.path = "/" + session["apiUrl"].split("://")[-1].split("/", 1)[-1].lstrip("/")

    def get(self, path):
        self.connection.request("GET", path, headers=self.fields)
        answer = self.connection.getresponse()
        body = answer.read()
        if answer.status in (301, 302, 303, 307, 308):
            return self.get(answer.headers["Location"])
        if answer.status != 200:
            raise SystemExit(f"{path}: {answer.status}: {body.decode(errors='replace')}")
        return json.loads(body)

    def request(self, calls):
        calls = [[name, {"accountId": self.account, **arguments}, str(n)] for n, (name, arguments) in enumerate(calls)]
        return json.dumps({"using": USING, "methodCalls": calls})

    def call(self, *calls):
        """The arguments of the responses."""
        self.connection.request("POST", self.path, self.request(calls), self.fields)
        answer = self.connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{calls[0][0]}: {answer.status}: {body.decode(errors='replace')[:1000]}")
        responses = json.loads(body)["methodResponses"]
        for name, arguments, _ in responses:
            if name == "error":
                raise SystemExit(f"{calls[0][0]}: {arguments}")
        return [arguments for _, arguments, _ in responses]


class Measurement:
    """Sends requests to a server, and keeps what the load generator says."""

    def __init__(self, options, server, directory):
        self.options, self.server, self.client = options, server, Client(server)
        self.directory, self.rows = directory, {}

    def row(self, name, *requests, times=None, connections=1, seconds=None):
        """Each request is a list of calls; they are sent in turn."""
        bodies = []
        for number, calls in enumerate(requests):
            body = self.directory / f"request-{number}.json"
            body.write_text(self.client.request(calls))
            bodies += ["--body", body]
        (self.directory / "password-of-load").write_text(PASSWORD)
        host, port = self.server.address
        command = [self.options.rig, "http-load", "--address", f"{host}:{port}", "--path", self.client.path, "--user", self.server.user,
                   "--password-file", self.directory / "password-of-load", "--pid", str(self.server.pid), "--refuse", '["error",',
                   "--refuse", '"notUpdated":{"', "--requests", str(times or self.options.times),
                   "--seconds", str(seconds or self.options.seconds), "--connections", str(connections), *bodies]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.rows[name] = json.loads(done.stdout) if done.returncode == 0 else done.stderr.strip()[:300]

    def run(self):
        call = self.client.call
        for first in range(0, FOLDERS, 50):
            call(("Mailbox/set", {"create": {f"f{n}": {"name": f"Folder {n}", "parentId": None} for n in range(first, first + 50)}}))
        mailboxes = call(("Mailbox/get", {"ids": None}))[0]["list"]
        many = next(mailbox["id"] for mailbox in mailboxes if mailbox["name"] == "Many")

        def pair(condition=None, by="receivedAt"):
            query = {"filter": {"inMailbox": many, **(condition or {})}, "limit": 50,
                     "sort": [{"property": by, "isAscending": by != "receivedAt"}]}
            ids = {"resultOf": "0", "name": "Email/query", "path": "/ids"}
            return [("Email/query", query), ("Email/get", {"#ids": ids, "properties": LIST})]

        self.row("Email/query of the newest 50 + Email/get", pair())
        self.row("Email/query alone", pair()[:1])
        self.row(f"Mailbox/get of all ({len(mailboxes)})", [("Mailbox/get", {"ids": None})])
        got = call(*pair())[1]
        threads = sorted({mail["threadId"] for mail in got["list"]})
        self.row(f"Thread/get of {len(threads)}", [("Thread/get", {"ids": threads})])
        one = got["list"][0]["id"]
        self.row("Email/get of one with its text", [("Email/get", {"ids": [one], "properties": ["bodyValues", "textBody"],
                                                                   "fetchTextBodyValues": True})])
        flag = [[("Email/set", {"update": {one: {"keywords/$flagged": value}}})] for value in (None, True)]
        self.row("Email/set of a keyword", *flag)
        state, ids = call(("Email/get", {"ids": []}))[0]["state"], [mail["id"] for mail in got["list"]]
        for n in range(CHANGES):
            call(("Email/set", {"update": {ids[n % len(ids)]: {"keywords/$flagged": True if n < len(ids) else None}}}))
        self.row(f"Email/changes after {CHANGES} changes", [("Email/changes", {"sinceState": state})])
        self.row("the pair by subject", pair(by="subject"))
        self.row("the pair with a word in the text", pair({"text": "zebra"}))
        self.row(f"the pair over {CONNECTIONS} connections", pair(), times=10**9, connections=CONNECTIONS, seconds=self.options.load_seconds)
        return self


def cells(found):
    if found is None:
        return ["", "", "", "", ""]
    if isinstance(found, str):
        return [found.replace("|", "/"), "", "", "", ""]
    cpu = f"{found['server_cpu_ms']:.2f}" if found["server_cpu_ms"] is not None else ""
    return [f"{found[key]:.2f}" for key in ("first_ms", "p50_ms", "p99_ms", "longest_ms")] + [cpu]


def show(size, measured):
    """The tables of one size."""
    print(f"\n{size:,} messages; milliseconds\n")
    print("| requests |" + "".join(f" {it.server.name}: first | p50 | p99 | longest | CPU |" for it in measured))
    print("|---|" + "---:|---:|---:|---:|---:|" * len(measured))
    names = list(dict.fromkeys(name for it in measured for name in it.rows))
    for name in names:
        print(f"| {name} | " + " | ".join(cell for it in measured for cell in cells(it.rows.get(name))) + " |")
    for it in measured:
        load = it.rows.get(f"the pair over {CONNECTIONS} connections")
        rate = f"{load['per_second']:,.0f} of the pair a second" if isinstance(load, dict) else "no rate"
        print(f"\n{it.server.name}: {rate}; memory {it.server.peak()} MiB; load average {os.getloadavg()[0]:.1f}.", flush=True)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sealpost", required=True, type=pathlib.Path)
    options.add_argument("--rig", required=True, type=pathlib.Path, help="sealpost-rig")
    options.add_argument("--sizes", default="1000,10000,100000", help="numbers of messages, separated by commas")
    options.add_argument("--cyrus", action="store_true", help="measure Cyrus too")
    options.add_argument("--only-cyrus", action="store_true")
    options.add_argument("--memory", default="256MiB")
    options.add_argument("--times", type=int, default=500, help="requests of each kind")
    options.add_argument("--seconds", type=float, default=3, help="for each kind, at most")
    options.add_argument("--load-seconds", type=float, default=5, help="for the requests over several connections")
    options = options.parse_args()
    kinds = [Sealpost] if not options.only_cyrus else []
    if options.cyrus or options.only_cyrus:
        if not Cyrus.is_there():
            raise SystemExit("Cyrus's httpd is not installed: apt-get install cyrus-caldav")
        kinds.append(Cyrus)
    for size in map(int, options.sizes.split(",")):
        measured, servers = [], []
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
            try:
                for kind in kinds:
                    servers.append(kind(options, pathlib.Path(temporary), size))
                    measured.append(Measurement(options, servers[-1], pathlib.Path(temporary)).run())
                show(size, measured)
            finally:
                for server in servers:
                    server.stop()


if __name__ == "__main__":
    main()
