#!/usr/bin/env python3
"""Compares the answers of our resolvers with those of unbound: signed, unsigned, forged and expired zones.

    cargo build -p sealpost-dns --example lookup
    tests/internet/resolver.py target/debug/examples/lookup

Root, top-level domain and zones are served by NSD on addresses of a network namespace; nothing leaves it.
Debian: apt-get install nsd unbound ldnsutils bind9-dnsutils iproute2
"""

import pathlib
import subprocess
import sys
import tempfile
import time

import namespace
import zones

RECORDS = {
    "signed": ["@ MX 10 mx", "@ MX 20 mx2.unsigned.box.", "mx A 192.0.2.1", "mx AAAA 2001:db8::1", "_25._tcp.mx TLSA 3 1 1 " + "ab" * 32,
               '@ TXT "v=spf1 mx" " -all"', '@ TXT "other"', "www CNAME mx", "out CNAME mx.unsigned.box.", "*.wild A 192.0.2.9",
               "chain CNAME chain2", "chain2 CNAME www", "loop CNAME loop2", "loop2 CNAME loop", "dead CNAME nothing",
               "nomx A 192.0.2.7", "big TXT " + " ".join(f'"{"x" * 200}"' for _ in range(15))],
    "unsigned": ["@ MX 10 mx", "mx A 192.0.2.2", "mx TXT \"plain\"", "in CNAME mx.signed.box."],
    "forged": ["@ MX 10 mx", "mx A 192.0.2.3"],
    "expired": ["@ MX 10 mx", "mx A 192.0.2.4"],
    "null": ["@ MX 0 ."],
}
QUESTIONS = [
    "signed.box:MX", "mx.signed.box:A", "mx.signed.box:AAAA", "_25._tcp.mx.signed.box:TLSA", "signed.box:TXT", "www.signed.box:A",
    "www.signed.box:CNAME", "out.signed.box:A", "a.wild.signed.box:A", "a.wild.signed.box:MX", "chain.signed.box:A", "loop.signed.box:A",
    "dead.signed.box:A", "nomx.signed.box:MX", "nothing.signed.box:MX", "big.signed.box:TXT", "unsigned.box:MX", "mx.unsigned.box:A",
    "mx.unsigned.box:TXT", "in.unsigned.box:A", "nothing.unsigned.box:A", "_25._tcp.mx.unsigned.box:TLSA", "forged.box:MX",
    "mx.forged.box:A", "nothing.forged.box:A", "expired.box:MX", "null.box:MX", "nowhere.box:MX", "box:MX", "lame.box:MX",
]


def unbound(question):
    """What unbound says, in the words of the example."""
    name, kind = question.rsplit(":", 1)
    command = ["dig", "+dnssec", "+tries=1", "+time=15", f"@{zones.RESOLVER}", "-t", kind, name]
    text = subprocess.run(command, stdout=subprocess.PIPE, check=False).stdout.decode()
    status = text.partition("status: ")[2].partition(",")[0]
    flags = text.partition("flags: ")[2].partition(";")[0].split()
    security = "secure" if "ad" in flags else "insecure"
    records = []
    for line in text.partition("ANSWER SECTION:")[2].partition("\n\n")[0].splitlines():
        fields = line.split(None, 4)
        if len(fields) == 5 and fields[3] == kind:
            records.append(tidy(kind, fields[4]))
    if records and status == "NOERROR":
        return f"{security} {' | '.join(sorted(records))}"
    # Whether absence is proven is not compared: our resolver never says so, and nothing depends on it but how strict DANE is
    # for domains without an MX record.
    return {"NOERROR": "no data", "NXDOMAIN": "no such name"}.get(status, "refused")


def tidy(kind, data):
    if kind == "TXT":
        return "".join(piece for index, piece in enumerate(data.split('"')) if index % 2)
    if kind == "TLSA":
        head, data = data.split()[:3], data.split()[3:]
        return " ".join(head) + " " + "".join(data).lower()
    # The root, which a null MX names, is the empty name here and there.
    return data.removesuffix(".") if kind in ("MX", "CNAME", "PTR") else data.lower()


def ours(program, *arguments):
    """What our resolver says; a failure for whatever reason is a refusal, as it is at unbound."""
    done = subprocess.run([program, *arguments, *QUESTIONS], stdout=subprocess.PIPE, check=True, timeout=300)
    answers = dict(line.split(" ", 1) for line in done.stdout.decode().splitlines())
    return {name: "refused" if answer.startswith(("bogus", "failed")) else answer for name, answer in answers.items()}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    namespace.enter(__doc__, ["nsd", "unbound", "ldns-signzone", "dig", "ip", "unshare"],
                    [zones.ROOT, zones.TLD, zones.HOSTED, zones.RESOLVER])
    program = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="sealpost-resolver-") as top:
        pathlib.Path(top).chmod(0o755)
        zones.UNSIGNED = ("unsigned.box",)
        internet = zones.internet(top, RECORDS, lame=["lame"])
        internet.forged, internet.expired = {"forged.box"}, {"expired.box"}
        anchor = internet.start()
        try:
            time.sleep(1)
            sys.exit(compare(program, top, anchor))
        finally:
            internet.stop()


def compare(program, top, anchor):
    anchor = pathlib.Path(top) / "anchor"
    expected = {question: unbound(question) for question in QUESTIONS}
    wrong = 0
    for way, arguments in (("recursive", ["--root", zones.ROOT]), ("forwarding", ["--server", zones.RESOLVER])):
        answers = ours(program, *arguments, "--anchor", anchor)
        for question, answer in expected.items():
            if answers.get(question) != answer:
                wrong += 1
                print(f"{way}: {question}: unbound says {answer[:100]!r}, we say {answers.get(question, '')[:100]!r}")
        print(f"{way}: {len(expected)} questions asked")
    return f"{wrong} answers differ" if wrong else 0


if __name__ == "__main__":
    main()
