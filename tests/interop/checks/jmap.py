"""JMAP over HTTP: curl, jmap-jam, and a WebSocket of our own."""

import base64
import json
import os
import pathlib
import socket

from checks.oauth import granted
from harness import ADA, PASSWORD, check, ensure, equal
from messages import SIMPLE

CORE = "urn:ietf:params:jmap:core"
MAIL = "urn:ietf:params:jmap:mail"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
# Where install.sh puts it.
JAM = CACHE / "sealpost/npm/node_modules/jmap-jam/dist/index.js"
DRIVER = pathlib.Path(__file__).parent.parent / "jmap_jam.mjs"


def curl(context, path, *arguments, **options):
    return context.run("curl", "--silent", "--show-error", "--max-time", "30", "--user", f"{ADA}:{PASSWORD}", *arguments,
                       f"{context.ready['http']['url']}{path}", **options)


def session(context):
    return json.loads(curl(context, "/.well-known/jmap"))


def account_of(context):
    return session(context)["primaryAccounts"][MAIL]


def api(context, *calls):
    request = json.dumps({"using": [CORE, MAIL], "methodCalls": calls})
    answer = curl(context, "/jmap/api", "--header", "Content-Type: application/json", "--data-binary", "@-", "--compressed",
                  stdin=request.encode())
    return json.loads(answer)["methodResponses"]


@check("curl: JMAP's Session object and calls", "http", program="curl", sealpost_only=True)
def calls(context):
    offered = session(context)
    equal(offered["username"], ADA)
    equal(offered["apiUrl"], f"{context.ready['http']['url']}/jmap/api")
    ensure(CORE in offered["capabilities"], offered)
    account = account_of(context)
    echo, mailboxes = api(context, ["Core/echo", {"a": "\u00fc"}, "0"], ["Mailbox/get", {"accountId": account}, "1"])
    equal(echo, ["Core/echo", {"a": "\u00fc"}, "0"])
    ensure(any(mailbox["role"] == "inbox" for mailbox in mailboxes[1]["list"]), mailboxes)


@check("curl: JMAP refuses a wrong password", "http", program="curl", sealpost_only=True)
def wrong_password(context):
    url = f"{context.ready['http']['url']}/jmap/session"
    status = context.run("curl", "--silent", "--output", "/dev/null", "--write-out", "%{http_code}", "--user", f"{ADA}:wrong", url)
    equal(status, b"401")


@check("curl: JMAP's event source says that mail came", "http", "lmtp", program="curl", sealpost_only=True)
def events(context):
    known = api(context, ["Mailbox/get", {"accountId": account_of(context), "ids": []}, "0"])[0][1]["state"]
    context.deliver(SIMPLE)
    # What was missed is sent at once, and the stream ends after it.
    got = curl(context, "/jmap/eventsource?types=*&closeafter=state&ping=0", "--no-buffer", "--header", f"Last-Event-ID: {known}")
    event = next(part for part in got.decode().split("\n\n") if part.startswith("event: state"))
    change = json.loads(event.split("data: ", 1)[1])
    equal(set(change["changed"][account_of(context)]), {"Email", "EmailDelivery", "Mailbox", "Quota", "Thread"})


@check("JMAP over a WebSocket", "http", sealpost_only=True)
def websocket(context):
    host, port = context.address("http")
    with socket.create_connection((host, port), timeout=30) as connection:
        secret = base64.b64encode(f"{ADA}:{PASSWORD}".encode()).decode()
        key = base64.b64encode(os.urandom(16)).decode()
        connection.sendall(f"GET /jmap/ws HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Basic {secret}\r\nUpgrade: websocket\r\n"
                           f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
                           "Sec-WebSocket-Protocol: jmap\r\n\r\n".encode())
        answer = connection.makefile("rb")
        ensure(answer.readline().startswith(b"HTTP/1.1 101 "), "no upgrade")
        while answer.readline() != b"\r\n":
            pass
        request = json.dumps({"@type": "Request", "id": "R", "using": [CORE], "methodCalls": [["Core/echo", {}, "0"]]}).encode()
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(request))
        connection.sendall(bytes([0x81, 0x80 | 126]) + len(request).to_bytes(2, "big") + mask + masked)
        equal(answer.read(1), b"\x81")
        length = answer.read(1)[0]
        length = int.from_bytes(answer.read(2), "big") if length == 126 else length
        response = json.loads(answer.read(length))
        equal((response["@type"], response["requestId"]), ("Response", "R"))


if JAM.exists():
    @check("jmap-jam, logged in by OAuth, sends a message and reads it", "http", "submission", program="node", sealpost_only=True)
    def jam(context):
        token = granted(context)[2]["access_token"]
        seen = json.loads(context.run("node", DRIVER, JAM, context.ready["http"]["url"], token, ADA))
        (email,) = seen["found"]
        equal(email["preview"], "Grüße von jam")
        equal(email["keywords"], {})
        ensure(seen["submission"]["id"], seen)
