"""DKIM signatures: verifiers that are not ours accept them, and refuse each changed byte of what is signed."""

import json
import pathlib
import shutil
import subprocess
import sys

from checks.submission import arrived
from harness import BOB, PASSWORD, Skip, check, ensure, equal

DOMAIN = "signed.example"
SENDER = f"zoe@{DOMAIN}"
GO_MSGAUTH = pathlib.Path(__file__).resolve().parent.parent / "go-msgauth"

# Run by a Python that has dkimpy: the arguments are as of go-msgauth/main.go, and so is what is printed.
DKIMPY = """
import json, sys
import dkim
message = open(sys.argv[1], "rb").read()
records = json.load(open(sys.argv[2]))
positions = json.load(open(sys.argv[3]))
def txt(name, timeout=5):
    return records.get(name.decode().rstrip("."), "").encode()
def verdicts(message):
    found = []
    signed = dkim.DKIM(message)
    for index in range(message.lower().count(b"dkim-signature:")):
        try:
            found.append("" if signed.verify(idx=index, dnsfunc=txt) else "the signature is wrong")
        except Exception as error:
            found.append(repr(error))
    return found
found = verdicts(message)
missed = []
for position in positions:
    changed = bytearray(message)
    changed[position] ^= 1
    try:
        if "" in verdicts(bytes(changed)):
            missed.append(position)
    except Exception:
        pass
print(json.dumps({"passed": found.count(""), "failed": [why for why in found if why], "missed": missed}))
"""


def sealpost(context, *arguments):
    """What a command prints about the server's data."""
    done = subprocess.run([str(context.binary), *arguments, "--dir", str(context.ready["dir"]), "--json"], capture_output=True, check=False)
    ensure(done.returncode == 0, done.stderr.decode())
    return json.loads(done.stdout)


def signed(context):
    """A message as others get it, the records of its domain, and the places of the bytes that its signatures cover."""
    if hasattr(context, "signed"):
        return context.signed
    import smtplib
    import ssl

    password = context.work / "password"
    password.write_text(PASSWORD + "\n")
    sealpost(context, "account", "add", SENDER, "--password-file", str(password))
    plan = sealpost(context, "domain", "add", DOMAIN)
    records = {record["name"]: record["value"] for record in plan["records"] if record["purpose"] == "DKIM"}
    context.unique += 1
    subject = f"signed {context.unique}"
    text = (f"From: Zoe <{SENDER}>\r\nTo: {BOB}\r\nSubject: {subject}\r\nMIME-Version: 1.0\r\n"
            "Content-Type: text/plain; charset=utf-8\r\n\r\nHello Bob,\r\n  this is  signed.\r\n.\r\n\r\n"
            + "".join(f"line {n} of a longer text that goes on\r\n" for n in range(8)) + "\r\nZoe\r\n\r\n")
    host, port = context.address("submission")
    trust = ssl.create_default_context(cafile=str(context.certificate))
    trust.check_hostname = False
    with smtplib.SMTP(host, port, timeout=20) as client:
        client.starttls(context=trust)
        client.login(SENDER, PASSWORD)
        equal(client.sendmail(SENDER, [BOB], text), {})
    raw = arrived(context, subject)
    ensure(raw.count(b"DKIM-Signature:") == 2, raw[:800])
    # What final delivery adds before the message.
    raw = raw[raw.index(b"DKIM-Signature:"):]
    paths = [context.work / name for name in ("signed.eml", "signed.records", "signed.positions")]
    paths[0].write_bytes(raw)
    paths[1].write_text(json.dumps(records))
    positions = covered(raw)
    ensure(len(positions) > 200, f"{len(positions)} bytes are covered")
    paths[2].write_text(json.dumps(positions))
    context.signed = paths
    return paths


def covered(raw):
    """Letters and digits of the body and of the values of signed fields: white space may change without being noticed."""
    end = raw.index(b"\r\n\r\n") + 4
    tags = dict(tag.strip().split(b"=", 1) for tag in field(raw, b"DKIM-Signature")[0].split(b";") if b"=" in tag)
    names = {name.strip().lower() for name in tags[b"h"].split(b":")}
    positions, at = [], 0
    while at < end - 2:
        colon, stop = raw.index(b":", at), raw.index(b"\r\n", at)
        while raw[stop + 2:stop + 3] in (b" ", b"\t"):
            stop = raw.index(b"\r\n", stop + 2)
        if raw[at:colon].lower() in names:
            positions.extend(range(colon + 1, stop))
        at = stop + 2
    positions.extend(range(end, len(raw)))
    return [position for position in positions if raw[position:position + 1].isalnum()]


def field(raw, name):
    """The values of the fields of that name, unfolded."""
    header = raw[:raw.index(b"\r\n\r\n")].replace(b"\r\n ", b" ").replace(b"\r\n\t", b" ")
    return [line[len(name) + 1:] for line in header.split(b"\r\n") if line.lower().startswith(name.lower() + b":")]


def verified(output):
    found = json.loads(output)
    equal((found["passed"], found["failed"]), (2, []), "signatures of RSA and Ed25519")
    equal(found["missed"], [], "places at which a changed byte was not noticed")


@check("signatures: dkimpy accepts them and refuses each changed byte", "submission", "imaps", sealpost_only=True)
def dkimpy(context):
    for python in (sys.executable, "/usr/bin/python3"):
        probe = subprocess.run([python, "-c", "import dkim, nacl.signing"], capture_output=True, check=False) if shutil.which(python) else None
        if probe and probe.returncode == 0:
            break
    else:
        raise Skip("dkimpy is not installed")
    verified(context.run(python, "-W", "ignore", "-c", DKIMPY, *signed(context), timeout=300))


@check("signatures: go-msgauth accepts them and refuses each changed byte", "submission", "imaps", program="go", sealpost_only=True)
def go_msgauth(context):
    program = context.work / "go-msgauth"
    built = subprocess.run(["go", "build", "-o", str(program), "."], cwd=GO_MSGAUTH, capture_output=True, check=False)
    if built.returncode != 0:
        raise Skip(f"go-msgauth is not installed: {built.stderr.decode(errors='replace')[-200:]}")
    verified(context.run(program, *signed(context), timeout=300))
