//! Dovecot 2.3 with a configuration of its own, durable like Sealpost (`mail_fsync = always`), on free ports.
//!
//! Everything it writes is below the given directory; the system's own Dovecot is not touched.
//! Under root it uses Debian's accounts for it, otherwise the user who runs it.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use sealpost_bench::server::{Endpoint, PASSWORD, Ready, Start};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// Sessions at once, a process each: two for each of a thousand desktop clients, and some more.
/// Dovecot's default is 1,024.
const SESSIONS: u32 = 4096;

/// Concurrent logins, a process each. Dovecot's default is 100.
const LOGINS: u32 = 1024;
/// Clients of its inner services (logins ask `auth`, and are counted by `anvil`). Dovecot's default
/// is 1,000.
const CLIENTS: u32 = 10_000;

/// Dovecot as installed on this machine.
#[derive(Debug, Clone)]
pub struct Dovecot {
    /// Its storage format: `maildir`, `sdbox` or `mdbox`.
    pub format: String,
    /// Whether to serve TLS too, with a certificate made by `openssl`.
    pub tls: bool,
}

impl Default for Dovecot {
    fn default() -> Self {
        Dovecot { format: "maildir".into(), tls: false }
    }
}

impl Start for Dovecot {
    fn name(&self) -> &'static str {
        "Dovecot"
    }

    fn version(&self) -> String {
        let output = std::process::Command::new("dovecot").arg("--version").output();
        let version =
            output.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned()).unwrap_or_default();
        format!("Dovecot {version}, {}", self.format)
    }

    fn command(&self, dir: &Path, accounts: &[String]) -> Result<Command> {
        for sub in ["run", "state", "mail"] {
            fs::create_dir_all(dir.join(sub))?;
        }
        let root = run("id", &["-u"])? == "0";
        let me = run("id", &["-un"])?;
        let group = run("id", &["-gn"])?;
        let (internal, login, mail_user, mail_group) =
            if root { ("dovecot", "dovenull", "mail", "mail") } else { (&*me, &*me, &*me, &*group) };
        let hash = run("doveadm", &["-c", "/dev/null", "pw", "-s", "SHA512-CRYPT", "-p", PASSWORD])
            .or_else(|_| run("doveadm", &["pw", "-s", "SHA512-CRYPT", "-p", PASSWORD]))?;
        let users: String = accounts.iter().map(|account| format!("{account}:{hash}\n")).collect();
        fs::write(dir.join("users"), users)?;
        let tls = if self.tls { certificate(dir)? } else { "ssl = no".into() };
        let ports = free_ports(3)?;
        let d = dir.display();
        let format = &self.format;
        let (imap, imaps, lmtp) = (ports[0], if self.tls { ports[1] } else { 0 }, ports[2]);
        let config = format!(
            "base_dir = {d}/run\nstate_dir = {d}/state\nlog_path = {d}/dovecot.log\nprotocols = imap lmtp\n\
             listen = 127.0.0.1\n{tls}\nmail_fsync = always\nmail_location = {format}:~/{format}\n\
             disable_plaintext_auth = no\nmail_max_userip_connections = 0\nrecipient_delimiter = +\n\
             hostname = localhost\npostmaster_address = postmaster@localhost\nlda_mailbox_autocreate = yes\n\
             default_internal_user = {internal}\ndefault_internal_group = {internal_group}\n\
             default_login_user = {login}\nfirst_valid_uid = 1\n\
             passdb {{\n  driver = passwd-file\n  args = scheme=SHA512-CRYPT username_format=%u {d}/users\n}}\n\
             userdb {{\n  driver = static\n  args = uid={mail_user} gid={mail_group} home={d}/mail/%u\n}}\n\
             namespace inbox {{\n  inbox = yes\n  separator = /\n{specials}}}\n\
             service imap-login {{\n{chroot}  process_limit = {LOGINS}\n  inet_listener imap {{\n    port = {imap}\n  }}\n  \
             inet_listener imaps {{\n    port = {imaps}\n    ssl = yes\n  }}\n}}\n\
             default_client_limit = {CLIENTS}\nservice anvil {{\n{chroot}}}\n\
             service imap {{\n  process_limit = {SESSIONS}\n}}\n\
             service lmtp {{\n  inet_listener lmtp {{\n    port = {lmtp}\n  }}\n}}\n",
            specials = ["Drafts", "Sent", "Junk", "Trash", "Archive"]
                .map(|name| format!(
                    "  mailbox {name} {{\n    auto = create\n    special_use = \\{name}\n  }}\n"
                ))
                .concat(),
            internal_group = if root { internal } else { &group },
            chroot = if root { "" } else { "  chroot =\n" },
        );
        fs::write(dir.join("dovecot.conf"), config)?;
        if root {
            // Debian's temporary directories are closed to other users; the mail user must reach
            // its own.
            run("chmod", &["755", &d.to_string()])?;
            run("chown", &["-R", &format!("{mail_user}:{mail_group}"), &format!("{d}/mail")])?;
            run("chmod", &["644", &format!("{d}/users")])?;
        }
        let ready = Ready {
            dir: dir.to_owned(),
            pid: 0,
            account: accounts.first().cloned().unwrap_or_default(),
            password: PASSWORD.into(),
            imap: local(imap),
            imaps: self.tls.then(|| local(imaps)),
            smtp: None,
            submission: None,
            submissions: None,
            lmtp: local(lmtp),
            http: None,
        };
        fs::write(dir.join("ready.json"), serde_json::to_vec(&ready)?)?;
        let mut command = Command::new("dovecot");
        command.arg("-F").arg("-c").arg(dir.join("dovecot.conf"));
        Ok(command)
    }

    async fn ready(&self, child: &mut Child, dir: &Path) -> Result<Ready> {
        let mut ready: Ready = serde_json::from_slice(&fs::read(dir.join("ready.json"))?)?;
        ready.pid = child.id().context("dovecot has ended")?;
        for port in [ready.imap.port, ready.lmtp.port] {
            while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
                if let Some(status) = child.try_wait()? {
                    let log = fs::read_to_string(dir.join("dovecot.log")).unwrap_or_default();
                    anyhow::bail!("dovecot ended: {status}\n{log}");
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        Ok(ready)
    }

    /// A Maildir becomes one of its mailboxes once it is beside them.
    fn import(&self, dir: &Path, account: &str, mailbox: &str, maildir: &Path) -> Result<()> {
        ensure!(self.format == "maildir", "a Maildir can be put into Maildir only, not into {}", self.format);
        let home = dir.join("mail").join(account);
        let to = home.join("maildir").join(format!(".{mailbox}"));
        fs::create_dir_all(to.parent().unwrap_or(&home))?;
        // The arrival time of a message is its file's modification time.
        run(
            "cp",
            &["-r", "--preserve=timestamps", &maildir.display().to_string(), &to.display().to_string()],
        )?;
        if run("id", &["-u"])? == "0" {
            run("chown", &["-R", "mail:mail", &home.display().to_string()])?;
        }
        Ok(())
    }
}

fn local(port: u16) -> Endpoint {
    Endpoint { host: "127.0.0.1".into(), port }
}

/// Ports that were just free. All are held open together, so that they differ.
fn free_ports(count: usize) -> Result<Vec<u16>> {
    let listeners: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<_, _>>()?;
    listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}

fn certificate(dir: &Path) -> Result<String> {
    let (key, cert) = (dir.join("key.pem").display().to_string(), dir.join("cert.pem").display().to_string());
    if !dir.join("cert.pem").exists() {
        let mut args =
            vec!["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=localhost"];
        args.extend(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", &key, "-out", &cert]);
        run("openssl", &args)?;
    }
    Ok(format!("ssl = yes\nssl_cert = <{cert}\nssl_key = <{key}"))
}

fn run(program: &str, args: &[&str]) -> Result<String> {
    let output =
        std::process::Command::new(program).args(args).output().with_context(|| program.to_owned())?;
    ensure!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
