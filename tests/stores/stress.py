"""Many sessions on the same mailboxes of one account through several servers of one store: each does what comes to its mind, and
notes what it is told. In the end all that was told must fit together, and fit what both servers show:

- a UID means one message for ever, whoever says so;
- what was placed and never removed is there, what was removed is not, and nothing else is there;
- whoever sees a message's flags at one MODSEQ sees the same ones, and none is older in the end than it was seen.
"""

import random
import re
import threading
import time
from collections import Counter

import wire

FLAGS = ["\\Seen", "\\Flagged", "$One", "$Two"]
FETCHED = re.compile(rb"^\* \d+ FETCH \((.*)\)$", re.S)


class Told:
    """What the sessions were told, all together."""

    def __init__(self):
        self.lock = threading.Lock()
        #: (mailbox, UIDVALIDITY, UID) to the number of the message.
        self.placed, self.wrong = {}, []
        #: Placements that somebody has begun to remove, and those that are removed.
        self.perhaps, self.removed = set(), set()
        #: Numbers of messages that may have been placed without anybody having been told where.
        self.unknown = set()
        #: (placement, MODSEQ) to flags; placement to the greatest MODSEQ.
        self.flags, self.newest = {}, {}
        #: What was copied or moved where.
        self.later = []
        self.done = Counter()

    def place(self, placement, number):
        with self.lock:
            before = self.placed.setdefault(placement, number)
        if before != number:
            self.wrong.append(f"{placement} was message {before} and is {number}")

    def see(self, placement, modseq, flags):
        with self.lock:
            before = self.flags.setdefault((placement, modseq), flags)
            self.newest[placement] = max(modseq, self.newest.get(placement, 0))
        if before != flags:
            self.wrong.append(f"{placement} at MODSEQ {modseq}: {sorted(before)}, and {sorted(flags)}")


def parse_fetch(line):
    """UID, MODSEQ and flags of a FETCH response that has all three."""
    found = FETCHED.match(line)
    if not found:
        return None
    uid = re.search(rb"\bUID (\d+)", found[1])
    modseq = re.search(rb"\bMODSEQ \((\d+)\)", found[1])
    flags = re.search(rb"\bFLAGS \(([^)]*)\)", found[1])
    if not (uid and modseq and flags):
        return None
    kept = frozenset(flags[1].decode().split()) - {"\\Recent"}
    return int(uid[1]), int(modseq[1]), kept


class Session:
    """One client, which selects now this mailbox, now that one."""

    def __init__(self, server, boxes, told, numbers, seed):
        self.server, self.boxes = server, boxes
        self.told, self.numbers, self.random = told, numbers, random.Random(seed)
        self.imap = None

    def connect(self):
        self.imap = self.server.wire()
        self.imap.command("ENABLE CONDSTORE")
        self.select()

    def select(self):
        self.box = self.random.choice(self.boxes)
        lines = self.imap.command(f'SELECT "{self.box}"')
        self.validity = int(wire.code(lines, "UIDVALIDITY"))
        self.note(lines)

    def note(self, lines):
        for line in lines:
            seen = parse_fetch(line)
            if seen:
                uid, modseq, flags = seen
                self.told.see((self.box, self.validity, uid), modseq, flags)

    def command(self, text, literal=None):
        lines = self.imap.command(text, literal)
        self.note(lines)
        return lines

    def some_uids(self):
        """Some of those that are there now, as this server says."""
        lines = self.command("UID SEARCH ALL")
        [found] = [line for line in lines if line.startswith(b"* SEARCH")]
        uids = [int(uid) for uid in found.split()[2:] if uid.isdigit()]
        if not uids:
            return []
        first = self.random.randrange(len(uids))
        return uids[first:first + self.random.choice([1, 1, 2, 5, 20])]

    def act(self):
        kind = self.random.choices(
            ["append", "store", "copy", "move", "expunge", "fetch", "select", "check"], [25, 20, 6, 10, 14, 15, 6, 4])[0]
        getattr(self, kind)()
        self.told.done[kind] += 1

    def append(self):
        number = next(self.numbers)
        box = self.random.choice(self.boxes)
        text = f"Subject: number {number}\r\n\r\n{'text ' * self.random.choice([1, 10, 3000])}\r\n".encode()
        self.told.unknown.add(number)
        lines = self.command(f'APPEND "{box}" ({self.random.choice(FLAGS)})', text)
        validity, uid = wire.code(lines, "APPENDUID").split(" ")
        self.told.place((box, int(validity), int(uid)), number)
        self.told.unknown.discard(number)

    def store(self):
        uids = self.some_uids()
        if uids:
            how = self.random.choice(["+FLAGS", "-FLAGS", "FLAGS"])
            flags = " ".join(self.random.sample(FLAGS, self.random.choice([1, 2])))
            self.command(f"UID STORE {','.join(map(str, uids))} {how} ({flags})")

    def copy(self):
        self.transfer("COPY")

    def move(self):
        self.transfer("MOVE")

    def transfer(self, how):
        uids = self.some_uids()
        target = self.random.choice(self.boxes)
        if not uids or (target == self.box):
            return
        here = [(self.box, self.validity, uid) for uid in uids]
        if how == "MOVE":
            self.told.perhaps.update(here)
        # What is not known yet to have been placed is told by somebody else sooner or later.
        lines = self.command(f'UID {how} {",".join(map(str, uids))} "{target}"')
        validity, pairs = wire.copied(lines)
        for source, uid in pairs:
            self.told.later.append(((self.box, self.validity, source), (target, validity, uid)))
            if how == "MOVE":
                self.told.removed.add((self.box, self.validity, source))

    def expunge(self):
        uids = self.some_uids()[:5]
        if not uids:
            return
        here = [(self.box, self.validity, uid) for uid in uids]
        chosen = ",".join(map(str, uids))
        self.told.perhaps.update(here)
        self.command(f"UID STORE {chosen} +FLAGS.SILENT (\\Deleted)")
        self.command(f"UID EXPUNGE {chosen}")

    def fetch(self):
        uids = self.some_uids()
        if not uids:
            return
        lines = self.command(f"UID FETCH {','.join(map(str, uids))} (UID FLAGS MODSEQ BODY.PEEK[])")
        for line in lines:
            uid, number = re.search(rb"\bUID (\d+)", line), re.search(rb"Subject: number (\d+)\r\n", line)
            if line.startswith(b"* ") and uid and number:
                self.told.place((self.box, self.validity, int(uid[1])), int(number[1]))

    def check(self):
        self.command("NOOP")


def everything(server, boxes):
    """All that a server shows: placement to number, MODSEQ and flags."""
    shown = {}
    imap = server.wire()
    for box in boxes:
        validity = int(wire.code(imap.command(f'SELECT "{box}"'), "UIDVALIDITY"))
        for line in imap.command("UID FETCH 1:* (UID FLAGS MODSEQ BODY.PEEK[HEADER.FIELDS (SUBJECT)])"):
            number = re.search(rb"Subject: number (\d+)\r\n", line)
            if not (line.startswith(b"* ") and number):
                continue
            uid, modseq, flags = parse_fetch(re.sub(rb"BODY\[.*\]\s*\{\d+\}\r\n.*?\r\n\r\n", b"", line, flags=re.S))
            shown[(box, validity, uid)] = (int(number[1]), modseq, flags)
    imap.close()
    return shown


def judge(told, views):
    """What is wrong, in words."""
    wrong, shown = [], views[0]
    for other in views[1:]:
        if other != shown:
            differ = {key for key in shown.keys() | other.keys() if shown.get(key) != other.get(key)}
            wrong.append(f"the servers do not agree on {len(differ)} messages: {sorted(differ)[:5]}")
    # Copies of what was placed, in the order in which they can be known.
    waiting = list(told.later)
    while waiting:
        known = [(source, target) for source, target in waiting if source in told.placed]
        if not known:
            wrong.append(f"copies of what was never placed: {waiting[:5]}")
            break
        for source, target in known:
            told.place(target, told.placed[source])
        done = set(known)
        waiting = [pair for pair in waiting if pair not in done]
    wrong += told.wrong
    for placement, number in told.placed.items():
        if placement in shown:
            if shown[placement][0] != number:
                wrong.append(f"{placement} is {shown[placement][0]}, not {number}")
        elif placement not in told.perhaps:
            wrong.append(f"{placement}, message {number}, was acknowledged and is gone")
    for placement in told.removed & shown.keys():
        wrong.append(f"{placement} was moved away and is there")
    for placement, (number, modseq, flags) in shown.items():
        if placement not in told.placed and number not in told.unknown:
            wrong.append(f"{placement}, message {number}: nobody placed it there")
        newest = told.newest.get(placement, 0)
        if newest > modseq:
            wrong.append(f"{placement}: seen at MODSEQ {newest}, now at {modseq}")
        if told.flags.get((placement, modseq), flags) != flags:
            wrong.append(f"{placement} at MODSEQ {modseq}: other flags than were seen")
    return wrong


def run(servers, seconds, sessions=8, seed=1):
    """The stress: `sessions` clients, spread over the servers. Raises what is wrong; returns what was done."""
    boxes = ["INBOX", "Stress-1", "Stress-2"]
    first = servers[0].wire()
    for box in boxes[1:]:
        try:
            first.command(f'CREATE "{box}"')
        except wire.Refused:
            pass
    first.close()
    told = Told()
    lock = threading.Lock()

    def count():
        number = 0
        while True:
            number += 1
            yield number

    class Numbers:
        source = count()

        def __next__(self):
            with lock:
                return next(self.source)

    numbers, failures, end = Numbers(), [], time.monotonic() + seconds

    def work(n):
        session = Session(servers[n % len(servers)], boxes, told, numbers, seed * 1000 + n)
        try:
            session.connect()
            while time.monotonic() < end:
                try:
                    session.act()
                except wire.Refused as refused:
                    # Others may have taken the messages; anything else is not to happen.
                    if "[UNAVAILABLE]" in str(refused) or " BAD" in str(refused):
                        raise
                    told.done["refused"] += 1
            session.imap.close()
        except Exception as error:  # noqa: BLE001 - told when all have ended
            failures.append(f"session {n}: {error!r}")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(sessions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    wrong = judge(told, [everything(server, boxes) for server in servers])
    assert not wrong, f"{len(wrong)} things are wrong: {wrong[:10]}"
    return dict(told.done)
