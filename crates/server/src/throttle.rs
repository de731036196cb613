//! Slows down those who guess: repeated failures make the next attempt wait, per address and per account.
//!
//! Nobody is ever locked out. An address's attempts form a queue, each a delay after the one before; an account's
//! do not, so that those who guess at it cannot keep its owner waiting longer than one delay. Attempts that
//! prove themselves without a password check (a remembered login, a token) do not come here at all.
//!
//! Success forgives nothing: who guesses could buy forgiveness with an account of his own, and a client that polls
//! would wipe out what is counted against its account. Time does, one failure after the other.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use lru::LruCache;
use sealpost_base::Clock;

use crate::settings::Login;

/// Counts failures. Cloning shares the counts.
#[derive(Clone)]
pub struct Throttle(Arc<Shared>);

struct Shared {
    settings: Login,
    clock: Arc<dyn Clock>,
    tables: Mutex<Tables>,
}

struct Tables {
    addresses: LruCache<Network, Failures>,
    accounts: LruCache<Name, Failures>,
    delayed: usize,
}

/// An IPv4 address, or the first 64 bits of an IPv6 address: what one customer of a provider has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network(u128);

/// What was tried as an account name: a hash of it, so that long names do not take more memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Name([u8; 16]);

/// What is known of one address or account. Times are the monotonic clock's.
#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u32,
    /// When the next of them is forgotten, less one period.
    since: Duration,
    /// When the next attempt may be made.
    ready: Duration,
    /// Attempts held back now.
    waiting: usize,
}

/// Leave to make an attempt after [`Turn::wait`]. Dropping it makes room for another that waits.
pub struct Turn {
    throttle: Throttle,
    network: Option<Network>,
    wait: Duration,
}

/// Too many attempts are being held back; this one has to come again later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crowded;

impl Network {
    /// The network that `address` belongs to.
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            // Distinct from every IPv6 network: those have zeros in the low half.
            IpAddr::V4(v4) => Network(u128::from(v4.to_ipv6_mapped())),
            IpAddr::V6(v6) => Network(u128::from(v6) & !u128::from(u64::MAX)),
        }
    }
}

impl Name {
    /// The name that was tried, in canonical form where it has one.
    pub fn of(name: &str) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA256, name.as_bytes());
        let mut hash = [0; 16];
        hash.copy_from_slice(&digest.as_ref()[..16]);
        Name(hash)
    }
}

impl Throttle {
    /// Nobody has failed yet.
    pub fn new(settings: Login, clock: Arc<dyn Clock>) -> Self {
        let capacity = NonZeroUsize::new(settings.tracked).unwrap_or(NonZeroUsize::MIN);
        let (addresses, accounts) = (LruCache::new(capacity), LruCache::new(capacity));
        let tables = Mutex::new(Tables { addresses, accounts, delayed: 0 });
        Throttle(Arc::new(Shared { settings, clock, tables }))
    }

    /// When an attempt from `network` (`None`: a Unix socket) at `name` may be made.
    ///
    /// # Errors
    /// [`Crowded`] if it would have to wait and too many wait already.
    pub fn admit(&self, network: Option<Network>, name: Name) -> Result<Turn, Crowded> {
        let (now, settings) = (self.0.clock.monotonic(), &self.0.settings);
        let tables = &mut *self.lock();
        let account = tables.accounts.get_mut(&name).map_or(Duration::ZERO, |failures| {
            failures.forgive(now, settings);
            failures.ready.saturating_sub(now)
        });
        let mut address = network.and_then(|network| tables.addresses.get_mut(&network));
        let queued = address.as_mut().map_or(Duration::ZERO, |failures| {
            failures.forgive(now, settings);
            failures.ready.saturating_sub(now)
        });
        let wait = account.max(queued);
        if wait.is_zero() {
            // The address's next attempt still keeps its distance from this one.
            if let Some(failures) = address {
                failures.ready = now + failures.delay(settings);
            }
            return Ok(Turn { throttle: self.clone(), network: None, wait });
        }
        let here = address.as_ref().map_or(0, |failures| failures.waiting);
        if tables.delayed >= settings.delayed || here >= settings.delayed_per_address {
            return Err(Crowded);
        }
        tables.delayed += 1;
        if let Some(failures) = address {
            failures.waiting += 1;
            failures.ready = failures.ready.max(now) + failures.delay(settings);
        }
        Ok(Turn { throttle: self.clone(), network, wait })
    }

    /// An attempt failed.
    pub fn failed(&self, network: Option<Network>, name: Name) {
        let (now, settings) = (self.0.clock.monotonic(), &self.0.settings);
        let tables = &mut *self.lock();
        let new = || Failures { count: 0, since: now, ready: now, waiting: 0 };
        if let Some(network) = network {
            tables.addresses.get_or_insert_mut(network, new).add(now, settings);
        }
        tables.accounts.get_or_insert_mut(name, new).add(now, settings);
    }

    /// Attempts held back now.
    pub fn delayed(&self) -> usize {
        self.lock().delayed
    }

    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.0.tables.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Failures {
    fn add(&mut self, now: Duration, settings: &Login) {
        self.forgive(now, settings);
        self.count = self.count.saturating_add(1);
        self.ready = self.ready.max(now + self.delay(settings));
    }

    fn forgive(&mut self, now: Duration, settings: &Login) {
        let period = settings.forgive.as_millis().max(1);
        let periods = now.saturating_sub(self.since).as_millis() / period;
        let periods = u32::try_from(periods).unwrap_or(u32::MAX);
        if periods > 0 {
            self.count = self.count.saturating_sub(periods);
            self.since = if self.count == 0 { now } else { self.since + settings.forgive * periods };
        }
    }

    /// What the next attempt has to wait for: doubles with every failure that is not free.
    fn delay(&self, settings: &Login) -> Duration {
        match self.count.checked_sub(settings.free_failures + 1) {
            None => Duration::ZERO,
            Some(doublings) => {
                let factor = 1u32.checked_shl(doublings.min(31)).unwrap_or(u32::MAX);
                settings.first_delay.saturating_mul(factor).min(settings.max_delay)
            }
        }
    }
}

impl Turn {
    /// How long to wait before the attempt; zero for most.
    pub fn wait(&self) -> Duration {
        self.wait
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.wait.is_zero() {
            return;
        }
        let tables = &mut *self.throttle.lock();
        tables.delayed = tables.delayed.saturating_sub(1);
        if let Some(failures) = self.network.and_then(|network| tables.addresses.peek_mut(&network)) {
            failures.waiting = failures.waiting.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests;
