//! Servers under test, started as our own processes in separate directories, and stopped when
//! dropped.
//!
//! All kinds describe themselves the same way, in the JSON line of `sealpost try --json`.

mod sealpost;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tokio::process::{Child, Command};

use crate::process::Tree;

pub use sealpost::Sealpost;

/// The password of every account of a server under test.
pub const PASSWORD: &str = "correct horse battery";

/// How long a server may take to start.
pub const START_TIMEOUT: Duration = Duration::from_secs(180);

/// Additional time for each account: its password has to be hashed, perhaps by a debug build.
const START_TIMEOUT_EACH: Duration = Duration::from_millis(200);

/// How long a server may take to stop.
pub const STOP_TIMEOUT: Duration = Duration::from_secs(20);

/// Where one protocol is served.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Endpoint {
    /// Name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// The line `sealpost try --json` prints once it accepts connections.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ready {
    /// The directory that holds its data.
    pub dir: PathBuf,
    /// Its process id.
    pub pid: u32,
    /// The first account.
    pub account: String,
    /// That account's password.
    pub password: String,
    /// IMAP with STARTTLS.
    pub imap: Endpoint,
    /// IMAP inside TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imaps: Option<Endpoint>,
    /// SMTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smtp: Option<Endpoint>,
    /// Submission with STARTTLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submission: Option<Endpoint>,
    /// Submission inside TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submissions: Option<Endpoint>,
    /// LMTP.
    pub lmtp: Endpoint,
    /// HTTP, in the clear.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<Endpoint>,
}

/// A running server.
pub struct Server {
    /// Its name in reports.
    pub name: &'static str,
    /// Where IMAP is served, in the clear.
    pub imap: SocketAddr,
    /// Where IMAP is served inside TLS, if it is.
    pub imaps: Option<SocketAddr>,
    /// Where LMTP is served.
    pub lmtp: SocketAddr,
    /// Where SMTP is served, if it is.
    pub smtp: Option<SocketAddr>,
    /// Where mail is submitted, in the clear, if it is.
    pub submission: Option<SocketAddr>,
    /// Where HTTP is served, in the clear, if it is.
    pub http: Option<SocketAddr>,
    /// Its processes.
    pub tree: Tree,
    child: Child,
}

/// A server that can be started.
pub trait Start {
    /// Its name in reports.
    fn name(&self) -> &'static str;
    /// Its version, as it states it.
    fn version(&self) -> String;
    /// The command that runs it in the foreground in `dir`, with `accounts`.
    fn command(&self, dir: &Path, accounts: &[String]) -> Result<Command>;
    /// Where it listens; reads its output, or waits until it accepts connections.
    fn ready(&self, child: &mut Child, dir: &Path) -> impl Future<Output = Result<Ready>>;
    /// Creates the mailbox `mailbox` of `account` from a Maildir, without the network, while the
    /// server runs in `dir`.
    fn import(&self, dir: &Path, account: &str, mailbox: &str, maildir: &Path) -> Result<()>;
}

/// Starts `what` in `dir` and waits until it accepts connections.
pub async fn start(what: &impl Start, dir: &Path, accounts: &[String]) -> Result<Server> {
    spawn(what, what.command(dir, accounts)?, dir, accounts).await
}

/// The same in its own process group: a terminal's Ctrl-C does not reach it, so the caller has to
/// end it.
pub async fn start_apart(what: &impl Start, dir: &Path, accounts: &[String]) -> Result<Server> {
    let mut command = what.command(dir, accounts)?;
    command.process_group(0);
    spawn(what, command, dir, accounts).await
}

async fn spawn(what: &impl Start, mut command: Command, dir: &Path, accounts: &[String]) -> Result<Server> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().with_context(|| format!("start {}", what.name()))?;
    let start_timeout =
        START_TIMEOUT + START_TIMEOUT_EACH * u32::try_from(accounts.len()).unwrap_or(u32::MAX);
    let ready = tokio::time::timeout(start_timeout, what.ready(&mut child, dir));
    let ready = ready.await.with_context(|| format!("{} did not start in time", what.name()))??;
    let pid = child.id().context("the server has ended")?;
    Ok(Server {
        name: what.name(),
        imap: address(&ready.imap)?,
        imaps: ready.imaps.as_ref().map(address).transpose()?,
        lmtp: address(&ready.lmtp)?,
        smtp: ready.smtp.as_ref().map(address).transpose()?,
        submission: ready.submission.as_ref().map(address).transpose()?,
        http: ready.http.as_ref().map(address).transpose()?,
        tree: Tree::new(pid),
        child,
    })
}

impl Server {
    /// Sends SIGKILL to the server's process; returns when it has ended.
    pub async fn kill(mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }

    /// Sends SIGTERM and returns the exit status; an error if it takes longer than `limit`.
    pub async fn stop(mut self, limit: Duration) -> Result<std::process::ExitStatus> {
        self.end(limit).await
    }

    /// The same, for a caller that starts another server in its place.
    pub async fn end(&mut self, limit: Duration) -> Result<std::process::ExitStatus> {
        signal(self.tree.root(), "TERM").await?;
        match tokio::time::timeout(limit, self.child.wait()).await {
            Ok(status) => Ok(status?),
            Err(_) => bail!("{} still runs {limit:?} after SIGTERM", self.name),
        }
    }

    /// An error if the server has exited.
    pub fn alive(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("{} ended by itself: {status}", self.name),
            None => Ok(()),
        }
    }
}

/// Sends a signal by name to one process.
pub async fn signal(pid: u32, name: &str) -> Result<()> {
    let status = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status().await?;
    anyhow::ensure!(status.success(), "kill -{name} {pid}: {status}");
    Ok(())
}

fn address(endpoint: &Endpoint) -> Result<SocketAddr> {
    let ip = match endpoint.host.as_str() {
        "localhost" => IpAddr::from([127, 0, 0, 1]),
        host => host.parse().with_context(|| format!("not an address: {host}"))?,
    };
    Ok(SocketAddr::new(ip, endpoint.port))
}
