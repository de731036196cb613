//! [`Journal`]: what the parts of a log share. The other files of this crate add its methods.

use std::sync::Arc;

use sealpost_base::{AccountId, Clock, Position, Random};
use sealpost_vault::Store;
use sealpost_vault::entry::LogKey;

use crate::ballot::EntryName;
use crate::disk_paxos::{DiskPaxos, Marks};
use crate::lost::Lost;
use crate::metrics::JournalMetrics;
use crate::noise::Judge;
use crate::trim_watermark::TrimWatermark;

/// The log of one account, or of one node's queue. Cheap to clone; holds no keys.
#[derive(Clone)]
pub struct Journal {
    pub(crate) store: Store,
    pub(crate) account: AccountId,
    /// The folder of all its objects.
    pub(crate) folder: Arc<str>,
    /// Whether its contents are sealed without compression.
    pub(crate) raw: bool,
    pub(crate) random: Arc<dyn Random>,
    /// The entries, and agreement between their writers.
    pub(crate) chain: DiskPaxos,
    /// Distinguishes entries from other objects.
    pub(crate) judge: Judge,
    /// The position from which nothing was trimmed at the last check.
    pub(crate) trim_watermark: Arc<TrimWatermark>,
    /// The position of the last lost append, and the number of consecutive losses.
    pub(crate) lost: Arc<Lost>,
    pub(crate) metrics: Arc<JournalMetrics>,
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

    pub(crate) fn log_prefix(&self) -> String {
        format!("{}/log", self.folder)
    }

    pub(crate) fn log_path(&self, position: Position) -> String {
        self.chain.path(&EntryName::plain(position))
    }

    /// Selects the manifests that matter after `known`.
    pub(crate) fn marks(&self, known: Position) -> Marks {
        Marks { after: self.manifest_path(known), known }
    }

    pub(crate) fn manifest_prefix(&self) -> String {
        format!("{}/manifest", self.folder)
    }

    pub(crate) fn manifest_path(&self, position: Position) -> String {
        format!("{}/manifest/{:016x}", self.folder, position.0)
    }

    pub(crate) fn snap_prefix(&self) -> String {
        format!("{}/snap", self.folder)
    }

    pub(crate) fn snap_path(&self, position: Position, name: &str) -> String {
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
