"""Vacation responses: JMAP (curl) sets them, smtplib and swaks send, IMAP reads the replies."""

import email
import json
import smtplib
import time

from harness import BOB, EVE, PASSWORD, check, ensure, equal, ok

CORE = "urn:ietf:params:jmap:core"
VACATION = "urn:ietf:params:jmap:vacationresponse"


def curl(context, path, *arguments, **options):
    return context.run("curl", "--silent", "--show-error", "--max-time", "30", "--user", f"{EVE}:{PASSWORD}", *arguments,
                       f"{context.ready['http']['url']}{path}", **options)


def change(context, **properties):
    """Changes EVE's response, and returns it."""
    account = json.loads(curl(context, "/jmap/session"))["primaryAccounts"][VACATION]
    calls = [["VacationResponse/set", {"accountId": account, "update": {"singleton": properties}}, "0"],
             ["VacationResponse/get", {"accountId": account, "ids": ["singleton"]}, "1"]]
    request = json.dumps({"using": [CORE, VACATION], "methodCalls": calls})
    answer = curl(context, "/jmap/api", "--header", "Content-Type: application/json", "--data-binary", "@-", stdin=request.encode())
    done, got = json.loads(answer)["methodResponses"]
    equal(done[1]["updated"], {"singleton": None})
    return got[1]["list"][0]


def replies(context, text, at_least=0, seconds=20):
    """BOB's messages with that text, at least so many of them."""
    deadline = time.monotonic() + seconds
    session = context.imap(BOB)
    try:
        while True:
            ok(session.select("INBOX", readonly=True))
            found = ok(session.search(None, "TEXT", f'"{text}"'))[0].split()
            if len(found) >= at_least or time.monotonic() > deadline:
                return [email.message_from_bytes(ok(session.fetch(uid, "(BODY.PEEK[])"))[0][1]) for uid in found]
            time.sleep(0.05)
    finally:
        session.logout()


def send(context, subject, fields="", to=EVE):
    text = f"From: {BOB}\r\nTo: {to}\r\nSubject: {subject}\r\nMessage-ID: <{subject}@interop.example>\r\n{fields}\r\nText.\r\n"
    with smtplib.SMTP(*context.address("smtp"), local_hostname="client.interop.example", timeout=30) as client:
        equal(client.sendmail(BOB, [EVE], text), {})


@check("vacation: smtplib gets one reply, set by JMAP", "smtp", "http", "submission", program="curl", sealpost_only=True)
def once(context):
    mark, subject = context.fresh("sunny"), context.fresh("question")
    now = change(context, isEnabled=True, subject=None, textBody=f"Away, {mark}.", htmlBody=f"<p>Away, <b>{mark}</b>.</p>")
    equal((now["isEnabled"], now["textBody"]), (True, f"Away, {mark}."))
    try:
        send(context, "listed", "List-Id: <a.interop.example>\r\n")
        send(context, "bulk", "Precedence: bulk\r\n")
        send(context, "hidden", to=BOB)
        for _ in range(3):
            send(context, subject)
        (reply,) = replies(context, mark, at_least=1)
        equal(reply["Subject"], f"Auto: {subject}")
        equal((reply["Auto-Submitted"], reply["Return-Path"]), ("auto-replied", "<>"))
        ensure(EVE in reply["From"] and BOB in reply["To"], reply.items())
        equal(reply["In-Reply-To"], f"<{subject}@interop.example>")
        parts = [part.get_content_type() for part in reply.walk()]
        equal(parts, ["multipart/alternative", "text/plain", "text/html"])
        # Off and on again is another vacation.
        change(context, isEnabled=False)
        send(context, context.fresh("question"))
        change(context, isEnabled=True)
        send(context, context.fresh("question"))
        equal(len(replies(context, mark, at_least=2)), 2)
    finally:
        change(context, isEnabled=False)


@check("vacation: swaks gets a reply", "smtp", "http", "submission", program="swaks", sealpost_only=True)
def swaks(context):
    host, port = context.address("smtp")
    mark = context.fresh("swaks")
    change(context, isEnabled=True, subject=f"Away {mark}", textBody="Away.", htmlBody=None)
    try:
        context.run("swaks", "--server", host, "--port", port, "--to", EVE, "--from", BOB, "--timeout", "20")
        (reply,) = replies(context, mark, at_least=1)
        equal(reply["Subject"], f"Away {mark}")
    finally:
        change(context, isEnabled=False)
