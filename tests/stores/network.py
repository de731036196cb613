"""Machines on one machine: network namespaces behind a bridge, whose links can be cut. For root on Linux; [`allowed`] says whether
it can be done here.

Clients reach what runs on a machine by its own loopback, which is never cut: only what is between the machines is."""

import contextlib
import ctypes
import os
import shutil
import subprocess
import threading

#: Of the private addresses one that hardly anybody uses.
NETWORK = "10.213.77"
CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)


class Here:
    """The machine that this runs on."""

    address, prefix = "127.0.0.1", []

    @contextlib.contextmanager
    def inside(self):
        yield


HERE = Here()


def ip(*arguments):
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=30)
    if done.returncode:
        raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


class Machine:
    """A namespace with an address of its own."""

    def __init__(self, network, number):
        self.name, self.link = f"{network.name}-{number}", f"{network.name}v{number}"
        self.address = f"{NETWORK}.{number + 10}"
        ip("netns", "add", self.name)
        ip("link", "add", self.link, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        ip("link", "set", self.link, "master", network.name, "up")
        for arguments in [["link", "set", "lo", "up"], ["addr", "add", f"{self.address}/24", "dev", "eth0"],
                          ["link", "set", "eth0", "up"]]:
            ip("-n", self.name, *arguments)
        self.prefix = ["ip", "netns", "exec", self.name]

    @contextlib.contextmanager
    def inside(self):
        """What is connected meanwhile by this thread is connected from there."""
        with open(f"/proc/self/task/{threading.get_native_id()}/ns/net", "rb") as back:
            with open(f"/run/netns/{self.name}", "rb") as there:
                enter(there)
            try:
                yield
            finally:
                enter(back)

    def cut(self):
        """Nothing comes or goes; nobody is told."""
        ip("link", "set", self.link, "down")

    def mend(self):
        ip("link", "set", self.link, "up")


def enter(namespace):
    if LIBC.setns(namespace.fileno(), CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


class Network:
    """Machines that reach each other, and this one."""

    def __init__(self):
        self.name, self.machines = f"sp{os.getpid() % 100_000}", []
        ip("link", "add", self.name, "type", "bridge")
        ip("addr", "add", f"{NETWORK}.1/24", "dev", self.name)
        ip("link", "set", self.name, "up")

    def machine(self):
        self.machines.append(Machine(self, len(self.machines)))
        return self.machines[-1]

    def remove(self):
        for machine in self.machines:
            subprocess.run(["ip", "netns", "del", machine.name], capture_output=True)
        subprocess.run(["ip", "link", "del", self.name], capture_output=True)


def allowed():
    """Why machines cannot be made here; `None` if they can."""
    if not shutil.which("ip"):
        return "there is no `ip`"
    try:
        network = Network()
    except OSError as error:
        return str(error)
    try:
        with network.machine().inside():
            return None
    except OSError as error:
        return str(error)
    finally:
        network.remove()
