//! Requests and answers on the admin socket, each one JSON object in a line.

use serde::{Deserialize, Serialize};

/// The version of requests and answers. A field more is no new version; a field less, or another meaning, is.
pub const VERSION: u32 = 1;

/// What a client asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// [`VERSION`].
    pub version: u32,
    /// What for.
    pub ask: Ask,
    /// How many sessions to tell of, at most [`ADMIN_ROWS`](sealpost_base::limits::ADMIN_ROWS).
    #[serde(default)]
    pub sessions: usize,
    /// Those that matter most by what measure.
    #[serde(default)]
    pub order: Order,
    /// How many accounts to tell of, at most [`ADMIN_ROWS`](sealpost_base::limits::ADMIN_ROWS).
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
