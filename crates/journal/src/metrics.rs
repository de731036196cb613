//! The counters of all logs of a process together.

use sealpost_base::metrics::Counter;

/// How much is written to logs and removed from them.
#[derive(Debug, Default)]
pub struct JournalMetrics {
    /// Entries appended.
    pub appended: Counter,
    /// Appends that found another writer's entry at their position and were decided again.
    pub conflicts: Counter,
    /// Entries read, to load accounts or to catch up.
    pub replayed: Counter,
    /// Damaged objects in logs, and objects that are neither entries nor marks of this installation; each
    /// counts once per opening of its log.
    pub noise: Counter,
    /// Entries removed because two checkpoints include them.
    pub trimmed: Counter,
}
