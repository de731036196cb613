//! The metrics of all accounts of a process together.

use std::sync::Arc;

use sealpost_base::metrics::{Counter, Histogram};
use sealpost_journal::JournalMetrics;

/// Loads and evictions of accounts, the lengths of their logs, and the cost of checkpoints.
#[derive(Debug)]
pub struct AccountMetrics {
    /// The duration of loads: the checkpoint and the log after it.
    pub loads: Histogram,
    /// Events that a load applied on top of the checkpoint.
    pub load_events: Histogram,
    /// Evicted accounts.
    pub evictions: Counter,
    /// The time to write a checkpoint until it is durable.
    pub checkpoints: Histogram,
    /// Events between two checkpoints: how long logs get.
    pub checkpoint_events: Histogram,
    /// The counters of the logs.
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
