//! The loaded accounts, in the order of last use. Each stays for a while after its last session, for clients
//! that reconnect, unless its memory is needed; the longer the load took, the longer it stays. When many are
//! loaded, idle accounts that load quickly share a part of the memory.

use std::sync::{Arc, Weak};
use std::time::Duration;

use lru::LruCache;
use sealpost_base::AccountId;

use crate::account::Account;

/// How long an account stays loaded after it was last opened, at least.
const KEEP: Duration = Duration::from_secs(5);
/// It stays longer by this multiple of its load time: half a second for a thousand messages on a local disk,
/// a minute for an account in a remote bucket.
const KEEP_TIMES: u32 = 500;
/// The upper bound of that time: the clock also advances while the server is suspended.
const KEEP_MOST: Duration = Duration::from_secs(600);
/// How long an account in use stays at least: the server must not spend all its time loading.
const LEAST: Duration = Duration::from_millis(250);

pub(super) struct LoadedAccounts {
    lru: LruCache<AccountId, (Duration, Arc<Account>)>,
    /// Accounts whose sessions were asked to release them.
    asked: Vec<Weak<Account>>,
}

impl Default for LoadedAccounts {
    fn default() -> Self {
        LoadedAccounts { lru: LruCache::unbounded(), asked: Vec::new() }
    }
}

/// Accounts to drop once no lock is held.
pub(super) type Evicted = Vec<Arc<Account>>;

impl LoadedAccounts {
    /// Keeps an account that was just opened, unless it is to be evicted: then its last user drops it.
    pub(super) fn keep(&mut self, account: Arc<Account>, now: Duration) -> Option<Arc<Account>> {
        if account.is_leaving() {
            return Some(account);
        }
        self.asked.retain(|asked| !std::ptr::eq(asked.as_ptr(), Arc::as_ptr(&account)));
        self.lru.put(account.id(), (now, account)).map(|(_, before)| before)
    }

    /// Whether that account is kept.
    pub(super) fn holds(&self, id: AccountId) -> bool {
        self.lru.contains(&id)
    }

    /// Removes accounts that were idle for long. Also removes the least recently used of idle accounts that
    /// load quickly, until the others take no more than `ample` bytes.
    pub(super) fn expire(&mut self, now: Duration, ample: usize) -> Evicted {
        let is_old = |since: &Duration, account: &Account| now.saturating_sub(*since) > keep(account.took());
        let mut taken = 0;
        let mut is_too_much = |account: &Arc<Account>| {
            let counts = account.is_quick() && Arc::strong_count(account) == 1;
            taken += if counts { account.weight() } else { 0 };
            counts && taken > ample
        };
        let latest_first = self.lru.iter();
        let gone =
            latest_first.filter(|(_, (since, account))| is_old(since, account) || is_too_much(account));
        let gone: Vec<AccountId> = gone.map(|(id, _)| *id).collect();
        gone.iter().filter_map(|id| self.lru.pop(id)).map(|(_, account)| account).collect()
    }

    /// Removes all.
    pub(super) fn clear(&mut self) -> Evicted {
        std::mem::replace(&mut self.lru, LruCache::unbounded())
            .into_iter()
            .map(|(_, (_, account))| account)
            .collect()
    }

    /// Evicts the least recently used idle accounts until `bytes` are free. If they do not suffice, asks
    /// sessions of others to release them after their command; the last session then drops the account.
    pub(super) fn evict(&mut self, bytes: usize) -> Evicted {
        let asked: Vec<_> = self.asked.drain(..).filter_map(|asked| asked.upgrade()).collect();
        let oldest_first = || self.lru.iter().rev().map(|(_, (_, account))| account);
        let unused = oldest_first().filter(|account| Arc::strong_count(account) == 1);
        let used = oldest_first().filter(|account| Arc::strong_count(account) > 1 && account.age() >= LEAST);
        let mut free = 0;
        let mut evicted = Vec::new();
        for account in unused.chain(&asked).chain(used) {
            if free >= bytes {
                break;
            }
            free += account.weight();
            account.ask_to_release();
            evicted.push(account.clone());
        }
        for account in &evicted {
            self.lru.pop(&account.id());
        }
        self.asked = evicted.iter().chain(&asked).map(Arc::downgrade).collect();
        self.asked.sort_unstable_by_key(Weak::as_ptr);
        self.asked.dedup_by_key(|asked| asked.as_ptr());
        evicted.extend(asked);
        evicted
    }
}

/// How long an account stays after a load of that duration.
fn keep(took: Duration) -> Duration {
    (KEEP + took.saturating_mul(KEEP_TIMES)).min(KEEP_MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_with_slow_loads_stay_longer() {
        assert_eq!(keep(Duration::ZERO), KEEP);
        assert_eq!(keep(Duration::from_millis(100)), KEEP + Duration::from_secs(50));
        assert_eq!(keep(Duration::from_secs(3600)), KEEP_MOST);
    }
}
