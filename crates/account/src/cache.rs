//! What was read of messages lately, or made of it, shared by all accounts, bounded in bytes.
//! Nothing of an account stays behind when that is [forgotten](Cache::forget).
//!
//! It resists scans, by S3-FIFO (Yang et al., SOSP 2023): a new value waits in a small queue, and
//! leaves the cache with it unless it was requested meanwhile. So a scan of more than the cache
//! holds takes a tenth of it, and values that are requested repeatedly stay. Keys that left are
//! remembered for a while: when such a value returns, it does not count as new.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sealpost_base::metrics::Counter;
use sealpost_base::{AccountId, ObjectId};

/// What an entry costs beside what it holds, in bytes: with a key that left for each that is there.
const ENTRY_BYTES: usize = 320;
/// The part of the cache for new values, as a divisor.
const NEW_PART: usize = 10;
/// How often a use is counted: so many rounds what is not new stays without another.
const MOST_USES: u8 = 3;
/// Keys that left are remembered even if there are few entries.
const LEAST_GHOSTS: usize = 64;

/// Values by key. By default a value is about a message.
pub struct Cache<T, K: Hash + Eq + Clone = ObjectId> {
    capacity: usize,
    entries: Mutex<Entries<T, K>>,
    hits: Counter,
    misses: Counter,
}

/// What a cache counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// The number of cache hits.
    pub hits: u64,
    /// And that was not.
    pub misses: u64,
    /// What the entries take, in bytes.
    pub bytes: usize,
}

struct Entries<T, K: Hash + Eq + Clone> {
    kept: HashMap<K, CacheEntry<T>>,
    /// In the order of arrival. Entries of values that were removed or moved stay until they are at
    /// the front.
    new: VecDeque<(K, u64)>,
    main: VecDeque<(K, u64)>,
    new_bytes: usize,
    bytes: usize,
    /// Whose keys left lately, and in which order.
    ghosts: HashMap<K, (AccountId, u64)>,
    ghost_order: VecDeque<(K, u64)>,
    /// Keys of each account: of entries, and of those that left.
    owned: HashMap<AccountId, HashSet<K>>,
    /// Tells places of one key apart.
    next: u64,
}

struct CacheEntry<T> {
    value: Arc<T>,
    bytes: usize,
    owner: AccountId,
    /// Cache hits since it has its place, up to [`MOST_USES`].
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

    /// What is kept of `key`, which is used by that.
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

    /// Caches `value`, of about `bytes`, of the account `owner`, unless that is more than the whole
    /// cache.
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

    /// Drops what is kept of `key`.
    pub fn remove(&self, key: &K) {
        let mut entries = self.lock();
        if let Some(kept) = entries.take(key) {
            entries.disown(key, kept.owner);
            entries.drop_old_places();
        }
    }

    /// Drops all that is kept of the account `owner`.
    pub fn forget(&self, owner: AccountId) {
        let mut entries = self.lock();
        for key in entries.owned.remove(&owner).unwrap_or_default() {
            entries.take(&key);
            entries.ghosts.remove(&key);
        }
        entries.drop_old_places();
    }

    /// What was counted so far.
    pub fn counts(&self) -> CacheCounts {
        CacheCounts { hits: self.hits.read(), misses: self.misses.read(), bytes: self.lock().bytes }
    }

    fn lock(&self) -> MutexGuard<'_, Entries<T, K>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T, K: Hash + Eq + Clone> Entries<T, K> {
    /// Puts an entry at the end of its queue.
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

    /// Drops the entries of values that were removed or moved, if they are many: each put reads few
    /// of them.
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

    /// Takes a value out; its entry in the queue stays.
    fn take(&mut self, key: &K) -> Option<CacheEntry<T>> {
        let kept = self.kept.remove(key)?;
        self.bytes -= kept.bytes;
        if kept.is_new {
            self.new_bytes -= kept.bytes;
        }
        Some(kept)
    }

    /// Examines the next value that may leave: of the new ones if they have more than `new` bytes,
    /// or there are no others. Returns whether there was one.
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
            // It is new no more.
            _ if of_new => self.place(key, CacheEntry { is_new: false, uses: 0, ..kept }),
            uses => self.place(key, CacheEntry { uses: uses - 1, ..kept }),
        }
        true
    }

    /// Remembers the key of an entry that left.
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

    /// Nothing is known of `key` any more.
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
    fn a_scan_does_not_evict_what_is_used() {
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
    fn what_comes_back_soon_is_not_new() {
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
    fn what_is_put_again_and_again_leaves_few_places() {
        let cache = Cache::new(10 * ENTRY);
        for n in 0..1000 {
            put(&cache, n % 3);
            cache.remove(&id(n % 2));
        }
        let entries = cache.lock();
        assert!(entries.new.len() + entries.main.len() <= 2 * entries.kept.len() + LEAST_GHOSTS + 1);
    }
}
