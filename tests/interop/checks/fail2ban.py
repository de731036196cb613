"""The filter in contrib/fail2ban, on the log of the server under test."""

import configparser
import pathlib
import re
import shutil
import subprocess
import time

from harness import ADA, check, ensure, equal

FILTER = pathlib.Path(__file__).parents[3] / "contrib/fail2ban/filter.d/sealpost.conf"
#: What Fail2Ban puts in place of its own words.
WORDS = {"<ADDR>": r"(?P<ip>[0-9a-fA-F.:]+)", "<F-USER>": "(?P<user>", "</F-USER>": ")"}


def expressions():
    """The filter's expressions, as Python's `re` takes them."""
    parser = configparser.ConfigParser(interpolation=configparser.BasicInterpolation())
    parser.read(FILTER)
    for expression in parser["Definition"]["failregex"].splitlines():
        for word, meaning in WORDS.items():
            expression = expression.replace(word, meaning)
        yield re.compile(expression)


def found(line):
    """Address and user, if the filter matches; Fail2Ban takes the date off the beginning first."""
    line = re.sub(r'^(?:\{"timestamp":")?[\dT:.-]+Z', "", line)
    for expression in expressions():
        if match := expression.search(line):
            return match["ip"], match["user"]
    return None


@check("fail2ban: its filter finds who guesses in the server's log", "imap", sealpost_only=True)
def guesses(context):
    log = context.work / "server.log"
    if not log.exists():
        # A server that somebody else started.
        return
    before = len(log.read_text().splitlines())
    with context.lines("imap") as imap:
        imap.line()
        for name in [ADA, "hunter2", 'x\\" peer=\\"192.0.2.1@localhost']:
            imap.send(f'a LOGIN "{name}" wrong-password\r\n'.encode())
            ensure(imap.tagged(b"a")[1].startswith(b"a NO"), name)
        # Not looked at, as it comes without TLS: no guess.
        imap.send(b"b AUTHENTICATE XOAUTH2 dXNlcj1hZGFAbG9jYWxob3N0AWF1dGg9QmVhcmVyIHgBAQ==\r\n")
        imap.tagged(b"b")
    lines = []
    for _ in range(100):
        lines = [line for line in log.read_text().splitlines()[before:] if "login failed" in line]
        if len(lines) == 4:
            break
        time.sleep(0.05)
    host = context.address("imap")[0]
    equal([found(line) for line in lines], [(host, ADA), (host, "-"), (host, "-"), None])
    if regex := shutil.which("fail2ban-regex"):
        only = context.work / "failed-logins.log"
        only.write_text("".join(f"{line}\n" for line in lines))
        said = subprocess.run([regex, str(only), str(FILTER)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
        ensure("4 lines, 0 ignored, 3 matched, 1 missed" in said.stdout, said.stdout)
