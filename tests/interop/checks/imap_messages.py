"""Python's imaplib: messages: append, fetch in every section form, search, store, copy, move, expunge."""

import imaplib
import random
import re
import time

from harness import ADA, PASSWORD, body, check, ensure, equal, fetch, flags, ok, raw_append, search, untagged
from messages import (ALTERNATIVE_PART, ATTACHMENT, MULTIPART, NESTED, NULS, NULS_IN_A_LITERAL, SIMPLE, TRICKY, numbered)


@check("imaplib: tricky messages come back byte for byte", "imap")
def tricky(context):
    session, name = context.mailbox("Tricky")
    for number, (what, message) in enumerate(TRICKY.items(), 1):
        raw_append(session, name, message)
        ok(session.noop())
        equal(body(session, number), message, what)
        size = re.search(rb"RFC822.SIZE (\d+)", fetch(session, str(number), "(RFC822.SIZE)")[0][0])
        equal(int(size[1]), len(message), f"{what}: RFC822.SIZE")
        rows = fetch(session, str(number), "(ENVELOPE BODY BODYSTRUCTURE BODY.PEEK[HEADER] BODY.PEEK[TEXT] BODY.PEEK[1])")
        equal(len(rows), 1, what)
    header_and_text = [(body(session, n, "BODY.PEEK[HEADER]") or b"") + (body(session, n, "BODY.PEEK[TEXT]") or b"")
                       for n in range(1, len(TRICKY) + 1)]
    for what, message, joined in zip(TRICKY, TRICKY.values(), header_and_text):
        equal(joined, message, f"{what}: HEADER + TEXT")
    session.logout()


@check("imaplib: UTF8=ACCEPT: names and strings are UTF-8", "imap", sealpost_only=True)
def utf8_accept(context):
    session, name = context.imap(), context.fresh("Größe 漢字")
    ok(session.enable("UTF8=ACCEPT"))
    ok(session.create(f'"{name}"'))
    ensure(name.encode() in ok(session.list('""', f'"{name}"'))[0], "LIST tells the name in UTF-8")
    raw_append(session, f'"{name}"', "Subject: Grüße 漢字\r\n\r\nbody\r\n".encode())
    ok(session.select(f'"{name}"'))
    equal(ok(session.search(None, "SUBJECT", '"grüße"')), [b"1"])
    session.logout()


@check("imaplib: bare CR, bare LF and NUL in an APPEND are kept as sent", "imap", sealpost_only=True)
def unusual_bytes(context):
    session, name = context.mailbox()
    for number, message in enumerate([b"Subject: lf\n\nunix\nlines\n", b"Subject: cr\r\n\r\na\rb\r\rc\r\n", NULS], 1):
        raw_append(session, name, message)
        ok(session.noop())
        equal(body(session, number), NULS_IN_A_LITERAL if message is NULS else message)
        # RFC 3516 §4.3: a literal8 may have NUL.
        equal(body(session, number, "BINARY.PEEK[]"), message)
    session.logout()


@check("imaplib: an APPEND of 12 MB, read in pieces", "imap")
def large_append(context):
    session, name = context.mailbox()
    line = bytes(random.Random(1).choices(b"abcdefghijklmnop", k=98)) + b"\r\n"
    message = b"Subject: large\r\n\r\n" + line * 120_000
    raw_append(session, name, message)
    ok(session.noop())
    ensure(body(session, 1) == message, "BODY[] differs")
    for start, count in [(0, 10), (65_530, 20), (6_000_000, 100_000), (len(message) - 5, 5), (len(message) - 5, 50)]:
        equal(body(session, 1, f"BODY.PEEK[]<{start}.{count}>"), message[start:start + count], f"<{start}.{count}>")
    equal(body(session, 1, f"BODY.PEEK[]<{len(message) + 10}.5>"), b"", "beyond the end")
    session.logout()


@check("imaplib: INTERNALDATE and flags given to APPEND are kept", "imap")
def append_arguments(context):
    session, name = context.mailbox()
    uid = raw_append(session, name, SIMPLE, "\\Seen \\Flagged $Work", "14-Oct-2025 12:21:05 +0200")
    equal(uid, 1)
    ok(session.noop())
    (line, _), = fetch(session, "1", "(INTERNALDATE)")
    when = re.search(rb'INTERNALDATE "([^"]+)"', line)[1].decode().strip()
    parsed = time.mktime(time.strptime(when, "%d-%b-%Y %H:%M:%S %z"))
    wanted = time.mktime(time.strptime("14-Oct-2025 12:21:05 +0200", "%d-%b-%Y %H:%M:%S %z"))
    zone = int(when[-5:-2]) * 3600 + int(when[-5] + when[-2:]) * 60
    equal(parsed - zone, wanted - 7200, when)
    equal(flags(session, 1), {"\\Seen", "\\Flagged", "$Work"})
    session.logout()


@check("imaplib: every section of a multipart message", "imap")
def sections(context):
    session, name = context.mailbox()
    raw_append(session, name, MULTIPART)
    ok(session.noop())
    header, text = MULTIPART.split(b"\r\n\r\n", 1)
    header += b"\r\n\r\n"
    inner_header, inner_text = NESTED.split(b"\r\n\r\n", 1)
    expected = {
        "HEADER": header,
        "TEXT": text,
        "1": ALTERNATIVE_PART,
        "1.MIME": b"Content-Type: multipart/alternative; boundary=alt\r\n\r\n",
        "1.1": b"Gr=C3=BC=C3=9Fe aus K=C3=B6ln",
        "1.1.MIME": b"Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n",
        "1.2": b"<p>Hello <b>world</b></p>",
        "2": ATTACHMENT[:-2],
        "3": NESTED[:-2],
        "3.MIME": b"Content-Type: message/rfc822\r\n\r\n",
        "3.HEADER": inner_header + b"\r\n\r\n",
        "3.TEXT": inner_text[:-2],
        "3.1": inner_text[:-2],
        "HEADER.FIELDS (Subject)": b"Subject: parts of\r\n many kinds\r\n\r\n",
        "HEADER.FIELDS (DATE MESSAGE-ID)":
            b"Date: Tue, 14 Oct 2025 12:21:05 +0200\r\nMessage-ID: <multipart@interop.example>\r\n\r\n",
        "3.HEADER.FIELDS (subject)": b"Subject: the inner one\r\n\r\n",
        "HEADER.FIELDS (X-None)": b"\r\n",
        "2<0.4>": ATTACHMENT[:4],
        "TEXT<3.5>": text[3:8],
        "HEADER.FIELDS (Subject)<0.7>": b"Subject",
    }
    for section, wanted in expected.items():
        partial = ""
        if "<" in section:
            section, partial = section[:section.index("<")], section[section.index("<"):]
        got = body(session, 1, f"BODY.PEEK[{section}]{partial}")
        # RFC 2046: the line end before a boundary belongs to the boundary.
        equal(got, wanted, f"BODY[{section}]{partial}")
    without = body(session, 1, "BODY.PEEK[HEADER.FIELDS.NOT (Subject To Cc From)]")
    ensure(b"Sender:" in without and b"Subject:" not in without and b"many kinds" not in without, without)
    for missing in ["4", "1.3", "2.1.HEADER", "1.1.1.1"]:
        (line, literals), = fetch(session, "1", f"(BODY.PEEK[{missing}])")
        ensure(not literals or literals[0] == b"", f"BODY[{missing}] is {line} {literals}")
    session.logout()


@check("imaplib: ENVELOPE and BODYSTRUCTURE of a multipart message", "imap")
def structure(context):
    session, name = context.mailbox()
    raw_append(session, name, MULTIPART)
    ok(session.noop())
    (line, literals), = fetch(session, "1", "(ENVELOPE)")
    text = line if not literals else line + b"".join(literals)
    for piece in [b'"Tue, 14 Oct 2025 12:21:05 +0200"', b"parts of many kinds", b"=?utf-8?Q?J=C3=BCrgen?=",
                  b'"juergen" "interop.example"', b'(NIL NIL "office" "interop.example")', b'(NIL NIL "reply" "interop.example")',
                  b'"team" "interop.example"', b'"<before@interop.example>"', b'"<multipart@interop.example>"', b"Builder"]:
        ensure(piece in text, f"{piece} is not in {text}")
    (line, literals), = fetch(session, "1", "(BODYSTRUCTURE)")
    upper = line.upper()
    for piece in [b'"MIXED"', b'"ALTERNATIVE"', b'("TEXT" "PLAIN" ("CHARSET" "UTF-8")', b'"QUOTED-PRINTABLE"', b'("TEXT" "HTML"',
                  b'("APPLICATION" "PDF" ("NAME" "A FILE.PDF") "<PDF@INTEROP.EXAMPLE>"', b'("ATTACHMENT" ("FILENAME" "A FILE.PDF"))',
                  b'("MESSAGE" "RFC822"', b'"THE INNER ONE"', b'("BOUNDARY" "MIX")']:
        ensure(piece in upper, f"{piece} is not in {line}")
    equal(line.count(b"("), line.count(b")"), "parentheses")
    (short, _), = fetch(session, "1", "(BODY)")
    ensure(b"filename" not in short.lower(), "BODY has no extension data")
    session.logout()


@check("imaplib: FETCH ALL, FAST, FULL, RFC822 and its kin; \\Seen is set where it must be", "imap")
def macros_and_seen(context):
    session, name = context.mailbox()
    for number in range(3):
        raw_append(session, name, numbered(number))
    ok(session.noop())
    for macro, items in {"ALL": [b"FLAGS", b"INTERNALDATE", b"RFC822.SIZE", b"ENVELOPE"], "FAST": [b"FLAGS", b"RFC822.SIZE"],
                         "FULL": [b"ENVELOPE", b"BODY ("]}.items():
        (line, _), = [row for row in fetch(session, "1", macro)]
        ensure(all(item in line for item in items), f"{macro}: {line}")
    equal(body(session, 1, "RFC822.HEADER"), numbered(0).split(b"\r\n\r\n")[0] + b"\r\n\r\n")
    body(session, 1, "BODY.PEEK[TEXT]")
    equal(flags(session, 1), set(), "PEEK sets nothing")
    equal(body(session, 1, "RFC822.TEXT"), b"This is message 0.\r\n")
    equal(flags(session, 1), {"\\Seen"}, "RFC822.TEXT")
    equal(body(session, 2, "BODY[1]"), b"This is message 1.\r\n")
    equal(flags(session, 2), {"\\Seen"}, "BODY[1]")
    ok(session.close())
    ok(session.select(name, readonly=True))
    equal(body(session, 3, "RFC822"), numbered(2))
    equal(flags(session, 3), set(), "EXAMINE sets nothing")
    session.logout()


@check("imaplib: STORE in all forms, keywords, .SILENT, PERMANENTFLAGS", "imap")
def store(context):
    session, name = context.mailbox()
    for number in range(3):
        raw_append(session, name, numbered(number))
    ok(session.select(name))
    permanent = (untagged(session, "PERMANENTFLAGS") or [b""])[0]
    for flag in [b"\\Answered", b"\\Flagged", b"\\Deleted", b"\\Seen", b"\\Draft", b"\\*"]:
        ensure(flag in permanent, f"PERMANENTFLAGS {permanent}")
    equal(len(ok(session.store("1:3", "+FLAGS", "(\\Seen $Label1)"))), 3)
    equal(flags(session, 2), {"\\Seen", "$Label1"})
    ok(session.store("2", "-FLAGS", "(\\Seen)"))
    equal(flags(session, 2), {"$Label1"})
    ok(session.store("2", "FLAGS", "(\\Draft NonJunk)"))
    equal(flags(session, 2), {"\\Draft", "NonJunk"})
    ok(session.store("2", "FLAGS", "()"))
    equal(flags(session, 2), set())
    equal(ok(session.store("1:3", "+FLAGS.SILENT", "(\\Flagged)")), [None], ".SILENT")
    equal(search(session, "FLAGGED"), [1, 2, 3])
    equal(search(session, "KEYWORD", "$Label1"), [1, 3])
    equal(search(session, "UNKEYWORD", "$Label1"), [2])
    line = ok(session.uid("STORE", "1", "+FLAGS", "(\\Answered)"))[0]
    ensure(b"UID 1" in line, f"UID STORE names the UID: {line}")
    other = context.imap()
    ok(other.select(name))
    equal(flags(other, 1), {"\\Seen", "$Label1", "\\Flagged", "\\Answered"}, "seen by another session")
    other.logout()
    session.logout()


@check("imaplib: COPY and MOVE keep flags and dates and name UIDs", "imap")
def copy_and_move(context):
    session, name = context.mailbox()
    target = context.fresh("Target")
    ok(session.create(target))
    for number in range(6):
        raw_append(session, name, numbered(number), "\\Seen Project" if number % 2 else "", "01-Feb-2020 10:00:00 +0000")
    ok(session.noop())
    ok(session.copy("2,4:5", target))
    code = (untagged(session, "COPYUID") or [None])[0]
    ensure(code and re.fullmatch(rb"\d+ 2,4:5 1:3", code), f"COPYUID {code}")
    status, data = session.uid("MOVE", "1,6", target)
    equal(status, "OK", data)
    code = (untagged(session, "COPYUID") or [None])[0]
    ensure(code and re.fullmatch(rb"\d+ 1,6 4:5", code), f"COPYUID {code}")
    equal(search(session, "ALL", uid=True), [2, 3, 4, 5], "what stays")
    ok(session.select(target))
    subjects = [re.search(rb"number (\d)", body(session, n, "BODY.PEEK[HEADER.FIELDS (SUBJECT)]"))[1] for n in range(1, 6)]
    equal(subjects, [b"1", b"3", b"4", b"0", b"5"])
    equal(flags(session, 1), {"\\Seen", "Project"})
    ensure(b"Feb-2020" in fetch(session, "4", "(INTERNALDATE)")[0][0], "the date moves along")
    ok(session.copy("1:*", target))
    equal(len(search(session, "ALL")), 10, "COPY onto itself doubles")
    session.logout()


@check("imaplib: EXPUNGE, UID EXPUNGE, CLOSE; UIDs are never used again", "imap")
def expunge(context):
    session, name = context.mailbox()
    for number in range(8):
        raw_append(session, name, numbered(number))
    ok(session.noop())
    ok(session.store("2,3,7", "+FLAGS", "(\\Deleted)"))
    ok(session.uid("EXPUNGE", "1:3"))
    equal(search(session, "ALL", uid=True), [1, 4, 5, 6, 7, 8])
    untagged(session, "EXPUNGE")
    equal(ok(session.expunge()), [b"5"])
    ok(session.store("1", "+FLAGS", "(\\Deleted)"))
    ok(session.select("INBOX"))
    ok(session.select(name))
    equal(search(session, "DELETED"), [1], "SELECT does not expunge")
    ok(session.close())
    ok(session.select(name))
    equal(search(session, "ALL", uid=True), [4, 5, 6, 8], "CLOSE does")
    ok(session.store("4", "+FLAGS", "(\\Deleted)"))
    ok(session.expunge())
    equal(raw_append(session, name, SIMPLE), 9, "the highest UID is not used again")
    ok(session.store("1", "+FLAGS", "(\\Deleted)"))
    ok(session.unselect())
    ok(session.select(name, readonly=True))
    equal(search(session, "DELETED"), [1], "UNSELECT does not expunge")
    try:
        status, data = session.store("1", "-FLAGS", "(\\Deleted)")
    except imaplib.IMAP4.readonly:
        status = "NO"
    ok(session.noop())
    equal(search(session, "DELETED"), [1], f"EXAMINE is read-only ({status})")
    session.logout()


@check("imaplib: SEARCH with every kind of key", "imap")
def search_keys(context):
    session, name = context.mailbox("Search")
    raw_append(session, name, numbered(1, Subject="budget for spring", text="The quick brown fox"), "\\Seen", "05-Jan-2024 10:00:00 +0000")
    raw_append(session, name, numbered(2, Subject="=?utf-8?Q?K=C3=B6ln?= trip", From="Eve <eve@localhost>", text="jumps over"), "\\Flagged", "06-Jan-2024 10:00:00 +0000")
    raw_append(session, name, numbered(3, Cc="carol@localhost", Date="Wed, 1 Mar 2023 09:00:00 +0000", text="the lazy dog " * 500), "\\Answered Work", "07-Jan-2024 10:00:00 +0000")
    raw_append(session, name, MULTIPART, "\\Draft \\Deleted", "08-Jan-2024 10:00:00 +0000")
    ok(session.noop())
    cases = {
        ("ALL",): [1, 2, 3, 4], ("SEEN",): [1], ("UNSEEN",): [2, 3, 4], ("FLAGGED",): [2], ("UNFLAGGED",): [1, 3, 4],
        ("ANSWERED",): [3], ("UNANSWERED",): [1, 2, 4], ("DRAFT",): [4], ("UNDRAFT",): [1, 2, 3], ("DELETED",): [4],
        ("UNDELETED",): [1, 2, 3], ("KEYWORD", "Work"): [3], ("UNKEYWORD", "Work"): [1, 2, 4],
        ("2:3",): [2, 3], ("4:*",): [4], ("*",): [4], ("UID", "1,4"): [1, 4], ("UID", "3:2"): [2, 3],
        ("SUBJECT", "budget"): [1], ("SUBJECT", '"BUDGET FOR"'): [1], ("FROM", "eve"): [2], ("TO", '"bob@"'): [1, 2, 3, 4],
        ("CC", "carol"): [3], ("BCC", "x"): [], ("HEADER", "Message-ID", "<2@interop"): [2], ("HEADER", "Cc", '""'): [3, 4],
        ("BODY", "quick"): [1], ("BODY", '"ICK BRO"'): [1], ("TEXT", "lazy"): [3], ("TEXT", "carol"): [3], ("BODY", "carol"): [],
        ("LARGER", "3000"): [3], ("SMALLER", "300"): [1, 2],
        ("BEFORE", "6-Jan-2024"): [1], ("ON", "6-Jan-2024"): [2], ("SINCE", "7-Jan-2024"): [3, 4],
        ("SENTBEFORE", "1-Jan-2024"): [3], ("SENTON", "14-Oct-2025"): [1, 2, 4], ("SENTSINCE", "1-Jan-2025"): [1, 2, 4],
        ("NOT", "SEEN"): [2, 3, 4], ("OR", "SEEN", "FLAGGED"): [1, 2], ("OR", "(SEEN SUBJECT budget)", "ANSWERED"): [1, 3],
        ("NOT", "(OR SEEN FLAGGED)", "UNDELETED"): [3], ("SEEN", "FLAGGED"): [],
        ("BODY", "world"): [4], ("BODY", '"inner text"'): [4], ("SUBJECT", '"parts of many"'): [4],
    }
    for keys, expected in cases.items():
        equal(search(session, *keys), expected, " ".join(keys))
    equal(search(session, "FLAGGED", uid=True), [2])
    session.logout()


@check("imaplib: SEARCH in UTF-8 finds encoded headers and bodies; an unknown charset gets NO", "imap")
def search_charset(context):
    session, name = context.mailbox("Search")
    raw_append(session, name, numbered(1, Subject="=?utf-8?Q?K=C3=B6ln?= trip"))
    raw_append(session, name, MULTIPART)
    ok(session.noop())
    for key, word, expected in [("SUBJECT", "köln", [1]), ("BODY", "grüße aus KÖLN", [2]), ("FROM", "jürgen", [2]), ("TEXT", "Köln", [1, 2])]:
        session.literal = word.encode()
        equal([int(n) for n in ok(session.search("UTF-8", key))[0].split()], expected, f"{key} {word}")
    status, data = session.search("X-NO-SUCH-CHARSET", "ALL")
    equal(status, "NO", data)
    session.logout()


@check("imaplib: sequence sets that wrap, repeat and reach beyond", "imap")
def sequence_sets(context):
    session, name = context.mailbox()
    for number in range(5):
        raw_append(session, name, numbered(number))
    ok(session.noop())
    for given, expected in {"*": [5], "5:3": [3, 4, 5], "1,1,1": [1], "*:4": [4, 5], "1:2,2:3": [1, 2, 3]}.items():
        equal(sorted(int(row[0].split()[0]) for row in fetch(session, given, "(UID)")), expected, given)
    equal(sorted(int(row[0].split()[0]) for row in fetch(session, "4:99", "(UID)", uid=True)), [4, 5], "UID 4:99")
    equal(sorted(int(row[0].split()[0]) for row in fetch(session, "99:*", "(UID)", uid=True)), [5], "UID 99:* has the last")
    equal(fetch(session, "90:99", "(UID)", uid=True), [], "UIDs that are not there are no error")
    session.logout()


@check("IMAP: \\Recent is claimed by the first session that selects", "imap", "lmtp")
def recent(context):
    context.deliver(SIMPLE)
    one = context.imap()
    ok(one.select())
    first = int(one.response("RECENT")[1][0] or 0)
    two = context.imap()
    ok(two.select())
    equal(int(two.response("RECENT")[1][0] or 0), 0, "the second session")
    ensure(first >= 1, "the first session")
    one.logout()
    two.logout()


@check("IMAP: 600 messages appended with non-synchronizing literals, all there in order", "imap")
def many_messages(context):
    name = context.fresh("Many")
    with context.lines("imap") as imap:
        imap.line()
        imap.send(f'a LOGIN {ADA} "{PASSWORD}"\r\nb CREATE {name}\r\n')
        imap.tagged(b"a")
        imap.tagged(b"b")
        for batch in range(6):
            commands = b""
            for number in range(100):
                message = numbered(batch * 100 + number)
                commands += b"t%d APPEND %s {%d+}\r\n%s\r\n" % (number, name.encode(), len(message), message)
            imap.send(commands)
            for number in range(100):
                ensure(b"OK" in imap.tagged(b"t%d" % number)[1], "APPEND")
        imap.send(f"c SELECT {name}\r\nd FETCH 1:* (UID BODY.PEEK[HEADER.FIELDS (SUBJECT)])\r\n")
        imap.tagged(b"c")
        rows, last = imap.tagged(b"d")
        ensure(last.startswith(b"d OK"), last)
        numbers = [int(re.search(rb"number (\d+)", row)[1]) for row in rows if b"number" in row]
        ensure(numbers == list(range(600)), "order or count")
        uids = [int(re.search(rb"UID (\d+)", row)[1]) for row in rows if b"UID" in row]
        ensure(uids == sorted(set(uids)) and len(uids) == 600, "UIDs ascend")
