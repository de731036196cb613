"""Python's imaplib: mailboxes: create, rename, delete, subscribe, list, status."""

import re

from harness import EVE, body, check, ensure, equal, ok, raw_append, refused, search
from messages import SIMPLE, numbered


def listed(session, reference='""', pattern="*", command="list"):
    """Names and attributes, as LIST gives them."""
    rows = {}
    for line in ok(getattr(session, command)(reference, pattern)):
        if line is None:
            continue
        if isinstance(line, tuple):
            attributes, name = line[0], line[1]
        else:
            found = re.match(rb'\(([^)]*)\) (?:"(?:.|\\.)"|NIL) (?:"((?:[^"\\]|\\.)*)"|(\S+))', line)
            ensure(found, f"not a LIST response: {line}")
            attributes, name = found[1], found[2] if found[2] is not None else found[3]
        rows[name.decode()] = attributes.decode().lower()
    return rows


@check("imaplib: INBOX and the special mailboxes exist from the start", "imap")
def special_use(context):
    session = context.imap(EVE)
    rows = listed(session)
    ensure("INBOX" in rows, rows)
    for name in ["Drafts", "Sent", "Junk", "Trash", "Archive"]:
        ensure(name in rows and f"\\{name.lower()}" in rows[name], f"{name}: {rows}")
    session.logout()


@check("imaplib: CREATE, hierarchy, LIST with * and %, CHILDREN", "imap")
def create_and_list(context):
    session = context.imap()
    top = context.fresh("Tree")
    for name in [top, f"{top}/one", f"{top}/one/deep", f"{top}/two", f"{top}/implied/leaf"]:
        ok(session.create(name))
    every = listed(session, '""', f"{top}*")
    for name in [top, f"{top}/one", f"{top}/one/deep", f"{top}/two", f"{top}/implied/leaf"]:
        ensure(name in every, f"{name} is not in {every}")
    level = listed(session, '""', f"{top}/%")
    equal(sorted(level), [f"{top}/implied", f"{top}/one", f"{top}/two"])
    ensure("\\haschildren" in level[f"{top}/one"], level)
    ensure("\\hasnochildren" in level[f"{top}/two"], level)
    equal(sorted(listed(session, f"{top}/", "%")), [f"{top}/implied", f"{top}/one", f"{top}/two"], "with a reference")
    equal(sorted(listed(session, '""', f"{top}/%/%")), [f"{top}/implied/leaf", f"{top}/one/deep"])
    equal(listed(session, '""', f"{top}/nosuch"), {})
    equal(list(listed(session, '""', "inbox")), ["INBOX"], "INBOX in any case")
    ensure(b'"/"' in ok(session.list('""', '""'))[0], "the delimiter")
    session.logout()


@check("imaplib: RENAME moves messages and children; UIDVALIDITY and UIDs stay or change together", "imap")
def rename(context):
    session, name = context.mailbox("Old")
    ok(session.create(f"{name}/child"))
    uid = raw_append(session, name, SIMPLE)
    ok(session.unselect())
    new = context.fresh("New")
    ok(session.rename(name, new))
    rows = listed(session, '""', "*")
    ensure(name not in rows and f"{name}/child" not in rows, "the old names are gone")
    ensure(new in rows and f"{new}/child" in rows, "the new names are there")
    ok(session.select(new))
    equal(search(session, "ALL", uid=True), [uid])
    equal(body(session, 1), SIMPLE)
    taken = context.fresh("Taken")
    ok(session.create(taken))
    refused(session.rename(new, taken))
    session.logout()


@check("imaplib: RENAME of INBOX moves its messages and leaves it empty", "imap", "lmtp", sealpost_only=True)
def rename_inbox(context):
    context.deliver(SIMPLE, EVE)
    context.deliver(SIMPLE, EVE)
    session = context.imap(EVE)
    count = int(ok(session.select("INBOX"))[0])
    ensure(count >= 2, count)
    ok(session.unselect())
    target = context.fresh("FromInbox")
    ok(session.rename("INBOX", target))
    equal(int(ok(session.select("INBOX"))[0]), 0)
    equal(int(ok(session.select(target))[0]), count)
    context.deliver(SIMPLE, EVE)
    ok(session.select("INBOX"))
    equal(len(search(session, "ALL")), 1, "INBOX still receives")
    session.logout()


@check("imaplib: DELETE, also of a mailbox with children, and CREATE again", "imap")
def delete(context):
    session, name = context.mailbox("Doomed")
    raw_append(session, name, SIMPLE)
    ok(session.select(name))
    first = session.response("UIDVALIDITY")[1][0]
    ok(session.unselect())
    ok(session.create(f"{name}/child"))
    status, _ = session.delete(name)
    rows = listed(session, '""', f"{name}*")
    ensure(f"{name}/child" in rows, "children survive")
    if status == "OK":
        refused(session.select(name))
        if context.sealpost:  # RFC 3501 section 6.3.4; Dovecot's Maildir leaves the attribute out
            ensure(name not in rows or "\\noselect" in rows[name], rows)
    ok(session.delete(f"{name}/child"))
    if status != "OK":
        ok(session.delete(name))
    refused(session.select(name))
    ok(session.create(name))
    equal(int(ok(session.select(name))[0]), 0, "it comes back empty")
    second = session.response("UIDVALIDITY")[1][0]
    ensure(first != second, f"UIDVALIDITY is {first} again, though UIDs start anew")
    session.logout()


@check("imaplib: names beyond ASCII in modified UTF-7, with quotes and spaces", "imap")
def names(context):
    session = context.imap()
    for text, wire in [("Entwürfe", "Entw&APw-rfe"), ("日本語", "&ZeVnLIqe-"), ("A&B", "A&-B"), ("with space", "with space"),
                       ('quote"d', 'quote\\"d'), ("back\\slash", "back\\\\slash"), ("&-+*wild", None)]:
        if wire is None:
            continue
        quoted = f'"{wire}"'
        ok(session.create(quoted))
        equal(ok(session.select(quoted))[0], b"0", text)
        plain = wire.replace('\\"', '"').replace("\\\\", "\\")
        found = {name.replace('\\"', '"').replace("\\\\", "\\") for name in listed(session)}
        ensure(plain in found, f"{text}: {sorted(found)}")
        raw_append(session, quoted, SIMPLE)
        ensure(b"MESSAGES 1" in ok(session.status(quoted, "(MESSAGES)"))[0], "STATUS")
        ok(session.unselect())
        ok(session.delete(quoted))
    for bad in ['""', '"a//b"', '"bad&name"', '"&AGE-"', '"/lead"']:
        status, _ = session.create(bad)
        if status == "OK":
            session.delete(bad)
        elif status != "NO":
            raise AssertionError(f"CREATE {bad}: {status}")
    session.logout()


@check("imaplib: SUBSCRIBE, UNSUBSCRIBE, LSUB", "imap")
def subscribe(context):
    session = context.imap()
    top = context.fresh("Sub")
    ok(session.create(top))
    ok(session.create(f"{top}/inner"))
    ok(session.subscribe(top))
    ok(session.subscribe(f"{top}/inner"))
    equal(sorted(listed(session, '""', f"{top}*", "lsub")), [top, f"{top}/inner"])
    ok(session.unsubscribe(top))
    equal(sorted(listed(session, '""', f"{top}*", "lsub")), [f"{top}/inner"])
    percent = listed(session, '""', f"{top[:-1]}%", "lsub")
    ensure(top not in percent or "\\noselect" in percent[top], f"LSUB with % names the parent as \\Noselect: {percent}")
    ok(session.delete(f"{top}/inner"))
    equal(sorted(listed(session, '""', f"{top}*", "lsub")), [f"{top}/inner"], "a subscription outlives its mailbox")
    ok(session.unsubscribe(f"{top}/inner"))
    session.logout()


@check("imaplib: STATUS counts without selecting", "imap")
def status(context):
    session, name = context.mailbox()
    for number in range(4):
        raw_append(session, name, numbered(number), "\\Seen" if number == 0 else "")
    ok(session.unselect())
    line = ok(session.status(name, "(MESSAGES RECENT UIDNEXT UIDVALIDITY UNSEEN)"))[0].decode()
    for piece in ["MESSAGES 4", "UIDNEXT 5", "UNSEEN 3", "UIDVALIDITY ", "RECENT "]:
        ensure(piece in line, line)
    refused(session.status("No/Such", "(MESSAGES)"))
    ok(session.select(name))
    ensure(session.response("UNSEEN")[1] == [b"2"], "SELECT names the first unseen message")
    session.logout()
