"""Stores that are started for a check and stopped after it. Each listens on 127.0.0.1 alone, or on machines of a network of its own
(network.py)."""

import base64
import email.utils
import hmac
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import network

BIN = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "sealpost" / "stores" / "bin"
BUCKET = "mail-test"


class Missing(Exception):
    """What cannot be had here, in words for whoever wants it."""


def program(path, name):
    """Where a store's program is."""
    if not path.exists():
        raise Missing(f"{name} is not installed: there is no {path}; tests/stores/install.sh builds it")
    return path



def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(condition, what, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {seconds} s")
        time.sleep(0.1)


def listens(port, host="127.0.0.1"):
    try:
        socket.create_connection((host, port), timeout=1).close()
        return True
    except OSError:
        return False


class Process:
    """A program that can be killed and started again."""

    def __init__(self, command, log, port, environment=None, place=network.HERE):
        self.command, self.log, self.port = [str(part) for part in [*place.prefix, *command]], log, port
        self.host = place.address
        self.environment = {**os.environ, **(environment or {})}
        self.running = None

    def start(self):
        with open(self.log, "ab") as log:
            self.running = subprocess.Popen(self.command, stdout=log, stderr=log, env=self.environment)
        wait_for(lambda: self.running.poll() is not None or listens(self.port, self.host),
                 self.command[0])
        if self.running.poll() is not None:
            raise RuntimeError(f"{self.command[0]} ended: {Path(self.log).read_text()[-700:]}")

    def stop(self, how=signal.SIGTERM):
        if self.running:
            self.running.send_signal(how)
            try:
                self.running.wait(20)
            except subprocess.TimeoutExpired:
                self.running.kill()
                self.running.wait()
            self.running = None


class Local:
    """The local store: nothing to start."""

    name, endpoint, conditional = "local", None, "kept"

    def __init__(self, work):
        self.url, self.environment, self.region = f"file://{work}/objects", {}, "none"

    def start(self):
        pass

    stop = kill = start


class Versity:
    """Versity S3 Gateway over a directory."""

    name, region, conditional = "versity", "us-east-1", None

    def __init__(self, work):
        versity = program(BIN / "versitygw", "Versity S3 Gateway")
        port = free_port()
        root = work / "versity"
        (root / BUCKET).mkdir(parents=True)
        secret = secrets.token_hex(16)
        self.environment = {"AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": secret}
        self.url, self.endpoint = f"s3://{BUCKET}/p", f"http://127.0.0.1:{port}"
        command = [versity, "--access", "tester", "--secret", secret, "--port", f"127.0.0.1:{port}",
                   "--region", self.region, "posix", "--sidecar", work / "sidecar", root]
        (work / "sidecar").mkdir()
        self.process = Process(command, work / "versity.log", port)

    def start(self):
        self.process.start()

    def stop(self):
        self.process.stop()

    def kill(self):
        self.process.stop(signal.SIGKILL)


class Azurite:
    """Azurite, which stands in for Azure Blob Storage. It writes down what it was told every few seconds only, so it is not killed."""

    name, region, conditional, durable = "azurite", "none", "kept", False
    ACCOUNT = "devstoreaccount1"

    def __init__(self, work):
        azurite = program(BIN.parent / "azurite" / "node_modules" / ".bin" / "azurite-blob", "Azurite")
        port = free_port()
        self.key = base64.b64encode(secrets.token_bytes(64)).decode()
        self.environment = {"AZURE_STORAGE_ACCOUNT_NAME": self.ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": self.key}
        self.url, self.endpoint = f"az://{BUCKET}/p", f"http://127.0.0.1:{port}"
        command = [azurite, "--blobHost", "127.0.0.1", "--blobPort", port, "--location", work / "azurite", "--silent",
                   "--disableTelemetry", "--skipApiVersionCheck"]
        own = {"AZURITE_ACCOUNTS": f"{self.ACCOUNT}:{self.key}"}
        self.process = Process(command, work / "azurite.log", port, own)

    def start(self):
        self.process.start()
        # Shared Key authorization: https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key
        date = email.utils.formatdate(usegmt=True)
        path = f"/{self.ACCOUNT}/{BUCKET}"
        headers = f"x-ms-date:{date}\nx-ms-version:2021-08-06"
        text = "PUT" + "\n" * 12 + f"{headers}\n/{self.ACCOUNT}{path}\nrestype:container"
        digest = hmac.digest(base64.b64decode(self.key), text.encode(), "sha256")
        request = urllib.request.Request(
            f"{self.endpoint}{path}?restype=container", method="PUT",
            headers={"x-ms-date": date, "x-ms-version": "2021-08-06",
                     "Authorization": f"SharedKey {self.ACCOUNT}:{base64.b64encode(digest).decode()}"})
        urllib.request.urlopen(request, timeout=30).close()

    def stop(self):
        self.process.stop()

    kill = stop


class FakeGcs:
    """fake-gcs-server, which stands in for Google Cloud Storage: the fork that knows the protocol which is spoken here
    (github.com/tustvold/fake-gcs-server, branch support-xml-api; install.sh does not build it). It keeps everything in memory and takes
    no uploads in parts."""

    name, region, conditional, durable, parts = "fake-gcs-server", "none", None, False, False

    def __init__(self, work):
        fake = BIN / "fake-gcs-xml"
        if not fake.exists():
            raise Missing(f"fake-gcs-server is not installed: there is no {fake}, and nothing here builds it (see backends.py)")
        port = free_port()
        here = f"http://127.0.0.1:{port}"
        key = work / "gcs.json"
        key.write_text(json.dumps({"gcs_base_url": here, "disable_oauth": True, "client_email": "", "private_key": "",
                                   "private_key_id": ""}))
        self.environment = {"GOOGLE_APPLICATION_CREDENTIALS": str(key)}
        # Its address is in the key.
        self.url, self.endpoint, self.here = f"gs://{BUCKET}/p", None, here
        command = [fake, "-scheme", "http", "-host", "127.0.0.1", "-port", port, "-backend", "memory",
                   "-public-host", f"127.0.0.1:{port}", "-external-url", here, "-log-level", "warn"]
        self.process = Process(command, work / "gcs.log", port)

    def start(self):
        self.process.start()
        request = urllib.request.Request(f"{self.here}/storage/v1/b?project=test", method="POST",
                                         data=json.dumps({"name": BUCKET}).encode(), headers={"Content-Type": "application/json"})
        urllib.request.urlopen(request, timeout=30).close()

    def stop(self):
        self.process.stop()

    kill = stop


class Garage:
    """Garage: one node, or three that keep three copies; here, or each on a machine of its own."""

    region, conditional = "garage", "ignored"

    def __init__(self, work, nodes=1, places=None):
        garage = program(BIN / "garage", "Garage")
        self.name = "garage" if nodes == 1 else f"garage-{nodes}-nodes"
        rpc_secret = secrets.token_hex(32)
        self.configs, self.processes, self.rpc, self.ids = [], [], [], []
        for place in places or [network.HERE] * nodes:
            node = len(self.processes)
            home = work / f"garage{node}"
            home.mkdir()
            rpc, s3, admin = free_port(), free_port(), free_port()
            host = place.address
            config = home / "garage.toml"
            config.write_text(f"""
metadata_dir = "{home}/meta"
data_dir = "{home}/data"
db_engine = "sqlite"
replication_factor = {nodes}
rpc_bind_addr = "{host}:{rpc}"
rpc_public_addr = "{host}:{rpc}"
rpc_secret = "{rpc_secret}"
[s3_api]
s3_region = "{self.region}"
api_bind_addr = "{host}:{s3}"
[admin]
api_bind_addr = "{host}:{admin}"
admin_token = "{secrets.token_hex(16)}"
""")
            self.configs.append(config)
            self.rpc.append(f"{host}:{rpc}")
            command = [garage, "-c", config, "server"]
            self.processes.append(Process(command, home / "log", s3, place=place))
        self.url = f"s3://{BUCKET}/p"
        self.endpoints = [f"http://{process.host}:{process.port}" for process in self.processes]
        self.endpoint, self.environment = self.endpoints[0], None

    def garage(self, *arguments, node=0):
        command = [BIN / "garage", "-c", self.configs[node], *arguments]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=60)
        if done.returncode:
            raise RuntimeError(f"garage {arguments}: {done.stdout[-300:]} {done.stderr[-700:]}")
        return done.stdout

    def start(self):
        for process in self.processes:
            process.start()
        if self.environment:
            self.meet()
            return
        for node in range(len(self.processes)):
            found = re.search(r"^[0-9a-f]{64}", self.garage("node", "id", "-q", node=node), re.M)
            self.ids.append(found.group())
        for node in range(1, len(self.ids)):
            self.connect(node)
        for node in self.ids:
            self.garage("layout", "assign", "-z", "zone", "-c", "1G", node)
        self.garage("layout", "apply", "--version", "1")
        self.meet()
        self.garage("bucket", "create", BUCKET)
        key = self.garage("key", "create", "tester")
        self.garage("bucket", "allow", "--read", "--write", "--owner", BUCKET, "--key", "tester")
        self.environment = {"AWS_ACCESS_KEY_ID": re.search(r"Key ID:\s*(\S+)", key).group(1),
                            "AWS_SECRET_ACCESS_KEY": re.search(r"Secret key:\s*(\S+)", key).group(1)}

    def connect(self, node):
        self.garage("node", "connect", f"{self.ids[node]}@{self.rpc[node]}")

    def meet(self):
        """Waits until the nodes know each other. They look for each other once a minute only, so they are told again."""
        def healthy():
            for node in range(1, len(self.ids)):
                try:
                    self.connect(node)
                except RuntimeError:
                    return False
            return self.is_healthy()
        wait_for(healthy, "Garage's nodes")

    def is_healthy(self):
        try:
            # Those that failed are listed behind the healthy ones.
            healthy = self.garage("status").split("FAILED")[0]
            return sum(id_[:16] in healthy for id_ in self.ids) == len(self.ids)
        except RuntimeError:
            return False

    def stop(self):
        for process in self.processes:
            process.stop()

    def kill(self):
        for process in self.processes:
            process.stop(signal.SIGKILL)

    def kill_one(self):
        """The last node: not the one that is spoken to."""
        self.processes[-1].stop(signal.SIGKILL)

    def revive_one(self):
        self.processes[-1].start()
        self.meet()


class Machines(Garage):
    """Three nodes of Garage on a machine each, and two more machines for servers: links between them can be cut."""

    def __init__(self, work):
        why = network.allowed()
        if why:
            raise Missing(f"machines of their own need network namespaces, which cannot be had: {why}")
        self.network = network.Network()
        try:
            self.machines = [self.network.machine() for _ in range(3)]
            self.servers = [self.network.machine() for _ in range(2)]
            super().__init__(work, nodes=3, places=self.machines)
        except BaseException:
            self.network.remove()
            raise
        self.name = "garage-3-machines"

    def stop(self):
        super().stop()
        self.network.remove()


def all_of(work):
    """Each that can be had here, as a function that makes it in a directory of its own."""
    return {
        "local": Local,
        "versity": Versity,
        "azurite": Azurite,
        "fake-gcs-server": FakeGcs,
        "garage": Garage,
        "garage-3-nodes": lambda work: Garage(work, nodes=3),
        "garage-3-machines": Machines,
    }


def remove(work):
    shutil.rmtree(work, ignore_errors=True)
