"""A network of our own: the program starts itself again where no interface but the loopback exists."""

import os
import shutil
import subprocess
import sys


def enter(doc, programs, addresses):
    """Needs root. Returns inside a network and mount namespace in which the addresses are those of this machine.

    What is written to /etc and /run stays in it. Debian lets only one of the mail servers be installed: packages unpacked by
    `dpkg -x` below the directory $PROGRAMS are put where they belong, in that namespace alone.
    """
    unpacked = os.environ.get("PROGRAMS")
    if unpacked:
        programs = [program for program in programs if not os.path.exists(f"{unpacked}/usr/sbin/{program}")]
    missing = [program for program in programs if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin")]
    if os.geteuid() != 0 or missing:
        sys.exit(f"{doc}\nNeeds root{', and ' + ', '.join(missing) if missing else ''}.")
    if os.environ.get("INTERNET_IN_A_BOX") != "1":
        os.environ["INTERNET_IN_A_BOX"] = "1"
        os.environ["PATH"] += ":/usr/sbin:/sbin"
        os.execvp("unshare", ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", sys.executable, *sys.argv])
    if unpacked:
        mount("-t", "overlay", "overlay", "-o", f"lowerdir={unpacked}/usr:/usr", "/usr")
    mount("-t", "tmpfs", "tmpfs", "/run")
    for folder in ("/run/etc", "/run/work"):
        os.mkdir(folder)
    mount("-t", "overlay", "overlay", "-o", "lowerdir=/etc,upperdir=/run/etc,workdir=/run/work", "/etc")
    for address in addresses:
        subprocess.run(["ip", "address", "add", f"{address}/24", "dev", "lo"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def mount(*arguments):
    subprocess.run(["mount", *arguments], check=True)
