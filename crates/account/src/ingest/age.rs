//! The age of a message object to which no event refers yet.
//!
//! Any node collects old objects without an event ([`UNDER_WAY`]). If this node was suspended during a
//! delivery, the object may be removed when the event that refers to it is appended. So a delivery is
//! abandoned long before that.

use std::sync::Arc;
use std::time::Duration;

use sealpost_base::{Clock, Error, Result, Timestamp};

/// How long an object without an event is kept. A command may take long after it has stored a message, but by
/// far not that long ([`crate::ingest`]).
pub(crate) const UNDER_WAY: Duration = Duration::from_secs(24 * 3600);

/// When the storing of a message began, by two clocks: one of them advances while a process or a machine is
/// suspended.
#[derive(Clone)]
pub(crate) struct Age {
    clock: Arc<dyn Clock>,
    now: Timestamp,
    monotonic: Duration,
}

impl Age {
    /// Starts now, before anything is stored.
    pub(crate) fn begin(clock: Arc<dyn Clock>) -> Self {
        let (now, monotonic) = (clock.now(), clock.monotonic());
        Age { clock, now, monotonic }
    }

    /// Checks that an event may refer to the message, or that the event just appended is valid.
    ///
    /// # Errors
    /// `Retry` if the object may have been collected, or may soon be: the append must not be acknowledged.
    pub(crate) fn check(&self) -> Result<()> {
        let monotonic = self.clock.monotonic().saturating_sub(self.monotonic);
        if self.clock.now().since(self.now).max(monotonic) < UNDER_WAY / 2 {
            return Ok(());
        }
        Err(Error::retry(
            "storing the message took so long that its object may have been removed; outcome unknown",
        ))
    }
}
