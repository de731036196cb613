//! The operator's settings for logins.

use std::time::Duration;

/// How logins are checked, cached and throttled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Login {
    /// Password checks (Argon2id, 19 MiB each) that run at once; 0: as many as there are cores.
    pub checks_at_once: usize,
    /// Password checks that may wait; when there is one more, the one that would be served last
    /// gets a temporary error.
    pub checks_waiting: usize,
    /// How long a successful login is cached, so that a client that polls does not cost a password
    /// check each time; zero turns it off. A changed password takes effect at once in any case.
    pub cache_ttl: Duration,
    /// How many logins are cached; the oldest is evicted.
    pub cache_entries: usize,
    /// Failures of an address or account that cost no delay, attempts under way included; networks
    /// around an address have more.
    pub free_failures: u32,
    /// The delay after the first failure that costs one; each further failure doubles it.
    pub first_delay: Duration,
    /// The longest delay.
    pub max_delay: Duration,
    /// One failure expires after each such period.
    pub failure_decay: Duration,
    /// Addresses, and likewise accounts, whose failures are counted; the least recent is evicted.
    pub failure_table_size: usize,
    /// Logins that may be held back at the same time from addresses that have failed, and as many
    /// from others; one more is refused at once.
    pub max_delayed: usize,
    /// Logins from one address that has failed that may be held back at the same time.
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
