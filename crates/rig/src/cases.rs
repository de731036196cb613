//! The benchmark cases: each prepares without being timed, measures one operation, and cleans up.
//!
//! Every measured run is the same work on either server: the same bytes, the same commands, the
//! same connections.

mod delivery;
pub mod large;
mod login;
mod mailbox;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use sealpost_base::{Clock, SystemClock};
use sealpost_bench::mail;
use sealpost_bench::process::{Mark, Sampler, Use};

use crate::lmtp;
use crate::server::{STOP_TIMEOUT, Server, Target};
use crate::small::Contents;
use large::Task;

/// Accounts that receive and append.
pub const CLIENTS: usize = 16;
/// The account whose mailboxes of 1,000 and 10,000 messages are read.
pub const READER: &str = "reader@localhost";
/// That account's mailbox of 1,000 messages, ten times [`mail::mailbox_100`].
pub const THOUSAND: &str = "Thousand";
/// That account's mailbox of 10,000 messages.
pub const TEN_THOUSAND: &str = "TenThousand";

/// An operation that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// LMTP deliveries of messages of some size over some connections, to one account or one each.
    Deliver {
        /// Kilobytes of one message.
        kilobytes: usize,
        /// Connections at once.
        clients: usize,
        /// Messages of one run, all connections together.
        messages: usize,
        /// Whether all go to the same account.
        one_account: bool,
    },
    /// APPEND of 100 mails to 16 accounts, one account after the other.
    AppendInTurn,
    /// The same, all 16 at once.
    AppendAtOnce,
    /// COPY of 1,000 messages.
    Copy,
    /// MOVE of 1,000 messages.
    Move,
    /// STORE of one flag on 1,000 messages, their FETCH responses read.
    Store,
    /// FETCH ALL of 1,000 messages.
    FetchAll,
    /// FETCH FULL of 1,000 messages.
    FetchFull,
    /// FETCH BODY[] of 1,000 messages, 236 MB.
    FetchBody,
    /// SELECT of a mailbox.
    Select {
        /// Which of the two large ones.
        ten_thousand: bool,
        /// Whether the server was started just before.
        cold: bool,
    },
    /// SEARCH of a word that 10 of 1,000 messages contain.
    Search {
        /// `TEXT` or `BODY`.
        key: &'static str,
        /// Whether the server was started just before; else the session has searched another word.
        cold: bool,
    },
    /// The first login to an account since the server started.
    LoginCold,
    /// 200 logins one after the other, each a connection of its own.
    LoginInTurn,
    /// 200 logins over 8 clients at once.
    LoginAtOnce,
    /// An operation on a mailbox of many small messages.
    Large {
        /// The number of messages.
        messages: usize,
        /// The operation.
        task: Task,
    },
}

fn warmth(cold: bool) -> &'static str {
    if cold { "cold" } else { "warm" }
}

/// All cases, in the order they run and are reported.
pub fn all() -> Vec<Case> {
    let large = large::SIZES
        .iter()
        .flat_map(|messages| Task::ALL.iter().map(|task| Case::Large { messages: *messages, task: *task }));
    MOST.iter().copied().chain(large).collect()
}

const MOST: &[Case] = &[
    Case::LoginCold,
    Case::LoginInTurn,
    Case::LoginAtOnce,
    Case::Deliver { kilobytes: 25, clients: 1, messages: 300, one_account: true },
    Case::Deliver { kilobytes: 25, clients: 16, messages: 1600, one_account: false },
    Case::Deliver { kilobytes: 25, clients: 16, messages: 1600, one_account: true },
    Case::Deliver { kilobytes: 5, clients: 10, messages: 1500, one_account: false },
    Case::Deliver { kilobytes: 5, clients: 10, messages: 1500, one_account: true },
    Case::AppendInTurn,
    Case::AppendAtOnce,
    Case::FetchAll,
    Case::FetchFull,
    Case::FetchBody,
    Case::Store,
    Case::Copy,
    Case::Move,
    Case::Select { ten_thousand: false, cold: false },
    Case::Select { ten_thousand: true, cold: false },
    Case::Search { key: "TEXT", cold: false },
    Case::Search { key: "BODY", cold: false },
    Case::Select { ten_thousand: false, cold: true },
    Case::Select { ten_thousand: true, cold: true },
    Case::Search { key: "TEXT", cold: true },
    Case::Search { key: "BODY", cold: true },
];

impl Case {
    /// Its name in reports.
    pub fn name(self) -> String {
        match self {
            Case::Deliver { kilobytes, clients, one_account, .. } => {
                let to = if one_account { "one account" } else { "an account each" };
                let to = if clients == 1 { "" } else { &format!(", to {to}") };
                format!(
                    "LMTP delivery, {kilobytes} kB, {clients} connection{}{to}",
                    if clients == 1 { "" } else { "s" }
                )
            }
            Case::AppendInTurn => "APPEND of 100 mails (23.6 MB) to 16 accounts, one after the other".into(),
            Case::AppendAtOnce => "APPEND of 100 mails (23.6 MB) to 16 accounts, at once".into(),
            Case::Copy => "COPY of 1,000".into(),
            Case::Move => "MOVE of 1,000".into(),
            Case::Store => "STORE +FLAGS of one flag on 1,000".into(),
            Case::FetchAll => "FETCH ALL of 1,000".into(),
            Case::FetchFull => "FETCH FULL of 1,000".into(),
            Case::FetchBody => "FETCH BODY[] of 1,000 (236 MB)".into(),
            Case::Select { ten_thousand, cold } => {
                format!("SELECT of {}, {}", if ten_thousand { "10,000" } else { "1,000" }, warmth(cold))
            }
            Case::Search { key, cold } => {
                format!("SEARCH {key} of a rare word in 1,000 (236 MB), {}", warmth(cold))
            }
            Case::LoginCold => "login, the first since the server started".into(),
            Case::LoginInTurn => "200 logins, one after the other".into(),
            Case::LoginAtOnce => "200 logins, 8 clients at once".into(),
            Case::Large { messages, task } => task.name(messages),
        }
    }

    /// How many operations one run does, where a rate is more useful than a time.
    pub fn units(self) -> Option<(usize, &'static str)> {
        match self {
            Case::Deliver { messages, .. } => Some((messages, "messages")),
            Case::AppendInTurn | Case::AppendAtOnce => Some((CLIENTS * 100, "messages")),
            Case::LoginInTurn | Case::LoginAtOnce => Some((login::LOGINS, "logins")),
            _ => None,
        }
    }

    /// Whether it stores messages, so that fsyncs per message are of interest.
    pub fn stores(self) -> bool {
        matches!(self, Case::Deliver { .. } | Case::AppendInTurn | Case::AppendAtOnce)
    }

    /// Whether it needs the mailboxes of [`READER`].
    pub fn reads(self) -> bool {
        let logins = matches!(self, Case::LoginCold | Case::LoginInTurn | Case::LoginAtOnce);
        !self.stores() && !logins && self.large().is_none()
    }

    /// Whether the server is restarted before each run, so that its memory is empty. The page cache
    /// is kept.
    pub fn is_cold(self) -> bool {
        matches!(self, Case::Select { cold: true, .. } | Case::Search { cold: true, .. })
    }

    /// Whether it takes many minutes, mostly to fill its mailbox.
    pub fn is_long(self) -> bool {
        self.large().is_some_and(|messages| messages > 10_000)
    }

    /// The size of the mailbox of small messages that it needs, if it does.
    pub fn large(self) -> Option<usize> {
        match self {
            Case::Large { messages, .. } => Some(messages),
            _ => None,
        }
    }

    /// One run against `bench`; `run` numbers it, so that every run has mailboxes or accounts of
    /// its own.
    pub async fn run(self, bench: &Bench, run: usize) -> Result<Measured> {
        match self {
            Case::Deliver { kilobytes, clients, messages, one_account } => {
                delivery::deliver(bench, kilobytes, clients, messages, one_account).await
            }
            Case::AppendInTurn => delivery::append(bench, run, false).await,
            Case::AppendAtOnce => delivery::append(bench, run, true).await,
            Case::Copy => mailbox::copy(bench, run).await,
            Case::Move => mailbox::r#move(bench, run).await,
            Case::Store => mailbox::store(bench).await,
            Case::FetchAll => mailbox::fetch(bench, "ALL").await,
            Case::FetchFull => mailbox::fetch(bench, "FULL").await,
            Case::FetchBody => mailbox::fetch(bench, "BODY.PEEK[]").await,
            Case::Select { ten_thousand, cold } => mailbox::select(bench, ten_thousand, cold).await,
            Case::Search { key, cold } => mailbox::search(bench, key, cold).await,
            Case::LoginCold => login::cold(bench, run).await,
            Case::LoginInTurn => login::repeated(bench, 1).await,
            Case::LoginAtOnce => login::repeated(bench, 8).await,
            Case::Large { messages, task } => task.run(bench, messages).await,
        }
    }
}

/// Generated mail, created once and used against every server.
pub struct Data {
    /// [`mail::mailbox_100`].
    pub mailbox: Vec<Vec<u8>>,
    /// Messages of 5 kB as DATA needs them.
    pub small: Vec<Vec<u8>>,
    /// Messages of 25 kB as DATA needs them.
    pub medium: Vec<Vec<u8>>,
}

impl Data {
    /// Generates it from a seed.
    pub fn generate(seed: u64) -> Self {
        let pool =
            |size: usize| (0..64).map(|n| lmtp::dotted(&mail::message(seed ^ (n + 7_000), size))).collect();
        Data { mailbox: mail::mailbox_100(seed), small: pool(5_000), medium: pool(25_000) }
    }
}

/// A server with the accounts and mailboxes the cases need.
pub struct Bench {
    /// The kind of server.
    pub target: Target,
    /// The server.
    pub server: Server,
    /// Where it keeps its data.
    pub dir: PathBuf,
    /// Samples its memory, in runs where that is wanted.
    pub sampler: Option<Sampler>,
    /// The mail.
    pub data: Arc<Data>,
    /// The mailboxes of small messages that were imported.
    pub large: Vec<Contents>,
    clock: SystemClock,
}

/// The measurements of one run.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    /// Wall time.
    pub wall: Duration,
    /// CPU time of the server's processes, in seconds.
    pub cpu_seconds: f64,
    /// Its memory meanwhile, if it was sampled.
    pub memory: Option<Use>,
}

/// Runs between [`Bench::begin`] and [`Meter::end`].
pub struct Meter<'a> {
    bench: &'a Bench,
    mark: Option<Mark>,
    cpu_seconds: f64,
    start: Duration,
}

impl Bench {
    /// All accounts the cases use, for `runs` runs.
    pub fn accounts(runs: usize) -> Vec<String> {
        let clients = (0..CLIENTS).map(account);
        clients.chain([READER.to_owned()]).chain((0..runs).map(login::cold_account)).collect()
    }

    /// Starts a server with the accounts of `runs` runs.
    pub async fn open(target: Target, dir: PathBuf, runs: usize, data: Arc<Data>) -> Result<Self> {
        let server = target.start(&dir, &Self::accounts(runs)).await?;
        Ok(Bench { target, server, dir, sampler: None, data, large: Vec::new(), clock: SystemClock::new() })
    }

    /// Stops the server and starts it again on the same data.
    pub async fn restart(&mut self, runs: usize) -> Result<()> {
        self.server.end(STOP_TIMEOUT).await?;
        self.server = self.target.start(&self.dir, &Self::accounts(runs)).await?;
        Ok(())
    }

    /// Fills the mailboxes of [`READER`].
    pub async fn fill(&self, seed: u64) -> Result<()> {
        mailbox::fill(self, seed).await
    }

    fn begin(&self) -> Meter<'_> {
        let mark = self.sampler.as_ref().map(Sampler::begin);
        let cpu_seconds = self.server.tree.cpu_seconds();
        Meter { bench: self, mark, cpu_seconds, start: self.clock.monotonic() }
    }
}

impl Meter<'_> {
    fn end(self) -> Measured {
        let wall = self.bench.clock.monotonic() - self.start;
        let cpu_seconds = self.bench.server.tree.cpu_seconds() - self.cpu_seconds;
        let memory = self.mark.and_then(|mark| Some(self.bench.sampler.as_ref()?.end(mark)));
        Measured { wall, cpu_seconds, memory }
    }
}

/// The address of client `nth`.
pub fn account(nth: usize) -> String {
    format!("user{nth:02}@localhost")
}
