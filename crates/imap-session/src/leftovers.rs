//! When this process last checked accounts for leftovers of shared mailboxes.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lru::LruCache;
use sealpost_base::AccountId;

/// How often a process checks one account.
const PERIOD: Duration = Duration::from_secs(3600);
/// Accounts for which the time of the last check is kept.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(4096).expect("not zero");

/// When accounts were last checked, on the monotonic clock.
pub struct Leftovers(Mutex<LruCache<AccountId, Duration>>);

impl Default for Leftovers {
    fn default() -> Self {
        Leftovers(Mutex::new(LruCache::new(REMEMBERED)))
    }
}

impl Leftovers {
    /// Whether a check of that account is due; if so, it counts as done.
    pub(super) fn is_due(&self, account: AccountId, now: Duration) -> bool {
        let mut looked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let due = looked.get(&account).is_none_or(|last| now.saturating_sub(*last) >= PERIOD);
        if due {
            looked.put(account, now);
        }
        due
    }
}
