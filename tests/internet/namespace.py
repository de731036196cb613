"""A network of our own: the program starts itself again where no interface but the loopback exists."""

import os
import shutil
import subprocess
import sys


def enter(doc, programs, addresses):
    """Needs root. Returns inside a network and mount namespace in which the addresses are those of this machine."""
    missing = [program for program in programs if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin")]
    if os.geteuid() != 0 or missing:
        sys.exit(f"{doc}\nNeeds root{', and ' + ', '.join(missing) if missing else ''}.")
    if os.environ.get("INTERNET_IN_A_BOX") != "1":
        os.environ["INTERNET_IN_A_BOX"] = "1"
        os.environ["PATH"] += ":/usr/sbin:/sbin"
        os.execvp("unshare", ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", sys.executable, *sys.argv])
    for address in addresses:
        subprocess.run(["ip", "address", "add", f"{address}/24", "dev", "lo"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
