//! The failures of one network or account.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::settings::Login;

/// Failures that are counted of an address: the longest delay is reached long before, and one that
/// many share is forgiven some day.
const MOST: u32 = 120;

/// How many addresses' worth of failures and attempts something may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scale(pub u32);

impl Scale {
    /// An address, or an account.
    pub const ONE: Scale = Scale(1);
}

/// The failures of one network or account. Times are the monotonic clock's.
#[derive(Debug)]
pub(super) struct Failures {
    /// Failed attempts that have not expired.
    pub count: u32,
    /// Attempts that have begun and not ended.
    under_way: u32,
    /// When the next of the failures expires, less one period.
    since: Duration,
    /// When an attempt last began or failed.
    last: Option<Duration>,
    /// Attempts that wait, in order; of an address alone.
    line: VecDeque<u64>,
    changed: Option<Arc<Notify>>,
}

impl Failures {
    pub fn none(now: Duration) -> Self {
        Failures { count: 0, under_way: 0, since: now, last: None, line: VecDeque::new(), changed: None }
    }

    /// With those that may still fail.
    pub fn effective(&self) -> u32 {
        self.count.saturating_add(self.under_way)
    }

    /// Whether more has failed than costs nothing.
    pub fn is_failing(&self, settings: &Login) -> bool {
        self.count > settings.free_failures
    }

    /// An attempt begins.
    pub fn begin(&mut self, now: Duration) {
        self.under_way += 1;
        self.last = Some(now);
    }

    /// An attempt has ended, with any outcome.
    pub fn end(&mut self) {
        // The table may have evicted the entry since it began.
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// An attempt has failed.
    pub fn fail(&mut self, scale: Scale, now: Duration) {
        self.refuse(scale);
        self.last = Some(now);
    }

    /// An attempt was refused: it counts as a failure, without a longer delay for those that wait.
    pub fn refuse(&mut self, scale: Scale) {
        self.count = self.count.saturating_add(1).min(MOST.saturating_mul(scale.0));
    }

    /// Removes one failure for each period that has passed.
    pub fn forgive(&mut self, now: Duration, settings: &Login) {
        let period = settings.failure_decay.as_millis().max(1);
        let periods = now.saturating_sub(self.since).as_millis() / period;
        let periods = u32::try_from(periods).unwrap_or(u32::MAX);
        if periods > 0 {
            self.count = self.count.saturating_sub(periods);
            self.since += settings.failure_decay.saturating_mul(periods);
        }
        if self.count == 0 {
            // The first failure will expire a whole period after it.
            self.since = now;
        }
    }

    /// When the next attempt may begin.
    pub fn ready(&self, scale: Scale, settings: &Login) -> Duration {
        self.last.map_or(Duration::ZERO, |last| last + self.delay(scale, settings))
    }

    /// The delay between two attempts: doubles with every failure that is not free.
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

    /// The place of the attempt of that number in the line, 0 being the first; at the end of it if
    /// it was not there.
    pub fn place(&mut self, number: u64) -> usize {
        self.line.iter().position(|waiting| *waiting == number).unwrap_or_else(|| {
            self.line.push_back(number);
            self.line.len() - 1
        })
    }

    /// It does not wait any more.
    pub fn leave(&mut self, number: u64) {
        self.line.retain(|waiting| *waiting != number);
    }

    /// Notified when the queue, or the count, has changed.
    pub fn changed(&mut self) -> Arc<Notify> {
        self.changed.get_or_insert_default().clone()
    }
}
