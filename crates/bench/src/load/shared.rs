//! How a scenario is run ([`Options`]), and what the threads of a run share ([`Shared`]).

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use anyhow::Result;
use sealpost_base::Clock;

use super::data::{DataSet, Library};
use super::notice::Notices;
use super::scenario::Scenario;
use super::scenario::template::Names;
use super::target::Target;

/// How a scenario is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The same seed sends the same bytes.
    pub seed: u64,
    /// Sending threads.
    pub threads: usize,
    /// How long a command, a connection or a delivery may take as a whole.
    pub command_timeout: Duration,
    /// The server does nothing: a slow result is the bench's.
    pub null: bool,
    /// Keep the bench's mailboxes.
    pub keep: bool,
    /// The source of data sets, shared by successive runs.
    pub library: Library,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            seed: 1,
            threads: 1,
            command_timeout: Duration::from_secs(60),
            null: false,
            keep: false,
            library: Library::default(),
        }
    }
}

/// State shared by all threads.
pub struct Shared {
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The server.
    pub target: Target,
    /// Mail, by the name of its set.
    pub data: HashMap<String, Arc<DataSet>>,
    /// Clients in IDLE that wait for deliveries.
    pub notices: Notices,
    /// The seed of all random numbers.
    pub seed: u64,
    /// How long a command, a connection or a delivery may take as a whole.
    pub command_timeout: Duration,
    pub(super) null: bool,
    /// Successful commands.
    pub done: AtomicU64,
    /// Failed commands.
    pub errors: AtomicU64,
    /// Bytes sent.
    pub sent: AtomicU64,
    /// Bytes received.
    pub received: AtomicU64,
    /// Open connections.
    pub open: AtomicU64,
    /// The most connections that were open at once.
    pub most_open: AtomicU64,
    /// What the server lacks for some commands, as text.
    pub left_out: Mutex<BTreeSet<String>>,
    pub(super) names: OnceLock<Names>,
}

impl Shared {
    /// Prepares to run `scenario`: its mail is generated.
    ///
    /// # Errors
    /// If a data set does not exist.
    pub fn new(
        scenario: &Scenario,
        target: Target,
        options: &Options,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let open = |name: String| Ok((name.clone(), options.library.open(&name, options.seed)?));
        Ok(Shared {
            clock,
            target,
            data: scenario.data().into_iter().map(open).collect::<Result<_>>()?,
            notices: Notices::default(),
            seed: options.seed,
            command_timeout: options.command_timeout,
            null: options.null,
            done: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            open: AtomicU64::new(0),
            most_open: AtomicU64::new(0),
            left_out: Mutex::default(),
            names: OnceLock::new(),
        })
    }

    /// The server's syntax of mailbox names.
    pub fn names(&self) -> &Names {
        self.names.get_or_init(Names::default)
    }

    pub(super) fn counts(&self) -> [u64; 4] {
        [&self.done, &self.errors, &self.sent, &self.received].map(|count| count.load(Ordering::Relaxed))
    }
}
