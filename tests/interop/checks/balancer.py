"""HAProxy before the server: it makes connections of its own and says whose they are, with the PROXY protocol."""

import contextlib
import re
import signal
import socket
import subprocess

from harness import BOB, Lines, body, check, ensure, ok, search

from checks.nodes import message, second

#: The client, which is not where the balancer is.
CLIENT = "127.0.0.2"


@contextlib.contextmanager
def haproxy(context, to, how):
    """HAProxy before the port `to`; the address to connect to. `how`: the word for the version of the protocol."""
    configuration, log = context.work / "haproxy.cfg", context.work / "haproxy.log"
    listening = socket.create_server(("127.0.0.1", 0))
    # It takes over a socket that listens: so no other program can have the port meanwhile.
    configuration.write_text("defaults\n mode tcp\n timeout connect 5s\n timeout client 30s\n timeout server 30s\n"
                             f"listen mail\n bind fd@{listening.fileno()}\n server one 127.0.0.1:{to} {how}\n")
    with open(log, "wb") as output:
        process = subprocess.Popen(["haproxy", "-db", "-f", configuration], stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT, pass_fds=[listening.fileno()])
        try:
            yield listening.getsockname()
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(20)
            listening.close()


def by(how):
    @check(f"haproxy: {how}, and the client is known", "imap", "smtp", program="haproxy", sealpost_only=True)
    def balanced(context):
        with second(context, ("smtp",), 'trusted_proxies = ["127.0.0.1"]') as behind:
            subject = context.fresh("balanced")
            with haproxy(context, behind.port("smtp"), how) as address, Lines(address, (CLIENT, 0)) as smtp:
                smtp.expect(220)
                smtp.command("EHLO balanced.interop.example", 250)
                smtp.command("MAIL FROM:<sender@interop.example>", 250)
                smtp.command(f"RCPT TO:<{BOB}>", 250)
                smtp.command("DATA", 354)
                smtp.data(message(subject))
            session = context.imap(BOB)
            ok(session.select("INBOX", readonly=True))
            header = body(session, search(session, "SUBJECT", subject)[0], "BODY.PEEK[HEADER.FIELDS (RECEIVED)]")
            session.logout()
            ensure(re.search(rb"from balanced\.interop\.example \([^)]*\[127\.0\.0\.2\]", header), header)


by("send-proxy")
by("send-proxy-v2")


@check("a balancer that does not say whose connections it makes is sent away", "smtp", sealpost_only=True)
def unsaid(context):
    with second(context, ("smtp",), 'trusted_proxies = ["127.0.0.1"]') as behind, behind.lines("smtp") as smtp:
        smtp.send("EHLO balanced.interop.example\r\n")
        # Its line may be unread when the connection ends: then it is reset.
        with contextlib.suppress(ConnectionResetError):
            ensure(smtp.file.read() == b"", "nothing is said to it")
