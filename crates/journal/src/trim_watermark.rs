//! Where a log was seen not to be trimmed, and when: so that writers who go on after their own
//! entries need not ask again before each.
//!
//! Nothing rests on it. Whether an entry counts is found out after it was written, whatever the
//! clock said before; who believes what is here for too long only hears of it later, as an unknown
//! outcome in the place of [`crate::Append::Trimmed`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sealpost_base::{Clock, Position};

/// How long it is believed. Others would have to write two checkpoints, of hundreds of events each,
/// in that time.
const BELIEVED: Duration = Duration::from_secs(60);

/// The last time that somebody looked, and what was not trimmed then.
#[derive(Default)]
pub(crate) struct TrimWatermark {
    clock: Option<Arc<dyn Clock>>,
    last: Mutex<Option<(Position, Duration)>>,
}

impl TrimWatermark {
    /// Believed for a while by this clock; without one, never.
    pub(crate) fn by(clock: Arc<dyn Clock>) -> Self {
        TrimWatermark { clock: Some(clock), last: Mutex::default() }
    }

    /// The time, for whoever begins to look.
    pub(crate) fn now(&self) -> Option<Duration> {
        self.clock.as_ref().map(|clock| clock.monotonic())
    }

    /// Nothing from `position` on was trimmed at that time.
    pub(crate) fn note(&self, position: Position, at: Option<Duration>) {
        let Some(at) = at else { return };
        let mut last = self.lock();
        if last.is_none_or(|(_, before)| before <= at) {
            *last = Some((position, at));
        }
    }

    /// Whether `position` was not trimmed a moment ago.
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
    fn it_is_believed_for_a_while_and_for_what_comes_after() {
        let clock = Arc::new(FakeClock::new(Timestamp(0)));
        let seen = TrimWatermark::by(clock.clone());
        assert!(!seen.is_recent(Position(5)));
        seen.note(Position(5), seen.now());
        assert!(seen.is_recent(Position(5)) && seen.is_recent(Position(6)) && !seen.is_recent(Position(4)));
        clock.advance(BELIEVED);
        assert!(seen.is_recent(Position(5)));
        clock.advance(Duration::from_millis(1));
        assert!(!seen.is_recent(Position(5)));
        // Who was slow to look does not make it older.
        seen.note(Position(7), seen.now());
        seen.note(Position(5), Some(Duration::ZERO));
        assert!(seen.is_recent(Position(7)) && !seen.is_recent(Position(5)));
    }

    #[test]
    fn without_a_clock_nothing_is() {
        let seen = TrimWatermark::default();
        seen.note(Position(1), seen.now());
        assert!(!seen.is_recent(Position(1)));
    }
}
