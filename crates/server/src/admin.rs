//! The admin socket: the state of the server, for `sealpost top` and other programs that may read
//! the data directory.
//!
//! A Unix socket in the data directory, mode 0600. Each line is one JSON object: a [`Request`], and
//! for each an [`Answer`]. A client may send any number of requests on a connection. It gets names
//! of accounts and addresses of clients, which operators may see, and never a secret or content of
//! a message. Requests change nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sealpost_base::Kind;
use sealpost_base::limits::{ADMIN_REQUEST_BYTES, ADMIN_ROWS};
use sealpost_files::owner::Owner;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::listener::Listener;
use crate::metrics::{Process, Protocol};
use crate::sending::Sending;
use sealpost_session::Context;
use sealpost_session::net::Stream;
use sealpost_session::sessions::{Live, SessionInfo, SessionState};

/// The version of requests and answers. A field more is no new version; a field less, or another meaning, is.
pub const VERSION: u32 = 1;

/// The socket's name in the data directory.
pub const SOCKET: &str = "admin.sock";
/// How many servers on one directory have a socket each.
const SERVERS: usize = 8;
/// How long a client may be silent, or take to read an answer.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What a client asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// [`VERSION`].
    pub version: u32,
    /// What for.
    pub ask: Ask,
    /// How many sessions to tell of, at most [`ADMIN_ROWS`].
    #[serde(default)]
    pub sessions: usize,
    /// Those that matter most by what measure.
    #[serde(default)]
    pub order: Order,
    /// How many accounts to tell of, at most [`ADMIN_ROWS`].
    #[serde(default)]
    pub accounts: usize,
}

/// The requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ask {
    /// [`Stats`], as they are now.
    Stats,
}

/// How sessions are ordered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Those that work on a command first, then by bytes.
    #[default]
    Busy,
    /// By bytes in both directions.
    Bytes,
    /// The oldest first.
    Age,
}

/// What the server says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// To [`Ask::Stats`].
    Stats(Box<Stats>),
    /// The request was not understood, and why.
    Error(String),
}

/// The server at one moment. Totals count from its start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// [`VERSION`].
    pub version: u32,
    /// The program's version.
    pub program: String,
    /// The process.
    pub pid: u32,
    /// How long it has been running, in milliseconds. Rates are differences over differences of this.
    pub uptime_ms: u64,
    /// What the system knows of it.
    pub process: ProcessStats,
    /// The memory budget.
    pub memory: MemoryStats,
    /// Each protocol's sessions and totals.
    pub protocols: Vec<ProtocolStats>,
    /// Logins.
    pub logins: LoginStats,
    /// Accounts in memory.
    pub accounts: AccountStats,
    /// The store.
    pub store: StoreStats,
    /// Mail that waits to be sent; none on a server that does not send.
    #[serde(default)]
    pub queue: Option<QueueStats>,
    /// Sessions, as many as requested.
    pub sessions: Vec<SessionStats>,
}

/// What the system knows of the process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessStats {
    /// In RAM, in bytes.
    pub resident: u64,
    /// The most that was in RAM, in bytes.
    pub peak: u64,
    /// Processor time used, in milliseconds.
    pub cpu_ms: u64,
    /// Threads.
    pub threads: u64,
    /// Open files.
    pub files: u64,
    /// How many it may open.
    pub most_files: u64,
}

/// The memory budget, in bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoryStats {
    /// All of it.
    pub total: u64,
    /// Drawn now.
    pub in_use: u64,
    /// Pieces of work that wait for some of it.
    pub waiting: u64,
}

/// One protocol.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProtocolStats {
    /// `imap`, `smtp`, `lmtp`.
    pub protocol: String,
    /// Sessions now.
    pub sessions: u64,
    /// Of those, in IDLE.
    pub idle: u64,
    /// Connections that became sessions.
    pub accepted: u64,
    /// Connections refused with a temporary error.
    pub refused: u64,
    /// Commands that were answered.
    pub commands: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Messages that were taken.
    pub messages: u64,
    /// Recipients that they were delivered to.
    pub deliveries: u64,
}

/// Logins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoginStats {
    /// That succeeded.
    pub succeeded: u64,
    /// That failed.
    pub failed: u64,
    /// Password checks that are waiting now.
    pub waiting: u64,
    /// Held back now because of earlier failures.
    pub throttled: u64,
}

/// Accounts in memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AccountStats {
    /// How many.
    pub loaded: u64,
    /// About how much memory they take, in bytes.
    pub bytes: u64,
    /// How often one was loaded.
    pub loads: u64,
    /// How often one left.
    pub evictions: u64,
    /// The largest, as many as requested.
    pub largest: Vec<LoadedStats>,
}

/// One account in memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadedStats {
    /// Its id.
    pub id: String,
    /// Its name, if a session of it is open.
    pub name: Option<String>,
    /// About how much memory it takes, in bytes.
    pub bytes: u64,
    /// Its messages, expunged ones that are still kept included.
    pub messages: u64,
}

/// The store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoreStats {
    /// Reads.
    pub reads: u64,
    /// Transactions.
    pub commits: u64,
    /// Waits for the disk.
    pub fsyncs: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Operations that failed.
    pub failures: u64,
}

/// The queue of this node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueueStats {
    /// Mails in it.
    pub mails: u64,
    /// How long the oldest waits, in milliseconds.
    pub oldest_ms: u64,
    /// Mails that are being sent, or wait for a connection.
    pub active: u64,
    /// Connections to other servers.
    pub connections: u64,
    /// Recipients delivered.
    pub delivered: u64,
    /// Attempts after which a recipient was left.
    pub deferred: u64,
    /// Recipients that failed.
    pub failed: u64,
    /// Why nothing is sent: the whole queue is on hold, or has stopped.
    pub problem: Option<String>,
}

/// One session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionStats {
    /// `imap`, `smtp`, `lmtp`.
    pub protocol: String,
    /// The account that logged in.
    pub user: Option<String>,
    /// The client's address; none on a Unix socket.
    pub peer: Option<String>,
    /// Whether TLS is spoken.
    pub tls: bool,
    /// `anonymous`, `authenticated`, `selected`; `open` for SMTP and LMTP.
    pub state: String,
    /// The command at hand.
    pub command: Option<String>,
    /// Since when, in milliseconds before now.
    pub age_ms: u64,
    /// Commands so far.
    pub commands: u64,
    /// Bytes received so far.
    pub bytes_in: u64,
    /// Bytes sent so far.
    pub bytes_out: u64,
}

impl Request {
    /// For statistics with so many sessions and accounts.
    pub fn stats(sessions: usize, order: Order, accounts: usize) -> Self {
        Request { version: VERSION, ask: Ask::Stats, sessions, order, accounts }
    }
}

/// The paths where servers on the data directory `dir` listen, in the order in which they are taken.
pub fn sockets(dir: &Path) -> impl Iterator<Item = PathBuf> {
    let numbered = (2..=SERVERS).map(|n| format!("admin-{n}.sock"));
    std::iter::once(SOCKET.to_owned()).chain(numbered).map({
        let dir = dir.to_owned();
        move |name| dir.join(name)
    })
}

/// Listens on the first path that no other server uses. Mail is more important: if there is none,
/// the server runs without an admin socket.
pub(crate) fn listen(dir: &Path) -> Option<(Listener, PathBuf)> {
    let mut why = None;
    for path in sockets(dir) {
        match Listener::unix(&path, 0o600) {
            Ok(listener) => {
                // Root starts a server on another user's data now and then: that user may watch it, too.
                if let Err(error) = Owner::for_new(&path).and_then(|owner| owner.adopt_socket(&path)) {
                    tracing::warn!(%error, "the admin socket stays root's");
                }
                return Some((listener, path));
            }
            // Another server has it.
            Err(e) if e.kind() == Kind::Retry => why = Some(e),
            Err(e) => {
                why = Some(e);
                break;
            }
        }
    }
    if let Some(error) = why {
        tracing::warn!(%error, "no admin socket: `sealpost top` cannot monitor this server");
    }
    None
}

/// Answers requests until the client has left.
pub(crate) async fn serve(mut stream: Stream, ctx: Arc<Context>, sending: Option<Sending>) {
    let answered = tokio::select! {
        () = ctx.shutdown.wait() => return,
        answered = converse(&mut stream, &ctx, sending.as_ref()) => answered,
    };
    if let Err(e) = answered {
        tracing::debug!(error = %e, "a connection to the admin socket failed");
    }
}

async fn converse(stream: &mut Stream, ctx: &Arc<Context>, sending: Option<&Sending>) -> std::io::Result<()> {
    let mut input = Vec::new();
    loop {
        while let Some(end) = input.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = input.drain(..=end).collect();
            say(stream, &answer(ctx, sending, &line)).await?;
        }
        if input.len() > ADMIN_REQUEST_BYTES {
            return say(stream, &Answer::Error("the request is too long".to_owned())).await;
        }
        let mut piece = [0; ADMIN_REQUEST_BYTES];
        match tokio::time::timeout(TIMEOUT, stream.read(&mut piece)).await?? {
            0 => return Ok(()),
            bytes => input.extend_from_slice(&piece[..bytes]),
        }
    }
}

async fn say(stream: &mut Stream, answer: &Answer) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    tokio::time::timeout(TIMEOUT, stream.write_all(&line)).await?
}

fn answer(ctx: &Context, sending: Option<&Sending>, line: &[u8]) -> Answer {
    match serde_json::from_slice::<Request>(line) {
        Ok(request) if request.version != VERSION => {
            Answer::Error(format!("this server speaks version {VERSION}"))
        }
        Ok(request) => match request.ask {
            Ask::Stats => Answer::Stats(Box::new(stats(ctx, sending, &request))),
        },
        Err(e) => Answer::Error(format!("not a request: {e}")),
    }
}

/// The server as it is now.
pub fn stats(ctx: &Context, sending: Option<&Sending>, request: &Request) -> Stats {
    let (process, now) = (Process::read(), ctx.clock.monotonic());
    let (store, store_metrics) = (ctx.store.stats(), ctx.store.metrics());
    let logins = ctx.auth.metrics();
    let most = request.sessions.min(ADMIN_ROWS);
    let sessions = match request.order {
        Order::Busy => ctx.sessions.top(most, |live| (live.works(), live.bytes())),
        Order::Bytes => ctx.sessions.top(most, Live::bytes),
        // Equal ranks are in the order in which they began.
        Order::Age => ctx.sessions.top(most, |_| ()),
    };
    Stats {
        version: VERSION,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        uptime_ms: milliseconds(ctx.clock.now().since(ctx.started)),
        process: ProcessStats {
            resident: process.resident,
            peak: process.peak,
            cpu_ms: milliseconds(process.cpu),
            threads: process.threads,
            files: process.files,
            most_files: process.most_files,
        },
        memory: MemoryStats {
            total: ctx.budget.total() as u64,
            in_use: ctx.budget.in_use() as u64,
            waiting: ctx.budget.waiting() as u64,
        },
        protocols: Protocol::ALL.map(|protocol| of_protocol(ctx, protocol)).into(),
        logins: LoginStats {
            succeeded: logins.successes(),
            failed: logins.failures(),
            waiting: ctx.auth.checks_waiting() as u64,
            throttled: ctx.auth.held_back() as u64,
        },
        accounts: accounts(ctx, request.accounts.min(ADMIN_ROWS)),
        store: StoreStats {
            reads: store_metrics.reads.read().count(),
            commits: store.commits,
            fsyncs: store.fsyncs,
            bytes: store.bytes,
            failures: store_metrics.failures.read(),
        },
        queue: sending.map(queue),
        sessions: sessions.into_iter().map(|seen| session(seen, now)).collect(),
    }
}

fn queue(sending: &Sending) -> QueueStats {
    let (activity, metrics) = (sending.activity(), sending.runner_metrics());
    let mails = sending.depth().mails as u64;
    let held = sending.queue().state().all_held().map(|why| format!("on hold: {why}"));
    QueueStats {
        mails,
        oldest_ms: milliseconds(sending.oldest()),
        active: activity.active as u64,
        connections: activity.connections as u64,
        delivered: metrics.delivered.read() + metrics.relayed.read(),
        deferred: metrics.deferred.read(),
        failed: metrics.failed.read(),
        problem: sending.problem().or(held),
    }
}

fn of_protocol(ctx: &Context, protocol: Protocol) -> ProtocolStats {
    let (count, metrics) = (ctx.sessions.count(protocol), ctx.metrics.of(protocol));
    ProtocolStats {
        protocol: protocol.name().to_owned(),
        sessions: count.all,
        idle: count.states[3],
        accepted: metrics.accepted.read(),
        refused: metrics.refused.read(),
        commands: metrics.commands(),
        bytes_in: metrics.bytes_in.read(),
        bytes_out: metrics.bytes_out.read(),
        messages: metrics.messages.read(),
        deliveries: metrics.deliveries.read(),
    }
}

fn accounts(ctx: &Context, most: usize) -> AccountStats {
    let loaded = ctx.accounts.all_loaded();
    let mut sized: Vec<_> = loaded.iter().map(|account| (account.state().memory(), account)).collect();
    sized.sort_by_key(|(bytes, account)| (std::cmp::Reverse(*bytes), account.id()));
    let row = |(bytes, account): &(usize, &Arc<sealpost_account::Account>)| LoadedStats {
        id: account.id().to_string(),
        name: ctx.sessions.user_of(account.id()),
        bytes: *bytes as u64,
        messages: account.state().message_count() as u64,
    };
    let metrics = ctx.accounts.metrics();
    AccountStats {
        loaded: loaded.len() as u64,
        bytes: sized.iter().map(|(bytes, _)| *bytes as u64).sum(),
        loads: metrics.loads.read().count(),
        evictions: metrics.evictions.read(),
        largest: sized.iter().take(most).map(row).collect(),
    }
}

fn session(seen: SessionInfo, now: Duration) -> SessionStats {
    let state = match (seen.protocol, seen.state) {
        (Protocol::Imap | Protocol::Submission, SessionState::Anonymous) => "anonymous",
        (Protocol::Imap | Protocol::Submission, SessionState::Authenticated) => "authenticated",
        (Protocol::Imap | Protocol::Submission, SessionState::Selected) => "selected",
        (Protocol::Smtp | Protocol::Lmtp | Protocol::Http | Protocol::Jmap, _) => "open",
    };
    SessionStats {
        protocol: seen.protocol.name().to_owned(),
        user: seen.user,
        peer: seen.peer.map(|peer| peer.to_string()),
        tls: seen.tls,
        state: state.to_owned(),
        command: seen.command.map(str::to_owned),
        age_ms: milliseconds(now.saturating_sub(seen.since)),
        commands: seen.commands,
        bytes_in: seen.bytes_in,
        bytes_out: seen.bytes_out,
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn requests_are_answered_one_by_one_and_nonsense_is_named() {
        let ctx = Arc::new(crate::context_for_tests());
        let (ours, mut theirs) = Stream::pair().unwrap();
        let serving = tokio::spawn(serve(ours, ctx.clone(), None));
        let request = serde_json::to_string(&Request::stats(10, Order::Age, 10)).unwrap();
        theirs
            .write_all(format!("{request}\nwhat?\n{{\"version\":9,\"ask\":\"stats\"}}\n").as_bytes())
            .await
            .unwrap();
        let mut lines = Vec::new();
        while lines.iter().filter(|byte| **byte == b'\n').count() < 3 {
            let mut piece = [0; 1024];
            let bytes = theirs.read(&mut piece).await.unwrap();
            lines.extend_from_slice(&piece[..bytes]);
        }
        let answers: Vec<Answer> = String::from_utf8(lines)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let Answer::Stats(stats) = &answers[0] else { panic!("{answers:?}") };
        let protocols = Protocol::ALL.len();
        assert_eq!((stats.version, stats.pid, stats.protocols.len()), (1, std::process::id(), protocols));
        assert!(matches!(&answers[1], Answer::Error(why) if why.contains("not a request")), "{answers:?}");
        assert_eq!(answers[2], Answer::Error("this server speaks version 1".to_owned()));
        drop(theirs);
        serving.await.unwrap();
    }

    #[tokio::test]
    async fn a_request_without_end_is_refused() {
        let ctx = Arc::new(crate::context_for_tests());
        let (ours, mut theirs) = Stream::pair().unwrap();
        tokio::spawn(serve(ours, ctx, None));
        theirs.write_all(&[b' '; ADMIN_REQUEST_BYTES + 1]).await.unwrap();
        let mut said = Vec::new();
        theirs.read_to_end(&mut said).await.unwrap();
        assert_eq!(said, b"{\"error\":\"the request is too long\"}\n");
    }
}
