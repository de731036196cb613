//! The cost of idle connections: thousands of clients, one stage after the other, and the server's
//! memory after each.
//!
//! The server runs in a separate process, restarted when the mailboxes are filled, so that its
//! memory is fresh. Then every account is opened once and unloaded again, so that memory of a
//! server that has served that many (the store's page caches, the ends of logs, a second thread for
//! passwords) does not count for the connections; it is printed. Its resident memory is read before
//! the first connection and when all connections have reached a stage; the difference divided by
//! their number is the cost of one, everything included. Then they stay idle for a while, in which
//! unused accounts are unloaded, and a little longer, which must cost no processor time. At the end
//! every account gets one message, to measure when its clients are notified.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use futures::StreamExt;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use sealpost_base::{Clock, SystemClock};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::imap::login;
use crate::lmtp::{Lmtp, dotted};
use crate::server::{self, Configured, PASSWORD, STOP_TIMEOUT, Sealpost, Server};

/// Clients that connect or log in at the same time.
const AT_ONCE: usize = 64;
/// How long one step of one client may take: thousands of cold logins are Argon2-bound.
const STEP_TIMEOUT: Duration = Duration::from_secs(600);
/// Files that client and server have open beside the connections.
const OTHER_FILES: usize = 256;
/// How long no processor time should be used.
const STILL: Duration = Duration::from_secs(40);
/// How long the server may settle before its memory is read.
const SETTLE: Duration = Duration::from_secs(2);

/// How far the clients go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Stage {
    /// They have read the greeting.
    Greeting,
    /// They have logged in.
    Login,
    /// They have selected INBOX.
    Select,
    /// They are in IDLE.
    Idle,
}

/// The options.
#[derive(Debug, Clone)]
pub struct Options {
    /// The binary.
    pub sealpost: PathBuf,
    /// Where the server keeps its data; existing accounts are used again.
    pub dir: PathBuf,
    /// How many clients.
    pub connections: usize,
    /// How many accounts they share.
    pub accounts: usize,
    /// Messages of each INBOX.
    pub messages: u32,
    /// Whether they speak TLS.
    pub tls: bool,
    /// The last stage.
    pub stage: Stage,
    /// How long they stay idle.
    pub silence: Duration,
    /// The server's `memory`.
    pub memory: String,
    /// The highest cost of a connection after the idle time, when its account need not be loaded
    /// any more, in KiB; more is an error.
    pub limit_kib: Option<f64>,
}

/// Connects all clients, stage by stage, and prints the results.
///
/// # Errors
/// If the server fails, or a connection costs more than the limit.
pub async fn main(options: &Options) -> Result<()> {
    let room = open_files();
    ensure!(
        options.connections + OTHER_FILES <= room,
        "{room} open files are allowed, too few for {} connections",
        options.connections
    );
    let accounts: Vec<String> =
        (0..options.accounts.clamp(1, options.connections)).map(|nth| format!("u{nth}@localhost")).collect();
    let server = start(options, &accounts).await?;
    gather(accounts.iter().map(|account| fill(&server, account, options.messages))).await?;
    server.stop(STOP_TIMEOUT).await?;
    let server = start(options, &accounts).await?;
    tokio::time::sleep(SETTLE).await;
    println!("idle: the server as it was started: {} KiB resident", server.tree.usage().rss_bytes >> 10);
    gather(accounts.iter().map(|account| fill(&server, account, options.messages))).await?;
    tokio::time::sleep(options.silence).await;
    let tree = server.tree;
    let before = tree.usage().rss_bytes;
    println!(
        "idle: {} connections of {} accounts{}; server before: {} KiB resident, {} threads, {} files",
        options.connections,
        accounts.len(),
        if options.tls { ", TLS" } else { "" },
        before >> 10,
        tree.usage().threads,
        tree.files().unwrap_or(0)
    );
    let mut clients = connect(options, &server).await?;
    let each = || tree.usage().rss_bytes.saturating_sub(before) as f64 / 1024.0 / options.connections as f64;
    for stage in [Stage::Greeting, Stage::Login, Stage::Select, Stage::Idle] {
        if stage > options.stage {
            break;
        }
        let cpu = tree.cpu_seconds();
        clients = advance(clients, stage, &accounts).await?;
        let cpu = tree.cpu_seconds() - cpu;
        tokio::time::sleep(SETTLE).await;
        let (resident, proportional) = (tree.usage().rss_bytes, tree.proportional_bytes());
        println!(
            "idle: {stage:?}: {:.1} KiB a connection; {} KiB resident, {} KiB proportional, {} threads, {} files; {cpu:.2} s of CPU",
            each(),
            resident >> 10,
            proportional >> 10,
            tree.usage().threads,
            tree.files().unwrap_or(0)
        );
    }
    tokio::time::sleep(options.silence).await;
    println!("idle: after {:?} of silence {:.1} KiB a connection", options.silence, each());
    let (cpu, still) = (tree.cpu_seconds(), options.silence.min(STILL));
    tokio::time::sleep(still).await;
    let resting = each();
    println!(
        "idle: {:.2} s of CPU in {:?} more; then {resting:.1} KiB a connection",
        tree.cpu_seconds() - cpu,
        still
    );
    if options.stage == Stage::Idle {
        notify(&server, &mut clients, &accounts).await?;
    }
    drop(clients);
    server.stop(STOP_TIMEOUT).await?;
    match options.limit_kib {
        Some(limit) if resting > limit => bail!("a connection costs {resting:.1} KiB, more than {limit}"),
        _ => Ok(()),
    }
}

/// Raises the limit of open files to the system's maximum; returns it.
pub fn open_files() -> usize {
    let limit = getrlimit(Resource::Nofile);
    // Callers check the limit themselves.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile)
        .current
        .map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX))
}

async fn start(options: &Options, accounts: &[String]) -> Result<Server> {
    let most = options.connections + OTHER_FILES;
    let lines = format!(
        "memory = \"{}\"\n[connections]\ntotal = {most}\nper_address = {most}\n[login]\ncache_entries = {most}\ncache_ttl = \"1h\"\n[timeouts]\nimap_anonymous = \"1h\"\n",
        options.memory
    );
    let sealpost = Sealpost { path: options.sealpost.clone(), memory: None };
    server::start(&Configured { sealpost, lines, data_limit_mib: None }, &options.dir.join("data"), accounts)
        .await
}

/// Fills INBOX with that many small messages.
pub(crate) async fn fill(server: &Server, account: &str, messages: u32) -> Result<()> {
    let mut imap = login(server, account).await?;
    let mut have = crate::imap::exists(&imap.ok("SELECT INBOX").await?)?;
    if have == 0 && messages > 0 {
        let reply = imap.append("INBOX", "", b"Subject: one of many\r\n\r\nhello\r\n").await?;
        ensure!(reply.is_ok(), "{}", reply.status);
        have = 1;
    }
    while have < messages {
        let more = have.min(messages - have);
        imap.ok("NOOP").await?;
        imap.ok(&format!("COPY 1:{more} INBOX")).await?;
        have += more;
    }
    imap.ok("LOGOUT").await?;
    Ok(())
}

async fn connect(options: &Options, server: &Server) -> Result<Vec<Client>> {
    let connector = options.tls.then(|| connector(options)).transpose()?;
    let address = if options.tls { server.imaps.context("the server has no TLS port")? } else { server.imap };
    let connecting = (0..options.connections).map(|_| async {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let stream: Pin<Box<dyn Wire>> = match &connector {
            Some(connector) => {
                Box::pin(connector.connect(ServerName::try_from("localhost")?, socket).await.context("TLS")?)
            }
            None => Box::pin(socket),
        };
        anyhow::Ok(Client { stream, early: Vec::new() })
    });
    gather(connecting).await
}

/// Trusts the certificate that the server made for itself.
fn connector(options: &Options) -> Result<TlsConnector> {
    let mut roots = rustls::RootCertStore::empty();
    let certificate = options.dir.join("data/tls-certificate.pem");
    for certificate in CertificateDer::pem_file_iter(&certificate)? {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

async fn advance(clients: Vec<Client>, stage: Stage, accounts: &[String]) -> Result<Vec<Client>> {
    let steps = clients.into_iter().enumerate().map(|(nth, mut client)| async move {
        let account = &accounts[nth % accounts.len()];
        match stage {
            Stage::Greeting => client.until("\r\n").await?,
            Stage::Login => {
                client.say(&format!("a LOGIN {account} \"{PASSWORD}\"\r\n")).await?;
                client.until("a OK ").await?;
            }
            Stage::Select => {
                client.say("b SELECT INBOX\r\n").await?;
                client.until("b OK ").await?;
            }
            Stage::Idle => {
                client.say("c IDLE\r\n").await?;
                client.until("+ ").await?;
            }
        }
        Ok(client)
    });
    gather(steps).await
}

/// Delivers a message to each account and waits until its first client is notified.
async fn notify(server: &Server, clients: &mut [Client], accounts: &[String]) -> Result<()> {
    let clock = SystemClock::new();
    let mut lmtp = Lmtp::connect(server.lmtp).await?;
    let message = dotted(b"Subject: news\r\n\r\nhello\r\n");
    let (mut heard, mut after_reply) = (Vec::new(), Vec::new());
    for (client, account) in clients.iter_mut().zip(accounts) {
        lmtp.envelope(&[account]).await?;
        let sent = clock.monotonic();
        lmtp.send(&message).await?;
        let replied = async {
            let answer = lmtp.answer().await?;
            ensure!(answer.is_ok(), "{}", answer.text);
            Ok(clock.monotonic() - sent)
        };
        let told = async {
            client.until(" EXISTS\r\n").await?;
            Ok(clock.monotonic() - sent)
        };
        let (replied, told) = tokio::try_join!(replied, told)?;
        heard.push(told);
        after_reply.push(told.saturating_sub(replied));
    }
    for (what, mut latencies) in
        [("the end of the message", heard), ("the server's reply to it", after_reply)]
    {
        latencies.sort_unstable();
        let at = |percent: usize| latencies[(latencies.len() * percent / 100).min(latencies.len() - 1)];
        println!(
            "idle: notified after {what}: p50 {:.2?}, p90 {:.2?}, p99 {:.2?}, max {:.2?}",
            at(50),
            at(90),
            at(99),
            at(100)
        );
    }
    Ok(())
}

/// Runs all of them, some at a time; the results are in the order of the work.
async fn gather<T>(work: impl IntoIterator<Item = impl Future<Output = Result<T>>>) -> Result<Vec<T>> {
    let work = work.into_iter().map(|one| async {
        tokio::time::timeout(STEP_TIMEOUT, one).await.context("the server took too long")?
    });
    let results: Vec<_> = futures::stream::iter(work).buffered(AT_ONCE).collect().await;
    results.into_iter().collect()
}

trait Wire: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> Wire for T {}

/// A client without a buffer: ten thousand of them must not cost more than the server.
struct Client {
    stream: Pin<Box<dyn Wire>>,
    /// Bytes received after the expected line.
    early: Vec<u8>,
}

impl Client {
    async fn say(&mut self, line: &str) -> Result<()> {
        self.stream.write_all(line.as_bytes()).await?;
        Ok(self.stream.flush().await?)
    }

    /// Reads up to the line that contains `what`.
    async fn until(&mut self, what: &str) -> Result<()> {
        let mut read = std::mem::take(&mut self.early);
        loop {
            if let Some(at) = memchr::memmem::find(&read, what.as_bytes()) {
                let end = memchr::memchr(b'\n', &read[at..]).map(|end| at + end + 1);
                if let Some(end) = end {
                    self.early = read.split_off(end);
                    self.early.shrink_to_fit();
                    return Ok(());
                }
            }
            let mut piece = [0; 4096];
            let count = self.stream.read(&mut piece).await?;
            if count == 0 || read.len() > 1 << 20 {
                bail!("{what:?} did not come: {:?}", String::from_utf8_lossy(&read));
            }
            read.extend_from_slice(&piece[..count]);
        }
    }
}
