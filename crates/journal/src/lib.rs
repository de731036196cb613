//! One append-only, hash-chained, sealed log per account: append, replay, checkpoint, trim.
//!
//! The contents of entries are opaque here. The invariants:
//!
//! - An entry is durable when [`Journal::append`] returns `Done`, and at most one entry ever counts at a
//!   position. With conditional create there is only one; otherwise the writers agree on one ([`DiskPaxos`]).
//! - Each entry carries the hash of the previous one, so that no swap, reorder or loss goes undetected, and a
//!   MAC, so that no other object passes for an entry. An object without a valid MAC is reported, skipped,
//!   and never appended to. [`Replay`] decides which entries count. Manifests and marks of skipped positions
//!   have such a MAC too, and count only with it.
//! - A stale writer learns that it is stale: [`Append::Lost`] if others appended, [`Append::Trimmed`] if
//!   checkpoints cover the entry that it would have followed and a trim removed it. Neither leaves an object
//!   that replay would count.
//! - A trim removes an entry only when two checkpoints exist at or above the next position, and never removes
//!   the newest two checkpoints. So the manifests always show every process up to which position the log may
//!   have been removed.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod attested;
mod ballot;
mod checkpoint;
mod disk_paxos;
mod log;
mod lost;
mod manifests;
mod metrics;
mod noise;
mod read;
mod repair;
mod replay;
mod skip;
mod survey;
mod tail;
#[cfg(test)]
mod tests;
mod trim_watermark;

use std::sync::Arc;

pub use ballot::{Ballot, EntryName};
pub use checkpoint::{Checkpoint, ChunkRef};
pub use disk_paxos::DiskPaxos;
use disk_paxos::Marks;
pub use log::{Append, Seal};
use lost::Lost;
pub use manifests::is_mark;
pub use metrics::JournalMetrics;
use noise::Judge;
pub use read::{Content, Entry, Read};
pub use repair::{Break, Repaired};
pub use replay::{Cover, Replay, Step};
use sealpost_base::{AccountId, Clock, Position, Random};
use sealpost_vault::Store;
use sealpost_vault::entry::LogKey;
pub use survey::{Survey, Unfit as UnfitObject};
pub use tail::Tail;
use trim_watermark::TrimWatermark;

/// The log of one account, or of one node's queue. Cheap to clone; holds no keys.
#[derive(Clone)]
pub struct Journal {
    store: Store,
    account: AccountId,
    /// The folder of all its objects.
    folder: Arc<str>,
    /// Whether its contents are sealed without compression.
    raw: bool,
    random: Arc<dyn Random>,
    /// The entries, and agreement between their writers.
    chain: DiskPaxos,
    /// Distinguishes entries from other objects.
    judge: Judge,
    /// The position from which nothing was trimmed at the last check.
    trim_watermark: Arc<TrimWatermark>,
    /// The position of the last lost append, and the number of consecutive losses.
    lost: Arc<Lost>,
    metrics: Arc<JournalMetrics>,
}

impl Journal {
    /// The log of `account` in `store`, whose entries `key` authenticates.
    pub fn new(store: Store, account: AccountId, key: &LogKey, random: Arc<dyn Random>) -> Self {
        Self::in_folder(format!("acct/{account}"), false, store, account, key, random)
    }

    /// The log of the queue of `node`, whose entries `key` authenticates. An entry holds mail of several
    /// senders, so it is not compressed: sizes would reveal one sender's data to another.
    pub fn of_queue(store: Store, node: AccountId, key: &LogKey, random: Arc<dyn Random>) -> Self {
        Self::in_folder(format!("queue/{node}"), true, store, node, key, random)
    }

    fn in_folder(
        folder: String,
        raw: bool,
        store: Store,
        account: AccountId,
        key: &LogKey,
        random: Arc<dyn Random>,
    ) -> Self {
        let folder: Arc<str> = folder.into();
        let judge = Judge::new(store.clone(), key.clone(), account, folder.clone());
        let chain = chain_below(&folder, store.clone(), random.clone()).judged_by(judge.clone());
        let (trim_watermark, lost, metrics) = (Arc::default(), Arc::default(), Arc::default());
        Journal { store, account, folder, raw, random, chain, judge, trim_watermark, lost, metrics }
    }

    /// For a frequent writer: skips the check for a trim before an append if a recent one exists.
    #[must_use]
    pub fn timed(self, clock: Arc<dyn Clock>) -> Self {
        Journal { trim_watermark: Arc::new(TrimWatermark::by(clock)), ..self }
    }

    /// Shares metrics with other logs.
    #[must_use]
    pub fn counted(self, metrics: Arc<JournalMetrics>) -> Self {
        self.judge.counted(metrics.clone());
        Journal { metrics, ..self }
    }

    /// For entries that free space: on a full disk they may use the reserve.
    #[must_use]
    pub fn freeing(&self) -> Self {
        Journal { store: self.store.freeing(), ..self.clone() }
    }

    /// The account of this log.
    pub fn account(&self) -> AccountId {
        self.account
    }

    fn log_prefix(&self) -> String {
        format!("{}/log", self.folder)
    }

    fn log_path(&self, position: Position) -> String {
        self.chain.path(&EntryName::plain(position))
    }

    /// Selects the manifests that matter after `known`.
    fn marks(&self, known: Position) -> Marks {
        Marks { after: self.manifest_path(known), known }
    }

    fn manifest_prefix(&self) -> String {
        format!("{}/manifest", self.folder)
    }

    fn manifest_path(&self, position: Position) -> String {
        format!("{}/manifest/{:016x}", self.folder, position.0)
    }

    fn snap_prefix(&self) -> String {
        format!("{}/snap", self.folder)
    }

    fn snap_path(&self, position: Position, name: &str) -> String {
        format!("{}/snap/{:016x}/{name}", self.folder, position.0)
    }
}

/// The entries of the log of `account`, for callers that only list them. No key checks their authenticity.
pub fn entries_of(store: Store, account: AccountId, random: Arc<dyn Random>) -> DiskPaxos {
    chain_below(&format!("acct/{account}"), store, random)
}

/// As [`entries_of`], for the queue of `node`.
pub fn queue_entries_of(store: Store, node: AccountId, random: Arc<dyn Random>) -> DiskPaxos {
    chain_below(&format!("queue/{node}"), store, random)
}

fn chain_below(folder: &str, store: Store, random: Arc<dyn Random>) -> DiskPaxos {
    // Ballots are in the folder of manifests, so that one listing shows both.
    DiskPaxos::new(store, format!("{folder}/log"), format!("{folder}/manifest"), random)
}

/// The account and position of the log entry at a path.
pub fn log_entry(path: &str) -> Option<(AccountId, Position)> {
    let (account, position) = path.strip_prefix("acct/")?.split_once("/log/")?;
    Some((account.parse().ok()?, EntryName::parse(position)?.position))
}
