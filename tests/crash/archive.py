#!/usr/bin/env python3
"""Kills `sealpost archive pull` and `archive verify --repair` with SIGKILL at random moments, in every format, and looks at what is
left of the copy.

A server of this program has a few folders of mail. Each pull is killed at a moment drawn at random from the time that a whole
one takes; every few kills the copy is compared with the server: whatever is in it is octet for octet what the server has, and
what is missing is only missing. Then the next pull goes on. Once a copy is complete, everything in it is compared and another
one is begun. Then complete copies are damaged, and what mends them is killed: however often, no more may be wrong than was
damaged, and in the end nothing. Kills that came too late to meet a process are not counted.

    tests/crash/archive.py --sealpost target/release/sealpost --kills 300 --repairs 100 [--seed N] [--formats "mbox maildir sealpost bodies"]
"""

import argparse
import json
import pathlib
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

PASSWORD = "correct horse battery"
USER = "ada@localhost"
#: Of the bodies of a copy that does not keep all.
KEEP = "300KB"
FOLDERS = {"INBOX": 4000, "Work": 1500, "Large": 60}
#: Messages of a copy that get a wrong byte.
DAMAGED = 200


def mbox(path, name, count, chance):
    with open(path, "wb") as out:
        for number in range(count):
            lines = chance.randrange(1, 40) if name != "Large" else chance.randrange(500, 8000)
            text = b"".join(b"%x\n" % chance.getrandbits(240) for _ in range(lines))
            out.write(b"From a@b Thu Jan  1 00:00:10 1970\nFrom: a@b.c\nSubject: %s %d\nMessage-ID: <%d.%s@x>\n\n%s\n"
                      % (name.encode(), number, number, name.encode(), text))


class Pulls:
    """One server and the copies of it."""

    def __init__(self, options, work):
        self.binary, self.work, self.chance = options.sealpost, work, random.Random(options.seed)
        self.password = work / "password"
        self.password.write_text(PASSWORD + "\n")
        self.password.chmod(0o600)
        self.server = subprocess.Popen(
            [self.binary, "try", "--json", "--ports", "free", "--no-samples", "--dir", work / "server", "--account", USER,
             "--password-file", self.password], stdout=subprocess.PIPE)
        self.port = str(json.loads(self.server.stdout.readline())["imap"]["port"])
        for name, count in FOLDERS.items():
            mbox(work / "mail", name, count, self.chance)
            run([self.binary, "import", "--dir", work / "server", "--account", USER, "--password-file", self.password,
                 "--mailbox", name, work / "mail"])

    def command(self, verb, form, *more):
        place = ["--host", "127.0.0.1", "--port", self.port, "--tls", "none", "--user", USER, "--password-file", self.password]
        opens = ["--copy-password-file", self.password] if form in ("sealpost", "bodies") else []
        at = "--into" if verb == "pull" else "--from"
        # A sealed copy that keeps few bodies: kills come while they are given up, too.
        few = ["--body-limit", KEEP] if (verb, form) == ("pull", "bodies") else []
        form, into = ("sealpost" if form == "bodies" else form), self.work / form
        return [self.binary, "archive", verb, "--json", *place, "--format", form, at, into, *opens, *few, *more]

    def killed(self, command, within):
        """Whether it was killed; otherwise it had come to its end before."""
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            process.wait(self.chance.uniform(0, within))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        _, err = process.communicate(timeout=60)
        if process.returncode not in (0, -signal.SIGKILL):
            raise SystemExit(f"{' '.join(map(str, command))}: {process.returncode}: {err.decode()}")
        return process.returncode != 0

    def kill(self, form, within):
        """Whether a pull was killed; otherwise it was complete before."""
        return self.killed(self.command("pull", form), within)

    def verified(self, form):
        """What `verify` says of each folder, and its exit status."""
        verified = subprocess.run(self.command("verify", form, "--all"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        lines = [json.loads(line) for line in verified.stdout.decode().splitlines() if line.startswith("{")]
        return {folder["folder"]: folder for folder in lines}, verified

    def compare(self, form, complete):
        """What is in the copy, message by message with the server."""
        folders, verified = self.verified(form)
        for name, folder in folders.items():
            if folder["damaged"] or folder["different"] or folder["gone"] or (complete and folder["missing"]):
                raise SystemExit(f"{form}: {name}: {folder}")
            if folder["kept"] + folder["missing"] != FOLDERS.get(name, 0):
                raise SystemExit(f"{form}: {name} has another number of messages: {folder}")
        if complete and (not set(FOLDERS) <= set(folders) or verified.returncode != 0):
            raise SystemExit(f"{form}: {verified.returncode}, {sorted(folders)}: {verified.stderr.decode()}")
        return sum(folder["kept"] for folder in folders.values())

    def wrong(self, form):
        """The messages of the copy that are not what the server has: folders and UIDs."""
        folders, verified = self.verified(form)
        if not set(FOLDERS) <= set(folders) or any(folder["gone"] for folder in folders.values()):
            raise SystemExit(f"{form}: {folders}: {verified.stderr.decode()}")
        return {(name, uid) for name, folder in folders.items() for kind in ("damaged_uids", "different", "missing_uids")
                for uid in members(folder[kind])}

    def damage(self, form):
        """Changes a byte of many messages of a copy that nobody has open."""
        copy = self.work / form
        if form in ("sealpost", "bodies"):
            self.damage_database(next(copy.rglob("objects.sqlite")))
            # Large messages are in files, several in one.
            files = [path for path in copy.rglob("*") if path.is_file() and path.stat().st_size > 1_000_000
                     and "sqlite" not in path.name]
        elif form == "mbox":
            files = list(copy.rglob("*.mbox"))
        else:
            files = [path for path in copy.rglob("*") if path.parent.name in ("cur", "new")]
        for path in self.chance.choices([path for path in files if path.stat().st_size > 0], k=DAMAGED):
            with path.open("r+b") as file:
                at = self.chance.randrange(path.stat().st_size)
                file.seek(at)
                byte = file.read(1)[0]
                file.seek(at)
                file.write(bytes([byte ^ 1]))

    def damage_database(self, path):
        database = sqlite3.connect(path)
        small = "SELECT id FROM objects WHERE path LIKE '%/msg/%' AND head IS NOT NULL ORDER BY id"
        for row in self.chance.choices(database.execute(small).fetchall(), k=DAMAGED):
            (head,) = database.execute("SELECT head FROM objects WHERE id = ?", row).fetchone()
            head, at = bytearray(head), self.chance.randrange(len(head))
            head[at] ^= 1
            database.execute("UPDATE objects SET head = ? WHERE id = ?", (bytes(head), *row))
        database.commit()
        database.close()

    def repairs(self, form, kills):
        """Damages copies, and kills what mends them; how many were mended."""
        copy = self.work / form
        good = self.work / "good"
        run(self.command("pull", form))
        shutil.copytree(copy, good)
        mend = self.command("verify", form, "--all", "--repair")
        killed = mended = 0
        whole = None
        while killed < kills:
            self.damage(form)
            wrong = self.wrong(form)
            if not wrong:
                raise SystemExit(f"{form}: nothing was damaged")
            if whole is None:
                # Once undisturbed, for how long it takes.
                began = time.monotonic()
                run(mend)
                whole = time.monotonic() - began
            while self.killed(mend, whole):
                killed += 1
                left = self.wrong(form)
                if not left <= wrong:
                    raise SystemExit(f"{form}: messages that were not damaged are wrong: {sorted(left - wrong)}")
            self.compare(form, complete=True)
            mended += len(wrong)
            shutil.rmtree(copy)
            shutil.copytree(good, copy)
        shutil.rmtree(copy)
        shutil.rmtree(good)
        return killed, mended

    def whole(self, form):
        """Continues to a complete copy, compares it, and removes it; how long the pull took."""
        began = time.monotonic()
        run(self.command("pull", form))
        took = time.monotonic() - began
        self.compare(form, complete=True)
        shutil.rmtree(self.work / form)
        return took


def members(uids):
    """Those of a set as IMAP writes it, such as 1:3,7."""
    for part in filter(None, uids.split(",")):
        first, _, last = part.partition(":")
        yield from range(int(first), int(last or first) + 1)


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: {done.returncode}: {done.stderr.decode()}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sealpost", required=True)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--repairs", type=int, default=100, help="of `verify --repair`")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--formats", default="mbox maildir sealpost bodies")
    options = parser.parse_args()
    work = pathlib.Path(tempfile.mkdtemp(prefix="sealpost-archive-crash-"))
    print(f"seed {options.seed}, in {work}", flush=True)
    pulls = Pulls(options, work)
    good = False
    try:
        forms = options.formats.split()
        whole = {form: pulls.whole(form) for form in forms}
        for form in forms:
            kills = compared = copies = kept = 0
            while kills < options.kills // len(forms):
                if not pulls.kill(form, whole[form]):
                    pulls.whole(form)
                    copies += 1
                    continue
                kills += 1
                if kills % 4 == 0 and (work / form).exists():
                    kept += pulls.compare(form, complete=False)
                    compared += 1
            pulls.whole(form)
            print(f"{form}: {kills} pulls killed, {compared} times compared with {kept} messages in all, {copies + 1} copies completed",
                  flush=True)
        for form in forms:
            killed, mended = pulls.repairs(form, options.repairs // len(forms))
            print(f"{form}: {killed} repairs killed, {mended} damaged messages mended", flush=True)
        good = True
    finally:
        pulls.server.send_signal(signal.SIGTERM)
        pulls.server.wait(60)
        if good:
            shutil.rmtree(work, ignore_errors=True)
        else:
            print(f"everything is in {work}", file=sys.stderr)


if __name__ == "__main__":
    main()
