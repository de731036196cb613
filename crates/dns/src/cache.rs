//! A resolver in front of another one: bounded time, bounded concurrency, and a cache bounded in bytes.
//!
//! Answers are cached for their TTL, at most a day. That a name or a type does not exist is cached
//! for five minutes, and a failure for thirty seconds (RFC 2308 §5, §7), so that a thousand mails
//! to a domain whose name servers are dead do not each wait for them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lru::LruCache;
use sealpost_base::Clock;
use sealpost_base::limits::{DNS_CACHE_BYTES, DNS_LOOKUP_TIME, DNS_LOOKUPS};
use tokio::sync::Semaphore;

use crate::answer::{Answer, LookupError, RecordType};
use crate::name::DnsName;
use crate::resolver::Resolver;

/// Longest time that an answer is cached.
const LONGEST_TTL: Duration = Duration::from_secs(24 * 3600);
/// How long a negative answer is cached.
const NEGATIVE_TTL: Duration = Duration::from_secs(300);
/// How long a failure is cached.
const FAILURE_TTL: Duration = Duration::from_secs(30);
/// Bytes that an entry takes besides its name and records, about.
const ENTRY_BYTES: usize = 256;

type Key = (DnsName, RecordType);
type Outcome = Result<Answer, LookupError>;

/// Adds a cache and a bound on time to `inner`.
pub struct CachingResolver<R> {
    inner: R,
    clock: Arc<dyn Clock>,
    cache: Mutex<Cache>,
    lookups: Semaphore,
    time: Duration,
}

struct Cache {
    entries: LruCache<Key, Entry>,
    bytes: usize,
    limit: usize,
}

struct Entry {
    outcome: Outcome,
    /// By the clock's monotonic time.
    expires: Duration,
    bytes: usize,
}

impl<R: Resolver> CachingResolver<R> {
    /// With the usual bounds.
    pub fn new(inner: R, clock: Arc<dyn Clock>) -> Self {
        Self::with_bounds(inner, clock, DNS_CACHE_BYTES, DNS_LOOKUP_TIME)
    }

    /// With at most `cache_bytes` of results, and at most `time` for one lookup.
    pub fn with_bounds(inner: R, clock: Arc<dyn Clock>, cache_bytes: usize, time: Duration) -> Self {
        let cache = Cache { entries: LruCache::unbounded(), bytes: 0, limit: cache_bytes };
        let lookups = Semaphore::new(DNS_LOOKUPS);
        CachingResolver { inner, clock, cache: Mutex::new(cache), lookups, time }
    }

    /// Approximate bytes of the cached answers.
    pub fn cached_bytes(&self) -> usize {
        self.cache().bytes
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cached(&self, key: &Key) -> Option<Outcome> {
        let now = self.clock.monotonic();
        let mut cache = self.cache();
        let entry = cache.entries.get(key)?;
        if entry.expires <= now {
            cache.remove(key);
            return None;
        }
        let mut outcome = entry.outcome.clone();
        if let Ok(answer) = &mut outcome {
            answer.ttl = entry.expires - now;
        }
        Some(outcome)
    }

    fn keep(&self, key: Key, outcome: &Outcome) {
        let lifetime = match outcome {
            Ok(answer) => answer.ttl.min(LONGEST_TTL),
            Err(error) if error.is_negative() => NEGATIVE_TTL,
            Err(_) => FAILURE_TTL,
        };
        if lifetime.is_zero() {
            return;
        }
        let records: usize = outcome.iter().flat_map(|answer| &answer.records).map(|r| r.bytes()).sum();
        let owner = outcome.as_ref().map_or(0, |answer| answer.owner.as_str().len());
        let bytes = ENTRY_BYTES + key.0.as_str().len() + owner + records;
        let expires = self.clock.monotonic() + lifetime;
        self.cache().insert(key, Entry { outcome: outcome.clone(), expires, bytes });
    }
}

impl Cache {
    fn insert(&mut self, key: Key, entry: Entry) {
        self.remove(&key);
        self.bytes += entry.bytes;
        self.entries.put(key, entry);
        while self.bytes > self.limit {
            let Some((_, oldest)) = self.entries.pop_lru() else { break };
            self.bytes -= oldest.bytes;
        }
    }

    fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.entries.pop(key) {
            self.bytes -= entry.bytes;
        }
    }
}

#[async_trait]
impl<R: Resolver> Resolver for CachingResolver<R> {
    async fn lookup(&self, name: &DnsName, kind: RecordType) -> Outcome {
        let key = (name.clone(), kind);
        if let Some(outcome) = self.cached(&key) {
            return outcome;
        }
        let lookup = async {
            // The semaphore is never closed; a permit is not needed if it were.
            let _permit = self.lookups.acquire().await;
            // Another task may have looked it up meanwhile.
            match self.cached(&key) {
                Some(outcome) => outcome,
                None => self.inner.lookup(name, kind).await,
            }
        };
        let outcome = tokio::time::timeout(self.time, lookup).await.unwrap_or(Err(LookupError::TimedOut));
        self.keep(key, &outcome);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use sealpost_base::{FakeClock, Timestamp};

    use super::*;
    use crate::answer::Record;
    use crate::resolver::ResolverExt;
    use crate::scripted::{Script, ScriptedResolver};

    fn name(text: &str) -> DnsName {
        DnsName::new(text).unwrap()
    }

    fn clock() -> Arc<FakeClock> {
        Arc::new(FakeClock::new(Timestamp::from_seconds(1)))
    }

    #[tokio::test]
    async fn answers_are_cached_for_their_ttl() {
        let zone = ScriptedResolver::new();
        zone.add("a.example", Record::A([192, 0, 2, 1].into()));
        let clock = clock();
        let resolver = CachingResolver::new(zone.clone(), clock.clone());
        for _ in 0..3 {
            resolver.ipv4(&name("a.example")).await.unwrap();
            assert_eq!(
                resolver.ipv4(&name("b.example")).await,
                Err(LookupError::NoSuchName { secure: false })
            );
        }
        assert_eq!(zone.lookups(), 2);
        clock.advance(NEGATIVE_TTL);
        let _ = resolver.ipv4(&name("b.example")).await;
        resolver.ipv4(&name("a.example")).await.unwrap();
        assert_eq!(zone.lookups(), 3, "the negative answer expired first");
        clock.advance(Duration::from_secs(3600));
        resolver.ipv4(&name("a.example")).await.unwrap();
        assert_eq!(zone.lookups(), 4);
    }

    #[tokio::test]
    async fn the_cache_is_bounded_in_bytes() {
        let zone = ScriptedResolver::new();
        let resolver = CachingResolver::with_bounds(zone.clone(), clock(), 20_000, DNS_LOOKUP_TIME);
        for i in 0..500 {
            let host = format!("h{i}.example");
            zone.add(&host, Record::Txt(vec![b'x'; 500]));
            resolver.txt(&name(&host)).await.unwrap();
            assert!(resolver.cached_bytes() <= 20_000);
        }
        // One answer that is larger than the whole cache leaves nothing behind.
        zone.add("huge.example", Record::Txt(vec![b'x'; 30_000]));
        resolver.txt(&name("huge.example")).await.unwrap();
        assert_eq!(resolver.cached_bytes(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lookup_that_stalls_ends_in_time() {
        let zone = ScriptedResolver::new();
        zone.script("stall.example", Script::Stall);
        let resolver = CachingResolver::new(zone.clone(), clock());
        let begun = tokio::time::Instant::now();
        assert_eq!(resolver.mx(&name("stall.example")).await, Err(LookupError::TimedOut));
        assert_eq!(begun.elapsed(), DNS_LOOKUP_TIME);
        // And the next one does not wait again.
        assert_eq!(resolver.mx(&name("stall.example")).await, Err(LookupError::TimedOut));
        assert_eq!(begun.elapsed(), DNS_LOOKUP_TIME);
    }

    #[tokio::test(start_paused = true)]
    async fn stalled_lookups_delay_others_for_a_bounded_time() {
        let zone = ScriptedResolver::new();
        let resolver = Arc::new(CachingResolver::new(zone.clone(), clock()));
        let mut stalled = Vec::new();
        for i in 0..3 * DNS_LOOKUPS {
            let host = format!("stall{i}.example");
            zone.script(&host, Script::Stall);
            let resolver = resolver.clone();
            stalled.push(tokio::spawn(async move { resolver.mx(&name(&host)).await }));
        }
        let begun = tokio::time::Instant::now();
        for lookup in stalled {
            assert_eq!(lookup.await.unwrap(), Err(LookupError::TimedOut));
        }
        assert_eq!(begun.elapsed(), DNS_LOOKUP_TIME);
    }
}
