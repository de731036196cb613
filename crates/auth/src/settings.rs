//! The operator's settings for logins.

use std::time::Duration;

/// How logins are checked, cached and throttled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Login {
    /// Concurrent password checks (Argon2id, 19 MiB each); 0: one per CPU.
    pub checks_at_once: usize,
    /// Password checks that may wait. With one more, the check of the lowest priority gets a temporary error.
    pub checks_waiting: usize,
    /// How long a successful login is cached, so that a polling client does not cost a password check each
    /// time; zero disables the cache. A changed password takes effect at once in any case.
    pub cache_ttl: Duration,
    /// Cached logins; the oldest is evicted.
    pub cache_entries: usize,
    /// Failures of an address or account without a delay, attempts in progress included. Networks around an
    /// address have more.
    pub free_failures: u32,
    /// The first delay; each further failure doubles it.
    pub first_delay: Duration,
    /// The longest delay.
    pub max_delay: Duration,
    /// The period in which one failure expires.
    pub failure_decay: Duration,
    /// Addresses, and likewise accounts, whose failures are counted; the least recently used is evicted.
    pub failure_table_size: usize,
    /// Delayed logins from addresses with failures, and as many from other addresses; one more is refused at
    /// once.
    pub max_delayed: usize,
    /// Delayed logins from one address with failures.
    pub delayed_per_address: usize,
}

impl Default for Login {
    fn default() -> Self {
        Login {
            checks_at_once: 0,
            checks_waiting: 512,
            cache_ttl: Duration::from_secs(10 * 60),
            cache_entries: 4096,
            free_failures: 3,
            first_delay: Duration::from_millis(250),
            max_delay: Duration::from_secs(5),
            failure_decay: Duration::from_secs(60),
            failure_table_size: 10_000,
            max_delayed: 1024,
            delayed_per_address: 4,
        }
    }
}
