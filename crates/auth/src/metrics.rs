//! Metrics of logins.

use sealpost_base::metrics::Counter;
use sealpost_vault::slot::SlotKind;

use crate::authenticator::Denied;

/// The counters of logins.
#[derive(Debug, Default)]
pub struct LoginMetrics {
    /// Successful logins, by kind of slot: password, app password, recovery code.
    pub entered: [Counter; 3],
    /// Failed logins: wrong credentials, too many waiting, store unavailable, suspended.
    pub denied: [Counter; 4],
    /// Logins from the cache, without a check.
    pub remembered: Counter,
    /// Logins that earlier failures delayed.
    pub held_back: Counter,
}

impl LoginMetrics {
    /// Counts a successful login with this kind of slot.
    pub(crate) fn entered(&self, kind: SlotKind) {
        self.entered[kind as usize].increment();
    }

    pub(crate) fn denied(&self, why: &Denied) {
        let reason = match why {
            Denied::Credentials => 0,
            Denied::Busy => 1,
            Denied::Unavailable(_) => 2,
            Denied::Suspended => 3,
        };
        self.denied[reason].increment();
    }

    /// The number of successful logins.
    pub fn successes(&self) -> u64 {
        self.entered.iter().map(Counter::read).sum()
    }

    /// The number of failed logins, for any reason.
    pub fn failures(&self) -> u64 {
        self.denied.iter().map(Counter::read).sum()
    }
}
