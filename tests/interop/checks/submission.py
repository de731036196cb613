"""Submission by clients that are not ours: Python's smtplib, swaks, curl and msmtp send, IMAP reads."""

import os
import smtplib
import ssl
import time

from harness import ADA, BOB, EVE, PASSWORD, check, ensure, equal, ok


def connect(context, service="submission", account=ADA):
    """A session that may submit."""
    host, port = context.address(service)
    trust = ssl.create_default_context(cafile=str(context.certificate))
    trust.check_hostname = False
    if service == "submissions":
        client = smtplib.SMTP_SSL(host, port, timeout=20, context=trust)
    else:
        client = smtplib.SMTP(host, port, timeout=20)
        client.starttls(context=trust)
    client.login(account, PASSWORD)
    return client


def letter(context, sender=ADA, to=BOB):
    """A message and the subject that finds it."""
    context.unique += 1
    subject = f"submitted {context.unique}"
    return subject, f"From: {sender}\r\nTo: {to}\r\nSubject: {subject}\r\n\r\nText.\r\n"


def arrived(context, subject, account=BOB, seconds=20):
    """The message with that subject, once it is in the inbox: submission answers before delivery."""
    deadline = time.monotonic() + seconds
    session = context.imap(account)
    try:
        while time.monotonic() < deadline:
            ok(session.select("INBOX", readonly=True))
            found = ok(session.search(None, "SUBJECT", f'"{subject}"'))[0].split()
            if found:
                equal(len(found), 1, "copies")
                return ok(session.fetch(found[0], "(BODY.PEEK[])"))[0][1]
            time.sleep(0.05)
    finally:
        session.logout()
    raise AssertionError(f"{subject} did not arrive")


@check("submission: smtplib over STARTTLS", "submission", "imaps", sealpost_only=True)
def starttls(context):
    subject, text = letter(context)
    with connect(context) as client:
        equal(client.sendmail(ADA, [BOB], text), {})
    raw = arrived(context, subject)
    ensure(raw.startswith(b"Return-Path: <" + ADA.encode()), raw[:200])
    ensure(b"\r\nDate: " in raw and b"\r\nMessage-ID: " in raw, raw[:600])
    ensure(b"127.0.0.1" not in raw, "the address of the client is in the message")


@check("submission: smtplib over TLS, with a body of 3 MB", "submissions", "imaps", sealpost_only=True)
def implicit_tls(context):
    subject, text = letter(context)
    with connect(context, "submissions") as client:
        equal(client.sendmail(ADA, [BOB], text + "0123456789\r\n" * 250_000), {})
    ensure(len(arrived(context, subject)) > 3_000_000, "it is too short")


@check("submission: to several accounts, one of them unknown", "submission", "imaps", sealpost_only=True)
def several(context):
    subject, text = letter(context)
    with connect(context) as client:
        refused = client.sendmail(ADA, [BOB, EVE, "nobody@localhost"], text)
        equal(list(refused), ["nobody@localhost"])
    for account in (BOB, EVE):
        arrived(context, subject, account)


@check("submission: nobody sends as another account", "submission", sealpost_only=True)
def forged(context):
    for sender, header in ((BOB, ADA), (ADA, BOB)):
        _, text = letter(context, sender=header)
        with connect(context) as client:
            try:
                client.sendmail(sender, [EVE], text)
            except smtplib.SMTPException:
                continue
            raise AssertionError(f"MAIL FROM {sender} and From {header} were taken from {ADA}")


@check("submission: nothing without a login", "submission", sealpost_only=True)
def anonymous(context):
    host, port = context.address("submission")
    with smtplib.SMTP(host, port, timeout=20) as client:
        client.ehlo()
        code, reply = client.mail(ADA)
        ensure(code == 530, (code, reply))


@check("submission: swaks with AUTH", "submission", "imaps", program="swaks", sealpost_only=True)
def swaks(context):
    host, port = context.address("submission")
    subject, _ = letter(context)
    context.run("swaks", "--server", host, "--port", port, "--to", BOB, "--from", ADA, "--auth", "PLAIN", "--auth-user", ADA,
                "--auth-password", PASSWORD, "--timeout", "20", "--header", f"Subject: {subject}")
    arrived(context, subject)


@check("submission: curl over TLS", "submissions", "imaps", program="curl", sealpost_only=True)
def curl(context):
    host, port = context.address("submissions")
    subject, text = letter(context)
    file = context.work / "submitted.eml"
    file.write_bytes(text.encode())
    context.run("curl", "-sS", "--insecure", f"smtps://{host}:{port}", "-u", f"{ADA}:{PASSWORD}", "--mail-from", ADA, "--mail-rcpt", BOB,
                "-T", file)
    arrived(context, subject)


@check("submission: msmtp with STARTTLS", "submission", "imaps", program="msmtp", sealpost_only=True)
def msmtp(context):
    host, port = context.address("submission")
    subject, text = letter(context)
    settings = context.work / "msmtprc"
    settings.write_text(f"account default\nhost {host}\nport {port}\ntls on\ntls_certcheck off\nauth plain\nuser {ADA}\n"
                        f"password {PASSWORD}\nfrom {ADA}\n")
    os.chmod(settings, 0o600)
    context.run("msmtp", "-C", settings, BOB, stdin=text.encode())
    arrived(context, subject)


@check("submission: BURL sends a draft that is in a mailbox", "submission", "imap", "imaps", sealpost_only=True)
def burl(context):
    subject, text = letter(context)
    drafts, name = context.mailbox("Drafts")
    ok(drafts.append(name, None, None, text.encode()))
    host, _ = context.address("imap")
    user = ADA.replace("@", "%40")
    url = f"imap://{user}@{host}/{name}/;uid=1;urlauth=submit+{user}"
    code, authorized = drafts.xatom("GENURLAUTH", f'"{url}"', "INTERNAL")
    equal(code, "OK", authorized)
    (line,) = drafts.response("GENURLAUTH")[1]
    authorized = line.decode().strip('"')
    drafts.logout()
    forged = authorized[:-1] + ("1" if authorized.endswith("0") else "0")
    with connect(context) as client:
        client.ehlo()
        equal(client.esmtp_features.get("burl"), "imap", "EHLO")
        for command, expected in ((f"MAIL FROM:<{ADA}>", 250), (f"RCPT TO:<{BOB}>", 250), (f"BURL {forged} LAST", 554),
                                  (f"MAIL FROM:<{ADA}>", 250), (f"RCPT TO:<{BOB}>", 250), (f"BURL {authorized} LAST", 250)):
            code, reply = client.docmd(command)
            equal(code, expected, f"{command}: {reply}")
    raw = arrived(context, subject)
    ensure(raw.endswith(b"\r\n\r\nText.\r\n"), raw[-200:])
    # Parts of messages between chunks of BDAT (RFC 4468 3.2).
    subject, _ = letter(context)
    session, name = context.mailbox("Parts")
    ok(session.append(name, None, None, b"Subject: x\r\n\r\nthe text of a message\r\n"))
    url = f"imap://{user}@{host}/{name}/;uid=1/;section=TEXT;urlauth=submit+{user}"
    session.xatom("GENURLAUTH", f'"{url}"', "INTERNAL")
    authorized = session.response("GENURLAUTH")[1][0].decode().strip('"')
    session.logout()
    with connect(context) as client:
        client.ehlo()
        client.docmd(f"MAIL FROM:<{ADA}>")
        client.docmd(f"RCPT TO:<{BOB}>")
        header = f"From: {ADA}\r\nSubject: {subject}\r\n\r\n"
        client.send(f"BDAT {len(header)}\r\n{header}")
        equal(client.getreply()[0], 250, "BDAT")
        equal(client.docmd(f"BURL {authorized}")[0], 250, "BURL")
        client.send("BDAT 5 LAST\r\nend\r\n")
        equal(client.getreply()[0], 250, "BDAT LAST")
    ensure(arrived(context, subject).endswith(b"\r\n\r\nthe text of a message\r\nend\r\n"), "the parts")


@check("submission: neomutt with STARTTLS", "submission", "imaps", program="neomutt", sealpost_only=True)
def neomutt(context):
    subject, _ = letter(context)
    settings = context.work / "submission.muttrc"
    settings.write_text(
        f'set smtp_url = "smtp://{ADA}@localhost:{context.port("submission")}"\nset smtp_pass = "{PASSWORD}"\n'
        f'set smtp_authenticators = "plain"\nset ssl_starttls = yes\nset ssl_force_tls = yes\n'
        f'set certificate_file = "{context.certificate}"\nset from = "{ADA}"\nset realname = "Ada"\nset copy = no\n'
        'set hostname = "client.interop.example"\n')
    os.chmod(settings, 0o600)
    attachment = context.work / "submitted.bin"
    attachment.write_bytes(bytes(range(256)) * 100)
    context.run("neomutt", "-n", "-F", settings, "-s", subject, "-a", attachment, "--", BOB, stdin="Grüße\n.\nend\n".encode(),
                env={**os.environ, "HOME": str(context.work), "LC_ALL": "C.UTF-8"})
    raw = arrived(context, subject)
    ensure(b"submitted.bin" in raw and b"with ESMTPSA" in raw, raw[:600])
