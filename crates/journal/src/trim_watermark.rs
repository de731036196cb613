//! The time and position of the last check that a log was not trimmed. A writer that appends after its own
//! entries need not repeat the check before each.
//!
//! Correctness does not depend on it. With any clock, a check after the write determines whether an entry
//! counts. A process that relies on an old check only learns of a trim later, as an unknown outcome instead
//! of [`crate::Append::Trimmed`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sealpost_base::{Clock, Position};

/// How long a check is valid. Within that time, others would have to write two checkpoints of hundreds of
/// events each.
const BELIEVED: Duration = Duration::from_secs(60);

/// The last check, and the position from which nothing was trimmed then.
#[derive(Default)]
pub(crate) struct TrimWatermark {
    clock: Option<Arc<dyn Clock>>,
    last: Mutex<Option<(Position, Duration)>>,
}

impl TrimWatermark {
    /// With this clock checks are valid for a while; without a clock, never.
    pub(crate) fn by(clock: Arc<dyn Clock>) -> Self {
        TrimWatermark { clock: Some(clock), last: Mutex::default() }
    }

    /// The time before a check.
    pub(crate) fn now(&self) -> Option<Duration> {
        self.clock.as_ref().map(|clock| clock.monotonic())
    }

    /// Notes that nothing from `position` on was trimmed at that time.
    pub(crate) fn note(&self, position: Position, at: Option<Duration>) {
        let Some(at) = at else { return };
        let mut last = self.lock();
        if last.is_none_or(|(_, before)| before <= at) {
            *last = Some((position, at));
        }
    }

    /// Whether a recent check found that `position` was not trimmed.
    pub(crate) fn is_recent(&self, position: Position) -> bool {
        let (Some(now), Some((from, at))) = (self.now(), *self.lock()) else { return false };
        position >= from && now.saturating_sub(at) <= BELIEVED
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Position, Duration)>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealpost_base::{FakeClock, Timestamp};

    #[test]
    fn a_watermark_holds_for_later_positions_for_a_while() {
        let clock = Arc::new(FakeClock::new(Timestamp(0)));
        let seen = TrimWatermark::by(clock.clone());
        assert!(!seen.is_recent(Position(5)));
        seen.note(Position(5), seen.now());
        assert!(seen.is_recent(Position(5)) && seen.is_recent(Position(6)) && !seen.is_recent(Position(4)));
        clock.advance(BELIEVED);
        assert!(seen.is_recent(Position(5)));
        clock.advance(Duration::from_millis(1));
        assert!(!seen.is_recent(Position(5)));
        // A result that arrives late does not replace a newer one.
        seen.note(Position(7), seen.now());
        seen.note(Position(5), Some(Duration::ZERO));
        assert!(seen.is_recent(Position(7)) && !seen.is_recent(Position(5)));
    }

    #[test]
    fn without_a_clock_no_check_is_valid() {
        let seen = TrimWatermark::default();
        seen.note(Position(1), seen.now());
        assert!(!seen.is_recent(Position(1)));
    }
}
