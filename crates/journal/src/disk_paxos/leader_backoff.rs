//! Backoff after a lost ballot. Two processes that append to one chain all the time would take each other's
//! ballot away before it has paid off. So a process that loses its ballot while it appends lets the others
//! append for a while before it begins the next.
//!
//! Only throughput depends on it. A wait that is too short or too long, or a clock that jumps, never changes
//! which entries count.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sealpost_base::Random;
use tokio::time::Instant;

/// A process that appended this recently, or within the time to begin a ballot, has lost its ballot to a
/// concurrent writer. Otherwise there may be no other writer to wait for.
pub(super) const LATELY: Duration = Duration::from_millis(200);
/// How long others may use their ballots, in multiples of the time to begin one.
const WORTH: u32 = 4;
/// The shortest and the longest pause.
const TURN: (Duration, Duration) = (Duration::from_millis(40), Duration::from_millis(800));

/// When this process last appended to a chain, and how long beginning a ballot takes.
#[derive(Default)]
pub(super) struct LeaderBackoff(Mutex<BackoffState>);

#[derive(Default, Clone, Copy)]
struct BackoffState {
    appended: Option<Instant>,
    begin: Duration,
}

impl LeaderBackoff {
    /// Notes that an entry of this process counts.
    pub fn appended(&self) {
        self.lock().appended = Some(Instant::now());
    }

    /// Notes how long it took to begin a ballot.
    pub fn began(&self, took: Duration) {
        self.lock().begin = took;
    }

    /// How long to pause before the next ballot. `None` unless this process was appending when another one
    /// took over. Returns one pause for each loss.
    pub fn pause(&self, random: &dyn Random) -> Option<Duration> {
        let mut state = self.lock();
        let appended = state.appended.take()?;
        if appended.elapsed() > LATELY.max(state.begin) {
            return None;
        }
        let turn = (state.begin * WORTH).clamp(TURN.0, TURN.1);
        // Random, so that processes with the same reason to wait spread out.
        Some(turn + Duration::from_micros(random.next_u64() % (turn.as_micros() as u64 / 2 + 1)))
    }

    fn lock(&self) -> MutexGuard<'_, BackoffState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
