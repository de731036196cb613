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
    /// Logins that had to wait because of earlier failures.
    pub held_back: Counter,
}

impl LoginMetrics {
    /// A login succeeded by such a slot.
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

    /// Logins that succeeded.
    pub fn successes(&self) -> u64 {
        self.entered.iter().map(Counter::read).sum()
    }

    /// Logins that failed, for any reason.
    pub fn failures(&self) -> u64 {
        self.denied.iter().map(Counter::read).sum()
    }
}
