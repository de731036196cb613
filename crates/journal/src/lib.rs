//! One append-only, hash-chained, sealed log per account: append, replay, checkpoint, trim.
//!
//! What the entries say is opaque here. The invariants:
//!
//! - An entry is durable when [`Journal::append`] says `Done`; at most one entry ever exists at a position.
//! - Each entry carries the hash of the one before, so none can be swapped, reordered or dropped unseen.
//! - Whoever is behind finds out: [`Append::Lost`] when others appended, [`Append::Trimmed`] when what it would
//!   have followed was folded into a checkpoint and removed. Neither leaves anything that replay would count.
//! - An entry is removed only when two checkpoints exist at or above the position after it, and the newest two checkpoints
//!   are never removed. So manifests tell, for ever and to everybody, up to where the log may be gone.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod checkpoint;
mod log;
mod metrics;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use checkpoint::{Checkpoint, ChunkRef};
pub use log::{Append, Content, Entry, Seal};
pub use metrics::JournalMetrics;
use sealpost_base::{AccountId, Position, Random};
use sealpost_vault::{Hash, Store};

/// The end of a log as somebody knows it: the last position and the hash of what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, minicbor::Encode, minicbor::Decode)]
pub struct Tail {
    /// The last entry's position; [`Position::ZERO`] for an empty log.
    #[n(0)]
    pub position: Position,
    /// The last entry's hash; [`Hash::ZERO`] for an empty log.
    #[n(1)]
    pub hash: Hash,
}

impl Tail {
    /// The end of an empty log.
    pub const EMPTY: Tail = Tail { position: Position::ZERO, hash: Hash::ZERO };
}

/// The log of one account. Cheap to clone; holds no keys.
#[derive(Clone)]
pub struct Journal {
    store: Store,
    account: AccountId,
    random: Arc<dyn Random>,
    metrics: Arc<JournalMetrics>,
}

impl Journal {
    /// The log of `account` in `store`.
    pub fn new(store: Store, account: AccountId, random: Arc<dyn Random>) -> Self {
        Journal { store, account, random, metrics: Arc::default() }
    }

    /// The same, counted together with others.
    #[must_use]
    pub fn counted(self, metrics: Arc<JournalMetrics>) -> Self {
        Journal { metrics, ..self }
    }

    /// Whose log this is.
    pub fn account(&self) -> AccountId {
        self.account
    }

    fn log_prefix(&self) -> String {
        format!("acct/{}/log", self.account)
    }

    fn log_path(&self, position: Position) -> String {
        format!("acct/{}/log/{:016x}", self.account, position.0)
    }

    fn manifest_prefix(&self) -> String {
        format!("acct/{}/manifest", self.account)
    }

    fn manifest_path(&self, position: Position) -> String {
        format!("acct/{}/manifest/{:016x}", self.account, position.0)
    }

    fn snap_prefix(&self) -> String {
        format!("acct/{}/snap", self.account)
    }

    fn snap_path(&self, position: Position, name: &str) -> String {
        format!("acct/{}/snap/{:016x}/{name}", self.account, position.0)
    }
}

/// Which account's log entry has that path, and where in the log it is.
pub fn log_entry(path: &str) -> Option<(AccountId, Position)> {
    let (account, position) = path.strip_prefix("acct/")?.split_once("/log/")?;
    Some((account.parse().ok()?, position_in(position)?))
}

/// The position a path ends with, or that its folder is named after.
fn position_in(segment: &str) -> Option<Position> {
    if segment.len() != 16 {
        return None;
    }
    u64::from_str_radix(segment, 16).ok().map(Position)
}
