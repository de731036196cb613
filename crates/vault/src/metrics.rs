//! Metrics of a store.

use sealpost_base::metrics::{Counter, Histogram};

/// How long a store takes and how much it shares. Times are what callers wait, queues included.
#[derive(Debug)]
pub struct StoreMetrics {
    /// Reads: of an object, of a part of one, or of parts of several at once.
    pub reads: Histogram,
    /// Writes of whole objects; durable at the end.
    pub writes: Histogram,
    /// Removals.
    pub deletes: Histogram,
    /// Operations that failed, those not counted that found an object absent, or there already.
    pub failures: Counter,
    /// Signs of damage that were found in the database of the local backend: an index that is out
    /// of order, or hides objects. Nothing is written any more then.
    pub damage: Counter,
    /// Requests sent to a remote store; a page of a listing and a part of an upload are one each.
    pub requests: Counter,
    /// Those of them that repeated one that had failed.
    pub retries: Counter,
    /// Reads that the cache of a remote store answered.
    pub cache_hits: Counter,
    /// Reads of what it could have had.
    pub cache_misses: Counter,
    /// Transactions of the local backend, from its beginning to the end of the wait for the disk.
    pub commits: Histogram,
    /// Writes and removals in one such transaction.
    pub commit_jobs: Histogram,
    /// Copies of its write-ahead log into the database.
    pub wal_checkpoints: Counter,
}

impl Default for StoreMetrics {
    fn default() -> Self {
        StoreMetrics {
            reads: Histogram::times(),
            writes: Histogram::times(),
            deletes: Histogram::times(),
            failures: Counter::default(),
            damage: Counter::default(),
            requests: Counter::default(),
            retries: Counter::default(),
            cache_hits: Counter::default(),
            cache_misses: Counter::default(),
            commits: Histogram::times(),
            commit_jobs: Histogram::counts(),
            wal_checkpoints: Counter::default(),
        }
    }
}
