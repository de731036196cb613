"""Mail servers of others, each with its address, its domain, a certificate and one Maildir for all its users."""

import hashlib
import http.server
import mailbox
import os
import pathlib
import pwd
import shutil
import smtplib
import socket
import ssl
import subprocess
import threading
import time


class Authority:
    """Makes certificates."""

    def __init__(self, top):
        self.top = pathlib.Path(top) / "certificates"
        self.top.mkdir()
        self.ca = self.top / "ca.pem"
        run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "9", "-subj", "/CN=Box", "-keyout", self.top / "ca.key",
            "-out", self.ca)

    def certificate(self, host):
        """The files of certificate and key for `host`."""
        key, request, certificate, names = (self.top / f"{host}.{end}" for end in ("key", "csr", "pem", "ext"))
        names.write_text(f"subjectAltName=DNS:{host}\n")
        run("openssl", "req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={host}", "-keyout", key, "-out", request)
        run("openssl", "x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.top / "ca.key", "-CAcreateserial", "-days", "9",
            "-extfile", names, "-out", certificate)
        key.chmod(0o600)
        return certificate, key

    def tlsa(self, host):
        """The data of a TLSA record for the key of `host` (DANE-EE, RFC 7671)."""
        public = run("openssl", "x509", "-in", self.top / f"{host}.pem", "-noout", "-pubkey")
        der = run("openssl", "pkey", "-pubin", "-outform", "DER", input=public)
        return f"3 1 1 {hashlib.sha256(der).hexdigest()}"


class Server:
    """A mail server at `address` for `name`.box."""

    def __init__(self, top, name, address, authority):
        self.name, self.address, self.host, self.domain = name, address, f"mx.{name}.box", f"{name}.box"
        self.top = pathlib.Path(top) / name
        self.inbox = self.top / "mail" / "inbox"
        self.certificate, self.key = authority.certificate(self.host)
        (self.top / "mail").mkdir(parents=True)
        self.top.chmod(0o755)

    def messages(self):
        """What has arrived, as it was stored."""
        found = mailbox.Maildir(self.inbox, create=False) if (self.inbox / "new").exists() else {}
        return [found.get_bytes(key) for key in found.keys()]

    def wait_for(self, text, seconds=60):
        """The message that holds `text`."""
        for _ in range(seconds * 10):
            for message in self.messages():
                if text in message:
                    return message
            time.sleep(0.1)
        raise AssertionError(f"{self.name}: no message with {text!r} came; its log ends with:\n{self.log()[-2000:]}")

    def submit(self, sender, recipient, message):
        """Hands in a message that the server is to send on, as one of its own users."""
        with smtplib.SMTP(self.address, 25, source_address=(self.address, 0), timeout=60) as client:
            client.sendmail(sender, [recipient], message)

    def values(self):
        return {"top": self.top, "address": self.address, "host": self.host, "domain": self.domain, "certificate": self.certificate,
                "key": self.key, "inbox": self.inbox}

    def chown(self, user, *folders):
        entry = pwd.getpwnam(user)
        for folder in folders:
            os.chown(folder, entry.pw_uid, entry.pw_gid)

    def log(self):
        return "".join(file.read_text(errors="replace") for file in sorted((self.top / "log").glob("*")))


POSTFIX_MASTER = """
25 inet n - n - - smtpd
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
proxymap unix - - n - - proxymap
smtp unix - - n - - smtp
error unix - - n - - error
retry unix - - n - - error
discard unix - - n - - discard
virtual unix - n n - - virtual
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
"""

POSTFIX_MAIN = """
compatibility_level = 3.6
queue_directory = {top}/queue
data_directory = {top}/data
maillog_file = {top}/log/postfix.log
maillog_file_prefixes = {top}
myhostname = {host}
mydestination =
inet_interfaces = {address}
inet_protocols = ipv4
smtp_bind_address = {address}
mynetworks = {address}/32
virtual_mailbox_domains = {domain}
virtual_mailbox_base = {top}/mail
virtual_mailbox_maps = static:inbox/
virtual_uid_maps = static:{uid}
virtual_gid_maps = static:{gid}
virtual_minimum_uid = 1
smtpd_tls_security_level = may
smtpd_tls_cert_file = {certificate}
smtpd_tls_key_file = {key}
smtp_dns_support_level = dnssec
smtp_tls_security_level = dane
smtp_tls_loglevel = 1
"""


class Postfix(Server):
    """Verifies by DANE whom it sends to."""

    def start(self):
        for name in ("queue", "data", "log", "etc"):
            (self.top / name).mkdir()
        self.chown("postfix", self.top / "data", self.top / "mail")
        user = pwd.getpwnam("postfix")
        values = {**self.values(), "uid": user.pw_uid, "gid": user.pw_gid}
        (self.top / "etc" / "main.cf").write_text(POSTFIX_MAIN.format(**values))
        (self.top / "etc" / "master.cf").write_text(POSTFIX_MASTER)
        run("postfix", "-c", self.top / "etc", "start")

    def stop(self):
        run("postfix", "-c", self.top / "etc", "stop")


EXIM = """
primary_hostname = {host}
domainlist local_domains = {domain}
local_interfaces = {address}
daemon_smtp_ports = 25
spool_directory = {top}/spool
log_file_path = {top}/log/%slog
pid_file_path = {top}/exim.pid
exim_user = mail
exim_group = mail
tls_advertise_hosts = *
tls_certificate = {certificate}
tls_privatekey = {key}
dns_dnssec_ok = 1
acl_smtp_rcpt = rcpt
begin acl
rcpt:
  accept domains = +local_domains
  accept hosts = {address}
  deny message = relay not permitted
begin routers
local:
  driver = accept
  domains = +local_domains
  transport = inbox
out:
  driver = dnslookup
  dnssec_request_domains = *
  transport = remote
begin transports
inbox:
  driver = appendfile
  directory = {inbox}
  maildir_format
  user = mail
  group = mail
  return_path_add
remote:
  driver = smtp
  interface = {address}
  hosts_try_dane = *
begin retry
* * F,1h,5s
"""


class Exim(Server):
    """Its domain has an MTA-STS policy."""

    def start(self):
        add_users("Debian-exim")
        for name in ("spool", "log"):
            (self.top / name).mkdir()
        self.chown("mail", self.top / "spool", self.top / "log", self.top / "mail", self.certificate, self.key)
        config = pathlib.Path("/etc/exim4")
        config.mkdir(exist_ok=True)
        (config / "exim4.conf").write_text(EXIM.format(**self.values()))
        self.process = subprocess.Popen(["exim4", "-bdf", "-q10s"], stderr=subprocess.DEVNULL)

    def stop(self):
        self.process.terminate()


OPENSMTPD = """
pki {host} cert "{certificate}"
pki {host} key "{key}"
listen on {address} port 25 tls pki {host} hostname {host}
action "in" maildir "{inbox}" virtual {{ "@" = "mail" }}
action "out" relay helo {host} src {address}
match from any for domain "{domain}" action "in"
match from src {address} for any action "out"
"""


class OpenSmtpd(Server):
    """Its zone is not signed, so its certificate is not verified."""

    def start(self):
        (self.top / "log").mkdir()
        add_users("opensmtpd", "opensmtpq")
        self.chown("mail", self.top / "mail")
        for file in (self.certificate, self.key):
            shutil.copy(file, self.top)
        config = self.top / "smtpd.conf"
        values = {**self.values(), "certificate": self.top / self.certificate.name, "key": self.top / self.key.name}
        config.write_text(OPENSMTPD.format(**values))
        # Where it is built to look for these.
        for folder in ("/var/spool/smtpd", "/var/lib/opensmtpd/empty"):
            pathlib.Path(folder).mkdir(mode=0o711, parents=True, exist_ok=True)
        run("mount", "-t", "tmpfs", "-o", "mode=711", "tmpfs", "/var/spool/smtpd")
        log = open(self.top / "log" / "smtpd.log", "w", encoding="utf8")
        self.process = subprocess.Popen(["smtpd", "-d", "-v", "-f", config], stdout=log, stderr=log)

    def stop(self):
        self.process.terminate()


class Policy(http.server.BaseHTTPRequestHandler):
    """Serves MTA-STS policies: for each web host the text in `policies`."""

    policies = {}

    def do_GET(self):  # noqa: N802, the name is the library's
        text = self.policies.get(self.headers["Host"])
        if text is None or self.path != "/.well-known/mta-sts.txt":
            return self.send_error(404)
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())
        return None

    def log_message(self, *_):
        pass


def serve_policies(address, certificates, policies):
    """Serves policies over HTTPS; the certificate is chosen by the name that the client asks for."""
    Policy.policies = policies
    server = http.server.ThreadingHTTPServer((address, 443), Policy)
    contexts = {}
    for host, (certificate, key) in certificates.items():
        contexts[host] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        contexts[host].load_cert_chain(certificate, key)
    first = next(iter(contexts.values()))
    first.sni_callback = lambda connection, name, _: setattr(connection, "context", contexts.get(name, first))
    server.socket = first.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def wait_for_port(address, port, seconds=30):
    for _ in range(seconds * 10):
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex((address, port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError(f"nobody listens on {address}:{port}")


def run(*command, **options):
    """Runs a program to its end; what it wrote."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command[0]}: {done.stderr.decode(errors='replace')}{done.stdout.decode(errors='replace')}")
    return done.stdout


def add_users(*names):
    """Users that a server of Debian wants, where its package is not installed."""
    for name in names:
        if name not in (entry.pw_name for entry in pwd.getpwall()):
            run("useradd", "--system", "--no-create-home", "--badname", name)
