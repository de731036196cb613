//! What was read of messages lately, or made of it, shared by all accounts, bounded in bytes.

use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use sealpost_base::ObjectId;

/// What an entry costs beside what it holds, in bytes.
const ENTRY_BYTES: usize = 256;

/// Values by key, those that were used last: what something of a message is, if nothing else is said.
pub struct Cache<T, K: Hash + Eq = ObjectId> {
    capacity: usize,
    entries: Mutex<Entries<T, K>>,
}

struct Entries<T, K: Hash + Eq> {
    lru: LruCache<K, (Arc<T>, usize)>,
    bytes: usize,
}

impl<T, K: Hash + Eq> Cache<T, K> {
    /// A cache of about `capacity` bytes.
    pub fn new(capacity: usize) -> Self {
        let entries = Entries { lru: LruCache::unbounded(), bytes: 0 };
        Cache { capacity, entries: Mutex::new(entries) }
    }

    /// What is kept of `key`, which is used by that.
    pub fn get(&self, key: &K) -> Option<Arc<T>> {
        self.lock().lru.get(key).map(|(value, _)| value.clone())
    }

    /// Keeps `value`, which takes about `bytes`, unless that is more than there is room for in all.
    pub fn put(&self, key: K, value: Arc<T>, bytes: usize) {
        let bytes = bytes + ENTRY_BYTES;
        if bytes > self.capacity {
            return;
        }
        let mut entries = self.lock();
        if let Some((_, old)) = entries.lru.put(key, (value, bytes)) {
            entries.bytes -= old;
        }
        entries.bytes += bytes;
        while entries.bytes > self.capacity {
            let Some((_, (_, oldest))) = entries.lru.pop_lru() else { break };
            entries.bytes -= oldest;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries<T, K>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_make_room() {
        let cache = Cache::new(3 * (ENTRY_BYTES + 10));
        let id = |n| ObjectId([n; 16]);
        for n in 0..3 {
            cache.put(id(n), Arc::new(n), 10);
        }
        assert!(cache.get(&id(0)).is_some());
        cache.put(id(3), Arc::new(3), 10);
        assert!(cache.get(&id(1)).is_none() && cache.get(&id(0)).is_some() && cache.get(&id(3)).is_some());
        cache.put(id(4), Arc::new(4), 10_000);
        assert!(cache.get(&id(4)).is_none() && cache.get(&id(0)).is_some());
    }
}
