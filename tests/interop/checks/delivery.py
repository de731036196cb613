"""Python's smtplib and raw SMTP and LMTP: mail coming in."""

import smtplib
import time
from email.message import EmailMessage

from harness import ACCOUNTS, ADA, BOB, EVE, body, check, ensure, equal, ok, search
from messages import NULS, NULS_IN_A_LITERAL, SIMPLE, TRICKY


def inbox_last(context, account=ADA):
    """The newest message of INBOX, in full, and how many there are."""
    session = context.imap(account)
    count = int(ok(session.select("INBOX", readonly=True))[0])
    message = body(session, count) if count else None
    session.logout()
    return message, count


def smtp(context):
    return smtplib.SMTP(*context.address("smtp"), local_hostname="client.interop.example", timeout=30)


@check("LMTP: tricky messages arrive byte for byte below the server's own fields", "lmtp")
def lmtp_tricky(context):
    for what, message in TRICKY.items():
        context.deliver(message)
        got, _ = inbox_last(context)
        ensure(got.endswith(message), f"{what}: not at the end of what was stored")
        own = got[:len(got) - len(message)].decode()
        names = [line.split(":")[0].lower() for line in own.split("\r\n") if line and line[0] not in " \t"]
        ensure("received" in names and "return-path" in names, f"{what}: {own!r}")
        ensure(own.endswith("\r\n"), "its own fields end with a line end")


@check("LMTP: NULs arrive as sent, and IMAP literals have none", "lmtp", sealpost_only=True)
def lmtp_nuls(context):
    context.deliver(NULS)
    got, last = inbox_last(context)
    ensure(got.endswith(NULS_IN_A_LITERAL) and b"\0" not in got, f"{got!r}")
    session = context.imap()
    ok(session.select("INBOX", readonly=True))
    got = body(session, last, "BINARY.PEEK[]")
    ensure(got.endswith(NULS), f"{got!r}")
    session.logout()


@check("LMTP: one reply per recipient, in order (RFC 2033)", "lmtp")
def lmtp_recipients(context):
    before = {account: inbox_last(context, account)[1] for account in ACCOUNTS}
    with context.lines("lmtp") as lmtp:
        lmtp.expect(220)
        ensure(b"PIPELINING" in lmtp.command("LHLO interop.example", 250), "PIPELINING is required of LMTP")
        lmtp.send(f"MAIL FROM:<>\r\nRCPT TO:<{ADA}>\r\nRCPT TO:<nobody@localhost>\r\nRCPT TO:<{BOB}>\r\nDATA\r\n")
        lmtp.expect(250)
        lmtp.expect(250)
        lmtp.expect(550)
        lmtp.expect(250)
        lmtp.expect(354)
        lmtp.data(SIMPLE)
        lmtp.expect(250)
        lmtp.command("NOOP", 250)
        lmtp.command("EHLO x", 500, 501, 502, 503)
        lmtp.command("QUIT", 221)
    for account in (ADA, BOB):
        equal(inbox_last(context, account)[1], before[account] + 1, account)
    equal(inbox_last(context, EVE)[1], before[EVE], EVE)


@check("LMTP: DATA without a valid recipient is refused", "lmtp")
def lmtp_no_recipient(context):
    with context.lines("lmtp") as lmtp:
        lmtp.expect(220)
        lmtp.command("LHLO interop.example", 250)
        lmtp.command("RCPT TO:<x@localhost>", 503)
        lmtp.command("MAIL FROM:<a@b.example>", 250)
        lmtp.command("RCPT TO:<nobody@localhost>", 550)
        lmtp.command("DATA", 503, 554)
        lmtp.command("RSET", 250)


@check("LMTP: user+tag goes to user", "lmtp")
def subaddress(context):
    _, before = inbox_last(context)
    context.deliver(SIMPLE, ADA.replace("@", "+tag@"))
    session = context.imap()
    tagged = int(ok(session.status("INBOX", "(MESSAGES)"))[0].split(b"MESSAGES ")[1].rstrip(b")"))
    ensure(tagged >= before, "it was delivered")
    session.logout()


@check("smtplib: LMTP class", "lmtp")
def lmtp_class(context):
    _, before = inbox_last(context, BOB)
    with smtplib.LMTP(*context.address("lmtp")) as lmtp:
        lmtp.sendmail("sender@interop.example", [BOB], SIMPLE)
    equal(inbox_last(context, BOB)[1], before + 1)


@check("smtplib: EHLO keywords", "smtp")
def ehlo(context):
    with smtp(context) as client:
        client.ehlo()
        for keyword in ["pipelining", "size", "8bitmime", "smtputf8", "chunking", "enhancedstatuscodes", "starttls"]:
            ensure(client.has_extn(keyword), f"{keyword} is not offered: {client.esmtp_features}")
        ensure(int(client.esmtp_features["size"]) > 1_000_000, "SIZE names a limit")


@check("smtplib: a message in the clear, with non-ASCII content", "smtp")
def send(context):
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "Gäst <guest@interop.example>", ADA, "Grüße"
    message.set_content("Schöne Grüße, 漢字\n")
    message.add_attachment(bytes(range(256)) * 40, maintype="application", subtype="octet-stream", filename="all bytes.bin")
    with smtp(context) as client:
        equal(client.send_message(message), {})
    got, _ = inbox_last(context)
    ensure(got.startswith(b"Return-Path: <guest@interop.example>"), got[:200])
    ensure(b"Received: from client.interop.example" in got, "Received")


@check("smtplib: STARTTLS with a verified certificate", "smtp", "imaps")
def starttls(context):
    with smtp(context) as client:
        client.ehlo()
        client._host = "localhost"
        client.starttls(context=context.tls())
        client.ehlo()
        ensure(not client.has_extn("starttls"), "STARTTLS is still offered inside TLS")
        client.sendmail("guest@interop.example", [ADA], SIMPLE)
    got, _ = inbox_last(context)
    ensure(b"ESMTPS" in got[:len(got) - len(SIMPLE)], f"Received says with ESMTPS: {got[:300]}")


@check("smtplib: unknown recipients and foreign domains are refused, others still get it", "smtp")
def refused_recipients(context):
    with smtp(context) as client:
        refused = client.sendmail("guest@interop.example", [ADA, "nobody@localhost", "user@elsewhere.example"], SIMPLE)
        equal(sorted(refused), ["nobody@localhost", "user@elsewhere.example"])
        ensure(all(500 <= code < 600 for code, _ in refused.values()), refused)


@check("SMTP: MAIL with SIZE above the limit is refused at once; unknown parameters too", "smtp")
def size(context):
    with context.lines("smtp") as client:
        client.expect(220)
        client.command("EHLO interop.example", 250)
        client.command("MAIL FROM:<a@b.example> SIZE=99999999999999", 552)
        client.command("MAIL FROM:<a@b.example> NOSUCH=1", 555)
        client.command("MAIL FROM:<a@b.example> BODY=8BITMIME SIZE=1000", 250)
        client.command("RSET", 250)


@check("SMTP: SMTPUTF8 sender", "smtp")
def smtputf8(context):
    with context.lines("smtp") as client:
        client.expect(220)
        client.command("EHLO interop.example", 250)
        client.command("MAIL FROM:<jürgen@grüße.example> SMTPUTF8".encode(), 250)
        client.command(f"RCPT TO:<{ADA}>", 250)
        client.command("DATA", 354)
        client.data("Subject: Grüße\r\n\r\nbody\r\n".encode())
    got, _ = inbox_last(context)
    ensure(got.startswith("Return-Path: <jürgen@grüße.example>".encode()), got[:100])


@check("SMTP: BDAT in chunks of any bytes (RFC 3030)", "smtp")
def bdat(context):
    message = b"Subject: chunks\r\n\r\n.\r\n..\r\nno dot is doubled\r\n"
    with context.lines("smtp") as client:
        client.expect(220)
        client.command("EHLO interop.example", 250)
        client.send(f"MAIL FROM:<a@b.example>\r\nRCPT TO:<{ADA}>\r\nBDAT 10\r\n".encode() + message[:10])
        for _ in range(3):
            client.expect(250)
        client.send(b"BDAT 0\r\n" + b"BDAT %d LAST\r\n" % (len(message) - 10) + message[10:])
        client.expect(250)
        client.expect(250)
        client.send(b"BDAT 5 LAST\r\nabcde")  # a chunk's bytes end without a line end
        client.expect(503)
        client.command("NOOP", 250)
    got, _ = inbox_last(context)
    ensure(got.endswith(message), f"{got!r}")


@check("SMTP: pipelined transactions on one connection", "smtp")
def pipelined(context):
    _, before = inbox_last(context, BOB)
    with context.lines("smtp") as client:
        client.expect(220)
        client.command("EHLO interop.example", 250)
        for _ in range(5):
            client.send(f"MAIL FROM:<a@b.example>\r\nRCPT TO:<{BOB}>\r\nDATA\r\n")
            for code in (250, 250, 354):
                client.expect(code)
            client.data(SIMPLE)
        client.command("QUIT", 221)
    equal(inbox_last(context, BOB)[1], before + 5)


@check("SMTP: no other sequence than CRLF.CRLF ends a message (smuggling)", "smtp", sealpost_only=True)
def smuggling(context):
    for end in [b"\n.\n", b"\n.\r\n", b"\r\n.\n", b"\r.\r", b"\r\n.\r", b"\r\r\n.\r\r\n", b"\r\n\x00.\r\n"]:
        _, before = inbox_last(context)
        with context.lines("smtp") as client:
            client.expect(220)
            client.command("EHLO interop.example", 250)
            client.command("MAIL FROM:<a@b.example>", 250)
            client.command(f"RCPT TO:<{ADA}>", 250)
            client.command("DATA", 354)
            smuggled = f"MAIL FROM:<evil@b.example>\r\nRCPT TO:<{ADA}>\r\nDATA\r\nSubject: smuggled\r\n\r\nevil\r\n.\r\n"
            client.send(b"Subject: outer\r\n\r\ntext" + end + smuggled.encode())
            code, _ = client.reply()
            ensure(code == 250 or 500 <= code < 600, code)
            client.send("NOOP\r\n")
            second, text = client.reply()
            ensure(second in (250, 421), f"after {end!r} a second transaction ran: {second} {text}")
        session = context.imap()
        ok(session.select("INBOX", readonly=True))
        equal(search(session, "HEADER", "Return-Path", "evil@"), [], f"{end!r} ended the message")
        after = len(search(session, "ALL"))
        ensure(after <= before + 1, f"{end!r}: {after - before} messages")
        session.logout()


@check("SMTP: a connection that breaks off in DATA leaves nothing", "smtp")
def broken_off(context):
    _, before = inbox_last(context)
    with context.lines("smtp") as client:
        client.expect(220)
        client.command("EHLO interop.example", 250)
        client.command("MAIL FROM:<a@b.example>", 250)
        client.command(f"RCPT TO:<{ADA}>", 250)
        client.command("DATA", 354)
        client.send(b"Subject: half\r\n\r\n" + b"x" * 200_000)
    time.sleep(0.3)
    equal(inbox_last(context)[1], before)


@check("SMTP: a mail loop is refused", "smtp")
def loop(context):
    looped = b"Received: from a by b; Tue, 14 Oct 2025 12:21:05 +0200\r\n" * 120 + SIMPLE
    with context.lines("smtp") as client:
        client.expect(220)
        client.command("EHLO interop.example", 250)
        client.command("MAIL FROM:<a@b.example>", 250)
        client.command(f"RCPT TO:<{ADA}>", 250)
        client.command("DATA", 354)
        client.data(looped, 554)
        client.command("NOOP", 250)


@check("SMTP: HELO, VRFY, HELP, RSET, unknown commands, too many errors", "smtp")
def small_commands(context):
    with context.lines("smtp") as client:
        client.expect(220)
        client.command("MAIL FROM:<a@b.example>", 503)
        client.command("HELO interop.example", 250)
        client.command(f"VRFY {ADA}", 250, 252, 502)
        client.command("HELP", 211, 214, 502)
        client.command("NOSUCH", 500, 502)
        client.command("MAIL FROM:broken", 501, 553)
        client.command("RSET", 250)
        last = 500
        try:
            for _ in range(200):
                client.send("NOSUCH\r\n")
                last, _ = client.reply()
        except (EOFError, OSError):
            last = 421
        equal(last, 421, "a session of nothing but errors is closed")
