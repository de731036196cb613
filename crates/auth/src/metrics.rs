//! Metrics of logins.

use sealpost_base::metrics::Counter;
use sealpost_vault::slot::SlotKind;

use crate::authenticator::Denied;

/// The counters of logins.
#[derive(Debug, Default)]
pub struct LoginMetrics {
    /// Logins that succeeded, by the kind of slot: password, app password, recovery code, OAuth grant,
    /// web login.
    pub entered: [Counter; 5],
    /// Logins that failed: wrong credentials, too many waiting, no reply from the store, suspended,
    /// expired or revoked, another scope.
    pub denied: [Counter; 6],
    /// Logins that needed no check because the same one succeeded a while ago.
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
            Denied::Expired => 4,
            Denied::Scope => 5,
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
