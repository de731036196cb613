"""curl: imaps, imap with STARTTLS, smtp with STARTTLS."""

from harness import ADA, PASSWORD, check, ensure, equal, ok, raw_append, search
from messages import MULTIPART, SIMPLE


def curl(context, *arguments, **options):
    return context.run("curl", "--silent", "--show-error", "--max-time", "30", "--cacert", context.certificate, "--user",
                       f"{ADA}:{PASSWORD}", *arguments, **options)


def imaps(context, path=""):
    return f"imaps://localhost:{context.port('imaps')}/{path}"


@check("curl: imaps lists, fetches, searches, uploads", "imaps", program="curl")
def read_and_upload(context):
    session, name = context.mailbox("Curl")
    raw_append(session, name, MULTIPART)
    listing = curl(context, imaps(context))
    ensure(name.encode() in listing and b"INBOX" in listing, listing)
    got = curl(context, imaps(context, f"{name};UID=1"))
    equal(got.replace(b"\r\n", b"\n").rstrip(), MULTIPART.replace(b"\r\n", b"\n").rstrip())
    got = curl(context, imaps(context, f"{name};MAILINDEX=1;SECTION=HEADER.FIELDS%20(SUBJECT)"))
    ensure(b"many kinds" in got, got)
    got = curl(context, imaps(context, f"{name}?SUBJECT%20parts"))
    ensure(b"* SEARCH 1" in got, got)
    file = context.work / "curl.eml"
    file.write_bytes(SIMPLE)
    curl(context, "--upload-file", file, imaps(context, name))
    ok(session.noop())
    equal(search(session, "SUBJECT", "simple"), [2])
    got = curl(context, imaps(context, name), "--request", "EXAMINE INBOX")
    ensure(b"EXISTS" in got, got)
    session.logout()


@check("curl: imap with STARTTLS required", "imap", "imaps", program="curl")
def starttls(context):
    got = curl(context, "--ssl-reqd", f"imap://localhost:{context.port('imap')}/")
    ensure(b"INBOX" in got, got)


@check("curl: a wrong password is refused", "imaps", program="curl")
def wrong_password(context):
    context.run("curl", "--silent", "--cacert", context.certificate, "--user", f"{ADA}:wrong", imaps(context), status=67)


@check("curl: smtp with STARTTLS required", "smtp", "imaps", program="curl")
def send(context):
    session = context.imap()
    before = int(ok(session.select("INBOX"))[0])
    file = context.work / "curl-send.eml"
    file.write_bytes(SIMPLE)
    context.run("curl", "--silent", "--show-error", "--max-time", "30", "--cacert", context.certificate, "--ssl-reqd",
                f"smtp://localhost:{context.port('smtp')}/client.interop.example", "--mail-from", "curl@interop.example",
                "--mail-rcpt", ADA, "--upload-file", file)
    ok(session.noop())
    equal(int(ok(session.select("INBOX"))[0]), before + 1)
    session.logout()


@check("curl: smtps", "smtps", "imaps", program="curl")
def send_smtps(context):
    file = context.work / "curl-smtps.eml"
    file.write_bytes(SIMPLE)
    context.run("curl", "--silent", "--show-error", "--max-time", "30", "--cacert", context.certificate,
                f"smtps://localhost:{context.port('smtps')}/client.interop.example", "--mail-from", "curl@interop.example",
                "--mail-rcpt", ADA, "--upload-file", file)
