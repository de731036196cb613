#!/usr/bin/env python3
"""Delivers to a real Postfix over loopback: STARTTLS, DANE, PIPELINING, several mails on one connection.

    cargo build -p sealpost-delivery --example deliver
    tests/internet/postfix.py target/debug/examples/deliver

Needs root, `postfix` and `openssl` (apt-get install postfix openssl). Postfix runs from a temporary directory on a free port and
is stopped at the end. Only the standard library is used.
"""

import hashlib
import mailbox
import os
import pathlib
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time

MASTER = """
127.0.0.1:{port} inet n - n - - smtpd
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
verify unix - - n - 1 verify
proxymap unix - - n - - proxymap
error unix - - n - - error
retry unix - - n - - error
discard unix - - n - - discard
virtual unix - n n - - virtual
anvil unix - - n - 1 anvil
postlog unix-dgram n - n - 1 postlogd
"""

MAIN = """
compatibility_level = 3.6
queue_directory = {top}/queue
data_directory = {top}/data
maillog_file = {top}/log/postfix.log
maillog_file_prefixes = {top}
myhostname = mx.d.example
mydestination =
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
mynetworks = 192.0.2.1/32
virtual_mailbox_domains = d.example
virtual_mailbox_base = {top}/mail
virtual_mailbox_maps = static:inbox/
virtual_uid_maps = static:{uid}
virtual_gid_maps = static:{gid}
virtual_minimum_uid = 1
smtpd_tls_security_level = may
smtpd_tls_cert_file = {top}/cert.pem
smtpd_tls_key_file = {top}/key.pem
smtpd_client_connection_rate_limit = 0
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Postfix:
    """A running instance."""

    def __init__(self, top):
        self.top = top
        self.port = free_port()
        user = pwd.getpwnam("postfix")
        for name in ("queue", "data", "mail", "log", "etc"):
            (top / name).mkdir()
        for name in ("data", "mail"):
            os.chown(top / name, user.pw_uid, user.pw_gid)
        top.chmod(0o755)
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=mx.d.example",
             "-addext", "subjectAltName=DNS:mx.d.example", "-keyout", top / "key.pem", "-out", top / "cert.pem"],
            check=True, stderr=subprocess.DEVNULL)
        values = {"top": top, "uid": user.pw_uid, "gid": user.pw_gid, "port": self.port}
        (top / "etc" / "main.cf").write_text(MAIN.format(**values))
        (top / "etc" / "master.cf").write_text(MASTER.format(**values))
        self.command("start")
        self.wait_for_port()

    def command(self, what):
        result = subprocess.run(["postfix", "-c", self.top / "etc", what], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if what == "start" and result.returncode != 0:
            sys.exit(f"postfix {what}: {result.stdout.decode()}")

    def wait_for_port(self):
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.1)
        sys.exit(f"postfix does not listen: {(self.top / 'log' / 'postfix.log').read_text()}")

    def tlsa(self):
        key = subprocess.run(["openssl", "x509", "-in", self.top / "cert.pem", "-noout", "-pubkey"],
                             stdout=subprocess.PIPE, check=True)
        der = subprocess.run(["openssl", "pkey", "-pubin", "-outform", "DER"], input=key.stdout,
                             stdout=subprocess.PIPE, check=True)
        return hashlib.sha256(der.stdout).hexdigest()

    def received(self, count):
        """The messages that arrived, once there are `count`."""
        inbox = self.top / "mail" / "inbox"
        for _ in range(200):
            found = mailbox.Maildir(inbox, create=False) if inbox.exists() else []
            if len(found) >= count:
                return [found.get_bytes(key) for key in found.keys()]
            time.sleep(0.1)
        sys.exit(f"{count} messages expected, {len(found)} arrived: {(self.top / 'log' / 'postfix.log').read_text()}")


def deliver(program, postfix, message, *options, recipient="bob@d.example"):
    path = postfix.top / "message.eml"
    path.write_bytes(message)
    command = [program, "mx.d.example", "127.0.0.1", str(postfix.port), recipient, path, *options]
    return subprocess.run(command, stdout=subprocess.PIPE, check=False, timeout=120).stdout.decode()


def expect(what, output, *parts):
    missing = [part for part in parts if part not in output]
    if missing:
        sys.exit(f"{what}: {missing} is not in {output!r}")
    print(f"ok: {what}")


def main():
    if len(sys.argv) != 2 or os.geteuid() != 0 or not shutil.which("postfix"):
        sys.exit(__doc__)
    program = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="sealpost-postfix-") as folder:
        postfix = Postfix(pathlib.Path(folder))
        try:
            run(program, postfix)
        finally:
            postfix.command("stop")


def run(program, postfix):
    body = b"Subject: test\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n" \
           b"Content-Transfer-Encoding: 8bit\r\n\r\n.\r\n..\r\nGr\xc3\xbc\xc3\x9fe\r\n" + b"x" * 900 + b"\r\n"
    output = deliver(program, postfix, body)
    expect("STARTTLS without a policy", output, "delivered: 250 2.0.0", "[opportunistic verified=false TLSv1.3")
    good, wrong = f"3 1 1 {postfix.tlsa()}", "3 1 1 " + "00" * 32
    output = deliver(program, postfix, body, "--tlsa", good)
    expect("DANE with the right key", output, "delivered: 250 2.0.0", "[dane verified=true TLSv1.3")
    output = deliver(program, postfix, body, "--tlsa", wrong)
    expect("DANE with another key", output, "failed: the certificate matches no TLSA record")
    output = deliver(program, postfix, body, "--tlsa", good, "--require-tls")
    expect("REQUIRETLS, which Postfix lacks", output, "failed: the sender requires TLS")
    output = deliver(program, postfix, body, recipient="bob@elsewhere.example")
    expect("relaying", output, "failed: the server refused the recipient", "454 4.7.1")
    large = body + (b"y" * 76 + b"\r\n") * 20_000
    output = deliver(program, postfix, large, "--mails", "3")
    expect("three large mails on one connection", "\n".join(output.splitlines()), *["delivered: 250 2.0.0"])
    if output.count("delivered") != 3:
        sys.exit(f"three deliveries expected: {output!r}")
    messages = postfix.received(5)
    text = body.split(b"\r\n\r\n", 1)[1].replace(b"\r\n", b"\n")
    intact = sum(text in message for message in messages)
    if (len(messages), intact) != (5, 5):
        sys.exit(f"{len(messages)} messages, {intact} of them as they were sent")
    print("ok: five messages arrived, byte for byte")


if __name__ == "__main__":
    main()
