//! The environment of all accounts of a process: store, clock, randomness, memory, caches and metrics. It
//! knows no account.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use bytes::Bytes;
use sealpost_base::{AccountId, Budget, Clock, Error, MemoryDivision, Random, Result};
use sealpost_directory::Directory;
use sealpost_mime::Structure;
use sealpost_vault::Store;

use crate::accounts::{AccountMemory, LoadLimiter, LoadPermit, Reservation};
use crate::bodies::BodyFetcher;
use crate::cache::{Cache, CacheCounts};
use crate::cpu_gate::CpuGate;
use crate::decoded::DecodedCache;
use crate::derived::Derived;
use crate::metrics::AccountMetrics;

/// Memory of an account beside its state, in bytes.
const ACCOUNT_BYTES: usize = 4096;
/// The fraction of account memory that commands cannot fill with a single account, as a divisor.
const KEPT_FREE: usize = 8;
/// The fraction of the memory for single structures that is for headers, as a divisor.
const HEADERS_PART: usize = 4;
/// The size below which an account loads within milliseconds from a local store: about five thousand
/// messages. Such a load waits for no other, and no load waits for it. Loads of larger accounts, and of those
/// in a remote store, are queued.
const QUICK_BYTES: usize = 64 << 10;

/// Drops accounts from memory.
pub(crate) trait Evict: Send + Sync {
    /// Evicts accounts until that many bytes are free, unless the rest is in use.
    fn evict(&self, bytes: usize);
}

/// The environment of accounts. Clones share it.
#[derive(Clone)]
pub(crate) struct AccountEnv(Arc<Env>);

/// The parts of it that exist from the start.
pub(crate) struct Parts {
    pub(crate) store: Store,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) budget: Budget,
    pub(crate) memory: MemoryDivision,
    pub(crate) grace: Duration,
    pub(crate) derived: Option<Arc<dyn Derived>>,
    pub(crate) evictor: Weak<dyn Evict>,
}

struct Env {
    store: Store,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    budget: Budget,
    storing: Budget,
    reading: Budget,
    grace: Duration,
    memory: AccountMemory,
    evictor: Weak<dyn Evict>,
    load_limiter: LoadLimiter,
    cpu_gate: CpuGate,
    caches: Caches,
    derived: Option<Arc<dyn Derived>>,
    metrics: AccountMetrics,
    /// Whether permanent removal is disabled because the clock is doubted.
    keeps_all: AtomicBool,
    /// The source of bodies that are not stored here.
    bodies: OnceLock<Arc<dyn BodyFetcher>>,
    /// The directory that has the keys of shares.
    directory: OnceLock<Directory>,
}

/// Recently read data of messages of all accounts.
struct Caches {
    structures: Cache<Structure>,
    /// Headers as they are in the message.
    headers: Cache<Vec<u8>>,
    decoded: DecodedCache,
    /// Sealed structures that arrived with deliveries.
    delivered: Cache<Bytes>,
}

impl AccountEnv {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { store, clock, random, budget, memory, grace, derived, evictor } = parts;
        let delivered = if store.wants_packs() { memory.delivered() } else { 0 };
        let headers = memory.structures() / HEADERS_PART;
        let caches = Caches {
            structures: Cache::new(memory.structures() - delivered - headers),
            headers: Cache::new(headers),
            decoded: DecodedCache::new(memory.decoded()),
            delivered: Cache::new(delivered),
        };
        AccountEnv(Arc::new(Env {
            store,
            clock,
            random,
            storing: budget.share(budget.common() / 4 * 3),
            reading: budget.share(budget.common() / 2),
            budget,
            grace,
            memory: AccountMemory::new(memory.accounts),
            evictor,
            load_limiter: LoadLimiter::default(),
            cpu_gate: CpuGate::default(),
            caches,
            derived,
            metrics: AccountMetrics::default(),
            keeps_all: AtomicBool::new(false),
            bodies: OnceLock::new(),
            directory: OnceLock::new(),
        }))
    }

    pub(crate) fn store(&self) -> &Store {
        &self.0.store
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.0.clock
    }

    pub(crate) fn shared_clock(&self) -> Arc<dyn Clock> {
        self.0.clock.clone()
    }

    pub(crate) fn random(&self) -> &dyn Random {
        &*self.0.random
    }

    pub(crate) fn shared_random(&self) -> Arc<dyn Random> {
        self.0.random.clone()
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.0.budget
    }

    /// The share for messages that are being stored. It and the share for reading exceed the whole together,
    /// but each leaves memory to the other.
    pub(crate) fn storing(&self) -> &Budget {
        &self.0.storing
    }

    /// The share for messages that are being read and sent.
    pub(crate) fn reading(&self) -> &Budget {
        &self.0.reading
    }

    pub(crate) fn grace(&self) -> Duration {
        self.0.grace
    }

    pub(crate) fn metrics(&self) -> &AccountMetrics {
        &self.0.metrics
    }

    pub(crate) fn cpu_gate(&self) -> &CpuGate {
        &self.0.cpu_gate
    }

    pub(crate) fn derived(&self) -> Option<&dyn Derived> {
        self.0.derived.as_deref()
    }

    pub(crate) fn structures(&self) -> &Cache<Structure> {
        &self.0.caches.structures
    }

    /// Headers of messages, by object.
    pub(crate) fn headers(&self) -> &Cache<Vec<u8>> {
        &self.0.caches.headers
    }

    pub(crate) fn decoded(&self) -> &DecodedCache {
        &self.0.caches.decoded
    }

    /// Sealed structures that arrived with deliveries, by object.
    pub(crate) fn delivered(&self) -> &Cache<Bytes> {
        &self.0.caches.delivered
    }

    /// The counters of all caches, by name.
    pub(crate) fn cache_counts(&self) -> Vec<(&'static str, CacheCounts)> {
        let Caches { structures, headers, decoded, delivered } = &self.0.caches;
        let mut counts = vec![
            ("structures", structures.counts()),
            ("headers", headers.counts()),
            ("decoded", decoded.counts()),
            ("delivered", delivered.counts()),
        ];
        counts.extend(self.derived().map(Derived::cache_counts).unwrap_or_default());
        counts
    }

    /// Called when this process no longer has the account's key: no data derived from its mail stays in a
    /// cache.
    pub(crate) fn forget(&self, id: AccountId) {
        let Caches { structures, headers, decoded, delivered } = &self.0.caches;
        structures.forget(id);
        headers.forget(id);
        decoded.forget(id);
        delivered.forget(id);
        if let Some(derived) = self.derived() {
            derived.forget(id);
        }
    }

    /// Sets whether expunged messages and unreferenced objects are removed permanently after their grace
    /// period.
    pub(crate) fn remove_for_good(&self, on: bool) {
        self.0.keeps_all.store(!on, Ordering::Relaxed);
    }

    pub(crate) fn keeps_all(&self) -> bool {
        self.0.keeps_all.load(Ordering::Relaxed)
    }

    pub(crate) fn set_bodies(&self, bodies: Arc<dyn BodyFetcher>) {
        // Only the first source counts.
        let _ = self.0.bodies.set(bodies);
    }

    pub(crate) fn bodies(&self) -> Option<Arc<dyn BodyFetcher>> {
        self.0.bodies.get().cloned()
    }

    pub(crate) fn set_directory(&self, directory: Directory) {
        let _ = self.0.directory.set(directory);
    }

    pub(crate) fn directory(&self) -> Option<&Directory> {
        self.0.directory.get()
    }

    /// The memory of loaded accounts.
    pub(crate) fn memory(&self) -> &AccountMemory {
        &self.0.memory
    }

    /// Reserves memory for an account before its load.
    pub(crate) async fn reserve(&self, bytes: usize) -> Result<Reservation> {
        self.0.memory.reserve(bytes + ACCOUNT_BYTES, |missing| self.evict(missing)).await
    }

    /// Whether a load of an account of that size takes only a few milliseconds, however busy the server is.
    pub(crate) fn is_quick(&self, bytes: usize) -> bool {
        bytes <= QUICK_BYTES && !self.0.store.wants_packs()
    }

    /// Waits until an account of this size may be loaded. The caller has reserved its memory, and holds no
    /// other resource.
    pub(crate) async fn turn_to_load(&self, bytes: usize) -> Option<LoadPermit<'_>> {
        if self.is_quick(bytes) { self.0.load_limiter.next().await } else { None }
    }

    /// Sets the reservation of an account to its present size.
    ///
    /// # Errors
    /// `Limit` if that exceeds the memory of all accounts.
    pub(crate) fn weigh(&self, id: AccountId, charge: &Reservation, state: usize) -> Result<()> {
        let bytes = state + ACCOUNT_BYTES;
        charge.set(bytes);
        if bytes > self.0.memory.bytes() {
            let room = self.0.memory.bytes();
            tracing::error!(account = %id, bytes, room, "the account is too large for this server: raise `memory`");
            return Err(Error::limit("the account is too large for the memory of this server"));
        }
        self.evict(self.0.memory.missing(0));
        Ok(())
    }

    /// Checks whether an account of this size may grow by `growth`. An account larger than account memory
    /// could not be loaded again. A fraction of it is left for changes that are never refused: deliveries and
    /// tombstones.
    ///
    /// # Errors
    /// `Limit` if the account would be too large.
    pub(crate) fn may_grow(&self, bytes: usize, growth: usize) -> Result<()> {
        let room = self.0.memory.bytes() / KEPT_FREE * (KEPT_FREE - 1);
        if growth > 0 && bytes.saturating_add(growth) > room {
            return Err(Error::limit("the account would be too large for the memory of this server"));
        }
        Ok(())
    }

    /// Evicts accounts until that much is free, unless the rest is in use.
    pub(crate) fn evict(&self, bytes: usize) {
        if bytes > 0
            && let Some(evictor) = self.0.evictor.upgrade()
        {
            evictor.evict(bytes);
        }
    }
}
