//! Throttles password guessing: failures delay the next attempt, per network and per account.
//!
//! An attempt in progress counts as a failure until it succeeds, so concurrent guesses are no faster than
//! sequential ones. The attempts of an address form a queue. They begin one delay apart, or as soon as the
//! earlier ones have succeeded. Larger networks around an address have counts of their own, with thresholds
//! that grow with their size, so an attacker gains little by renting a whole network. An account's attempts
//! form no queue, so guessers can delay its owner by one delay at most. Attempts from an address where the
//! account has logged in before do not wait for them at all.
//!
//! No account is ever locked out. Attempts without a password check (a cached login, an app password) are not
//! throttled here. A success clears no failures: an attacker could clear them with an account of its own, and
//! a polling client would clear those of its account. Failures expire one by one with time.
//!
//! The reasons are in `docs/decisions/0055-logins-under-attack.md`.

mod failures;
mod network;

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use lru::LruCache;
use sealpost_base::Clock;
use tokio::sync::Notify;

use crate::settings::Login;
use failures::{Failures, Scale};
pub use network::Network;
use network::{LEVELS, Level};

/// Counts failures. Clones share the counts.
#[derive(Clone)]
pub struct Throttle(Arc<Shared>);

struct Shared {
    settings: Login,
    clock: Arc<dyn Clock>,
    tables: Mutex<Tables>,
}

struct Tables {
    /// One table for each size of network.
    networks: [LruCache<Network, Failures>; LEVELS],
    accounts: LruCache<Name, Failures>,
    /// Delayed attempts, by whether their address has failed before.
    held: [usize; 2],
    next: u64,
}

/// The account name of an attempt, as a hash, so that long names take no more memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Name([u8; 16]);

/// The priority of a check; the smallest runs first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority {
    class: Class,
    /// Failures of the network, then of the account, on a logarithmic scale.
    failures: (u32, u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// The account has logged in from that address before.
    Known,
    /// The address has no failures.
    Clean,
    Other,
}

/// One attempt. If it is dropped while it is [checked](Attempt::checking), it counts as a failure.
pub struct Attempt {
    throttle: Throttle,
    network: Option<Network>,
    name: Name,
    is_known: bool,
    /// Its number in the address's queue.
    number: u64,
    /// The end of the delay for failures of the account.
    account: Duration,
    /// Notified when another attempt of the address begins or ends.
    changed: Arc<Notify>,
    state: AttemptState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AttemptState {
    /// Delayed; the index in [`Tables::held`].
    Held(usize),
    /// In progress: counts as a failure until it succeeds.
    UnderWay,
    /// In progress, with its check running.
    Checking,
    Over,
}

/// The next step of a delayed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Begin,
    /// Try again after this time, or when other attempts of the address have changed.
    Wait(Duration),
}

/// Too many attempts are delayed; this one gets a temporary error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crowded;

impl Name {
    /// The hash of a name, in canonical form if it has one.
    pub fn of(name: &str) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA256, name.as_bytes());
        let mut hash = [0; 16];
        hash.copy_from_slice(&digest.as_ref()[..16]);
        Name(hash)
    }

    /// The hash.
    pub(crate) fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl Throttle {
    /// Starts without failures.
    pub fn new(settings: Login, clock: Arc<dyn Clock>) -> Self {
        let capacity = NonZeroUsize::new(settings.failure_table_size).unwrap_or(NonZeroUsize::MIN);
        let networks = std::array::from_fn(|_| LruCache::new(capacity));
        let tables = Tables { networks, accounts: LruCache::new(capacity), held: [0; 2], next: 0 };
        Throttle(Arc::new(Shared { settings, clock, tables: Mutex::new(tables) }))
    }

    /// Registers an attempt from `network` (`None`: a Unix socket) at `name`; [`Attempt::begin`] waits until
    /// it may start. Register only one of the attempts with the same secret. `is_known`: the account has
    /// logged in from there before.
    ///
    /// # Errors
    /// [`Crowded`] if it would have to wait and too many already do. It counts against its network.
    pub fn arrive(&self, network: Option<Network>, name: Name, is_known: bool) -> Result<Attempt, Crowded> {
        let (now, settings) = (self.0.clock.monotonic(), &self.0.settings);
        let tables = &mut *self.lock();
        tables.next += 1;
        let account = tables.accounts.get_mut(&name).map_or(now, |failures| {
            failures.forgive(now, settings);
            failures.ready(Scale::ONE, settings)
        });
        let mut attempt = Attempt {
            throttle: self.clone(),
            network,
            name,
            is_known,
            number: tables.next,
            account: if is_known { now } else { account },
            changed: Arc::default(),
            state: AttemptState::Over,
        };
        let has_failed = attempt.line(tables, now).is_some_and(|failures| failures.count > 0);
        attempt.changed = attempt.line(tables, now).map_or_else(Arc::default, |line| line.changed());
        let place = attempt.wait(tables, now).and_then(|wait| {
            let room = wait.is_zero() || tables.held[usize::from(has_failed)] < settings.max_delayed;
            if room { Ok(()) } else { Err(Crowded) }
        });
        match place {
            Ok(()) => {
                tables.held[usize::from(has_failed)] += 1;
                attempt.state = AttemptState::Held(usize::from(has_failed));
                Ok(attempt)
            }
            Err(Crowded) => {
                attempt.leave_line(tables);
                attempt.refuse(tables, now);
                Err(Crowded)
            }
        }
    }

    /// The number of delayed attempts.
    pub fn delayed(&self) -> usize {
        self.lock().held.iter().sum()
    }

    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.0.tables.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Tables {
    fn network(&mut self, level: Level, now: Duration, settings: &Login) -> &mut Failures {
        let failures = self.networks[level.index].get_or_insert_mut(level.network, || Failures::none(now));
        failures.forgive(now, settings);
        failures
    }

    fn account(&mut self, name: Name, now: Duration, settings: &Login) -> &mut Failures {
        let failures = self.accounts.get_or_insert_mut(name, || Failures::none(now));
        failures.forgive(now, settings);
        failures
    }
}

impl Attempt {
    /// Waits until the attempt may start; returns whether it had to wait. Cancel-safe: dropping the future
    /// leaves the queue.
    ///
    /// # Errors
    /// [`Crowded`] if the address has failed meanwhile, and too many of its attempts wait.
    pub async fn begin(&mut self) -> Result<bool, Crowded> {
        let mut has_waited = false;
        let changed = self.changed.clone();
        loop {
            let ring = changed.notified();
            let mut ring = std::pin::pin!(ring);
            // No notification is missed from here on.
            ring.as_mut().enable();
            let Step::Wait(wait) = self.step()? else { return Ok(has_waited) };
            has_waited = true;
            tokio::select! {
                () = ring => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// The priority of its check.
    pub fn priority(&self) -> Priority {
        let (now, settings) = (self.now(), self.throttle.0.settings);
        let tables = &mut *self.throttle.lock();
        let levels = self.network.iter().flat_map(|network| network.levels());
        let against = levels.map(|level| tables.network(level, now, &settings).count / level.scale.0);
        let network = magnitude(against.max().unwrap_or(0));
        let account = tables.account(self.name, now, &settings);
        // The attempt itself is in progress.
        let account = magnitude(account.effective().saturating_sub(1));
        let class = match network {
            _ if self.is_known => Class::Known,
            0 => Class::Clean,
            _ => Class::Other,
        };
        Priority { class, failures: (network, account) }
    }

    /// Notes that the check runs: a client that disconnects from now on may know the result.
    pub fn checking(&mut self) {
        self.state = AttemptState::Checking;
    }

    /// Ends the attempt as successful.
    pub fn succeeded(mut self) {
        self.end(false);
    }

    /// Ends the attempt as failed: a wrong secret, or refused because too many wait.
    pub fn failed(mut self) {
        self.end(true);
    }

    /// A single step of [`Attempt::begin`]: how long to wait until the next step; `None` to start now.
    #[cfg(test)]
    pub(crate) fn look(&mut self) -> Result<Option<Duration>, Crowded> {
        self.step().map(|step| match step {
            Step::Begin => None,
            Step::Wait(wait) => Some(wait),
        })
    }

    fn step(&mut self) -> Result<Step, Crowded> {
        let (throttle, now) = (self.throttle.clone(), self.now());
        let settings = &throttle.0.settings;
        let AttemptState::Held(held) = self.state else { return Ok(Step::Begin) };
        let tables = &mut *throttle.lock();
        match self.wait(tables, now) {
            Ok(wait) if !wait.is_zero() => Ok(Step::Wait(wait)),
            Ok(_) => {
                tables.held[held] = tables.held[held].saturating_sub(1);
                self.leave_line(tables);
                for level in self.network.iter().flat_map(|network| network.levels()) {
                    tables.network(level, now, settings).begin(now);
                }
                tables.account(self.name, now, settings).begin(now);
                self.state = AttemptState::UnderWay;
                Ok(Step::Begin)
            }
            Err(Crowded) => {
                tables.held[held] = tables.held[held].saturating_sub(1);
                self.leave_line(tables);
                self.refuse(tables, now);
                self.state = AttemptState::Over;
                Err(Crowded)
            }
        }
    }

    /// The estimated delay at this moment; enters the address's queue.
    fn wait(&self, tables: &mut Tables, now: Duration) -> Result<Duration, Crowded> {
        let settings = &self.throttle.0.settings;
        let mut until = self.account;
        if let Some(line) = self.line(tables, now) {
            let place = line.place(self.number);
            let (ready, between) = (line.ready(Scale::ONE, settings), line.delay(Scale::ONE, settings));
            // Attempts ahead may begin sooner or later; `changed` notifies of either.
            until = until.max(ready + between.saturating_mul(u32::try_from(place).unwrap_or(u32::MAX)));
            // Without failures, all of them may be users behind one address that reconnect after a restart.
            if until > now && line.is_failing(settings) && place >= settings.delayed_per_address {
                return Err(Crowded);
            }
        }
        if !self.is_known {
            for level in self.network.iter().flat_map(|network| network.wider()) {
                until = until.max(tables.network(level, now, settings).ready(level.scale, settings));
            }
        }
        Ok(until.saturating_sub(now))
    }

    fn end(&mut self, has_failed: bool) {
        if self.state == AttemptState::Over {
            return;
        }
        let (throttle, now) = (self.throttle.clone(), self.now());
        let settings = &throttle.0.settings;
        let tables = &mut *throttle.lock();
        match std::mem::replace(&mut self.state, AttemptState::Over) {
            AttemptState::Held(held) => {
                tables.held[held] = tables.held[held].saturating_sub(1);
                self.leave_line(tables);
            }
            AttemptState::UnderWay | AttemptState::Checking => {
                for level in self.network.iter().flat_map(|network| network.levels()) {
                    tables.network(level, now, settings).end();
                }
                tables.account(self.name, now, settings).end();
                if has_failed {
                    self.count(tables, now);
                }
            }
            AttemptState::Over => {}
        }
        self.changed.notify_waiters();
    }

    /// Counts a failure.
    fn count(&self, tables: &mut Tables, now: Duration) {
        let settings = &self.throttle.0.settings;
        for level in self.network.iter().flat_map(|network| network.levels()) {
            tables.network(level, now, settings).fail(level.scale, now);
        }
        tables.account(self.name, now, settings).fail(Scale::ONE, now);
    }

    /// Counts an attempt that was refused, against its networks.
    fn refuse(&self, tables: &mut Tables, now: Duration) {
        for level in self.network.iter().flat_map(|network| network.levels()) {
            tables.network(level, now, &self.throttle.0.settings).refuse(level.scale);
        }
    }

    /// The failures and the queue of its address.
    fn line<'a>(&self, tables: &'a mut Tables, now: Duration) -> Option<&'a mut Failures> {
        let level = self.network?.narrow();
        Some(tables.network(level, now, &self.throttle.0.settings))
    }

    fn leave_line(&self, tables: &mut Tables) {
        if let Some(network) = self.network
            && let Some(line) = tables.networks[0].peek_mut(&network)
        {
            line.leave(self.number);
        }
        self.changed.notify_waiters();
    }

    fn now(&self) -> Duration {
        self.throttle.0.clock.monotonic()
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.end(self.state == AttemptState::Checking);
    }
}

fn magnitude(count: u32) -> u32 {
    u32::BITS - count.leading_zeros()
}

#[cfg(test)]
mod tests;
