//! How old the object of a message is to which no event refers yet.
//!
//! Any node collects objects without an event when they are old ([`UNDER_WAY`]). If this node was
//! suspended during a delivery, the object may be removed when the event that refers to it is
//! appended. So a delivery is abandoned long before that.

use std::sync::Arc;
use std::time::Duration;

use sealpost_base::{Clock, Error, Result, Timestamp};

/// How long an object is left alone to which no event refers: a message may be stored for a command
/// that takes long, but not nearly as long ([`crate::ingest`]).
pub(crate) const UNDER_WAY: Duration = Duration::from_secs(24 * 3600);

/// The time at which the storing of a message began, by two clocks: one of them continues while a
/// process or a machine is suspended.
#[derive(Clone)]
pub(crate) struct Age {
    clock: Arc<dyn Clock>,
    now: Timestamp,
    monotonic: Duration,
}

impl Age {
    /// It begins now, before anything is stored.
    pub(crate) fn begin(clock: Arc<dyn Clock>) -> Self {
        let (now, monotonic) = (clock.now(), clock.monotonic());
        Age { clock, now, monotonic }
    }

    /// An event may refer to the message, or may have come to do so just now.
    ///
    /// # Errors
    /// `Retry` if the object may be collected, or may have been: what was appended is not to be acknowledged.
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
