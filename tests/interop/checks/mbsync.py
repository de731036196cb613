"""mbsync (isync): a Maildir and a mailbox kept the same, changes on either side."""

import re

from harness import ADA, PASSWORD, body, check, ensure, equal, flags, ok, raw_append, search
from messages import MULTIPART, SIMPLE, TRICKY, numbered


class Pair:
    """One mailbox on the server and one Maildir."""

    def __init__(self, context, tls):
        self.context = context
        self.session, self.name = context.mailbox("Mbsync")
        self.root = context.work / self.name
        self.root.mkdir()
        self.config = self.root / "mbsyncrc"
        security = (f"SSLType IMAPS\nHost localhost\nPort {context.port('imaps')}\nCertificateFile {context.certificate}"
                    if tls else f"SSLType None\nAuthMechs LOGIN\nHost 127.0.0.1\nPort {context.port('imap')}")
        # What mbsync writes may be lost with the machine: waiting for its disk is most of its time.
        self.config.write_text(
            f"FSync no\n\nIMAPAccount server\n{security}\nUser {ADA}\nPass \"{PASSWORD}\"\nTimeout 20\n\n"
            f"IMAPStore remote\nAccount server\n\n"
            f"MaildirStore local\nPath {self.root}/\nInbox {self.root}/INBOX\nSubFolders Verbatim\n\n"
            f"Channel both\nFar :remote:{self.name}\nNear :local:mail\nCreate Near\nExpunge Both\nSyncState *\nCopyArrivalDate yes\n")

    def sync(self):
        """Runs mbsync once; its output."""
        output = self.context.run("mbsync", "-c", self.config, "-V", "both").decode(errors="replace")
        ensure("Error" not in output, output)
        return output

    def at_rest(self):
        """A second run finds nothing to do."""
        before = self.files()
        output = self.sync()
        equal(self.files(), before, "the Maildir changed in a run that had nothing to do")
        return output

    def files(self):
        return sorted(str(path.relative_to(self.root)) for sub in ("cur", "new") for path in (self.root / "mail" / sub).glob("*"))

    def find(self, text):
        found = [path for sub in ("cur", "new") for path in (self.root / "mail" / sub).glob("*") if text in path.read_bytes()]
        equal(len(found), 1, f"files with {text}")
        return found[0]


def content(path):
    """A file's bytes without the field by which mbsync finds again what it stored."""
    return re.sub(rb"X-TUID: [^\r\n]*\r?\n", b"", path.read_bytes())


def local_flags(path):
    return path.name.rpartition(":2,")[2] if ":2," in path.name else ""


def both_ways(context, tls):
    pair = Pair(context, tls)
    session, name = pair.session, pair.name
    for number in range(5):
        raw_append(session, name, numbered(number), "\\Seen" if number == 1 else "\\Flagged \\Answered" if number == 2 else "")
    raw_append(session, name, MULTIPART)
    pair.sync()
    equal(len(pair.files()), 6, "pulled")
    # mbsync turns CRLF into LF in a Maildir.
    equal(content(pair.find(b"<multipart@")), MULTIPART.replace(b"\r\n", b"\n"))
    equal(local_flags(pair.find(b"Subject: number 1")), "S")
    equal(local_flags(pair.find(b"Subject: number 2")), "FR")
    pair.at_rest()

    # Changes here: a flag, a new message, a deletion.
    path = pair.find(b"Subject: number 3")
    path.rename(pair.root / "mail" / "cur" / (path.name.partition(":2,")[0] + ":2,FS"))
    path = pair.find(b"Subject: number 4")
    path.rename(pair.root / "mail" / "cur" / (path.name.partition(":2,")[0] + ":2,T"))
    local = numbered(77, Subject="made here")
    (pair.root / "mail" / "new" / "1700000000.M1P1.here").write_bytes(local.replace(b"\r\n", b"\n"))
    pair.sync()
    ok(session.noop())
    (uid,) = search(session, "SUBJECT", '"number 3"', uid=True)
    equal(flags(session, uid, uid=True), {"\\Seen", "\\Flagged"}, "pushed flags")
    equal(search(session, "SUBJECT", '"number 4"'), [], "pushed deletion")
    (made,) = search(session, "SUBJECT", '"made here"', uid=True)
    pushed = body(session, made, uid=True)
    # mbsync adds an X-TUID field to what it stores until it has found it again.
    equal(re.sub(rb"X-TUID: [^\r]*\r\n", b"", pushed), local, "pushed message")
    equal(len(pair.files()), 6)
    pair.at_rest()

    # Changes there: a flag, a new message, an expunge.
    (uid,) = search(session, "SUBJECT", '"number 0"', uid=True)
    ok(session.uid("STORE", str(uid), "+FLAGS", "(\\Answered)"))
    (gone,) = search(session, "SUBJECT", '"number 1"', uid=True)
    ok(session.uid("STORE", str(gone), "+FLAGS", "(\\Deleted)"))
    ok(session.expunge())
    raw_append(session, name, SIMPLE)
    pair.sync()
    ensure("R" in local_flags(pair.find(b"Subject: number 0")), "pulled flag")
    equal([path for path in pair.files() if "number 1" in path], [])
    pair.find(b"<simple@interop.example>")
    equal(len(pair.files()), 6)

    # Changes on both sides at once.
    path = pair.find(b"<simple@")
    path.rename(pair.root / "mail" / "cur" / (path.name.partition(":2,")[0] + ":2,S"))
    ok(session.uid("STORE", str(made), "+FLAGS", "(\\Flagged)"))
    pair.sync()
    ok(session.noop())
    (uid,) = search(session, "HEADER", "Message-ID", "simple@", uid=True)
    equal(flags(session, uid, uid=True), {"\\Seen"})
    ensure("F" in local_flags(pair.find(b"Subject: made here")), "pulled flag")
    pair.at_rest()
    session.logout()


@check("mbsync: both ways over TLS, and at rest when run again", "imaps", program="mbsync")
def over_tls(context):
    both_ways(context, True)


@check("mbsync: both ways in the clear on loopback", "imap", program="mbsync")
def in_the_clear(context):
    both_ways(context, False)


@check("mbsync: odd messages out and back in are the same", "imaps", program="mbsync")
def odd_messages(context):
    pair = Pair(context, True)
    odd = {what: message for what, message in TRICKY.items() if what not in ("header without end", "line of 100,000")}
    for message in odd.values():
        raw_append(pair.session, pair.name, message)
    pair.sync()
    equal(len(pair.files()), len(odd))
    stored = {content(path) for sub in ("cur", "new") for path in (pair.root / "mail" / sub).glob("*")}
    for what, message in odd.items():
        ensure(message.replace(b"\r\n", b"\n") in stored, f"{what} is not as it was sent")
    pair.at_rest()
    pair.session.logout()


@check("mbsync: odd messages of a Maildir go up and are the same", "imaps", program="mbsync")
def odd_messages_up(context):
    pair = Pair(context, True)
    odd = {what: message for what, message in TRICKY.items() if what not in ("header without end", "line of 100,000")}
    pair.sync()
    for number, message in enumerate(odd.values()):
        (pair.root / "mail" / "new" / f"17000000{number:02}.M1P1.here").write_bytes(message.replace(b"\r\n", b"\n"))
    pair.sync()
    ok(pair.session.noop())
    without_tuid = lambda message: re.sub(rb"X-TUID: [^\r]*\r\n", b"", message)
    stored = {without_tuid(body(pair.session, number)) for number in range(1, len(odd) + 1)}
    for what, message in odd.items():
        ensure(message in stored, f"{what} is not as it was in the Maildir")
    pair.at_rest()
    pair.session.logout()


@check("mbsync: 300 messages", "imaps", program="mbsync")
def thousand(context):
    pair = Pair(context, True)
    for number in range(300):
        raw_append(pair.session, pair.name, numbered(number), "\\Seen" if number % 3 else "")
    pair.sync()
    equal(len(pair.files()), 300)
    ok(pair.session.noop())
    ok(pair.session.store("1:150", "+FLAGS.SILENT", "(\\Flagged)"))
    pair.sync()
    equal(sum("F" in local_flags(path) for path in (pair.root / "mail" / "cur").glob("*")), 150)
    pair.at_rest()
    pair.session.logout()
