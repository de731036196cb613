//! The options of a pull, its tools, and what its parts have in common.

use std::collections::HashMap;
use std::sync::Arc;

use sealpost_base::{Clock, Error, Random, Result, UidSet};
use tokio::sync::watch;

use super::report::Observer;
use crate::client::{Connection, ListedMailbox, Server};
use crate::restored::Restored;

/// What to pull, and how.
#[derive(Clone)]
pub struct Options {
    /// Connections at once, at least 1.
    pub connections: usize,
    /// Messages that the server no longer has are removed from the backup too.
    pub delete: bool,
    /// Which folders.
    pub wanted: Arc<dyn Fn(&ListedMailbox) -> bool + Send + Sync>,
    /// Report what would be done, and change nothing.
    pub dry_run: bool,
    /// The same mailbox had another host or user name before: its backup continues.
    pub source_renamed: bool,
    /// What restores put back into the account.
    pub restored: Arc<Restored>,
    /// By folder: messages that are fetched even if the backup has them, and replace those.
    pub again: Arc<HashMap<String, UidSet>>,
}

/// What a pull works with.
#[derive(Clone)]
pub struct Tools {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness, for waiting.
    pub random: Arc<dyn Random>,
    /// Receives progress.
    pub observer: Arc<dyn Observer>,
    /// Becomes true when the pull is to stop: complete messages are committed.
    pub stop: watch::Receiver<bool>,
}

/// Connects, unless the pull is stopped.
pub(super) async fn connect(server: &Server, tools: &Tools) -> Result<Connection> {
    let mut stop = tools.stop.clone();
    tokio::select! {
        biased;
        _ = stop.wait_for(|stop| *stop) => Err(stopped()),
        connection = Connection::open(server) => connection,
    }
}

pub(super) fn stopped() -> Error {
    Error::retry("interrupted")
}
