"""A Cyrus of our own, for `run.py --cyrus`: a directory, a port, the accounts of the checks. Needs root, as Cyrus does."""

import os
import pathlib
import pwd
import shutil
import socket
import subprocess
import time

from harness import ACCOUNTS, PASSWORD

IMAPD = """configdirectory: {work}/lib
partition-default: {work}/spool
defaultpartition: default
cyrus_user: {user}
allowplaintext: yes
sasl_pwcheck_method: auxprop
sasl_auxprop_plugin: sasldb
sasl_sasldb_path: {work}/sasldb2
sasl_mech_list: PLAIN LOGIN
virtdomains: userid
defaultdomain: example.net
unixhierarchysep: yes
altnamespace: yes
autocreate_quota: 0
autocreate_users: anyone
proc_path: {work}/proc
mboxname_lockpath: {work}/lock
idlesocket: {work}/idle
lmtpsocket: {work}/lmtp
"""

MASTER = """START {{
  recover cmd="{programs}/ctl_cyrusdb -C {work}/imapd.conf -r"
}}
SERVICES {{
  imap cmd="{programs}/imapd -C {work}/imapd.conf -U 30" listen="127.0.0.1:{port}" prefork=0
}}
EVENTS {{
}}
"""


def installed(prefix="/"):
    """Whether there is one below `prefix`."""
    return (pathlib.Path(prefix) / "usr/lib/cyrus/bin/master").exists()


def start(work, prefix="/"):
    """Starts it in the directory `work`; its process and where it listens, as run.py's servers say it."""
    prefix, work = pathlib.Path(prefix), pathlib.Path(work)
    programs = prefix / "usr/lib/cyrus/bin"
    user = next(name for name in ("cyrus", "mail") if any(entry.pw_name == name for entry in pwd.getpwall()))
    work.mkdir(parents=True)
    for name in ("lib", "spool", "proc", "lock"):
        (work / name).mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    values = {"work": work, "user": user, "port": port, "programs": programs}
    (work / "imapd.conf").write_text(IMAPD.format(**values))
    (work / "cyrus.conf").write_text(MASTER.format(**values))
    environment = dict(os.environ)
    if prefix != pathlib.Path("/"):
        # Unpacked, not installed: its libraries are there too.
        places = [*sorted(prefix.glob("usr/lib/*-linux-gnu*")), *sorted(prefix.glob("lib/*-linux-gnu*")), prefix / "usr/lib/cyrus"]
        environment["LD_LIBRARY_PATH"] = ":".join(str(place) for place in places)
        environment["SASL_PATH"] = ":".join(str(place / "sasl2") for place in places)
    for account in ACCOUNTS:
        name, domain = account.split("@")
        program = shutil.which("saslpasswd2") if prefix == pathlib.Path("/") else prefix / "usr/sbin/saslpasswd2"
        subprocess.run([str(program), "-p", "-c", "-f", str(work / "sasldb2"), "-u", domain, name], input=PASSWORD.encode(),
                       env=environment, check=True)
    for path in [work, *work.rglob("*")]:
        shutil.chown(path, user)
    log = open(work / "master.log", "wb")
    process = subprocess.Popen([str(programs / "master"), "-D", "-C", str(work / "imapd.conf"), "-M", str(work / "cyrus.conf"),
                                "-p", str(work / "master.pid")], env=environment, stdout=log, stderr=log)
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return process, {"imap": {"host": "127.0.0.1", "port": port}}
        except OSError:
            if process.poll() is not None:
                break
            time.sleep(0.1)
    process.kill()
    raise SystemExit(f"Cyrus does not start: {(work / 'master.log').read_text()}")
