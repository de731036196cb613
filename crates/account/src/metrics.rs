//! What the accounts of a process measure, all of them together.

use std::sync::Arc;

use sealpost_base::metrics::{Counter, Histogram};
use sealpost_journal::JournalMetrics;

/// How often accounts are loaded and unloaded, how long their logs get, what checkpoints take.
#[derive(Debug)]
pub struct AccountMetrics {
    /// Loading an account: its checkpoint and the log after it.
    pub loads: Histogram,
    /// Events of the log that were applied on top of the checkpoint when an account was loaded.
    pub load_events: Histogram,
    /// Accounts that were unloaded.
    pub evictions: Counter,
    /// Writing a checkpoint, until it is durable.
    pub checkpoints: Histogram,
    /// Events that a checkpoint includes and the one before it does not: how long logs get.
    pub checkpoint_events: Histogram,
    /// What the logs count.
    pub journal: Arc<JournalMetrics>,
}

impl Default for AccountMetrics {
    fn default() -> Self {
        AccountMetrics {
            loads: Histogram::times(),
            load_events: Histogram::counts(),
            evictions: Counter::default(),
            checkpoints: Histogram::times(),
            checkpoint_events: Histogram::counts(),
            journal: Arc::default(),
        }
    }
}
