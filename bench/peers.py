"""The mail servers of the race, and the sink that they send to.

Each runs in a directory and a control group of its own; `backlog.py` and `send.py` hand mail in and look at the sink.
"""

import contextlib
import os
import pathlib
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "internet"))

import servers  # noqa: E402

SINK, PORT = 2525, 2526
CPU = pathlib.Path("/sys/fs/cgroup/cpuacct")
PASSWORD = "one and two and three"


class Sink:
    """smtp-sink, and how many mails it has. One that refuses defers each recipient (450)."""

    def __init__(self, refuses=False):
        self.count = 0
        refused = ["-r", "rcpt"] if refuses else []
        command = ["smtp-sink", "-u", "nobody", "-c", *refused, f"127.0.0.1:{SINK}", "1000"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
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
        calls = "trace=fsync,fdatasync,sync_file_range,msync"
        prefix = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", trace, "-e", calls] if trace else []
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

    def kill(self):
        """Ends all its processes at once."""
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self.processes:
            process.wait()
        self.processes.clear()

    def start(self, trace=None):
        self.prepare()
        self.run(trace)
        self.wait()

    def wait(self):
        """Until it takes connections."""
        try:
            servers.wait_for_port("127.0.0.1", PORT)
        except AssertionError as wrong:
            raise AssertionError(f"{self.name}: {wrong}: {(self.top / 'log').read_text(errors='replace')}") from wrong

    def stop(self):
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for _ in range(100):
            if not self.pids():
                break
            time.sleep(0.1)
        self.kill()
        for _ in range(20):
            try:
                if self.group.exists():
                    self.group.rmdir()
                return
            except OSError:
                time.sleep(0.1)


class Sealpost(Server):
    name = "sealpost"
    # Clients that need no account.
    trusts = 'trusted_clients = ["127.0.0.1"]'

    @staticmethod
    def is_there(options):
        return options.sealpost is not None

    def prepare(self):
        (self.top / "sealpost.toml").write_text(f"""
directory = "{self.top}/data"
hostname = "mx.race.example"
[listen]
smtp = []
submission = ["127.0.0.1:{PORT}"]
imap = []
imaps = []
[sending]
{self.trusts}
routes = ["* via [127.0.0.1]:{SINK} none"]
resolver = "127.0.0.1"
recipients_per_hour = 1000000
recipients_per_day = 1000000
""")
        (self.top / "password").write_text(PASSWORD + "\n")
        for user in ("jane", "june"):
            self.command("account", "add", f"{user}@race.example", "--password-file", self.top / "password")
        if self.options.signed:
            self.command("domain", "add", "race.example")

    def command(self, *arguments):
        return servers.run(*self.program(), *arguments)

    def program(self):
        return [self.options.sealpost, "--config", self.top / "sealpost.toml"]

    def run(self, trace=None):
        self.spawn(*self.program(), "serve", trace=trace)


class Postfix(Server):
    name = "postfix"

    @staticmethod
    def is_there(_):
        return shutil.which("postfix")

    def prepare(self):
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

    def run(self, trace=None):
        self.spawn("postfix", "-c", self.top / "etc", "start-fg", trace=trace)

    def stop(self):
        subprocess.run(["postfix", "-c", self.top / "etc", "stop"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        super().stop()


class Exim(Server):
    name = "exim"

    @staticmethod
    def is_there(_):
        return shutil.which("exim4")

    def prepare(self):
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

    def run(self, trace=None):
        self.spawn("exim4", "-bdf", "-q5s", trace=trace)


class OpenSmtpd(Server):
    name = "opensmtpd"

    @staticmethod
    def is_there(_):
        return shutil.which("smtpd")

    def prepare(self):
        servers.add_users("opensmtpd", "opensmtpq")
        for folder in ("/var/spool/smtpd", "/var/lib/opensmtpd/empty"):
            pathlib.Path(folder).mkdir(mode=0o711, parents=True, exist_ok=True)
        spool = self.top / "spool"
        spool.mkdir(mode=0o711)
        servers.run("mount", "--bind", spool, "/var/spool/smtpd")
        (self.top / "smtpd.conf").write_text(f"""
listen on 127.0.0.1 port {PORT}
action "out" relay host smtp+notls://127.0.0.1:{SINK}
match from any for any action "out"
""")

    def run(self, trace=None):
        self.spawn("smtpd", "-d", "-f", self.top / "smtpd.conf", trace=trace)

    def stop(self):
        super().stop()
        servers.run("umount", "/var/spool/smtpd")


class Haraka(Server):
    """One process with the plugin `relay`, which sends all mail on to one host."""

    name = "haraka"
    modules = pathlib.Path(os.environ.get("HARAKA", "")) / "node_modules"
    program = modules / ".bin" / "haraka"

    @classmethod
    def is_there(cls, _):
        return "HARAKA" in os.environ and cls.program.exists() and shutil.which("node")

    def prepare(self):
        settings = {
            "smtp.ini": f"listen=127.0.0.1:{PORT}\n",
            "me": "mx.race.example\n",
            "plugins": "relay\n",
            "log.ini": "[main]\nlevel=WARN\n",
            "relay.ini": "[relay]\nacl=true\nforce_routing=true\n",
            "relay_acl_allow": "127.0.0.1/32\n",
            "relay_dest_domains.ini": f'[domains]\nthere.example = {{"action":"accept","nexthop":"127.0.0.1:{SINK}"}}\n',
            "outbound.ini": "enable_tls=false\nlocal_mx_ok=true\n",
        }
        (self.top / "haraka" / "config").mkdir(parents=True)
        (self.top / "haraka" / "queue").mkdir()
        for name, text in settings.items():
            (self.top / "haraka" / "config" / name).write_text(text)
        # Without its own it does not start.
        shutil.copy(self.modules / "Haraka" / "config" / "connection.ini", self.top / "haraka" / "config")

    def run(self, trace=None):
        self.spawn("node", self.program, "-c", self.top / "haraka", trace=trace)


KINDS = [Sealpost, Postfix, Exim, OpenSmtpd, Haraka]


def hand_in(mails):
    """The program that hands in so many mails."""
    return subprocess.Popen(["smtp-source", "-s", "10", "-l", "5120", "-m", str(mails), "-f", "jane@race.example", "-t", "bob@there.example",
                             f"127.0.0.1:{PORT}"])


@contextlib.contextmanager
def directory(kind, options):
    """A new directory for the data of a server, which others can enter."""
    prefix = f"sealpost-race-{kind.name}-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=options.dir, ignore_cleanup_errors=True) as top:
        os.chmod(top, 0o755)
        yield pathlib.Path(top)
