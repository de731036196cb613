"""What all checks share: the registry, the server under test, small helpers."""

import imaplib
import re
import shutil
import socket
import ssl
import subprocess

PASSWORD = "correct horse battery"
ACCOUNTS = ["ada@localhost", "bob@localhost", "eve@localhost"]
ADA, BOB, EVE = ACCOUNTS

REGISTRY = []

imaplib._MAXLINE = 100_000_000


class Skip(Exception):
    """The check does not apply here; the message says why."""


class Check:
    def __init__(self, name, run, needs, program, sealpost_only):
        self.name, self._run, self.needs = name, run, needs
        self.program, self.sealpost_only = program, sealpost_only

    def run(self, context):
        if self.sealpost_only and not context.sealpost:
            raise Skip("of Sealpost alone")
        if self.program and not shutil.which(self.program):
            raise Skip(f"{self.program} is not installed")
        for service in self.needs:
            if not context.offers(service):
                raise Skip(f"{service} is not offered")
        self._run(context)


def check(name, *needs, program=None, sealpost_only=False):
    """Registers a check. `needs`: services it uses; `program`: the client it drives."""

    def register(function):
        REGISTRY.append(Check(name, function, needs, program, sealpost_only))
        return function

    return register


def equal(actual, expected, what=""):
    if actual != expected:
        raise AssertionError(f"{what}{': ' if what else ''}{shorten(actual)} is not {shorten(expected)}")


def ensure(condition, what):
    if not condition:
        raise AssertionError(shorten(what))


def shorten(value):
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) < 400 else f"{text[:300]}…({len(text)} characters)…{text[-60:]}"


class Context:
    """The server under test and where to write files."""

    def __init__(self, ready, work, sealpost, binary=None):
        self.ready, self.work, self.sealpost, self.binary = ready, work, sealpost, binary
        self.certificate = None
        self.unique = 0
        if "imaps" in ready:
            pem = ssl.get_server_certificate(self.address("imaps"))
            self.certificate = work / "certificate.pem"
            self.certificate.write_text(pem)

    def offers(self, service):
        return service in self.ready

    def address(self, service):
        return self.ready[service]["host"], self.ready[service]["port"]

    def port(self, service):
        return self.ready[service]["port"]

    def tls(self):
        """Trusts the server's own certificate and nothing else; the name must match."""
        return ssl.create_default_context(cafile=str(self.certificate))

    def fresh(self, prefix):
        """A name nobody has used."""
        self.unique += 1
        return f"{prefix}{self.unique}"

    def imap(self, account=ADA):
        """A session over plain TCP, logged in."""
        session = imaplib.IMAP4(*self.address("imap"), timeout=30)
        session.login(account, PASSWORD)
        return session

    def mailbox(self, prefix="Box", account=ADA):
        """A session with a new, empty mailbox selected; session and name."""
        session, name = self.imap(account), self.fresh(prefix)
        ok(session.create(name))
        ok(session.select(name))
        return session, name

    def lines(self, service):
        return Lines(self.address(service))

    def run(self, *command, stdin=None, status=0, timeout=60, **options):
        """Runs a client program; its output. Another exit status than `status` is a failure."""
        done = subprocess.run([str(part) for part in command], input=stdin, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=timeout, **options)
        if status is not None and done.returncode != status:
            raise AssertionError(f"{command[0]}: exit status {done.returncode}: {done.stdout.decode(errors='replace')[-700:]}")
        return done.stdout

    def deliver(self, message, account=ADA):
        """One message over LMTP, in the raw."""
        with self.lines("lmtp") as lmtp:
            lmtp.expect(220)
            lmtp.command("LHLO interop.example", 250)
            lmtp.command("MAIL FROM:<sender@interop.example>", 250)
            lmtp.command(f"RCPT TO:<{account}>", 250)
            lmtp.command("DATA", 354)
            return lmtp.data(message)


def ok(reply):
    """The data of an imaplib reply that must be OK."""
    status, data = reply
    ensure(status == "OK", f"{status} {data}")
    return data


def refused(reply):
    status, data = reply
    ensure(status == "NO", f"{status} {data} where NO was expected")
    return data


def raw_append(session, mailbox, message, flags="", date=None):
    """APPEND without imaplib's line-end repair: the bytes as they are. The UID, if UIDPLUS names it."""
    session.literal = message
    arguments = [mailbox, f"({flags})"]
    if date:
        arguments.append(f'"{date}"')
    status, data = session._simple_command("APPEND", *arguments)
    ensure(status == "OK", f"APPEND: {status} {data}")
    found = re.search(rb"APPENDUID \d+ (\d+)", data[0])
    return int(found[1]) if found else None


def fetch(session, messages, items, uid=False):
    """FETCH: a list of (line, [literals]) per message."""
    session.response("FETCH")  # what earlier commands left unread
    reply = session.uid("FETCH", messages, items) if uid else session.fetch(messages, items)
    rows = []
    open_row = None
    for part in ok(reply):
        if part is None:
            continue
        if isinstance(part, tuple):
            head, literal = part
            if open_row is None:
                open_row = [b"", []]
            open_row[0] += head
            open_row[1].append(literal)
        else:
            if open_row is not None:
                open_row[0] += part
                rows.append(tuple(open_row))
                open_row = None
            else:
                rows.append((part, []))
    if open_row is not None:
        rows.append(tuple(open_row))
    return rows


def body(session, message, item="BODY.PEEK[]", uid=False):
    """One section of one message, as a literal or a quoted string."""
    (line, literals), = [row for row in fetch(session, str(message), f"({item})", uid) if b"BODY[" in row[0] or b"RFC822" in row[0] or row[1]]
    if literals:
        return literals[0]
    found = re.search(rb'(?:\]|>|RFC822(?:\.\w+)?) (?:"((?:[^"\\]|\\.)*)"|NIL)', line)
    ensure(found, line)
    return re.sub(rb"\\(.)", rb"\1", found[1]) if found[1] is not None else None


def flags(session, message, uid=False):
    (line, _), = fetch(session, str(message), "(FLAGS)", uid)
    return set(re.search(rb"FLAGS \(([^)]*)\)", line)[1].decode().split()) - {"\\Recent"}


def search(session, *keys, uid=False):
    data = ok(session.uid("SEARCH", *keys) if uid else session.search(None, *keys))
    return [int(number) for number in (data[0] or b"").split()]


def untagged(session, name):
    """Untagged responses of this name since last asked."""
    return session.response(name)[1]


class Lines:
    """A raw line protocol over TCP, for what clients' libraries cannot say."""

    def __init__(self, address, source=None):
        self.socket = socket.create_connection(address, 30, source)
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data if isinstance(data, bytes) else data.encode())

    def line(self):
        line = self.file.readline()
        if not line:
            raise EOFError("the server closed the connection")
        return line

    def start_tls(self, context):
        self.file.close()
        self.socket = context.wrap_socket(self.socket, server_hostname="localhost")
        self.file = self.socket.makefile("rb")

    def reply(self):
        """An SMTP reply: code and all its text."""
        text = []
        while True:
            line = self.line()
            text.append(line[4:].strip())
            if line[3:4] != b"-":
                return int(line[:3]), b"\n".join(text)

    def expect(self, *codes):
        code, text = self.reply()
        ensure(code in codes, f"reply {code} {text.decode(errors='replace')} where {codes} was expected")
        return text

    def command(self, line, *codes):
        self.send(line + "\r\n" if isinstance(line, str) else line + b"\r\n")
        return self.expect(*codes)

    def data(self, message, *codes):
        dotted = re.sub(rb"(?m)^\.", b"..", message) if message else b""
        self.send(dotted + (b"" if dotted.endswith(b"\r\n") else b"\r\n") + b".\r\n")
        return self.expect(*(codes or (250,)))

    def tagged(self, tag):
        """Reads IMAP responses up to the tagged one; literals are read too. Untagged lines and the tagged one."""
        seen = []
        while True:
            line = self.line()
            literal = re.search(rb"\{(\d+)\}\r\n$", line)
            while literal:
                line += self.file.read(int(literal[1]))
                more = self.line()
                line += more
                literal = re.search(rb"\{(\d+)\}\r\n$", more)
            if line.startswith(tag + b" "):
                return seen, line
            seen.append(line)
