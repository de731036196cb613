#!/usr/bin/env python3
"""Kills `sealpost archive pull` with SIGKILL at random moments, in every format, and looks at what is left of the copy.

A server of this program has a few folders of mail. Each pull is killed at a moment drawn at random from the time that a whole
one takes; every few kills the copy is compared with the server: whatever is in it is octet for octet what the server has, and
what is missing is only missing. Then the next pull goes on. Once a copy is complete, everything in it is compared and another
one is begun. Kills that came too late to meet a process are not counted.

    tests/crash/archive.py --sealpost target/release/sealpost --kills 300 [--seed N] [--formats "mbox maildir sealpost bodies"]
"""

import argparse
import json
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PASSWORD = "correct horse battery"
USER = "ada@localhost"
#: Of the bodies of a copy that does not keep all.
KEEP = "300KB"
FOLDERS = {"INBOX": 4000, "Work": 1500, "Large": 60}


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
        few = ["--keep-bodies", KEEP] if (verb, form) == ("pull", "bodies") else []
        form, into = ("sealpost" if form == "bodies" else form), self.work / form
        return [self.binary, "archive", verb, "--json", *place, "--format", form, at, into, *opens, *few, *more]

    def kill(self, form, within):
        """Whether a pull was killed; otherwise it was complete before."""
        process = subprocess.Popen(self.command("pull", form), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            process.wait(self.chance.uniform(0, within))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        _, err = process.communicate(timeout=60)
        if process.returncode not in (0, -signal.SIGKILL):
            raise SystemExit(f"{form}: a pull ended with {process.returncode}: {err.decode()}")
        return process.returncode != 0

    def compare(self, form, complete):
        """What is in the copy, message by message with the server."""
        verified = subprocess.run(self.command("verify", form, "--all"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        folders = {}
        for line in verified.stdout.decode().splitlines():
            if line.startswith("{"):
                folder = json.loads(line)
                folders[folder["folder"]] = folder
        for name, folder in folders.items():
            if folder["damaged"] or folder["different"] or folder["gone"] or (complete and folder["missing"]):
                raise SystemExit(f"{form}: {name}: {folder}")
            if folder["kept"] + folder["missing"] != FOLDERS.get(name, 0):
                raise SystemExit(f"{form}: {name} has another number of messages: {folder}")
        if complete and (not set(FOLDERS) <= set(folders) or verified.returncode != 0):
            raise SystemExit(f"{form}: {verified.returncode}, {sorted(folders)}: {verified.stderr.decode()}")
        return sum(folder["kept"] for folder in folders.values())

    def whole(self, form):
        """Continues to a complete copy, compares it, and removes it; how long the pull took."""
        began = time.monotonic()
        run(self.command("pull", form))
        took = time.monotonic() - began
        self.compare(form, complete=True)
        shutil.rmtree(self.work / form)
        return took


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: {done.returncode}: {done.stderr.decode()}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sealpost", required=True)
    parser.add_argument("--kills", type=int, default=300)
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
            print(f"{form}: {kills} kills, {compared} times compared with {kept} messages in all, {copies + 1} copies completed",
                  flush=True)
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
