//! What pushes count.

use sealpost_base::metrics::Counter;

/// Counters of one node.
#[derive(Debug, Default)]
pub struct PushMetrics {
    /// Pushes that a push service took.
    pub sent: Counter,
    /// Requests that verify a URL, and that the push service took.
    pub verifications: Counter,
    /// Requests that failed; those that are tried again are among them.
    pub failed: Counter,
    /// Pushes that were dropped after failures, or because too many wait.
    pub dropped: Counter,
    /// Subscriptions that ended because the push service or the login is gone.
    pub removed: Counter,
}
