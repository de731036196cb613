#!/usr/bin/env python3
"""Mail between Sealpost and Postfix, Exim and OpenSMTPD, there and back, over an internet in a box.

    cargo build --release -p sealpost
    tests/internet/mail.py target/release/sealpost [NAME...]

Root, top-level domain and zones are signed and served by NSD, in a network namespace that nothing leaves: DANE, MTA-STS, DKIM, bounces,
kills. NAME: only the scenarios of that name. Needs root. Debian: apt-get install nsd unbound ldnsutils postfix openssl opendkim-tools
iproute2; then, because Debian lets only one mail server be installed,

    apt-get download exim4-daemon-light exim4-base opensmtpd
    for package in *.deb; do dpkg -x $package programs; done
    export PROGRAMS=$PWD/programs
"""

import contextlib
import email
import imaplib
import json
import os
import pathlib
import re
import signal
import smtplib
import ssl
import subprocess
import sys
import tempfile
import time

import namespace
import servers
import zones

PASSWORD = "correct horse battery"
SCENARIOS = []

CONFIG = """
directory = "{top}/data"
hostname = "mx.home.box"
domain = "home.box"
[listen]
smtp = ["{address}:25"]
submission = ["{address}:587"]
submissions = ["{address}:465"]
imap = ["{address}:143"]
imaps = []
[tls]
certificate = "{certificate}"
key = "{key}"
[sending]
root_hints = "{top}/roots"
trust_anchor = "{top}/anchor"
ca = "{ca}"
source_ipv4 = "{address}"
recipients_per_hour = 100000
recipients_per_day = 100000
"""


def scenario(function):
    SCENARIOS.append(function)
    return function


class Sealpost:
    """The server under test, at home.box."""

    def __init__(self, program, top, authority):
        self.program, self.top, self.address = program, pathlib.Path(top) / "home", zones.ADDRESSES["home"]
        self.top.mkdir()
        certificate, key = authority.certificate("mx.home.box")
        self.authority = authority
        (self.top / "roots").write_text(f"{zones.ROOT}\n")
        self.config = self.top / "sealpost.toml"
        values = {"top": self.top, "address": self.address, "certificate": certificate, "key": key, "ca": authority.ca}
        self.config.write_text(CONFIG.format(**values))
        (self.top / "password").write_text(f"{PASSWORD}\n")
        for name in ("jane", "joe"):
            self.command("account", "add", f"{name}@home.box", "--password-file", self.top / "password")
        self.command("domain", "add", "home.box")

    def command(self, *arguments, **options):
        return servers.run(self.program, "--config", self.config, *arguments, **options).decode()

    def records(self):
        """What its zone has: the signing keys as the program prints them."""
        listed = json.loads(self.command("domain", "show", "home.box", "--json"))
        keys = [record for record in listed["records"] if record["type"] == "TXT" and "_domainkey" in record["name"]]
        lines = [f'{record["name"].rstrip(".")}. TXT {pieces(record["value"])}' for record in keys]
        if not lines:
            raise AssertionError(f"no signing keys in {listed}")
        return ["@ MX 10 mx", f"mx A {self.address}", f"_25._tcp.mx TLSA {self.authority.tlsa('mx.home.box')}", *lines]

    def start(self):
        log = open(self.top / "log", "a", encoding="utf8")
        self.process = subprocess.Popen([self.program, "--config", self.config, "serve"], stdout=log, stderr=log)
        for port in (25, 587, 143):
            servers.wait_for_port(self.address, port)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        self.process.terminate()
        return self.process.wait(timeout=60)

    def submit(self, recipients, message, sender="jane@home.box", mail_options=(), rcpt_options=()):
        context = ssl.create_default_context(cafile=self.authority.ca)
        context.check_hostname = False
        with smtplib.SMTP_SSL(self.address, 465, context=context, timeout=60) as client:
            client.login(sender, PASSWORD)
            client.sendmail(sender, recipients, message, mail_options, rcpt_options)

    def inbox(self, user="jane"):
        with imaplib.IMAP4(self.address, 143) as client:
            client.starttls(insecure_context())
            client.login(f"{user}@home.box", PASSWORD)
            _, count = client.select("INBOX", readonly=True)
            found = client.fetch("1:*", "(BODY.PEEK[])")[1] if int(count[0]) else []
            return [part[1] for part in found if isinstance(part, tuple)]

    def wait_for(self, *texts, user="jane", seconds=60):
        for _ in range(seconds * 2):
            for message in self.inbox(user):
                if all(text in message for text in texts):
                    return message
            time.sleep(0.5)
        raise AssertionError(f"no message with {texts} came; the log ends with:\n{(self.top / 'log').read_text()[-3000:]}")

    def why(self, recipient, words, seconds=60):
        """Waits until `queue list` says of the mail to `recipient` why it waits, in these words; then removes it."""
        for _ in range(seconds * 2):
            listed = self.command("queue", "list", "--json")
            if recipient in listed and words in listed:
                break
            time.sleep(0.5)
        else:
            raise AssertionError(f"{recipient} does not wait for {words!r}: {listed}")
        self.command("queue", "remove", "--domain", recipient.partition("@")[2])


def insecure_context():
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def pieces(value):
    return " ".join(f'"{value[start:start + 255]}"' for start in range(0, len(value), 255))


def message(sender, recipient, subject, body="hello\r\n"):
    head = f"From: {sender}\r\nTo: {recipient}\r\nSubject: {subject}\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n"
    return (head + "Content-Transfer-Encoding: 8bit\r\n\r\n" + body).encode()


@scenario
def there_and_back(box):
    for other in box.others:
        there, back = f"to-{other.name}", f"from-{other.name}"
        box.home.submit([f"bob@{other.domain}"], message("jane@home.box", f"bob@{other.domain}", there))
        arrived = other.wait_for(there.encode())
        verify_signature(arrived)
        other.submit(f"bob@{other.domain}", "jane@home.box", message(f"bob@{other.domain}", "jane@home.box", back))
        box.home.wait_for(back.encode())


def verify_signature(arrived):
    """The signatures are good, and each change to what is signed is found."""
    text = b"\r\n".join(arrived.splitlines()) + b"\r\n"
    count = len(re.findall(rb"^DKIM-Signature:", text, re.M))
    if count != 2 or not is_signed(text):
        raise AssertionError(f"{count} signatures, not valid: {arrived.decode(errors='replace')}")
    head, body = text.split(b"\r\n\r\n", 1)
    for changed in (head + b"\r\n\r\n" + body.replace(b"h", b"H", 1), head.replace(b"Subject: ", b"Subject: x") + b"\r\n\r\n" + body):
        if is_signed(changed):
            raise AssertionError("a changed message has a valid signature")


def is_signed(text):
    return subprocess.run(["opendkim-testmsg"], input=text, capture_output=True, check=False).returncode == 0


@scenario
def tls_as_the_policies_say(box):
    for other in box.others:
        subject = f"policy-{other.name}"
        box.home.submit([f"bob@{other.domain}"], message("jane@home.box", f"bob@{other.domain}", subject))
        arrived = other.wait_for(subject.encode())
        if not re.search(rb"TLS|with ESMTPS", arrived.partition(b"\nFrom:")[0]):
            raise AssertionError(f"{other.name} was not sent to over TLS: {arrived.decode()}")
    box.home.submit(["bob@wrongkey.box"], message("jane@home.box", "bob@wrongkey.box", "wrong key"))
    box.home.why("bob@wrongkey.box", "TLSA")
    box.home.submit(["bob@wrongpolicy.box"], message("jane@home.box", "bob@wrongpolicy.box", "wrong policy"))
    box.home.why("bob@wrongpolicy.box", "MTA-STS")


@scenario
def bounces_come_to_the_inbox(box):
    for recipient, status in (("bob@null.box", b"5.1.10"), ("bob@nowhere.box", b"5.1.2"), ("nobody@home.box", None)):
        subject = f"bounce-{recipient}"
        try:
            box.home.submit([recipient], message("jane@home.box", recipient, subject))
        except smtplib.SMTPRecipientsRefused as refused:
            if status is not None:
                raise AssertionError(f"{recipient} was refused: {refused}") from refused
            continue
        report = email.message_from_bytes(box.home.wait_for(subject.encode(), b"multipart/report", status))
        kinds = [part.get_content_type() for part in report.walk()]
        if report["Return-Path"] != "<>" or "message/delivery-status" not in kinds:
            raise AssertionError(report.as_string())


@scenario
def success_is_reported(box):
    box.home.submit(["bob@postfix.box"], message("jane@home.box", "bob@postfix.box", "reported"), mail_options=["RET=HDRS", "ENVID=e1"],
                    rcpt_options=["NOTIFY=SUCCESS,FAILURE"])
    box.home.wait_for(b"reported", b"Action: delivered", b"postfix.box")


@scenario
def local_mail_takes_the_same_way(box):
    box.home.submit(["joe@home.box", "bob@exim.box"], message("jane@home.box", "joe@home.box", "local"))
    box.home.wait_for(b"Subject: local", user="joe", seconds=10)
    box.others[1].wait_for(b"Subject: local")


@scenario
def strangers_relay_nothing(box):
    with smtplib.SMTP(box.home.address, 25, source_address=(zones.ADDRESSES["postfix"], 0)) as client:
        client.ehlo()
        client.mail("bob@postfix.box")
        for recipient in ("bob@exim.box", "bob%exim.box@home.box", "exim.box!bob@home.box", '"bob@exim.box"@home.box', "@home.box:bob@exim.box"):
            code, text = client.rcpt(recipient)
            if code < 500:
                raise AssertionError(f"{recipient}: {code} {text}")


@scenario
def kills_lose_nothing(box):
    postfix, count = box.others[0], 200
    for number in range(count):
        box.home.submit(["bob@postfix.box"], message("jane@home.box", "bob@postfix.box", f"kill-{number}-"))
        if number % 50 == 25:
            box.home.kill()
            box.home.start()
    subjects = [f"Subject: kill-{number}-".encode() for number in range(count)]
    for _ in range(900):
        arrived = postfix.messages()
        counts = [sum(subject in text for text in arrived) for subject in subjects]
        if all(counts):
            break
        time.sleep(1)
    print(f"  {count} mails, 4 kills: {counts.count(0)} lost, {sum(counts) - count + counts.count(0)} repeated")
    if 0 in counts:
        raise AssertionError("mail was lost")


class Box:
    """Everything, started."""

    def __init__(self, program, top):
        self.stack = contextlib.ExitStack()
        authority = servers.Authority(top)
        kinds = ((servers.Postfix, "postfix"), (servers.Exim, "exim"), (servers.OpenSmtpd, "opensmtpd"))
        self.others = [kind(top, name, zones.ADDRESSES[name], authority) for kind, name in kinds]
        self.home = Sealpost(program, top, authority)
        records = {"home": self.home.records()}
        for other in self.others:
            records[other.name] = ["@ MX 10 mx", f"mx A {other.address}"]
        records["postfix"] += [f"_25._tcp.mx TLSA {authority.tlsa('mx.postfix.box')}"]
        policies = {}
        for name, host in (("exim", "mx.exim.box"), ("wrongpolicy", "mx.elsewhere.box")):
            records.setdefault(name, ["@ MX 10 mx.exim.box."])
            records[name] += ['_mta-sts TXT "v=STSv1; id=1"', f"mta-sts A {zones.WEB}"]
            policies[f"mta-sts.{name}.box"] = f"version: STSv1\r\nmode: enforce\r\nmx: {host}\r\nmax_age: 86400\r\n"
        records["wrongkey"] = ["@ MX 10 mx", f"mx A {zones.ADDRESSES['postfix']}", "_25._tcp.mx TLSA 3 1 1 " + "00" * 32]
        records["null"] = ["@ MX 0 ."]
        internet = zones.internet(top, records)
        (self.home.top / "anchor").write_text(internet.start())
        self.stack.callback(internet.stop)
        pathlib.Path("/etc/resolv.conf").write_text(f"nameserver {zones.RESOLVER}\noptions edns0 trust-ad\n")
        web = servers.serve_policies(zones.WEB, {host: authority.certificate(host) for host in policies}, policies)
        self.stack.callback(web.shutdown)
        for other in self.others:
            other.start()
            self.stack.callback(other.stop)
            servers.wait_for_port(other.address, 25)
        self.home.start()
        self.stack.callback(self.home.stop)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    addresses = [zones.ROOT, zones.TLD, zones.HOSTED, zones.RESOLVER, zones.WEB, *zones.ADDRESSES.values()]
    programs = ["nsd", "unbound", "ldns-signzone", "postfix", "exim4", "smtpd", "openssl", "opendkim-testmsg", "ip", "unshare"]
    namespace.enter(__doc__, programs, addresses)
    program, names = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    failed = 0
    with tempfile.TemporaryDirectory(prefix="sealpost-internet-", ignore_cleanup_errors=True) as top:
        os.chmod(top, 0o755)
        box = Box(program, top)
        with box.stack:
            for run in SCENARIOS:
                if names and run.__name__ not in names:
                    continue
                try:
                    run(box)
                    print(f"ok: {run.__name__}")
                except Exception as wrong:
                    failed += 1
                    print(f"FAILED: {run.__name__}: {wrong}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
