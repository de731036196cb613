#!/usr/bin/env python3
"""The race: smtp-source -> a mail server -> smtp-sink, one server after the other, several times.

    bench/send.sh [--servers sealpost,postfix] [--mails 20000] [--runs 3] [--signed] [--json]

Ten connections hand in mails of 5,120 bytes and the server sends each on to a sink: the time is from the first connection until the sink
has all. Each server keeps what it accepts as it does by default on a disk that can lose power (Postfix and Exim sync each mail; OpenSMTPD
does not sync what it accepts). CPU time is that of the server alone, memory the most that its processes had (proportional set size).
fsyncs are counted in a run of their own of a tenth of the mails, by strace. --signed: Sealpost signs each mail with RSA-2048 and Ed25519.

Needs Linux, root and `smtp-source`, `smtp-sink` (Debian: postfix); for fsyncs strace. A peer that is not installed is left out. Debian lets
only one mail server be installed: see tests/internet/mail.py for $PROGRAMS. Runs in a mount namespace; nothing is left behind.
"""

import argparse
import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "internet"))

import namespace  # noqa: E402
import servers  # noqa: E402

SINK, PORT = 2525, 2526
CPU = pathlib.Path("/sys/fs/cgroup/cpuacct")
# Seconds between two looks at memory.
LOOK = 0.5


class Sink:
    """smtp-sink, and how many mails it has."""

    def __init__(self):
        self.count = 0
        self.process = subprocess.Popen(["smtp-sink", "-u", "nobody", "-c", f"127.0.0.1:{SINK}", "1000"], stdout=subprocess.PIPE)
        threading.Thread(target=self.read, daemon=True).start()
        servers.wait_for_port("127.0.0.1", SINK)

    def read(self):
        rest = b""
        while piece := os.read(self.process.stdout.fileno(), 65536):
            rest = (rest + piece)[-400:]
            if found := re.findall(rb"mesg=(\d+)\b", rest[:-1]):
                self.count = int(found[-1])

    def stop(self):
        self.process.kill()
        self.process.wait()


class Server:
    """A server in a directory and a control group of its own."""

    def __init__(self, options, top):
        self.options, self.top = options, pathlib.Path(top)
        self.group = CPU / f"sealpost-race-{os.getpid()}"
        self.processes = []

    def spawn(self, *command, trace=None, **more):
        prefix = ["strace", "-f", "-qq", "-o", trace, "-e", "trace=fsync,fdatasync,sync_file_range,msync"] if trace else []
        self.group.mkdir(exist_ok=True)
        enter = f'echo $$ > {self.group}/cgroup.procs && exec "$@"'
        log = open(self.top / "log", "ab")
        process = subprocess.Popen(["sh", "-c", enter, "sh", *prefix, *map(str, command)], stdout=log, stderr=log, **more)
        self.processes.append(process)
        return process

    def cpu(self):
        return int((self.group / "cpuacct.usage").read_text()) / 1e9

    def pids(self):
        listed = self.group / "cgroup.procs"
        return [int(pid) for pid in listed.read_text().split()] if listed.exists() else []

    def memory(self):
        """Bytes that its processes have, what they share counted once."""
        total = 0
        for pid in self.pids():
            try:
                text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
                total += int(re.search(r"^Pss:\s+(\d+)", text, re.M).group(1)) * 1024
            except (OSError, AttributeError):
                pass
        return total

    def stop(self):
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for _ in range(100):
            if not self.pids():
                break
            time.sleep(0.1)
        for pid in self.pids():
            os.kill(pid, signal.SIGKILL)
        for process in self.processes:
            process.wait()
        for _ in range(20):
            try:
                if self.group.exists():
                    self.group.rmdir()
                return
            except OSError:
                time.sleep(0.1)


class Sealpost(Server):
    name = "sealpost"

    @staticmethod
    def is_there(options):
        return options.sealpost is not None

    def start(self, trace):
        config = self.top / "sealpost.toml"
        config.write_text(f"""
directory = "{self.top}/data"
hostname = "mx.race.example"
[listen]
smtp = []
submission = ["127.0.0.1:{PORT}"]
imap = []
imaps = []
[sending]
trusted_clients = ["127.0.0.1"]
routes = ["* via [127.0.0.1]:{SINK} none"]
resolver = "127.0.0.1"
""")
        (self.top / "password").write_text("one and two and three\n")
        program = [self.options.sealpost, "--config", config]
        servers.run(*program, "account", "add", "jane@race.example", "--password-file", self.top / "password")
        if self.options.signed:
            servers.run(*program, "domain", "add", "race.example")
        self.spawn(*program, "serve", trace=trace)


class Postfix(Server):
    name = "postfix"

    @staticmethod
    def is_there(_):
        return shutil.which("postfix")

    def start(self, trace):
        for name in ("queue", "data", "etc"):
            (self.top / name).mkdir()
        user = pwd.getpwnam("postfix")
        os.chown(self.top / "data", user.pw_uid, user.pw_gid)
        master = servers.POSTFIX_MASTER.replace("\n25 inet", f"\n127.0.0.1:{PORT} inet")
        (self.top / "etc" / "master.cf").write_text(master)
        (self.top / "etc" / "main.cf").write_text(f"""
compatibility_level = 3.6
queue_directory = {self.top}/queue
data_directory = {self.top}/data
maillog_file = {self.top}/log
maillog_file_prefixes = {self.top}
myhostname = mx.race.example
mydestination =
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
mynetworks = 127.0.0.0/8
relayhost = [127.0.0.1]:{SINK}
smtp_tls_security_level = none
default_process_limit = 200
""")
        self.spawn("postfix", "-c", self.top / "etc", "start-fg", trace=trace)

    def stop(self):
        subprocess.run(["postfix", "-c", self.top / "etc", "stop"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        super().stop()


class Exim(Server):
    name = "exim"

    @staticmethod
    def is_there(_):
        return shutil.which("exim4")

    def start(self, trace):
        servers.add_users("Debian-exim")
        (self.top / "spool").mkdir()
        user = pwd.getpwnam("mail")
        os.chown(self.top / "spool", user.pw_uid, user.pw_gid)
        config = pathlib.Path("/etc/exim4")
        config.mkdir(exist_ok=True)
        (config / "exim4.conf").write_text(f"""
primary_hostname = mx.race.example
local_interfaces = 127.0.0.1
daemon_smtp_ports = {PORT}
spool_directory = {self.top}/spool
log_file_path = {self.top}/spool/%slog
pid_file_path = {self.top}/exim.pid
exim_user = mail
exim_group = mail
tls_advertise_hosts =
acl_smtp_rcpt = accept
queue_run_max = 20
smtp_accept_max = 100
smtp_accept_queue_per_connection = 0
split_spool_directory
begin acl
begin routers
out:
  driver = manualroute
  route_list = * 127.0.0.1::{SINK}
  self = send
  transport = remote
begin transports
remote:
  driver = smtp
  hosts_avoid_tls = *
begin retry
* * F,1h,5s
""")
        self.spawn("exim4", "-bdf", "-q5s", trace=trace)


class OpenSmtpd(Server):
    name = "opensmtpd"

    @staticmethod
    def is_there(_):
        return shutil.which("smtpd")

    def start(self, trace):
        servers.add_users("opensmtpd", "opensmtpq")
        for folder in ("/var/spool/smtpd", "/var/lib/opensmtpd/empty"):
            pathlib.Path(folder).mkdir(mode=0o711, parents=True, exist_ok=True)
        spool = self.top / "spool"
        spool.mkdir(mode=0o711)
        servers.run("mount", "--bind", spool, "/var/spool/smtpd")
        config = self.top / "smtpd.conf"
        config.write_text(f"""
listen on 127.0.0.1 port {PORT}
action "out" relay host smtp+notls://127.0.0.1:{SINK}
match from any for any action "out"
""")
        self.spawn("smtpd", "-d", "-f", config, trace=trace)

    def stop(self):
        super().stop()
        servers.run("umount", "/var/spool/smtpd")


KINDS = [Sealpost, Postfix, Exim, OpenSmtpd]


def race(kind, options, mails, trace=None):
    """One run; what it came to."""
    with tempfile.TemporaryDirectory(prefix=f"sealpost-race-{kind.name}-", dir=options.dir, ignore_cleanup_errors=True) as top:
        os.chmod(top, 0o755)
        server, sink, most = kind(options, top), Sink(), 0
        try:
            server.start(trace)
            try:
                servers.wait_for_port("127.0.0.1", PORT)
            except AssertionError as wrong:
                raise AssertionError(f"{kind.name}: {wrong}: {(server.top / 'log').read_text(errors='replace')}") from wrong
            time.sleep(1)
            before, begun = server.cpu(), time.monotonic()
            source = subprocess.Popen(["smtp-source", "-s", "10", "-l", "5120", "-m", str(mails), "-f", "jane@race.example", "-t",
                                       "bob@there.example", f"127.0.0.1:{PORT}"])
            accepted, last, looked = None, (begun, 0), begun
            while sink.count < mails:
                time.sleep(0.02)
                now = time.monotonic()
                if accepted is None and source.poll() is not None:
                    accepted = now - begun
                if int(now / LOOK) != int(looked / LOOK):
                    looked, most = now, max(most, server.memory())
                if sink.count > last[1]:
                    last = (now, sink.count)
                elif now - last[0] > 120:
                    return {"lost": mails - sink.count, "after": round(now - begun)}
            seconds = time.monotonic() - begun
            return {"seconds": seconds, "accepted": accepted or seconds, "rate": mails / seconds, "cpu": server.cpu() - before,
                    "memory": max(most, server.memory())}
        finally:
            server.stop()
            sink.stop()


def syncs(kind, options):
    """fsyncs for each mail, in a run of a tenth of the mails."""
    if not shutil.which("strace"):
        return None
    mails = max(options.mails // 10, 100)
    with tempfile.NamedTemporaryFile() as trace:
        race(kind, options, mails, trace.name)
        return pathlib.Path(trace.name).read_text(errors="replace").count("sync(") / mails


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sealpost", help="the program")
    parser.add_argument("--servers", default=",".join(kind.name for kind in KINDS))
    parser.add_argument("--mails", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--signed", action="store_true")
    parser.add_argument("--no-syncs", action="store_true", help="do not count fsyncs")
    parser.add_argument("--dir", help="the directory for the servers' data")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    namespace.enter(__doc__, ["smtp-source", "smtp-sink", "ip", "unshare"], [])
    wanted = options.servers.split(",")
    kinds = [kind for kind in KINDS if kind.name in wanted and kind.is_there(options)]
    results = {kind.name: [] for kind in kinds}
    for _ in range(options.runs):
        for kind in kinds:
            result = race(kind, options, options.mails)
            results[kind.name].append(result)
            print(f"{kind.name}: {result}", file=sys.stderr)
    table = []
    for kind in kinds:
        whole = [result for result in results[kind.name] if "rate" in result]
        if not whole:
            table.append({"server": kind.name, "failed": results[kind.name]})
            continue
        row = {key: statistics.median(result[key] for result in whole) for key in whole[0]}
        row.update(server=kind.name, runs=len(whole), syncs=None if options.no_syncs else syncs(kind, options))
        table.append(row)
    if options.json:
        return print(json.dumps(table))
    print("| server | mails/s | until accepted | until delivered | CPU ms/mail | memory | fsyncs/mail |\n|---|---:|---:|---:|---:|---:|---:|")
    for row in table:
        if "failed" in row:
            print(f"| {row['server']} | failed: {row['failed']} |")
            continue
        sync = "" if row["syncs"] is None else f"{row['syncs']:.2f}"
        print(f"| {row['server']} | {row['rate']:.0f} | {row['accepted']:.1f} s | {row['seconds']:.1f} s | "
              f"{row['cpu'] / options.mails * 1000:.2f} | {row['memory'] / 2**20:.0f} MiB | {sync} |")
    return None


if __name__ == "__main__":
    main()
