//! The failures of one network or account.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::settings::Login;

/// The most failures counted for one address. The delay reaches its maximum long before, and the count of a
/// shared address must be able to expire.
const MOST: u32 = 120;

/// How many addresses' worth of failures and attempts a network may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scale(pub u32);

impl Scale {
    /// The scale of one address, or of an account.
    pub const ONE: Scale = Scale(1);
}

/// The failures of one network or account. Times are on the monotonic clock.
#[derive(Debug)]
pub(super) struct Failures {
    /// Failed attempts that have not expired.
    pub count: u32,
    /// Attempts in progress.
    under_way: u32,
    /// When the next failure expires, minus one period.
    since: Duration,
    /// When an attempt last began or failed.
    last: Option<Duration>,
    /// Delayed attempts, in order; used for an address only.
    line: VecDeque<u64>,
    changed: Option<Arc<Notify>>,
}

impl Failures {
    pub fn none(now: Duration) -> Self {
        Failures { count: 0, under_way: 0, since: now, last: None, line: VecDeque::new(), changed: None }
    }

    /// The failures, including attempts in progress.
    pub fn effective(&self) -> u32 {
        self.count.saturating_add(self.under_way)
    }

    /// Whether there are more failures than are free.
    pub fn is_failing(&self, settings: &Login) -> bool {
        self.count > settings.free_failures
    }

    /// Starts an attempt.
    pub fn begin(&mut self, now: Duration) {
        self.under_way += 1;
        self.last = Some(now);
    }

    /// Ends an attempt, with any outcome.
    pub fn end(&mut self) {
        // The table may have evicted the entry since the attempt began.
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// Counts a failed attempt.
    pub fn fail(&mut self, scale: Scale, now: Duration) {
        self.refuse(scale);
        self.last = Some(now);
    }

    /// Counts a refused attempt as a failure, but does not extend the delay of waiting attempts.
    pub fn refuse(&mut self, scale: Scale) {
        self.count = self.count.saturating_add(1).min(MOST.saturating_mul(scale.0));
    }

    /// Expires one failure for each elapsed period.
    pub fn forgive(&mut self, now: Duration, settings: &Login) {
        let period = settings.failure_decay.as_millis().max(1);
        let periods = now.saturating_sub(self.since).as_millis() / period;
        let periods = u32::try_from(periods).unwrap_or(u32::MAX);
        if periods > 0 {
            self.count = self.count.saturating_sub(periods);
            self.since += settings.failure_decay.saturating_mul(periods);
        }
        if self.count == 0 {
            // The first failure expires a whole period later.
            self.since = now;
        }
    }

    /// When the next attempt may begin.
    pub fn ready(&self, scale: Scale, settings: &Login) -> Duration {
        self.last.map_or(Duration::ZERO, |last| last + self.delay(scale, settings))
    }

    /// The delay between two attempts; it doubles with each failure that is not free.
    pub fn delay(&self, scale: Scale, settings: &Login) -> Duration {
        let free = settings.free_failures.saturating_mul(scale.0);
        match self.effective().checked_sub(free.saturating_add(1)) {
            None => Duration::ZERO,
            Some(beyond) => {
                let factor = 1u32.checked_shl((beyond / scale.0).min(31)).unwrap_or(u32::MAX);
                settings.first_delay.saturating_mul(factor).min(settings.max_delay) / scale.0
            }
        }
    }

    /// The position of an attempt in the queue, from 0; appends the attempt if it is new.
    pub fn place(&mut self, number: u64) -> usize {
        self.line.iter().position(|waiting| *waiting == number).unwrap_or_else(|| {
            self.line.push_back(number);
            self.line.len() - 1
        })
    }

    /// Removes an attempt from the queue.
    pub fn leave(&mut self, number: u64) {
        self.line.retain(|waiting| *waiting != number);
    }

    /// Notifies of changes of the queue or the count.
    pub fn changed(&mut self) -> Arc<Notify> {
        self.changed.get_or_insert_default().clone()
    }
}
