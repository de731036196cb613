//! The addresses from which accounts have logged in before. Attempts from there are checked before all
//! others.
//!
//! The table is in memory, so it is empty after a restart. Each account has few entries, so that no account
//! can evict those of others.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use sealpost_base::{AccountId, limits};

use crate::throttle::Network;

/// The addresses of each account, latest last.
pub struct KnownAddresses(Mutex<LruCache<AccountId, VecDeque<Network>>>);

impl Default for KnownAddresses {
    fn default() -> Self {
        let most = NonZeroUsize::new(limits::KNOWN_ACCOUNTS).unwrap_or(NonZeroUsize::MIN);
        KnownAddresses(Mutex::new(LruCache::new(most)))
    }
}

impl KnownAddresses {
    /// Notes a successful login from `network`.
    pub fn note(&self, account: AccountId, network: Option<Network>) {
        let Some(network) = network else { return };
        let mut table = self.lock();
        let known = table.get_or_insert_mut(account, VecDeque::new);
        if known.back() == Some(&network) {
            return;
        }
        known.retain(|other| *other != network);
        if known.len() >= limits::KNOWN_ADDRESSES {
            known.pop_front();
        }
        known.push_back(network);
    }

    /// Whether the account has logged in from `network`.
    pub fn contains(&self, account: AccountId, network: Option<Network>) -> bool {
        let known = |network| self.lock().peek(&account).is_some_and(|known| known.contains(&network));
        network.is_some_and(known)
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<AccountId, VecDeque<Network>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_addresses_of_the_latest_accounts_are_known() {
        let known = KnownAddresses::default();
        let network = |n: u32| Some(Network::of(std::net::Ipv4Addr::from(n).into()));
        let account = |n: u32| AccountId(u128::from(n).to_be_bytes());
        known.note(account(0), network(0));
        assert!(known.contains(account(0), network(0)) && !known.contains(account(1), network(0)));
        assert!(!known.contains(account(0), network(1)) && !known.contains(account(0), None));
        for n in 1..=limits::KNOWN_ADDRESSES as u32 {
            known.note(account(0), network(n));
        }
        assert!(!known.contains(account(0), network(0)), "the oldest was evicted");
        assert!(known.contains(account(0), network(1)));
        for n in 1..=limits::KNOWN_ACCOUNTS as u32 {
            known.note(account(n), network(0));
        }
        assert!(!known.contains(account(0), network(1)) && known.contains(account(1), network(0)));
    }
}
