"""Python's imaplib: connections, logins, capabilities, IDLE, what sessions see of each other."""

import imaplib
import time

from harness import (ADA, BOB, PASSWORD, check, ensure, equal, fetch, flags, ok, raw_append, refused, search,
                     untagged)
from messages import SIMPLE, numbered


@check("imaplib: login in the clear on loopback, LOGOUT", "imap")
def plain_login(context):
    session = context.imap()
    ensure("IMAP4REV1" in session.capabilities, session.capabilities)
    equal(session.logout()[0], "BYE")


@check("imaplib: implicit TLS with a verified certificate", "imaps")
def implicit_tls(context):
    session = imaplib.IMAP4_SSL("localhost", context.port("imaps"), ssl_context=context.tls(), timeout=30)
    ok(session.login(ADA, PASSWORD))
    ok(session.select())
    session.logout()


@check("imaplib: STARTTLS", "imap", "imaps")
def starttls(context):
    session = imaplib.IMAP4(*context.address("imap"), timeout=30)
    ensure("STARTTLS" in session.capabilities, session.capabilities)
    session.host = "localhost"
    ok(session.starttls(context.tls()))
    ensure("STARTTLS" not in session.capabilities, "STARTTLS is still offered inside TLS")
    ok(session.login(ADA, PASSWORD))
    session.logout()


@check("IMAP: commands injected before STARTTLS are not answered inside it", "imap", "imaps")
def starttls_injection(context):
    with context.lines("imap") as imap:
        imap.line()
        imap.send("a STARTTLS\r\nb NOOP\r\n")
        ensure(imap.line().startswith(b"a OK"), "STARTTLS refused")
        try:
            imap.start_tls(context.tls())
            imap.send("c NOOP\r\n")
            ensure(imap.line().startswith(b"c OK"), "the injected command was answered inside TLS")
        except OSError:
            pass  # closing the connection is right too


@check("imaplib: a wrong password and an unknown account get NO, and the session goes on", "imap")
def wrong_password(context):
    session = imaplib.IMAP4(*context.address("imap"), timeout=30)
    for account, password in [(ADA, "wrong"), ("nobody@localhost", PASSWORD)]:
        try:
            session.login(account, password)
            raise RuntimeError("the login was accepted")
        except imaplib.IMAP4.error:
            pass
    ok(session.login(ADA, PASSWORD))
    session.logout()


@check("imaplib: AUTHENTICATE PLAIN", "imap")
def authenticate_plain(context):
    session = imaplib.IMAP4(*context.address("imap"), timeout=30)
    ensure("AUTH=PLAIN" in session.capabilities, session.capabilities)
    ok(session.authenticate("PLAIN", lambda _: f"\0{ADA}\0{PASSWORD}".encode()))
    ok(session.select())
    session.logout()


@check("IMAP: AUTHENTICATE PLAIN with an initial response (SASL-IR), LOGIN mechanism, cancel", "imap")
def authenticate_raw(context):
    import base64
    with context.lines("imap") as imap:
        imap.line()
        imap.send(b"a AUTHENTICATE PLAIN " + base64.b64encode(f"\0{ADA}\0{PASSWORD}".encode()) + b"\r\n")
        ensure(imap.tagged(b"a")[1].startswith(b"a OK"), "SASL-IR refused")
    with context.lines("imap") as imap:
        imap.line()
        imap.send("a AUTHENTICATE PLAIN\r\n")
        ensure(imap.line().startswith(b"+"), "no continuation")
        imap.send("*\r\n")
        ensure(imap.tagged(b"a")[1].startswith(b"a BAD"), "a cancelled AUTHENTICATE must get BAD")
        imap.send("b CAPABILITY\r\n")
        untagged_lines, _ = imap.tagged(b"b")
        if b"AUTH=LOGIN" in b"".join(untagged_lines):
            imap.send("c AUTHENTICATE LOGIN\r\n")
            imap.line()
            imap.send(base64.b64encode(ADA.encode()) + b"\r\n")
            imap.line()
            imap.send(base64.b64encode(PASSWORD.encode()) + b"\r\n")
            ensure(imap.tagged(b"c")[1].startswith(b"c OK"), "AUTHENTICATE LOGIN refused")


@check("IMAP: LOGIN with literals, synchronizing and not", "imap")
def login_literals(context):
    with context.lines("imap") as imap:
        imap.line()
        imap.send(f"a LOGIN {{{len(ADA)}}}\r\n")
        ensure(imap.line().startswith(b"+"), "no continuation")
        imap.send(f"{ADA} {{{len(PASSWORD)}+}}\r\n{PASSWORD}\r\n")
        ensure(imap.tagged(b"a")[1].startswith(b"a OK"), "refused")


@check("imaplib: capabilities after login", "imap")
def capabilities(context):
    session = context.imap()
    offered = set(ok(session.capability())[0].decode().upper().split())
    wanted = {"IMAP4REV1", "IDLE", "UIDPLUS", "MOVE", "UNSELECT", "ENABLE", "ID", "NAMESPACE", "LITERAL+", "SPECIAL-USE",
              "CHILDREN"}
    ensure(wanted <= offered, f"missing: {sorted(wanted - offered)}")
    session.logout()


@check("imaplib: NAMESPACE, ENABLE, ID, NOOP, CHECK", "imap")
def small_commands(context):
    session = context.imap()
    ensure(b'"/"' in ok(session.namespace())[0], "the hierarchy separator is /")
    ok(session.noop())
    ok(session.select())
    ok(session.check())
    session.logout()
    with context.lines("imap") as imap:
        imap.line()
        imap.send('a ID NIL\r\nb ID ("name" "interop" "version" "1")\r\n')
        ensure(b"* ID" in b"".join(imap.tagged(b"a")[0]), "no ID response")
        ensure(imap.tagged(b"b")[1].startswith(b"b OK"), "ID with parameters")
        imap.send(f'c LOGIN {ADA} "{PASSWORD}"\r\nd ENABLE NOSUCHEXTENSION\r\n')
        imap.tagged(b"c")
        ensure(imap.tagged(b"d")[1].startswith(b"d OK"), "ENABLE of something unknown is OK (RFC 5161)")


@check("IMAP: bad syntax gets BAD and nothing is lost", "imap")
def bad_syntax(context):
    with context.lines("imap") as imap:
        imap.line()
        imap.send("a SELECT INBOX\r\n")
        ensure(imap.tagged(b"a")[1][:5] in (b"a BAD", b"a NO "), "SELECT before login")
        imap.send(f'b LOGIN {ADA} "{PASSWORD}"\r\n')
        ensure(imap.tagged(b"b")[1].startswith(b"b OK"), "login")
        for bad in ["NOSUCHCOMMAND", "SELECT", "FETCH 1:* FLAGS", "STORE 1 FLAGS"]:
            imap.send(f"c {bad}\r\n")
            ensure(imap.tagged(b"c")[1].startswith(b"c BAD"), f"{bad} must get BAD")
        imap.send("d SELECT INBOX\r\ne FETCH 1:* (\r\nf FETCH abc FLAGS\r\ng SEARCH NOSUCHKEY\r\nh NOOP\r\n")
        ensure(imap.tagged(b"d")[1].startswith(b"d OK"), "SELECT")
        for tag in (b"e", b"f", b"g"):
            ensure(imap.tagged(tag)[1].startswith(tag + b" BAD"), f"{tag}: BAD expected")
        ensure(imap.tagged(b"h")[1].startswith(b"h OK"), "the session goes on")


@check("IMAP: pipelined commands are answered in order", "imap")
def pipelining(context):
    session, name = context.mailbox()
    for number in range(5):
        raw_append(session, name, numbered(number))
    session.logout()
    with context.lines("imap") as imap:
        imap.line()
        imap.send(f'a LOGIN {ADA} "{PASSWORD}"\r\nb SELECT {name}\r\nc FETCH 1:* FLAGS\r\n'
                  "d STORE 1:3 +FLAGS (\\Seen)\r\ne SEARCH SEEN\r\nf CLOSE\r\ng LOGOUT\r\n")
        seen = []
        for tag in (b"a", b"b", b"c", b"d", b"e"):
            lines, last = imap.tagged(tag)
            ensure(last.startswith(tag + b" OK"), last)
            seen += lines
        ensure(b"* SEARCH 1 2 3\r\n" in seen, f"SEARCH sees the STORE before it: {seen}")
        imap.tagged(b"f")
        lines, last = imap.tagged(b"g")
        ensure(any(line.startswith(b"* BYE") for line in lines) and last.startswith(b"g OK"), "LOGOUT")


@check("IMAP: IDLE is told of a delivery, an append, a flag and an expunge", "imap", "lmtp")
def idle(context):
    other, name = context.mailbox("Idle")
    with context.lines("imap") as imap:
        imap.line()
        imap.send(f'a LOGIN {ADA} "{PASSWORD}"\r\nb SELECT {name}\r\n')
        imap.tagged(b"a")
        imap.tagged(b"b")
        imap.send("c IDLE\r\n")
        ensure(imap.line().startswith(b"+"), "no continuation")

        def wait_for(word):
            while True:
                line = imap.line()
                if word in line and not line.startswith(b"* OK"):
                    return line

        began = time.monotonic()
        raw_append(other, name, SIMPLE)
        ensure(wait_for(b"EXISTS") == b"* 1 EXISTS\r\n", "EXISTS")
        ok(other.noop())
        ok(other.store("1", "+FLAGS", "(\\Flagged)"))
        ensure(b"\\Flagged" in wait_for(b"FETCH"), "FETCH with the flag")
        ok(other.store("1", "+FLAGS", "(\\Deleted)"))
        ok(other.expunge())
        ensure(wait_for(b"EXPUNGE") == b"* 1 EXPUNGE\r\n", "EXPUNGE")
        took = time.monotonic() - began
        ensure(took < 10, f"took {took:.1f} s")
        imap.send("DONE\r\n")
        ensure(imap.tagged(b"c")[1].startswith(b"c OK"), "IDLE ends")
        imap.send("d SELECT INBOX\r\n")
        imap.tagged(b"d")
        imap.send("e IDLE\r\n")
        imap.line()
        context.deliver(SIMPLE)
        ensure(b"EXISTS" in wait_for(b"EXISTS"), "delivery")
        imap.send("DONE\r\nf LOGOUT\r\n")
        imap.tagged(b"f")


@check("imaplib: two sessions see each other's changes, EXPUNGE not inside FETCH or STORE", "imap")
def two_sessions(context):
    one, name = context.mailbox()
    for number in range(4):
        raw_append(one, name, numbered(number))
    ok(one.noop())
    two = context.imap()
    equal(ok(two.select(name)), [b"4"])
    ok(one.store("2", "+FLAGS", "(\\Deleted)"))
    ok(one.expunge())
    untagged(two, "EXPUNGE")
    fetched = fetch(two, "4", "(UID)")
    ensure(untagged(two, "EXPUNGE") in ([None], None), "EXPUNGE during FETCH renumbers (RFC 3501 section 7.4.1)")
    ensure(b"UID 4" in fetched[0][0], "sequence numbers hold until EXPUNGE is sent")
    ok(two.noop())
    equal(untagged(two, "EXPUNGE"), [b"2"])
    ensure(b"UID 4" in fetch(two, "3", "(UID)")[0][0], "renumbered")
    ok(two.store("1", "+FLAGS", "(\\Answered)"))
    ok(one.noop())
    ensure(b"\\Answered" in b"".join(untagged(one, "FETCH") or [b""]), "the other's flag")
    equal(flags(one, 1), {"\\Answered"})
    equal(search(one, "ANSWERED"), [1])
    one.logout()
    two.logout()


@check("imaplib: many sessions of one account at once", "imap")
def many_sessions(context):
    sessions = [context.imap(BOB) for _ in range(20)]
    for session in sessions:
        ok(session.select())
    for session in sessions:
        ok(session.noop())
        session.logout()


@check("imaplib: what refuses, refuses with NO", "imap")
def refusals(context):
    session, name = context.mailbox()
    refused(session.create(name))
    refused(session.delete("No/Such/Mailbox"))
    refused(session.rename("No/Such/Mailbox", "Other"))
    refused(session.select("No/Such/Mailbox"))
    session.select(name)
    raw_append(session, name, SIMPLE)
    ok(session.noop())
    data = refused(session.copy("1", "No/Such/Mailbox"))
    ensure(b"TRYCREATE" in data[0], data)
    session.literal = SIMPLE
    status, data = session._simple_command("APPEND", "No/Such/Mailbox")
    ensure(status == "NO" and b"TRYCREATE" in data[0], f"{status} {data}")
    refused(session.delete("INBOX"))
    session.logout()
