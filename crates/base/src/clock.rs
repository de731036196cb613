//! Time as an argument: [`SystemClock`] for the server, [`FakeClock`] for tests and simulations.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use minicbor::{Decode, Encode};

/// Milliseconds since 1970-01-01T00:00:00Z; negative before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode)]
#[cbor(transparent)]
pub struct Timestamp(#[n(0)] pub i64);

impl Timestamp {
    /// Whole seconds since 1970, rounded towards the past.
    pub fn seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// From whole seconds since 1970.
    pub fn from_seconds(seconds: i64) -> Self {
        Timestamp(seconds.saturating_mul(1000))
    }

    /// This time plus `duration`.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Timestamp(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// How long ago `earlier` was; zero if it is later than this.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// A source of time.
pub trait Clock: Send + Sync {
    /// The wall-clock time.
    fn now(&self) -> Timestamp;
    /// Time since an arbitrary start; never decreases.
    fn monotonic(&self) -> Duration;
}

/// The machine's clock.
#[derive(Debug, Clone)]
pub struct SystemClock {
    start: std::time::Instant,
}

impl SystemClock {
    /// A clock whose monotonic time starts now.
    #[allow(clippy::disallowed_methods, reason = "this is the one place that reads the machine's clock")]
    pub fn new() -> Self {
        SystemClock { start: std::time::Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the one place that reads the machine's clock")]
    fn now(&self) -> Timestamp {
        match std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH) {
            Ok(d) => Timestamp(i64::try_from(d.as_millis()).unwrap_or(i64::MAX)),
            Err(e) => Timestamp(-i64::try_from(e.duration().as_millis()).unwrap_or(i64::MAX)),
        }
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}

/// A clock that tests advance.
#[derive(Debug)]
pub struct FakeClock {
    start: i64,
    now: AtomicI64,
}

impl FakeClock {
    /// A clock that stands at `now`.
    pub fn new(now: Timestamp) -> Self {
        FakeClock { start: now.0, now: AtomicI64::new(now.0) }
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.now.fetch_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX), Ordering::SeqCst);
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.now.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        self.now().since(Timestamp(self.start))
    }
}
