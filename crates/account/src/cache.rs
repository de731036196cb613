//! A cache of data read or derived from messages, shared by all accounts and bounded in bytes.
//! [`Cache::forget`] removes everything of an account.
//!
//! It resists scans, by S3-FIFO (Yang et al., SOSP 2023). A new value enters a small queue, and leaves the
//! cache at its end unless it was requested meanwhile. So a scan of more than the cache holds takes a tenth
//! of it, and values that are requested repeatedly stay. Keys of evicted values are kept for a while as
//! ghosts: such a value does not count as new when it returns.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sealpost_base::metrics::Counter;
use sealpost_base::{AccountId, ObjectId};

/// Overhead of an entry in bytes, including a ghost for each entry.
const ENTRY_BYTES: usize = 320;
/// The fraction of the cache for new values, as a divisor.
const NEW_PART: usize = 10;
/// The most uses that are counted: how many rounds a value that is not new stays without another use.
const MOST_USES: u8 = 3;
/// Ghosts that are kept even if there are few entries.
const LEAST_GHOSTS: usize = 64;

/// Values by key. By default a value belongs to a message.
pub struct Cache<T, K: Hash + Eq + Clone = ObjectId> {
    capacity: usize,
    entries: Mutex<Entries<T, K>>,
    hits: Counter,
    misses: Counter,
}

/// The counters of a cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// The number of cache hits.
    pub hits: u64,
    /// The number of cache misses.
    pub misses: u64,
    /// The memory of the entries, in bytes.
    pub bytes: usize,
}

struct Entries<T, K: Hash + Eq + Clone> {
    kept: HashMap<K, CacheEntry<T>>,
    /// In order of arrival. Positions of removed or moved values stay until they reach the front.
    new: VecDeque<(K, u64)>,
    main: VecDeque<(K, u64)>,
    new_bytes: usize,
    bytes: usize,
    /// The ghosts, and their order.
    ghosts: HashMap<K, (AccountId, u64)>,
    ghost_order: VecDeque<(K, u64)>,
    /// Keys of each account: of entries and of ghosts.
    owned: HashMap<AccountId, HashSet<K>>,
    /// Distinguishes queue positions with the same key.
    next: u64,
}

struct CacheEntry<T> {
    value: Arc<T>,
    bytes: usize,
    owner: AccountId,
    /// Cache hits since it entered its queue, up to [`MOST_USES`].
    uses: u8,
    is_new: bool,
    place: u64,
}

impl<T, K: Hash + Eq + Clone> Cache<T, K> {
    /// A cache of about `capacity` bytes.
    pub fn new(capacity: usize) -> Self {
        let entries = Entries {
            kept: HashMap::new(),
            new: VecDeque::new(),
            main: VecDeque::new(),
            new_bytes: 0,
            bytes: 0,
            ghosts: HashMap::new(),
            ghost_order: VecDeque::new(),
            owned: HashMap::new(),
            next: 0,
        };
        Cache { capacity, entries: Mutex::new(entries), hits: Counter::default(), misses: Counter::default() }
    }

    /// The value of `key`; counts as a use.
    pub fn get(&self, key: &K) -> Option<Arc<T>> {
        let mut entries = self.lock();
        let Some(kept) = entries.kept.get_mut(key) else {
            self.misses.increment();
            return None;
        };
        self.hits.increment();
        kept.uses = (kept.uses + 1).min(MOST_USES);
        Some(kept.value.clone())
    }

    /// Caches `value` of the account `owner`, of about `bytes`, unless that exceeds the whole cache.
    pub fn put(&self, owner: AccountId, key: K, value: Arc<T>, bytes: usize) {
        let bytes = bytes + ENTRY_BYTES;
        if bytes > self.capacity {
            return;
        }
        let mut entries = self.lock();
        let before = entries.take(&key).map(|kept| (kept.owner, kept.uses, kept.is_new));
        let ghost = entries.ghosts.remove(&key).map(|(owner, _)| owner);
        if let Some(other) = before.map(|(other, ..)| other).or(ghost).filter(|other| *other != owner) {
            entries.disown(&key, other);
        }
        entries.owned.entry(owner).or_default().insert(key.clone());
        let (uses, is_new) = before.map_or((0, ghost.is_none()), |(_, uses, is_new)| (uses, is_new));
        entries.place(key, CacheEntry { value, bytes, owner, uses, is_new, place: 0 });
        entries.drop_old_places();
        while entries.bytes > self.capacity && entries.evict(self.capacity / NEW_PART) {}
    }

    /// Removes the value of `key`.
    pub fn remove(&self, key: &K) {
        let mut entries = self.lock();
        if let Some(kept) = entries.take(key) {
            entries.disown(key, kept.owner);
            entries.drop_old_places();
        }
    }

    /// Removes everything of the account `owner`.
    pub fn forget(&self, owner: AccountId) {
        let mut entries = self.lock();
        for key in entries.owned.remove(&owner).unwrap_or_default() {
            entries.take(&key);
            entries.ghosts.remove(&key);
        }
        entries.drop_old_places();
    }

    /// The counters.
    pub fn counts(&self) -> CacheCounts {
        CacheCounts { hits: self.hits.read(), misses: self.misses.read(), bytes: self.lock().bytes }
    }

    fn lock(&self) -> MutexGuard<'_, Entries<T, K>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T, K: Hash + Eq + Clone> Entries<T, K> {
    /// Appends an entry to its queue.
    fn place(&mut self, key: K, mut kept: CacheEntry<T>) {
        self.next += 1;
        kept.place = self.next;
        self.bytes += kept.bytes;
        if kept.is_new {
            self.new_bytes += kept.bytes;
        }
        let queue = if kept.is_new { &mut self.new } else { &mut self.main };
        queue.push_back((key.clone(), kept.place));
        self.kept.insert(key, kept);
    }

    /// Removes positions of removed or moved values if there are many, so that each put skips few of them.
    fn drop_old_places(&mut self) {
        let Entries { kept, new, main, ghosts, ghost_order, .. } = self;
        if new.len() + main.len() > 2 * kept.len() + LEAST_GHOSTS {
            let is_there = |(key, place): &(K, u64)| kept.get(key).is_some_and(|kept| kept.place == *place);
            new.retain(is_there);
            main.retain(is_there);
        }
        if ghost_order.len() > 2 * ghosts.len() + LEAST_GHOSTS {
            ghost_order.retain(|(key, place)| ghosts.get(key).is_some_and(|(_, ghost)| ghost == place));
        }
    }

    /// Takes a value out; its position in the queue stays.
    fn take(&mut self, key: &K) -> Option<CacheEntry<T>> {
        let kept = self.kept.remove(key)?;
        self.bytes -= kept.bytes;
        if kept.is_new {
            self.new_bytes -= kept.bytes;
        }
        Some(kept)
    }

    /// Examines the next value to evict: a new one if these have more than `new` bytes, or there are no
    /// others. Returns whether there was one.
    fn evict(&mut self, new: usize) -> bool {
        let of_new = self.new_bytes > new || self.main.is_empty();
        let queue = if of_new { &mut self.new } else { &mut self.main };
        let Some((key, place)) = queue.pop_front() else { return false };
        if self.kept.get(&key).is_none_or(|kept| kept.place != place) {
            return true;
        }
        let Some(kept) = self.take(&key) else { return true };
        match kept.uses {
            0 if of_new => self.remember(key, kept.owner),
            0 => self.disown(&key, kept.owner),
            // It is no longer new.
            _ if of_new => self.place(key, CacheEntry { is_new: false, uses: 0, ..kept }),
            uses => self.place(key, CacheEntry { uses: uses - 1, ..kept }),
        }
        true
    }

    /// Adds a ghost for an evicted entry.
    fn remember(&mut self, key: K, owner: AccountId) {
        self.next += 1;
        self.ghosts.insert(key.clone(), (owner, self.next));
        self.ghost_order.push_back((key, self.next));
        while self.ghost_order.len() > self.kept.len().max(LEAST_GHOSTS) {
            let Some((key, place)) = self.ghost_order.pop_front() else { return };
            if self.ghosts.get(&key).is_some_and(|(_, ghost)| *ghost == place)
                && let Some((owner, _)) = self.ghosts.remove(&key)
            {
                self.disown(&key, owner);
            }
        }
    }

    /// Removes all data about `key`.
    fn disown(&mut self, key: &K, owner: AccountId) {
        if let Some(keys) = self.owned.get_mut(&owner) {
            keys.remove(key);
            if keys.is_empty() {
                self.owned.remove(&owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: AccountId = AccountId([1; 16]);
    const ENTRY: usize = ENTRY_BYTES + 80;

    fn id(n: u32) -> ObjectId {
        let mut id = [0; 16];
        id[..4].copy_from_slice(&n.to_le_bytes());
        ObjectId(id)
    }

    fn put(cache: &Cache<u32>, n: u32) {
        cache.put(OWNER, id(n), Arc::new(n), ENTRY - ENTRY_BYTES);
    }

    fn there(cache: &Cache<u32>, range: std::ops::Range<u32>) -> usize {
        let entries = cache.lock();
        range.filter(|n| entries.kept.contains_key(&id(*n))).count()
    }

    #[test]
    fn a_scan_does_not_evict_used_entries() {
        let cache = Cache::new(100 * ENTRY);
        for _ in 0..2 {
            (0..60).for_each(|n| match cache.get(&id(n)) {
                Some(value) => assert_eq!(*value, n),
                None => put(&cache, n),
            });
        }
        // Ten times the size of the cache, once.
        (1000..2000).for_each(|n| {
            assert!(cache.get(&id(n)).is_none());
            put(&cache, n);
        });
        assert_eq!(there(&cache, 0..60), 60);
        assert_eq!(cache.counts(), CacheCounts { hits: 60, misses: 1060, bytes: 100 * ENTRY });
        // Another hot set replaces the first one, which no client uses any more.
        for _ in 0..8 {
            (3000..3060).filter(|n| cache.get(&id(*n)).is_none()).for_each(|n| put(&cache, n));
        }
        assert_eq!(there(&cache, 3000..3060), 60);
    }

    #[test]
    fn a_value_that_returns_soon_is_not_new() {
        let cache = Cache::new(20 * ENTRY);
        (0..21).for_each(|n| put(&cache, n));
        assert_eq!(there(&cache, 0..1), 0);
        put(&cache, 0);
        (100..200).for_each(|n| put(&cache, n));
        assert_eq!(there(&cache, 0..1), 1);
    }

    #[test]
    fn it_is_never_larger_than_it_may_be() {
        let cache = Cache::new(10 * ENTRY);
        for n in 0..500u32 {
            let bytes = (n as usize * 7919) % (9 * ENTRY);
            cache.put(OWNER, id(n % 90), Arc::new(n), bytes);
            cache.get(&id(n * 31 % 90));
            let entries = cache.lock();
            assert!(entries.bytes <= 10 * ENTRY);
            assert_eq!(entries.bytes, entries.kept.values().map(|kept| kept.bytes).sum::<usize>());
            assert!(entries.ghosts.len() <= entries.kept.len().max(LEAST_GHOSTS));
        }
        cache.put(OWNER, id(777), Arc::new(0), 10 * ENTRY);
        assert_eq!(there(&cache, 777..778), 0);
    }

    #[test]
    fn a_forgotten_account_leaves_nothing_and_others_stay() {
        let other = AccountId([2; 16]);
        let cache = Cache::new(4 * ENTRY);
        let values: Vec<_> = (0..6).map(Arc::new).collect();
        for n in 0..6u32 {
            let owner = if n % 2 == 0 { OWNER } else { other };
            cache.put(owner, id(n), values[n as usize].clone(), ENTRY - ENTRY_BYTES);
        }
        cache.forget(OWNER);
        let held = |value: &Arc<u32>| Arc::strong_count(value) - 1;
        assert_eq!(values.iter().step_by(2).map(held).sum::<usize>(), 0);
        assert!(values.iter().map(held).sum::<usize>() > 0);
        cache.remove(&id(5));
        cache.forget(other);
        assert_eq!(values.iter().map(held).sum::<usize>(), 0);
        let entries = cache.lock();
        assert_eq!(
            (entries.bytes, entries.new_bytes, entries.owned.len(), entries.ghosts.len()),
            (0, 0, 0, 0)
        );
    }

    #[test]
    fn repeated_puts_leave_few_queue_positions() {
        let cache = Cache::new(10 * ENTRY);
        for n in 0..1000 {
            put(&cache, n % 3);
            cache.remove(&id(n % 2));
        }
        let entries = cache.lock();
        assert!(entries.new.len() + entries.main.len() <= 2 * entries.kept.len() + LEAST_GHOSTS + 1);
    }
}
