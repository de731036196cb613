"""swaks: SMTP and LMTP by the letter."""

from harness import ADA, BOB, check, ensure, equal, ok


def swaks(context, service, *arguments, status=0, to=ADA):
    host, port = context.address(service)
    return context.run("swaks", "--server", host, "--port", port, "--to", to, "--from", "swaks@interop.example", "--helo",
                       "swaks.interop.example", "--timeout", "20", "--header", "Subject: from swaks", *arguments, status=status)


def count(context, account=ADA):
    session = context.imap(account)
    number = int(ok(session.select("INBOX", readonly=True))[0])
    session.logout()
    return number


@check("swaks: SMTP", "smtp", program="swaks")
def smtp(context):
    before = count(context)
    swaks(context, "smtp")
    equal(count(context), before + 1)


@check("swaks: SMTP with STARTTLS", "smtp", program="swaks")
def smtp_tls(context):
    before = count(context)
    output = swaks(context, "smtp", "--tls")
    ensure(b"TLS started" in output, output[-400:])
    equal(count(context), before + 1)


@check("swaks: SMTP with PIPELINING", "smtp", program="swaks")
def smtp_pipeline(context):
    before = count(context)
    swaks(context, "smtp", "--pipeline")
    equal(count(context), before + 1)


@check("swaks: SMTP to two accounts and an unknown one", "smtp", program="swaks")
def smtp_recipients(context):
    before = count(context, BOB)
    swaks(context, "smtp", to=f"{ADA},{BOB},nobody@localhost")
    equal(count(context, BOB), before + 1)


@check("swaks: an unknown recipient is refused", "smtp", program="swaks")
def smtp_unknown(context):
    output = swaks(context, "smtp", to="nobody@localhost", status=24)
    ensure(b"550" in output, output[-300:])


@check("swaks: a 10 MB attachment", "smtp", program="swaks")
def smtp_large(context):
    file = context.work / "swaks.bin"
    file.write_bytes(bytes(range(256)) * 40_000)
    before = count(context)
    swaks(context, "smtp", "--attach", f"@{file}")
    equal(count(context), before + 1)


@check("swaks: LMTP", "lmtp", program="swaks")
def lmtp(context):
    before = count(context)
    swaks(context, "lmtp", "--protocol", "LMTP")
    equal(count(context), before + 1)


@check("swaks: LMTP with STARTTLS", "lmtp", program="swaks")
def lmtp_tls(context):
    with context.lines("lmtp") as client:
        client.expect(220)
        if b"STARTTLS" not in client.command("LHLO x.example", 250):
            from harness import Skip
            raise Skip("LMTP offers no STARTTLS here")
    before = count(context)
    swaks(context, "lmtp", "--protocol", "LMTP", "--tls")
    equal(count(context), before + 1)
