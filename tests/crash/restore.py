#!/usr/bin/env python3
"""Kills `sealpost archive restore`, from a copy in every format, and `archive migrate` with SIGKILL at random moments, and looks at
what they put there.

A server of this program has an account with a few folders of mail: messages that are alike in all but their flags, some without a
Message-ID, some with the same one. Each run is killed at a moment drawn at random from the time that a whole one takes, or that one takes that
goes on after another; now and then what is there is compared with the source, bytes, flags and dates: nothing may be there more often than in the source.
Then the next run goes on, until one comes to its end, and everything is compared; one more must put nothing there. Then it begins anew in
an empty account. Kills that came too late to meet a process are not counted.

Then copies in every format are put back into the account that they are of, again and again: a part of the mail is lost, or a folder is made
anew, restores are killed, and pulls before, between and after them too. However often, the account has in the end what it had, each message
as often as it was there, and so has the copy.

    tests/crash/restore.py --sealpost target/release/sealpost --kills 70 [--seed N]
        [--ways "mbox maildir sealpost migrate cycle-mbox cycle-maildir cycle-sealpost"]
"""

import argparse
import collections
import hashlib
import imaplib
import json
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from archive import PASSWORD, run

SOURCE = "ada"
FOLDERS = {"INBOX": 600, "Work": 300, "Work/&AOQ-lter": 100}
FLAGS = ["", "\\Seen", "\\Flagged \\Seen", "work", "\\Answered work"]
BEGAN = 1_700_000_000
#: A run that goes on after a killed one first looks whether the server is done with what that one sent: about so many seconds.
SETTLING = 9
LITERAL = re.compile(rb'FLAGS \(([^)]*)\) INTERNALDATE "([^"]+)"')


class Puts:
    """One server, an account full of mail and copies of it, and empty accounts to put all of it into."""

    def __init__(self, options, work):
        self.binary, self.work, self.chance = options.sealpost, work, random.Random(options.seed)
        self.password = work / "password"
        self.password.write_text(PASSWORD + "\n")
        self.password.chmod(0o600)
        self.server = subprocess.Popen(
            [self.binary, "try", "--json", "--ports", "free", "--no-samples", "--dir", work / "server", "--account", f"{SOURCE}@localhost",
             "--password-file", self.password], stdout=subprocess.PIPE)
        self.port = json.loads(self.server.stdout.readline())["imap"]["port"]
        self.accounts = 0

    def fill(self, user):
        imap = self.login(user)
        for folder, count in FOLDERS.items():
            imap.create(folder)
            for number in range(count):
                date = imaplib.Time2Internaldate(BEGAN + self.chance.randrange(3))
                flags = f"({self.chance.choice(FLAGS)})"
                if imap.append(folder, flags, date, self.message(number))[0] != "OK":
                    raise SystemExit("a message was not appended")
        imap.logout()

    def message(self, number):
        if number % 9 == 0:
            return b"Subject: always the same\r\n\r\nsame\r\n"
        names = [b"", b"Message-ID: <same@x>\r\n", b"Message-ID: <%d@x>\r\n" % number]
        lines = self.chance.choice([1, 10, 100, 2000])
        return b"Subject: %d\r\n%s\r\n" % (number, self.chance.choice(names)) + b"text\r\n" * lines

    def login(self, user):
        imap = imaplib.IMAP4("127.0.0.1", self.port)
        imap.login(f"{user}@localhost", PASSWORD)
        return imap

    def mail(self, user):
        """How often which messages are in an account: by folder, bytes, flags and date."""
        imap, found = self.login(user), collections.Counter()
        for folder in FOLDERS:
            if imap.select(folder, readonly=True)[0] != "OK":
                continue
            for part in imap.uid("FETCH", "1:*", "(FLAGS INTERNALDATE BODY.PEEK[])")[1]:
                if isinstance(part, tuple):
                    flags, date = LITERAL.search(part[0]).groups()
                    found[folder, hashlib.sha256(part[1]).digest(), frozenset(flags.split()) - {b"\\Recent"}, date] += 1
        imap.logout()
        return found

    def at(self, user):
        return ["--host", "127.0.0.1", "--port", str(self.port), "--tls", "none", "--user", f"{user}@localhost",
                "--password-file", self.password]

    def archive(self, verb, *more):
        return [self.binary, "archive", verb, "--dir", self.work / "data", *more]

    def copy(self, form):
        """Where a copy is, and what opens it."""
        opens = ["--copy-password-file", self.password] if form == "sealpost" else []
        return ["--format", form, *opens], self.work / form

    def begin(self, way):
        """Makes the copy, or what a migration has to know."""
        if way == "migrate":
            run(self.archive("add", SOURCE, *self.at(SOURCE), "--format", "mbox"))
        else:
            kept, place = self.copy(way)
            run(self.archive("pull", *self.at(SOURCE), *kept, "--into", place))

    def anew(self, way):
        """An empty account, and the command that puts everything into it."""
        self.accounts += 1
        user = f"to{self.accounts}"
        run([self.binary, "account", "add", "--dir", self.work / "server", user, "--password-file", self.password])
        if way == "migrate":
            run(self.archive("add", user, *self.at(user), "--format", "mbox"))
            return user, self.archive("migrate", SOURCE, user)
        kept, place = self.copy(way)
        return user, self.archive("restore", *self.at(user), *kept, "--from", place)

    def killed(self, command, within, ends=(0,)):
        """Whether it was killed; otherwise it had come to its end before, with one of these statuses."""
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            process.wait(self.chance.uniform(0, within))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        _, err = process.communicate(timeout=60)
        if process.returncode not in (*ends, -signal.SIGKILL):
            raise SystemExit(f"{' '.join(map(str, command))}: {process.returncode}: {err.decode()}")
        return process.returncode == -signal.SIGKILL

    def lose(self, user):
        """Expunges a part of the mail, and now and then a whole folder, which is made anew."""
        imap = self.login(user)
        for folder in FOLDERS:
            if folder != "INBOX" and self.chance.random() < 0.2:
                imap.delete(folder)
                continue
            if imap.select(folder)[0] != "OK":
                continue
            (uids,) = imap.uid("SEARCH", "ALL")[1]
            share = self.chance.choice([0.1, 0.5, 1])
            lost = [uid.decode() for uid in uids.split() if self.chance.random() < share]
            if lost:
                imap.uid("STORE", ",".join(lost), "+FLAGS.SILENT", "(\\Deleted)")
                imap.expunge()
        imap.logout()

    def cycles(self, form, kills):
        """How many restores and pulls were killed, and how often the account and its copy were whole again."""
        user, place = f"cycle-{form}", self.work / f"cycle-{form}"
        run([self.binary, "account", "add", "--dir", self.work / "server", user, "--password-file", self.password])
        self.fill(user)
        want = self.mail(user)
        kept, _ = self.copy(form)
        pull = self.archive("pull", "--json", *self.at(user), *kept, "--into", place)
        restore = self.archive("restore", *self.at(user), *kept, "--from", place)
        began = time.monotonic()
        run(pull)
        whole = time.monotonic() - began
        killed = rounds = 0
        while killed < kills:
            self.lose(user)
            for _ in range(self.chance.randrange(3)):
                killed += self.killed(pull, whole, (0, 1))
            while self.killed(restore, whole + self.chance.choice([0, SETTLING])):
                killed += 1
                self.compare(form, user, want, complete=False)
                for _ in range(self.chance.randrange(3)):
                    killed += self.killed(pull, whole, (0, 1))
            self.compare(form, user, want, complete=True)
            while self.killed(pull, 2 * whole):
                killed += 1
            self.is_whole(form, user, kept, place)
            run(restore)
            self.compare(form, user, want, complete=True)
            rounds += 1
        return killed, rounds

    def is_whole(self, form, user, kept, place):
        """The copy has what the account has, and nothing twice."""
        stats = subprocess.run(self.archive("stats", "--json", *kept, "--from", place), stdout=subprocess.PIPE, check=True)
        stats = json.loads(stats.stdout)
        counts = {folder["name"]: (folder["messages"], folder["gone"]) for folder in stats["folders"] if folder["messages"] + folder["gone"]}
        if sorted(counts.values()) != sorted((count, 0) for count in FOLDERS.values()) or any(f["messages"] for f in stats["superseded"]):
            raise SystemExit(f"{form}: {user}: the copy has {stats}")
        run(self.archive("verify", "--all", *self.at(user), *kept, "--from", place))

    def compare(self, way, user, want, complete):
        there = self.mail(user)
        more, missing = there - want, want - there
        if more or (complete and missing):
            some = [str(mail) for mail in [*more, *missing][:6]]
            raise SystemExit(f"{way}: {user}: {sum(more.values())} that should not be there, {sum(missing.values())} missing: {some}")

    def kills(self, way, want, kills):
        """How many runs were killed, how often what was there was compared, and how many accounts were filled."""
        self.begin(way)
        user, command = self.anew(way)
        began = time.monotonic()
        run(command)
        whole = time.monotonic() - began
        self.compare(way, user, want, complete=True)
        killed = compared = filled = 0
        while killed < kills:
            user, command = self.anew(way)
            while self.killed(command, whole + self.chance.choice([0, SETTLING])):
                killed += 1
                if killed % 4 == 0:
                    self.compare(way, user, want, complete=False)
                    compared += 1
            self.compare(way, user, want, complete=True)
            run(command)
            self.compare(way, user, want, complete=True)
            filled += 1
        return killed, compared, filled


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sealpost", required=True)
    parser.add_argument("--kills", type=int, default=70)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--ways", default="mbox maildir sealpost migrate cycle-mbox cycle-maildir cycle-sealpost")
    options = parser.parse_args()
    work = pathlib.Path(tempfile.mkdtemp(prefix="sealpost-restore-crash-"))
    print(f"seed {options.seed}, in {work}", flush=True)
    puts = Puts(options, work)
    good = False
    try:
        puts.fill(SOURCE)
        want = puts.mail(SOURCE)
        if sum(want.values()) != sum(FOLDERS.values()):
            raise SystemExit(f"{sum(want.values())} messages to begin with")
        ways = options.ways.split()
        for way in ways:
            if way.startswith("cycle-"):
                killed, rounds = puts.cycles(way.removeprefix("cycle-"), options.kills // len(ways))
                print(f"{way}: {killed} restores and pulls killed, {rounds} times whole again", flush=True)
                continue
            killed, compared, filled = puts.kills(way, want, options.kills // len(ways))
            print(f"{way}: {killed} runs killed, {compared} times compared meanwhile, {filled} accounts filled and compared", flush=True)
        good = True
    finally:
        puts.server.send_signal(signal.SIGTERM)
        puts.server.wait(60)
        if good:
            shutil.rmtree(work, ignore_errors=True)
        else:
            print(f"everything is in {work}", file=sys.stderr)


if __name__ == "__main__":
    main()
