#!/usr/bin/env python3
"""Drives a running Sealpost with mail clients that are not ours, and says which of them work.

    tests/interop/run.py --sealpost target/release/sealpost      start that server and check it
    tests/interop/run.py --dovecot target/release/sealpost-rig check the checks themselves, against Dovecot
    tests/interop/run.py --cyrus / --sealpost target/release/sealpost --only archive
                                                                 the archive against Cyrus, installed or unpacked there
    tests/interop/run.py --ready server.json                     a server that runs already

Every check prints one line: ok, FAILED with the reason, or skipped with the reason. The exit status is 0 when
nothing failed. Only the standard library is used.
"""

import argparse
import importlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import cyrus  # noqa: E402
from harness import ACCOUNTS, PASSWORD, REGISTRY, Context, Skip  # noqa: E402

MODULES = ["imap_session", "imap_messages", "imap_mailboxes", "delivery", "submission", "vacation", "signatures", "curl", "mbsync", "neomutt", "swaks",
           "nodes", "balancer", "archive", "archive_add", "fail2ban", "mail_files", "oauth", "jmap"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sealpost", help="the sealpost binary")
    parser.add_argument("--dovecot", metavar="SEALPOST_RIG", help="the sealpost-rig binary, which starts Dovecot")
    parser.add_argument("--cyrus", metavar="PREFIX", help="check against a Cyrus that is installed below PREFIX")
    parser.add_argument("--ready", help="a file with the line of JSON of a running server")
    parser.add_argument("--only", default="", help="only checks whose name contains this")
    parser.add_argument("--strict", action="store_true", help="a client that is not installed is a failure")
    parser.add_argument("-v", "--verbose", action="store_true", help="tracebacks")
    return parser.parse_args()


def start(options, work):
    """Starts the server; its process (or None) and what it says about itself."""
    if options.ready:
        return None, json.loads(pathlib.Path(options.ready).read_text())
    if options.cyrus:
        if not cyrus.installed(options.cyrus):
            print(f"interop: there is no Cyrus below {options.cyrus}; skipped")
            sys.exit(0)
        return cyrus.start(work / "server", options.cyrus)
    accounts = [argument for account in ACCOUNTS for argument in ("--account", account)]
    if options.dovecot:
        command = [options.dovecot, "dovecot", "--dir", str(work / "server"), *accounts]
    elif options.sealpost:
        password_file = work / "password"
        password_file.write_text(PASSWORD + "\n")
        command = [options.sealpost, "try", "--json", "--ports", "free", "--no-samples", "--dir", str(work / "server"),
                   *accounts, "--password-file", str(password_file)]
    else:
        sys.exit("name a server: --sealpost, --dovecot or --ready")
    log = open(work / "server.log", "wb")
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
    line = process.stdout.readline()
    if not line:
        sys.exit(f"the server did not start:\n{(work / 'server.log').read_text()}")
    return process, json.loads(line)


def stop(process):
    process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    try:
        status = process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        return "still running 15 s after SIGTERM"
    took = time.monotonic() - began
    if status != 0:
        return f"exit status {status} after SIGTERM"
    return f"took {took:.1f} s to stop after SIGTERM" if took > 8 else None


def main():
    options = arguments()
    for module in MODULES:
        importlib.import_module(f"checks.{module}")
    work = pathlib.Path(tempfile.mkdtemp(prefix="sealpost-interop-"))
    work.chmod(0o755)
    process, ready = start(options, work)
    # Beside sealpost-rig there is the archive that is checked against Dovecot.
    binary = options.sealpost or (options.dovecot and pathlib.Path(options.dovecot).with_name("sealpost"))
    context = Context(ready, work, sealpost=not (options.dovecot or options.cyrus), binary=binary)
    counts = {"ok": 0, "FAILED": 0, "skipped": 0}
    skipped_clients = set()
    for check in REGISTRY:
        if options.only and options.only not in check.name:
            continue
        began = time.monotonic()
        reason = ""
        try:
            check.run(context)
            verdict = "ok"
        except Skip as skip:
            verdict, reason = "skipped", str(skip)
            if "not installed" in reason:
                skipped_clients.add(reason)
        except Exception as error:  # a check may fail in any way; it is reported and the next one runs
            verdict, reason = "FAILED", f"{type(error).__name__}: {error}"
            if options.verbose:
                traceback.print_exc()
            else:
                frames = [f for f in traceback.extract_tb(error.__traceback__) if "interop/checks" in f.filename]
                if frames:
                    reason += f"  ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})"
        counts[verdict] += 1
        print(f"{verdict:8}{check.name}{': ' + reason if reason else ''} [{time.monotonic() - began:.1f} s]", flush=True)
        if process and process.poll() is not None:
            print(f"FAILED  the server ended by itself with status {process.returncode}")
            counts["FAILED"] += 1
            break
    if process and process.poll() is None:
        problem = stop(process)
        if problem:
            print(f"FAILED  stop: {problem}")
            counts["FAILED"] += 1
    print(f"interop: {counts['ok']} ok, {counts['FAILED']} failed, {counts['skipped']} skipped")
    for reason in sorted(skipped_clients):
        print(f"interop: {reason} (tests/interop/install.sh installs it as root)")
    failed = counts["FAILED"] > 0 or (options.strict and skipped_clients)
    if failed:
        print(f"interop: the server's data and log are kept in {work}")
    else:
        shutil.rmtree(work, ignore_errors=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
