"""neomutt (or mutt): sends through SMTP, reads a folder over IMAP, both without anyone at the keyboard."""

import os
import pty
import select
import shutil
import subprocess
import time

from harness import ADA, PASSWORD, Skip, check, ensure, equal, flags, ok, raw_append, search
from messages import MULTIPART, numbered


def program():
    found = shutil.which("neomutt") or shutil.which("mutt")
    if not found:
        raise Skip("neomutt is not installed")
    return found


def write_config(context, *more):
    path = context.work / context.fresh("muttrc")
    path.write_text("\n".join([
        f'set imap_user = "{ADA}"', f'set imap_pass = "{PASSWORD}"', f'set from = "{ADA}"', 'set realname = "Ada"',
        f'set certificate_file = "{context.certificate}"', "set ssl_verify_host = yes", "set ssl_force_tls = yes",
        'set header_cache = ""', "set copy = no", "set quit = yes", "set mark_old = no", "set confirmappend = no",
        "set delete = yes", "set wait_key = no", "set sort = date-sent", 'set hostname = "client.interop.example"', *more]) + "\n")
    return path


def in_terminal(context, command, timeout=40):
    """Runs a full-screen program on a pseudo-terminal, answering nothing."""
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "HOME": str(context.work), "LC_ALL": "C.UTF-8"}
    process = subprocess.Popen([str(part) for part in command], stdin=slave, stdout=slave, stderr=slave, env=environment,
                               start_new_session=True)
    os.close(slave)
    screen, deadline = b"", time.monotonic() + timeout
    while process.poll() is None and time.monotonic() < deadline:
        if select.select([master], [], [], 0.1)[0]:
            try:
                screen += os.read(master, 65536)
            except OSError:
                break
    if process.poll() is None and time.monotonic() >= deadline:
        process.kill()
        raise AssertionError(f"still running after {timeout} s; its screen ends with {screen[-400:]!r}")
    process.wait()
    os.close(master)
    return screen


@check("neomutt: sends a message with an attachment through SMTP and STARTTLS", "smtp", "imaps")
def send(context):
    config = write_config(context, f'set smtp_url = "smtp://localhost:{context.port("smtp")}"', "set ssl_starttls = yes")
    attachment = context.work / "attachment.bin"
    attachment.write_bytes(bytes(range(256)) * 100)
    subject = context.fresh("from neomutt ")
    context.run(program(), "-n", "-F", config, "-s", subject, "-a", attachment, "--", ADA, stdin="Grüße\n.\nend\n".encode(),
                env={**os.environ, "HOME": str(context.work), "LC_ALL": "C.UTF-8"})
    session = context.imap()
    ok(session.select("INBOX"))
    equal(len(search(session, "SUBJECT", f'"{subject}"')), 1)
    session.logout()


@check("neomutt: reads, flags, saves and deletes in a folder over imaps", "imaps")
def read(context):
    session, name = context.mailbox("Mutt")
    target = context.fresh("Saved")
    ok(session.create(target))
    for number in range(4):
        raw_append(session, name, numbered(number, Date=f"Tue, 14 Oct 2025 12:2{number}:05 +0200"))
    raw_append(session, name, MULTIPART.replace(b"12:21:05", b"12:29:05"))
    out = context.work / context.fresh("mutt-out")
    config = write_config(context, f'set folder = "imaps://localhost:{context.port("imaps")}/"')
    keys = (f"<first-entry><pipe-entry>cat >> {out}<enter>"  # reads the first
            f"<last-entry><pipe-entry>cat >> {out}<enter>"
            "<first-entry><next-entry><flag-message>"
            f"<first-entry><next-entry><next-entry><save-message><kill-line>={target}<enter>"
            "<first-entry><delete-message><sync-mailbox><quit>")
    in_terminal(context, [program(), "-n", "-F", config, "-f", f"imaps://localhost:{context.port('imaps')}/{name}",
                          "-e", f"push '{keys}'"])
    got = out.read_bytes()
    ensure(b"Subject: number 0" in got and b"many kinds" in got, got[:300])
    ok(session.noop())
    equal(search(session, "SUBJECT", '"number 0"'), [], "deleted")
    equal(search(session, "SUBJECT", '"number 2"'), [], "saved away")
    (uid,) = search(session, "SUBJECT", '"number 1"', uid=True)
    ensure("\\Flagged" in flags(session, uid, uid=True), "flagged")
    ok(session.select(target))
    equal(len(search(session, "SUBJECT", '"number 2"')), 1, "saved there")
    session.logout()
