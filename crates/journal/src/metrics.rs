//! What the logs of a process count, all of them together.

use sealpost_base::metrics::Counter;

/// How much is written to logs and removed from them.
#[derive(Debug, Default)]
pub struct JournalMetrics {
    /// Entries appended.
    pub appended: Counter,
    /// Appends that found somebody else's entry in their place and were decided anew.
    pub conflicts: Counter,
    /// Entries read, to load accounts or to read on.
    pub replayed: Counter,
    /// Objects in logs that are neither entries nor marks of this installation, or are damaged;
    /// each once for each time that a log is opened.
    pub noise: Counter,
    /// Entries removed because two checkpoints include them.
    pub trimmed: Counter,
}
