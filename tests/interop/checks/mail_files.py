"""mbox and Maildir files that go in and out: what export writes is opened by readers that are not ours, and what they write is imported."""

import email
import mailbox
import shutil

from checks.neomutt import in_terminal, program, write_config
from harness import ADA, PASSWORD, check, ensure, equal, ok, raw_append

FIELDS = "Status: RO\r\nX-Status: AFTD\r\nX-Keywords: evil\r\nX-Mozilla-Status: 0009\r\nContent-Length: 3\r\n"


def message(number, more=""):
    return f"{more}Message-ID: <file{number}@example.org>\r\nSubject: number {number}\r\n\r\ntext {number}\r\n".encode()


def sealpost(context, *arguments, status=0):
    password = context.work / "password"
    password.write_text(PASSWORD + "\n")
    return context.run(context.binary, "--dir", context.work / "server", *arguments, "--account", ADA,
                       "--password-file", password, status=status)


def exported(context, format):
    """A mailbox with messages whose own headers have the fields in which files keep flags, exported; the path."""
    session, name = context.mailbox("Files")
    raw_append(session, name, message(0, FIELDS))
    raw_append(session, name, message(1), "\\Flagged \\Seen")
    raw_append(session, name, message(2, FIELDS), "\\Answered")
    session.logout()
    path = context.work / context.fresh("exported")
    sealpost(context, "export", "--format", format, "--mailbox", name, path)
    return path if format == "mbox" else path / f".{name}"


def by_subject(box):
    return {parsed["Subject"]: parsed for parsed in box}


def flags_of_import(context, path, count):
    """The flags of messages by subject, once the file is imported."""
    name = context.fresh("Imported")
    sealpost(context, "import", path, "--mailbox", name)
    session = context.imap()
    ok(session.select(name))
    _, answers = session.fetch(f"1:{count}", "(FLAGS BODY.PEEK[HEADER])")
    found = {}
    for at, answer in enumerate(answers):
        if isinstance(answer, tuple):
            # Flags stand before the literal, or behind it.
            said = answer[0] + (answers[at + 1] if isinstance(answers[at + 1], bytes) else b"")
            flags = said.split(b"FLAGS (")[1].split(b")")[0].decode().split()
            subject = email.message_from_bytes(answer[1])["Subject"]
            found[subject] = sorted(flag for flag in flags if flag != "\\Recent")
    session.logout()
    return found


EXPECTED = {"number 0": [], "number 1": ["\\Flagged", "\\Seen"], "number 2": ["\\Answered"]}


@check("files: Python reads an exported mbox, and no stranger's flags", "imap", sealpost_only=True)
def python_mbox(context):
    path = exported(context, "mbox")
    found = by_subject(mailbox.mbox(path))
    equal({subject: sorted(parsed.get_flags()) for subject, parsed in found.items()},
          {"number 0": ["O"], "number 1": ["F", "O", "R"], "number 2": ["A", "O"]})
    for number in range(3):
        equal(found[f"number {number}"].get_payload(), f"text {number}\n")
    equal(flags_of_import(context, path, 3), EXPECTED, "and import reads it")


@check("files: Python reads an exported Maildir", "imap", sealpost_only=True)
def python_maildir(context):
    path = exported(context, "maildir")
    found = by_subject(mailbox.Maildir(path, create=False))
    equal({subject: parsed.get_flags() for subject, parsed in found.items()},
          {"number 0": "", "number 1": "FS", "number 2": "R"})
    equal(found["number 0"]["X-Status"], "AFTD", "the message has its own fields")
    equal(flags_of_import(context, path, 3), EXPECTED, "and import reads it")


@check("files: import takes the flags that Python writes into an mbox", "imap", sealpost_only=True)
def python_writes(context):
    path = context.work / context.fresh("python")
    box = mailbox.mbox(path)
    for number, flags in ((0, ""), (1, "RF"), (2, "A")):
        parsed = mailbox.mboxMessage(message(number).replace(b"\r\n", b"\n"))
        parsed.set_flags(flags)
        box.add(parsed)
    box.close()
    equal(flags_of_import(context, path, 3), EXPECTED)


@check("files: neomutt opens an exported mbox, deletes nothing, and import reads what it writes", "imap", sealpost_only=True)
def neomutt(context):
    mutt = program()
    path = exported(context, "mbox")
    config = write_config(context, f'set folder = "{context.work}"', "set mbox_type = mbox", "set move = no", "unset record")
    in_terminal(context, [mutt, "-n", "-F", config, "-f", path, "-e", "push '<sync-mailbox><quit>'"])
    equal(len(mailbox.mbox(path)), 3, "a stranger's X-Status deletes nothing")
    keys = "<first-entry><flag-message><last-entry><delete-message><sync-mailbox><quit>"
    shutil.copy(path, context.work / "changed.mbox")
    in_terminal(context, [mutt, "-n", "-F", config, "-f", context.work / "changed.mbox", "-e", f"push '{keys}'"])
    found = flags_of_import(context, context.work / "changed.mbox", 2)
    equal(len(found), 2, "one is deleted")
    ensure("\\Flagged" in found["number 0"] and "\\Deleted" not in found["number 0"], found)
