"""The name servers of the internet in a box: a root, a top-level domain and the domains below it, signed, served by NSD."""

import pathlib
import shutil
import subprocess

# Nothing leaves the network namespace, so these may be any public addresses: Sealpost sends mail to no private ones.
ROOT, TLD, HOSTED, RESOLVER, WEB = (f"44.128.0.{n}" for n in (1, 2, 3, 4, 5))
ADDRESSES = {
    "home": "44.128.0.10", "postfix": "44.128.0.20", "exim": "44.128.0.30", "opensmtpd": "44.128.0.40",
    "silent": "44.128.0.60",
}
# Served without signatures, as most domains are.
UNSIGNED = ("opensmtpd.box",)

NSD = """server:
    ip-address: {address}
    zonesdir: "{top}"
    zonelistfile: "{top}/{name}.list"
    database: ""
    pidfile: "{top}/{name}.pid"
    logfile: "{top}/{name}.log"
    xfrdfile: "{top}/{name}.xfrd"
    xfrdir: "{top}"
    username: ""
    hide-version: yes
    server-count: 1
remote-control:
    control-enable: no
"""

UNBOUND = """server:
    interface: {address}
    access-control: 0.0.0.0/0 allow
    root-hints: "{top}/hints"
    trust-anchor-file: "{top}/anchor"
    username: ""
    chroot: ""
    directory: "{top}"
    pidfile: "{top}/unbound.pid"
    logfile: "{top}/unbound.log"
    use-syslog: no
    do-ip6: no
    num-threads: 1
    minimal-responses: no
remote-control:
    control-enable: no
"""


class Zones:
    """Zone files in the directory `top`, and who serves them."""

    def __init__(self, top):
        self.top = pathlib.Path(top)
        self.processes = []
        self.zones = {}
        # Signed by other keys than their parent names, and long ago.
        self.forged, self.expired = set(), set()

    def zone(self, name, lines, server):
        """A zone's records, one a line, with names relative to it."""
        self.zones[name] = (lines, server)

    def start(self):
        """Signs the zones from the bottom up, and serves them. Returns the root's DNSKEY in the form of zone files."""
        signers = {}
        for name in sorted(self.zones, key=lambda name: (name != ".", name.count(".")), reverse=True):
            signers[name] = self.write(name)
        for name, address in (("root", ROOT), ("tld", TLD), ("hosted", HOSTED)):
            self.serve(name, address, [zone for zone, (_, server) in self.zones.items() if server == address])
        anchor = (self.top / f"{signers['.']}.key").read_text()
        (self.top / "anchor").write_text(anchor)
        (self.top / "hints").write_text(f". 3600 IN NS ns.root.\nns.root. 3600 IN A {ROOT}\n")
        config = self.top / "unbound.conf"
        config.write_text(UNBOUND.format(address=RESOLVER, top=self.top))
        self.processes.append(subprocess.Popen([shutil.which("unbound") or "/usr/sbin/unbound", "-d", "-c", config]))
        return anchor

    def write(self, name):
        lines, _ = self.zones[name]
        origin = name if name == "." else f"{name}."
        file = self.top / f"zone-{name.strip('.') or 'root'}"
        for child in self.zones:
            # What the parent says of the keys of its children.
            parent = child.partition(".")[2] or "."
            if parent == name and child not in (".", name) and child not in UNSIGNED:
                lines = lines + [(self.top / f"ds-{child}").read_text().strip()]
        head = [f"$ORIGIN {origin}", "$TTL 300", f"@ SOA ns.{origin.lstrip('.')} admin.{origin.lstrip('.')} 1 3600 600 86400 60"]
        file.write_text("\n".join(head + lines) + "\n")
        if name in UNSIGNED:
            file.rename(f"{file}.signed")
            return None
        keys = [self.run("ldns-keygen", *options, "-a", "ECDSAP256SHA256", name).strip() for options in (("-k",), ())]
        past = ("-i", "20200101000000", "-e", "20200201000000") if name in self.expired else ()
        self.run("ldns-signzone", "-n", *past, "-f", f"{file}.signed", file, *keys)
        if name != ".":
            if name in self.forged:
                keys[0] = self.run("ldns-keygen", "-k", "-a", "ECDSAP256SHA256", name).strip()
            ds = self.run("ldns-key2ds", "-n", "-2", f"{keys[0]}.key")
            (self.top / f"ds-{name}").write_text(ds)
        return keys[0]

    def serve(self, name, address, zones):
        config = NSD.format(address=address, top=self.top, name=name)
        for zone in zones:
            config += f'zone:\n    name: "{zone}"\n    zonefile: "zone-{zone.strip(".") or "root"}.signed"\n'
        file = self.top / f"{name}.conf"
        file.write_text(config)
        self.processes.append(subprocess.Popen([shutil.which("nsd") or "/usr/sbin/nsd", "-d", "-c", file]))

    def run(self, *command):
        done = subprocess.run(command, cwd=self.top, check=True, stdout=subprocess.PIPE)
        return done.stdout.decode()

    def stop(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(timeout=20)


def internet(top, records, lame=()):
    """The zones of the box. `records`: those of each domain. `lame`: domains whose name server does not answer."""
    zones = Zones(top)
    zones.zone(".", ["@ NS ns.root.", f"ns.root. A {ROOT}", "box. NS ns.box.", f"ns.box. A {TLD}"], ROOT)
    domains = sorted(records)
    delegations = [line for name in domains for line in (f"{name} NS ns.{name}", f"ns.{name} A {HOSTED}")]
    delegations += [line for name in lame for line in (f"{name} NS ns.{name}", f"ns.{name} A {WEB}")]
    zones.zone("box", ["@ NS ns", f"ns A {TLD}", *delegations], TLD)
    for name in domains:
        zones.zone(f"{name}.box", ["@ NS ns", f"ns A {HOSTED}", *records[name]], HOSTED)
    return zones
