//! Which server is measured: one that runs, one that is started and thrown away, or none at all.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use rustix::process::Pid;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use sealpost_archive::client;
use sealpost_bench::load::target::Tls;
use sealpost_bench::load::tls::{Trust, client_config};
use sealpost_bench::load::{Endpoint, Protocol, Target, TargetAddr, User, null};
use sealpost_bench::process::Tree;
use sealpost_bench::server::{self, PASSWORD, Ready, START_TIMEOUT, Sealpost, Start};
use tokio::io::{AsyncBufReadExt, BufReader};

use super::group::Group;
use super::stop::Started;
use super::users::Users;
use crate::exit::Usage;

/// When TLS is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TlsMode {
    /// Never
    None,
    /// After STARTTLS
    Starttls,
    /// From the first byte
    Implicit,
}

/// Options that say which server is measured.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Server")]
pub struct Options {
    /// IMAP
    #[arg(long, value_name = "HOST:PORT")]
    imap: Option<String>,
    /// IMAP with TLS from the first byte
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "imap")]
    imaps: Option<String>,
    /// SMTP
    #[arg(long, value_name = "HOST:PORT")]
    smtp: Option<String>,
    /// SMTP with TLS from the first byte
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "smtp")]
    smtps: Option<String>,
    /// Submission
    #[arg(long, value_name = "HOST:PORT")]
    submission: Option<String>,
    /// Submission with TLS from the first byte
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "submission")]
    submissions: Option<String>,
    /// LMTP, never with TLS
    #[arg(long, value_name = "HOST:PORT")]
    lmtp: Option<String>,
    /// LMTP on a Unix socket
    #[arg(long, value_name = "PATH", conflicts_with = "lmtp")]
    lmtp_socket: Option<PathBuf>,
    /// JMAP: http://HOST:PORT or https://HOST
    #[arg(long, value_name = "URL")]
    jmap: Option<String>,
    /// When TLS starts [default: after STARTTLS; never for this machine]
    #[arg(long, value_enum)]
    tls: Option<TlsMode>,
    /// Accept any certificate
    #[arg(long)]
    insecure: bool,
    /// Trust the certificates in FILE (PEM) [default: those of the system]
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,
    /// The server's name in the report
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Measure this process and its children: CPU, memory, threads, files
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Start a Sealpost of this version with --users accounts, measure it and remove it
    #[arg(long, conflicts_with_all = ["start", "imap", "imaps", "smtp", "smtps", "submission", "submissions", "lmtp", "lmtp_socket", "jmap", "pid", "null"])]
    sealpost: bool,
    /// Start a server with a shell command that prints a line like `sealpost try --json`, and stop
    /// it afterwards
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["imap", "imaps", "smtp", "smtps", "submission", "submissions", "lmtp", "lmtp_socket", "jmap", "pid", "null"])]
    start: Option<String>,
    /// Measure the load generator itself, against a server that does nothing
    #[arg(long, conflicts_with_all = ["imap", "imaps", "smtp", "smtps", "submission", "submissions", "lmtp", "lmtp_socket", "jmap", "pid"])]
    null: bool,
}

/// A server that is there for as long as this is.
pub struct Running {
    /// How clients reach it.
    pub target: Target,
    /// Its processes, if they are known.
    pub tree: Option<Tree>,
    /// Its version, if it is known.
    pub version: String,
    /// It holds no user's mail.
    pub throwaway: bool,
    /// It does nothing, within this process.
    pub null: bool,
    process: Option<Process>,
}

/// A server of our own, and where its data is: killed, then removed.
enum Process {
    Sealpost { server: Box<server::Server>, dir: tempfile::TempDir },
    Other(Group),
}

impl Running {
    /// The started processes, for an early exit of this process.
    pub fn started(&self) -> Option<Started> {
        match self.process.as_ref()? {
            Process::Sealpost { server, dir } => {
                let group = Pid::from_raw(i32::try_from(server.tree.root()).ok()?)?;
                Some(Started { group, dir: Some(dir.path().to_owned()) })
            }
            Process::Other(group) => Some(Started { group: group.leader, dir: None }),
        }
    }

    /// Ends what was started, and removes its data when it is gone.
    pub async fn end(&mut self) {
        match self.process.take() {
            // Nothing in it needs to be kept.
            Some(Process::Sealpost { server, dir }) => {
                let _ = server.kill().await;
                drop(dir);
            }
            Some(Process::Other(group)) => drop(group),
            None => {}
        }
    }
}

impl Options {
    /// A Sealpost of its own, if no server is named.
    pub fn or_sealpost(&mut self) {
        self.sealpost |= self.place().is_none() && self.start.is_none() && !self.null;
    }

    /// How many accounts there will be, for scenarios that ask before the server runs.
    /// `log_in`: their passwords are needed.
    pub fn accounts(&self, users: &Users, log_in: bool) -> Result<Vec<User>> {
        let made = |count: usize| {
            let user = |nth| User { name: format!("user{nth}@localhost"), password: PASSWORD.into() };
            (1..=count).map(user).collect()
        };
        let given = users.read_options(log_in && !self.null && !self.sealpost)?;
        if given.is_empty() && (self.sealpost || self.null) {
            return Ok(made(users.users.unwrap_or(1)));
        }
        if self.sealpost {
            // Made by us, so the password is ours too.
            return Ok(given.into_iter().map(|user| User { password: PASSWORD.into(), ..user }).collect());
        }
        Ok(given)
    }

    /// Whether all accounts are known before the server runs: one that is started by a command may
    /// tell of its own.
    pub fn knows_accounts(&self) -> bool {
        self.start.is_none()
    }

    /// Starts or finds the server. `messages`: how many there are in every mailbox of one that does nothing.
    pub async fn running(&self, users: Vec<User>, messages: Option<u32>) -> Result<Running> {
        if self.null {
            return self.null(users, messages.unwrap_or(null::MESSAGES));
        }
        if self.sealpost {
            return self.sealpost(users).await;
        }
        if let Some(command) = &self.start {
            return self.started(command, users).await;
        }
        let trust = self.trust();
        let either = |plain: &Option<String>, implicit: &Option<String>| {
            anyhow::Ok(match (plain, implicit) {
                (Some(at), _) => Some(self.tcp(at, self.tls, &trust)?),
                (None, Some(at)) => Some(self.tcp(at, Some(TlsMode::Implicit), &trust)?),
                (None, None) => None,
            })
        };
        let imap = either(&self.imap, &self.imaps)?;
        let smtp = either(&self.smtp, &self.smtps)?;
        let submission = either(&self.submission, &self.submissions)?;
        let lmtp = match (&self.lmtp, &self.lmtp_socket) {
            (Some(at), _) => Some(self.tcp(at, Some(TlsMode::None), &trust)?),
            (None, Some(path)) => Some(Endpoint { addr: TargetAddr::Unix(path.clone()), tls: None }),
            (None, None) => None,
        };
        let jmap = self.jmap.as_ref().map(|url| self.url(url, &trust)).transpose()?;
        let name = self.name.clone().or_else(|| self.place());
        let name = name.unwrap_or_else(|| "server".into());
        let target = Target { name, imap, smtp, lmtp, submission, jmap, users };
        if let Some(pid) = self.pid.filter(|pid| Tree::new(*pid).pids().is_empty()) {
            return Err(Usage(format!("--pid {pid}: there is no such process")).into());
        }
        Ok(Running {
            target,
            tree: self.pid.map(Tree::new),
            version: String::new(),
            throwaway: false,
            null: false,
            process: None,
        })
    }

    /// Where the server is, as it was given.
    fn place(&self) -> Option<String> {
        let relays = [&self.smtp, &self.smtps, &self.submission, &self.submissions, &self.lmtp];
        let mut tcp = [&self.imap, &self.imaps].into_iter().chain(relays).flatten();
        let socket = self.lmtp_socket.as_ref().map(|path| path.display().to_string());
        tcp.next().cloned().or(socket).or_else(|| self.jmap.clone())
    }

    fn null(&self, users: Vec<User>, messages: u32) -> Result<Running> {
        let at = |protocol| {
            let address = null::listen(protocol, messages)?;
            anyhow::Ok(Some(Endpoint {
                addr: TargetAddr::Tcp(address.to_string(), vec![address]),
                tls: None,
            }))
        };
        let target = Target {
            name: self.name.clone().unwrap_or_else(|| "nothing".into()),
            imap: at(Protocol::Imap)?,
            smtp: at(Protocol::Smtp)?,
            lmtp: at(Protocol::Lmtp)?,
            submission: at(Protocol::Submission)?,
            jmap: at(Protocol::Jmap)?,
            users,
        };
        Ok(Running { target, tree: None, version: String::new(), throwaway: true, null: true, process: None })
    }

    async fn sealpost(&self, users: Vec<User>) -> Result<Running> {
        let dir = tempfile::Builder::new().prefix("sealpost-bench-").tempdir()?;
        let path = std::env::current_exe().context("this program")?;
        let sealpost = Sealpost { path, memory: Some("256MiB") };
        let names: Vec<String> = users.iter().map(|user| user.name.clone()).collect();
        let server = server::start_apart(&sealpost, &dir.path().join("data"), &names).await?;
        let trust = Trust::Anybody;
        let local = |address: SocketAddr, tls| {
            self.endpoint(address.to_string(), vec![address], "localhost", tls, &trust)
        };
        let tls = self.tls.unwrap_or(TlsMode::None);
        if tls == TlsMode::Implicit {
            return Err(Usage("--sealpost speaks TLS after STARTTLS: --tls starttls".into()).into());
        }
        let target = Target {
            name: self.name.clone().unwrap_or_else(|| "Sealpost".into()),
            imap: Some(local(server.imap, tls)?),
            smtp: server.smtp.map(|address| local(address, tls)).transpose()?,
            lmtp: Some(local(server.lmtp, TlsMode::None)?),
            submission: server.submission.map(|address| local(address, tls)).transpose()?,
            jmap: server.http.map(|address| local(address, TlsMode::None)).transpose()?,
            users,
        };
        let (tree, version) = (Some(server.tree), sealpost.version());
        let process = Some(Process::Sealpost { server: Box::new(server), dir });
        Ok(Running { target, tree, version, throwaway: true, null: false, process })
    }

    /// Any server that prints its addresses as `sealpost try --json` does.
    async fn started(&self, command: &str, users: Vec<User>) -> Result<Running> {
        let mut group = Group::start(command).with_context(|| command.to_owned())?;
        let mut lines = BufReader::new(group.child.stdout.take().context("its output")?).lines();
        let line = tokio::time::timeout(START_TIMEOUT, lines.next_line())
            .await
            .context("it did not start in time")??;
        let Some(line) = line else { bail!("{command}: it ended without a word") };
        let ready: Ready = serde_json::from_str(&line)
            .with_context(|| format!("{command}: not the line of `sealpost try --json`"))?;
        let trust = Trust::Anybody;
        let at = |endpoint: &server::Endpoint, tls| {
            self.tcp(&format!("{}:{}", endpoint.host, endpoint.port), Some(tls), &trust)
        };
        let tls = self.tls.unwrap_or(TlsMode::None);
        let imap = match (tls, &ready.imaps) {
            (TlsMode::Implicit, Some(imaps)) => at(imaps, tls)?,
            (tls, _) => at(&ready.imap, tls)?,
        };
        let submission = match (tls, &ready.submissions, &ready.submission) {
            (TlsMode::Implicit, Some(submissions), _) => Some(at(submissions, tls)?),
            (tls, _, Some(submission)) => Some(at(submission, tls)?),
            (_, _, None) => None,
        };
        let users = if users.is_empty() {
            vec![User { name: ready.account.clone(), password: ready.password.as_str().into() }]
        } else {
            users
        };
        let target = Target {
            name: self
                .name
                .clone()
                .unwrap_or_else(|| command.split(' ').next().unwrap_or(command).to_owned()),
            imap: Some(imap),
            smtp: ready.smtp.as_ref().map(|smtp| at(smtp, TlsMode::None)).transpose()?,
            lmtp: Some(at(&ready.lmtp, TlsMode::None)?),
            submission,
            jmap: ready.http.as_ref().map(|http| at(http, TlsMode::None)).transpose()?,
            users,
        };
        let tree = Some(Tree::new(ready.pid));
        Ok(Running {
            target,
            tree,
            version: String::new(),
            throwaway: true,
            null: false,
            process: Some(Process::Other(group)),
        })
    }

    fn trust(&self) -> Result<Trust> {
        if self.insecure {
            return Ok(Trust::Anybody);
        }
        if let Some(path) = &self.ca {
            return Ok(Trust::Those(client::Trust::file(path)?.config()?));
        }
        let system = client::Trust::system();
        let system = system.map_err(|e| Usage(format!("{e}, or give --insecure")))?;
        Ok(Trust::Those(system.config()?))
    }

    /// `https://HOST` or `http://HOST:PORT`. HTTP knows no STARTTLS: the scheme says whether TLS is
    /// spoken.
    fn url(&self, url: &str, trust: &impl Trusts) -> Result<Endpoint> {
        let written = || Usage(format!("--jmap {url}: is written https://HOST or http://HOST:PORT"));
        let (scheme, rest) = url.split_once("://").ok_or_else(written)?;
        let at = rest.strip_suffix('/').unwrap_or(rest);
        let (tls, port) = match scheme {
            "https" => (TlsMode::Implicit, 443),
            "http" => (TlsMode::None, 80),
            _ => return Err(written().into()),
        };
        if at.is_empty() || at.contains(['/', '@', '?', '#']) {
            return Err(written().into());
        }
        let has_port = at.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let with_port = if has_port { at.to_owned() } else { format!("{at}:{port}") };
        let mut endpoint = self.tcp(&with_port, Some(tls), trust)?;
        if let TargetAddr::Tcp(shown, addresses) = &mut endpoint.addr {
            let here = addresses.iter().all(|address| address.ip().is_loopback());
            if tls == TlsMode::None && !here && self.tls != Some(TlsMode::None) {
                let why = "the password would cross the network in the clear; https, or --tls none";
                return Err(Usage(format!("--jmap {url}: {why}")).into());
            }
            at.clone_into(shown);
        }
        Ok(endpoint)
    }

    fn tcp(&self, at: &str, tls: Option<TlsMode>, trust: &impl Trusts) -> Result<Endpoint> {
        let written =
            at.rsplit_once(':').filter(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        let (host, _) = written.ok_or_else(|| Usage(format!("{at}: an address is written HOST:PORT")))?;
        let addresses: Vec<SocketAddr> = at.to_socket_addrs().with_context(|| at.to_owned())?.collect();
        let here = addresses.iter().all(|address| address.ip().is_loopback());
        // By default no password crosses a network in the clear.
        let tls = tls.unwrap_or(if here { TlsMode::None } else { TlsMode::Starttls });
        self.endpoint(at.to_owned(), addresses, host.trim_matches(['[', ']']), tls, trust)
    }

    fn endpoint(
        &self,
        shown: String,
        addresses: Vec<SocketAddr>,
        host: &str,
        tls: TlsMode,
        trust: &impl Trusts,
    ) -> Result<Endpoint> {
        let tls = match tls {
            TlsMode::None => None,
            mode => {
                let config: Arc<ClientConfig> = client_config(&trust.trust()?)?;
                let name = ServerName::try_from(host.to_owned())
                    .with_context(|| format!("{host} is no name for a server"))?;
                Some(Tls { config, name, implicit: mode == TlsMode::Implicit })
            }
        };
        Ok(Endpoint { addr: TargetAddr::Tcp(shown, addresses), tls })
    }
}

/// Whom to trust, found out only if that matters.
trait Trusts {
    fn trust(&self) -> Result<Trust>;
}

impl Trusts for Trust {
    fn trust(&self) -> Result<Trust> {
        Ok(self.clone())
    }
}

impl Trusts for Result<Trust> {
    fn trust(&self) -> Result<Trust> {
        match self {
            Ok(trust) => Ok(trust.clone()),
            Err(error) => Err(Usage(error.to_string()).into()),
        }
    }
}
