//! Thousands of JMAP clients that wait for changes: what each costs the server, and when they hear of one.
//!
//! `sealpost try` creates the accounts; then `sealpost serve` is a new process with fresh memory and TLS for
//! HTTP. Every account logs in once, so that memory of a server that has served that many does not count for
//! the clients. At each stage the growth of resident memory is divided by the number of clients. At the end each account gets a
//! message: first one account after the other, then all at once; every client has to hear of both.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use sealpost_base::{Clock, SystemClock};
use sealpost_bench::process::Tree;
use sealpost_bench::server::Endpoint;
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio_rustls::TlsConnector;

use crate::http_load::basic;
use crate::lmtp::{Lmtp, dotted};
use crate::quiet::{Client, OTHER_FILES, Percentiles, connector, gather, open_files};
use crate::server::{self, Configured, PASSWORD, STOP_TIMEOUT, Sealpost};

/// How long the server may settle before its memory is read.
const SETTLE: Duration = Duration::from_secs(2);
/// Messages that are delivered at the same time.
const DELIVERIES: usize = 16;
/// How long a client may take to hear of a change.
const HEARD: Duration = Duration::from_secs(120);
/// How long the server may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// How the clients wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Wait {
    /// Connected; they send nothing.
    Connected,
    /// In the middle of the head of a request, before a login.
    Head,
    /// With an event source (RFC 8620 §7.3).
    Events,
    /// With a WebSocket and pushes enabled (RFC 8887 §4.3.5).
    WebSocket,
}

/// The options.
#[derive(Debug, Clone)]
pub struct Options {
    /// The binary.
    pub sealpost: PathBuf,
    /// Where the server keeps its data; existing accounts are used again.
    pub dir: PathBuf,
    /// How many clients.
    pub clients: usize,
    /// How many accounts they share.
    pub accounts: usize,
    /// Whether they speak TLS.
    pub tls: bool,
    /// How they wait.
    pub wait: Wait,
    /// How long nothing happens.
    pub silence: Duration,
    /// The server's `memory`.
    pub memory: String,
    /// The most memory of the server, in MiB; more is an error.
    pub limit_mib: Option<u64>,
}

/// The line of `sealpost serve --json`.
#[derive(Deserialize)]
struct Ready {
    lmtp: Vec<Endpoint>,
    http: Vec<Endpoint>,
    https: Vec<Endpoint>,
}

/// A server with HTTP, with and without TLS.
struct Server {
    ready: Ready,
    tree: Tree,
    child: Child,
}

/// Connects all clients and prints what they cost.
///
/// # Errors
/// If the server fails, a client does not hear of a change, or the memory exceeds the limit.
pub async fn main(options: &Options) -> Result<()> {
    let room = open_files();
    let most = options.clients + OTHER_FILES;
    ensure!(most <= room, "{room} open files are allowed, too few for {} clients", options.clients);
    let accounts: Vec<String> =
        (0..options.accounts.clamp(1, options.clients)).map(|nth| format!("u{nth}@localhost")).collect();
    let mut server = Server::start(options, &accounts).await?;
    let tls = options.tls.then(|| connector(&options.dir.join("data"))).transpose()?;
    let tls = tls.as_ref();
    gather(accounts.iter().map(|account| server.log_in(account))).await?;
    tokio::time::sleep(SETTLE).await;
    let tree = server.tree;
    let before = tree.usage().rss_bytes;
    println!(
        "followers: {} clients of {} accounts{}, {:?}; the server before: {} KiB resident",
        options.clients,
        accounts.len(),
        if options.tls { ", TLS" } else { "" },
        options.wait,
        before >> 10
    );
    tree.reset_peak();
    let begun = Usage::of(&server);
    let connecting =
        (0..options.clients).map(|nth| server.connect(tls, options.wait, &accounts[nth % accounts.len()]));
    let mut clients = gather(connecting).await?;
    begun.print(&server, "all are there", before, options.clients);
    if options.wait == Wait::Head || options.wait == Wait::Connected {
        // An honest client among them.
        let clock = SystemClock::new();
        server.connect(tls, Wait::Events, &accounts[0]).await.context("an honest client")?;
        println!("followers: an honest client has its event source after {:.2?}", clock.monotonic());
    }
    let begun = Usage::of(&server);
    tokio::time::sleep(options.silence).await;
    begun.print(&server, "nothing happens", before, options.clients);
    if options.wait == Wait::Events || options.wait == Wait::WebSocket {
        let begun = Usage::of(&server);
        one_by_one(&server, &mut clients, &accounts).await?;
        begun.print(&server, "one account after the other", before, options.clients);
        let begun = Usage::of(&server);
        all_at_once(&server, &mut clients, &accounts).await?;
        begun.print(&server, "all accounts at once", before, options.clients);
        tokio::time::sleep(options.silence).await;
        Usage::of(&server).print(&server, "nothing happens again", before, options.clients);
    }
    let peak = tree.peak_bytes() >> 20;
    println!("followers: the server's peak: {peak} MiB resident, of memory = {:?}", options.memory);
    drop(clients);
    server.stop().await?;
    match options.limit_mib {
        Some(limit) if peak > limit => bail!("{peak} MiB resident, more than {limit}"),
        _ => Ok(()),
    }
}

/// When a part of the run began.
struct Usage {
    clock: SystemClock,
    cpu: f64,
}

impl Usage {
    fn of(server: &Server) -> Self {
        Usage { clock: SystemClock::new(), cpu: server.tree.cpu_seconds() }
    }

    fn print(&self, server: &Server, what: &str, before: u64, clients: usize) {
        let usage = server.tree.usage();
        let each = usage.rss_bytes.saturating_sub(before) as f64 / 1024.0 / clients as f64;
        println!(
            "followers: {what}: {each:.1} KiB a client, {} MiB resident; {:.2} s of CPU in {:.1?}",
            usage.rss_bytes >> 20,
            usage.cpu_seconds - self.cpu,
            self.clock.monotonic()
        );
    }
}

/// Delivers a message to each account and waits until its clients have heard.
async fn one_by_one(server: &Server, clients: &mut [Client], accounts: &[String]) -> Result<()> {
    let clock = SystemClock::new();
    let mut of_account: Vec<Vec<&mut Client>> = accounts.iter().map(|_| Vec::new()).collect();
    for (nth, client) in clients.iter_mut().enumerate() {
        of_account[nth % accounts.len()].push(client);
    }
    let mut lmtp = Lmtp::connect(address(&server.ready.lmtp)?).await?;
    let mut times = Vec::new();
    for (account, clients) in accounts.iter().zip(of_account) {
        deliver(&mut lmtp, account).await?;
        let delivered = clock.monotonic();
        let clock = &clock;
        let hearing = clients.into_iter().map(|client| async move {
            hear(client).await.with_context(|| format!("a client of {account}"))?;
            anyhow::Ok(clock.monotonic() - delivered)
        });
        times.extend(futures::future::try_join_all(hearing).await?);
    }
    println!("followers: heard after the reply to the message: {}", Percentiles::of(&mut times));
    Ok(())
}

/// Delivers a message to all accounts while all clients listen.
async fn all_at_once(server: &Server, clients: &mut [Client], accounts: &[String]) -> Result<()> {
    let clock = SystemClock::new();
    let lmtp = address(&server.ready.lmtp)?;
    let delivering = accounts.chunks(accounts.len().div_ceil(DELIVERIES)).map(|accounts| async move {
        let mut lmtp = Lmtp::connect(lmtp).await?;
        for account in accounts {
            deliver(&mut lmtp, account).await?;
        }
        anyhow::Ok(())
    });
    let delivering = async {
        futures::future::try_join_all(delivering).await?;
        anyhow::Ok(clock.monotonic())
    };
    let hearing = async {
        futures::future::try_join_all(clients.iter_mut().map(hear)).await?;
        anyhow::Ok(clock.monotonic())
    };
    let (delivered, heard) = tokio::try_join!(delivering, hearing)?;
    println!(
        "followers: {} messages delivered after {delivered:.2?}, all heard after {heard:.2?}",
        accounts.len()
    );
    Ok(())
}

async fn deliver(lmtp: &mut Lmtp, account: &str) -> Result<()> {
    let answers = lmtp.deliver(&[account], &dotted(b"Subject: news\r\n\r\nhello\r\n")).await?;
    ensure!(answers.iter().all(crate::lmtp::Answer::is_ok), "LMTP: {answers:?}");
    Ok(())
}

/// Waits for a change of emails, up to the end of its line.
async fn hear(client: &mut Client) -> Result<()> {
    tokio::time::timeout(HEARD, client.until_text("EmailDelivery")).await.context("no change was heard")?
}

impl Server {
    async fn start(options: &Options, accounts: &[String]) -> Result<Self> {
        let most = options.clients + OTHER_FILES;
        let lines = format!(
            "memory = \"{}\"\n[connections]\ntotal = {most}\nper_address = {most}\n[login]\n\
             cache_entries = {most}\ncache_ttl = \"1h\"\n[timeouts]\nhttp = \"1h\"\nhttp_request = \"1h\"\n",
            options.memory
        );
        let sealpost = Sealpost { path: options.sealpost.clone(), memory: None };
        let data = options.dir.join("data");
        let configured = Configured { sealpost, lines: lines.clone(), data_limit_mib: None };
        server::start(&configured, &data, accounts).await?.stop(STOP_TIMEOUT).await?;
        let config = options.dir.join("followers.toml");
        std::fs::write(&config, with_listeners(&lines, &data))?;
        let mut command = Command::new(&options.sealpost);
        command.args(["serve", "--json", "--config"]).arg(&config).arg("--dir").arg(&data);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let stdout = child.stdout.take().context("no pipe from the server")?;
        let mut line = String::new();
        let mut stdout = BufReader::new(stdout);
        let read = tokio::time::timeout(START_TIMEOUT, stdout.read_line(&mut line));
        read.await.context("the server did not start in time")??;
        let ready = serde_json::from_str(&line).with_context(|| format!("no line of JSON: {line:?}"))?;
        let tree = Tree::new(child.id().context("the server has ended")?);
        Ok(Server { ready, tree, child })
    }

    /// A client of the account that waits.
    async fn connect(&self, tls: Option<&TlsConnector>, wait: Wait, account: &str) -> Result<Client> {
        let endpoint = if tls.is_some() { &self.ready.https } else { &self.ready.http };
        let address = address(endpoint)?;
        let mut client = Client::connect(address, tls).await?;
        let authorization = basic(account, PASSWORD);
        let head = |target: &str, more: &str| {
            format!(
                "GET {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {authorization}\r\n{more}\r\n"
            )
        };
        match wait {
            Wait::Connected => {}
            // The server may have closed it for another.
            Wait::Head => {
                drop(client.say("GET /jmap/session HTTP/1.1\r\nHost: localhost\r\nX-Long: ").await);
            }
            Wait::Events => {
                let target = "/jmap/eventsource?types=*&closeafter=no&ping=0";
                client.say(&head(target, "Accept: text/event-stream\r\n")).await?;
                client.until_text("HTTP/1.1 200 ").await?;
                // The comment at the beginning.
                client.until_text(":\n\n").await?;
            }
            Wait::WebSocket => {
                let upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                               Sec-WebSocket-Protocol: jmap\r\nSec-WebSocket-Key: AQIDBAUGBwgJCgsMDQ4PEA==\r\n";
                client.say(&head("/jmap/ws", upgrade)).await?;
                client.until_text("HTTP/1.1 101 ").await?;
                client.until_text("\r\n\r\n").await?;
                client.send(&masked(br#"{"@type":"WebSocketPushEnable","dataTypes":null}"#)).await?;
                // A request after it: its answer says that pushes are enabled.
                client.send(&masked(br#"{"@type":"Request","id":"R","using":[],"methodCalls":[]}"#)).await?;
                client.until_text("\"requestId\":\"R\"").await?;
            }
        }
        Ok(client)
    }

    /// Logs in once, so that the server has checked the password.
    async fn log_in(&self, account: &str) -> Result<()> {
        self.connect(None, Wait::Events, account).await.with_context(|| format!("log in as {account}"))?;
        Ok(())
    }

    async fn stop(&mut self) -> Result<()> {
        server::signal(self.tree.root(), "TERM").await?;
        let status = tokio::time::timeout(STOP_TIMEOUT, self.child.wait()).await;
        ensure!(status.context("the server still runs")??.success(), "the server failed");
        Ok(())
    }
}

/// The first of these addresses.
fn address(endpoints: &[Endpoint]) -> Result<SocketAddr> {
    let Endpoint { host, port } = endpoints.first().context("the server does not listen")?;
    Ok(SocketAddr::new(host.parse()?, *port))
}

/// The configuration with listeners on free ports; the certificate is that of `sealpost try`.
fn with_listeners(lines: &str, data: &Path) -> String {
    let any = "[\"127.0.0.1:0\"]";
    let path = |name: &str| data.join(name).display().to_string();
    format!(
        "{lines}[listen]\nsmtp = []\nsubmission = []\nsubmissions = []\nimap = []\nimaps = []\nlmtp = {any}\nhttp = {any}\n\
         https = {any}\n[tls]\ncertificate = {:?}\nkey = {:?}\n[sending]\nenabled = \"off\"\n",
        path("tls-certificate.pem"),
        path("tls-key.pem")
    )
}

/// A text frame of a client (RFC 6455 §5.2) with a mask of zeros.
fn masked(text: &[u8]) -> Vec<u8> {
    let length = u8::try_from(text.len()).unwrap_or(126).min(126);
    let mut frame = vec![0x81, 0x80 | length];
    if length == 126 {
        frame.extend_from_slice(&u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
    }
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(text);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_frames_are_masked() {
        assert_eq!(masked(b"hi"), [0x81, 0x82, 0, 0, 0, 0, b'h', b'i']);
        let long = masked(&[b'x'; 300]);
        assert_eq!((&long[..4], long.len()), (&[0x81, 0xfe, 1, 44][..], 308));
    }
}
