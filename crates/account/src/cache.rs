//! What was read of messages lately, or made of it, shared by all accounts, bounded in bytes. Nothing of an account stays behind
//! when that is [forgotten](Cache::forget).

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use sealpost_base::{AccountId, ObjectId};

/// What an entry costs beside what it holds, in bytes.
const ENTRY_BYTES: usize = 256;

/// Values by key, those that were used last: what something of a message is, if nothing else is said.
pub struct Cache<T, K: Hash + Eq + Clone = ObjectId> {
    capacity: usize,
    entries: Mutex<Entries<T, K>>,
}

struct Entries<T, K: Hash + Eq + Clone> {
    lru: LruCache<K, CacheEntry<T>>,
    bytes: usize,
    /// What there is of each account.
    owned: HashMap<AccountId, HashSet<K>>,
}

struct CacheEntry<T> {
    value: Arc<T>,
    bytes: usize,
    owner: AccountId,
}

impl<T, K: Hash + Eq + Clone> Cache<T, K> {
    /// A cache of about `capacity` bytes.
    pub fn new(capacity: usize) -> Self {
        let entries = Entries { lru: LruCache::unbounded(), bytes: 0, owned: HashMap::new() };
        Cache { capacity, entries: Mutex::new(entries) }
    }

    /// What is kept of `key`, which is used by that.
    pub fn get(&self, key: &K) -> Option<Arc<T>> {
        self.lock().lru.get(key).map(|kept| kept.value.clone())
    }

    /// Keeps `value`, which takes about `bytes` and is of the account `owner`, unless that is more than there is room for in all.
    pub fn put(&self, owner: AccountId, key: K, value: Arc<T>, bytes: usize) {
        let bytes = bytes + ENTRY_BYTES;
        if bytes > self.capacity {
            return;
        }
        let mut entries = self.lock();
        if let Some(old) = entries.lru.put(key.clone(), CacheEntry { value, bytes, owner }) {
            entries.left(&key, &old);
        }
        entries.owned.entry(owner).or_default().insert(key);
        entries.bytes += bytes;
        while entries.bytes > self.capacity {
            let Some((key, oldest)) = entries.lru.pop_lru() else { break };
            entries.left(&key, &oldest);
        }
    }

    /// Drops all that is kept of the account `owner`.
    pub fn forget(&self, owner: AccountId) {
        let mut entries = self.lock();
        for key in entries.owned.remove(&owner).unwrap_or_default() {
            if let Some(kept) = entries.lru.pop(&key) {
                entries.bytes -= kept.bytes;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries<T, K>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T, K: Hash + Eq + Clone> Entries<T, K> {
    /// `kept` is not in the cache any more.
    fn left(&mut self, key: &K, kept: &CacheEntry<T>) {
        self.bytes -= kept.bytes;
        if let Some(keys) = self.owned.get_mut(&kept.owner) {
            keys.remove(key);
            if keys.is_empty() {
                self.owned.remove(&kept.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: AccountId = AccountId([1; 16]);

    fn id(n: u8) -> ObjectId {
        ObjectId([n; 16])
    }

    #[test]
    fn the_oldest_make_room() {
        let cache = Cache::new(3 * (ENTRY_BYTES + 10));
        for n in 0..3 {
            cache.put(OWNER, id(n), Arc::new(n), 10);
        }
        assert!(cache.get(&id(0)).is_some());
        cache.put(OWNER, id(3), Arc::new(3), 10);
        assert!(cache.get(&id(1)).is_none() && cache.get(&id(0)).is_some() && cache.get(&id(3)).is_some());
        cache.put(OWNER, id(4), Arc::new(4), 10_000);
        assert!(cache.get(&id(4)).is_none() && cache.get(&id(0)).is_some());
    }

    #[test]
    fn a_forgotten_account_leaves_nothing_and_others_stay() {
        let other = AccountId([2; 16]);
        let cache = Cache::new(4 * (ENTRY_BYTES + 10));
        let values: Vec<_> = (0..6).map(Arc::new).collect();
        for n in 0..6u8 {
            let owner = if n % 2 == 0 { OWNER } else { other };
            cache.put(owner, id(n), values[usize::from(n)].clone(), 10);
        }
        // Kept again, by another one.
        cache.put(other, id(2), values[2].clone(), 10);
        cache.forget(OWNER);
        assert!(cache.get(&id(4)).is_none() && cache.get(&id(2)).is_some() && cache.get(&id(5)).is_some());
        assert_eq!(values.iter().map(Arc::strong_count).collect::<Vec<_>>(), [1, 1, 2, 2, 1, 2]);
        cache.forget(other);
        let entries = cache.lock();
        assert_eq!((entries.bytes, entries.lru.len(), entries.owned.len()), (0, 0, 0));
    }
}
