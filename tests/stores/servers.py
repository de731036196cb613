"""`sealpost serve` over a store, as a process that is started, killed and asked."""

import imaplib
import json
import os
import re
import signal
import smtplib
import subprocess
import urllib.request

import network
import wire

ACCOUNT, PASSWORD = "ada@localhost", "correct horse battery"


class Server:
    """`sealpost serve` over a store, on `place` (see network.py); `endpoint` is the store's, if not the backend's own, and `lines`
    are more of the configuration."""

    def __init__(self, sealpost, work, backend, place=network.HERE, endpoint=None, lines=()):
        self.sealpost, self.work, self.backend, self.place = sealpost, work, backend, place
        work.mkdir(exist_ok=True)
        self.log = work / "server.log"
        self.config = work / "sealpost.toml"
        endpoint = endpoint or backend.endpoint
        text = ['hostname = "localhost"', "[listen]", "smtp = []", "imaps = []", 'imap = ["127.0.0.1:0"]',
                'lmtp = ["127.0.0.1:0"]', "[metrics]", 'listen = ["127.0.0.1:0"]', *lines, "[store]", f'url = "{backend.url}"', f'region = "{backend.region}"', 'timeout = "5s"',
                'cache = "64MiB"']
        if endpoint:
            text.append(f'endpoint = "{endpoint}"')
        self.config.write_text("\n".join(text) + "\n")
        (work / "password").write_text(PASSWORD)
        self.environment = {**os.environ, **backend.environment}
        self.running, self.user = None, ACCOUNT

    def command(self, *arguments):
        command = [self.sealpost, *arguments, "--config", self.config, "--dir", self.work / "data"]
        return [str(part) for part in [*self.place.prefix, *command]]

    def run(self, *arguments, **options):
        return subprocess.run(self.command(*arguments), capture_output=True, text=True, timeout=300,
                              env=self.environment, **options)

    def start(self):
        with open(self.log, "ab") as log:
            self.running = subprocess.Popen(self.command("serve", "--json"), stdout=subprocess.PIPE, stderr=log,
                                            env=self.environment)
        line = self.running.stdout.readline()
        if not line:
            raise RuntimeError(f"the server did not start: {self.log.read_text()[-1500:]}")
        self.ready = json.loads(line)

    def kill(self):
        if self.running:
            self.running.kill()
            self.running.wait()
            self.running = None

    def signal(self, number):
        self.running.send_signal(number)

    def address(self, service):
        [endpoint] = self.ready[service]
        return endpoint["host"], endpoint["port"]

    def requests(self):
        """What was asked of the store since the server was started."""
        host, port = self.address("metrics")
        with self.place.inside(), urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=30) as page:
            text = page.read().decode()
        return int(re.search(r"^sealpost_store_requests_total (\d+)", text, re.M).group(1))

    def lmtp(self, timeout=120):
        with self.place.inside():
            return smtplib.LMTP(*self.address("lmtp"), timeout=timeout)

    def imap(self):
        with self.place.inside():
            session = imaplib.IMAP4(*self.address("imap"), timeout=120)
        session.login(ACCOUNT, PASSWORD)
        return session

    def wire(self, timeout=120):
        with self.place.inside():
            return wire.Imap(self.address("imap"), self.user, PASSWORD, timeout)
