"""`sealpost archive add` with a person at the terminal."""

import os
import pathlib
import pty
import re
import select
import termios
import time

from checks.archive import Archive
from harness import ADA, PASSWORD, check, ensure, equal

PATIENCE = 60


class Hidden(str):
    """An answer that is typed once the terminal does not show it any more."""


def dialogue(command, answers):
    """Runs a command at a terminal of its own, and answers each of its questions in turn; all that it shows, and its exit status."""
    process, terminal = pty.fork()
    if process == 0:
        os.execv(command[0], [str(part) for part in command])
    shown, looked_at, ends = b"", 0, time.monotonic() + PATIENCE
    answers = list(answers)
    while True:
        ready, _, _ = select.select([terminal], [], [], max(0, ends - time.monotonic()))
        ensure(ready, f"nothing more is shown, and {answers[:1]} was not asked: {shown}")
        try:
            part = os.read(terminal, 4096)
        except OSError:  # The end of a terminal on Linux.
            part = b""
        if not part:
            break
        shown += part
        while answers and (at := shown.find(answers[0][0].encode(), looked_at)) >= 0:
            question, answer = answers.pop(0)
            looked_at = at + len(question)
            while isinstance(answer, Hidden) and termios.tcgetattr(terminal)[3] & termios.ECHO:
                ensure(time.monotonic() < ends, f"{question}: what is typed is shown")
                time.sleep(0.001)
            os.write(terminal, answer.encode() + b"\n")
    os.close(terminal)
    _, status = os.waitpid(process, 0)
    equal(answers, [], f"not asked: {shown}")
    return shown.decode(), os.waitstatus_to_exitcode(status)


@check("archive: add asks at a terminal, again where an answer was wrong, and which folders", "imap")
def asks(context):
    archive = Archive(context, "sealpost", tls=False)
    host, port = context.address("imap")
    session, name = context.mailbox("Asked")
    _, other = context.mailbox("Other")
    session.logout()
    command = [context.binary, "--dir", archive.home, "archive", "add", "work", "--tls", "none"]
    shown, status = dialogue(command, [
        # Nobody answers at that port: there is nothing to try a password at.
        ("IMAP server:", f"{host}:1"),
        (f"IMAP server [{host}:1]:", f"{host}:{port}"),
        ("User:", "nobody@example.org"),
        ("Password of", Hidden("wrong")),
        # That is nobody's password; what was answered is the default now.
        ("User [nobody@example.org]:", ADA),
        ("Password of", Hidden("wrong too")),
        (f"User [{ADA}]:", ""),
        ("Password of", Hidden(PASSWORD)),
        ("Folders", "no such folder"),
        ("Folders", f"{name}*, -{other}"),
        ("New password of the backup", Hidden("one")),
        ("Repeat password", Hidden("two")),
        ("New password of the backup", Hidden("a key to it")),
        ("Repeat password", Hidden("a key to it")),
    ])
    ensure(status == 0 and "archive pull work" in shown, shown)
    ensure(PASSWORD not in shown and "a key to it" not in shown, shown)
    kept = (archive.home / "archive" / "work.toml").read_text()
    ensure(f'folders = ["{name}*"]' in kept and f'exclude = ["{other}"]' in kept, kept)
    (archive.home / "opens").write_text("a key to it\n")
    (pulled,) = archive.run("pull", "work", "--copy-password-file", archive.home / "opens")
    equal([folder["name"] for folder in pulled["changed"]], [name], "folders")

    # A command instead of a password; whoever says nothing adds nothing.
    command = [context.binary, "--dir", archive.home, "archive", "add", "token", "--host", host, "--port", port, "--tls", "none",
               "--format", "mbox"]
    shown, status = dialogue(command, [
        ("User:", ADA), ("Password of", Hidden("")), ("Command that prints", "exit 3"), (f"User [{ADA}]:", ""),
        ("Password of", Hidden("\x04")),
    ])
    ensure(status == 2 and "the token command failed" in shown and "nothing was typed" in shown, (status, shown))
    equal(sorted(path.name for path in (archive.home / "archive").iterdir() if "token" in path.name), [], "files")


@check("archive: add asks whether a certificate is trusted, and keeps it", "imaps")
def asks_for_trust(context):
    archive = Archive(context, "mbox")
    host, port = context.address("imaps")
    issuer = archive.home / "issuer.pem"
    issuer.write_bytes(pathlib.Path(context.certificate).read_bytes())
    question = "Trust this certificate"
    for name, answers, kept in [
        ("pinned", ["yes"], f"{archive.home}/archive/pinned.server.pem"),
        ("named", [archive.home / "none.pem", issuer], issuer),
        ("refused", [""], None),
    ]:
        command = [context.binary, "--dir", archive.home, "archive", "add", name, "--host", host, "--port", port, "--user", ADA,
                   "--format", "mbox", "--into", archive.home / name]
        asked = [(question, str(answer)) for answer in answers]
        if kept:
            asked += [("Password of", Hidden(PASSWORD)), ("Folders", "")]
        shown, status = dialogue(command, asked)
        equal(status, 0 if kept else 1, shown)
        ensure(shown.count("IMAP server") == 0 and re.search("([0-9A-F]{2}:){31}", shown), shown)
        settings = archive.home / "archive" / f"{name}.toml"
        equal(settings.exists(), kept is not None, "remembered")
        if kept:
            ensure(f'ca = "{kept}"' in settings.read_text(), settings.read_text())
            archive.run("pull", name)
