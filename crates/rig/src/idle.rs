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
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use sealpost_base::{Clock, SystemClock};

use crate::imap::login;
use crate::lmtp::{Lmtp, dotted};
use crate::quiet::{Client, OTHER_FILES, Percentiles, connector, gather, open_files};
use crate::server::{self, Configured, PASSWORD, STOP_TIMEOUT, Sealpost, Server};

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
    let connector = options.tls.then(|| connector(&options.dir.join("data"))).transpose()?;
    let address = if options.tls { server.imaps.context("the server has no TLS port")? } else { server.imap };
    gather((0..options.connections).map(|_| Client::connect(address, connector.as_ref()))).await
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
        println!("idle: notified after {what}: {}", Percentiles::of(&mut latencies));
    }
    Ok(())
}
