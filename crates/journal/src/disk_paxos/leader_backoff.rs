//! Taking turns: of two processes that append to one chain all the time each would take the other's
//! ballot away before it is worth what it cost. So whoever loses its ballot while it was appending
//! lets the others append for a while before it begins the next.
//!
//! Nothing rests on it but how much gets done: a wait that is too short or too long, or a clock
//! that jumps, makes no entry count that does not, nor the other way round.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sealpost_base::Random;
use tokio::time::Instant;

/// Whoever appended so lately, or while a ballot might have been begun, loses its own to somebody
/// who appends at the same time. Else nobody need be there to wait for.
pub(super) const LATELY: Duration = Duration::from_millis(200);
/// How many times what it costs to begin a ballot the others are left to use theirs.
const WORTH: u32 = 4;
/// The shortest and the longest turn.
const TURN: (Duration, Duration) = (Duration::from_millis(40), Duration::from_millis(800));

/// When this process last appended to a chain, and how long it takes to come to that.
#[derive(Default)]
pub(super) struct LeaderBackoff(Mutex<BackoffState>);

#[derive(Default, Clone, Copy)]
struct BackoffState {
    appended: Option<Instant>,
    begin: Duration,
}

impl LeaderBackoff {
    /// An entry of this process counts.
    pub fn appended(&self) {
        self.lock().appended = Some(Instant::now());
    }

    /// It took so long to begin a ballot.
    pub fn began(&self, took: Duration) {
        self.lock().begin = took;
    }

    /// How long to leave the others alone before the next ballot is begun: not at all, unless this
    /// process was appending until somebody else took over. Waits once for each time.
    pub fn pause(&self, random: &dyn Random) -> Option<Duration> {
        let mut state = self.lock();
        let appended = state.appended.take()?;
        if appended.elapsed() > LATELY.max(state.begin) {
            return None;
        }
        let turn = (state.begin * WORTH).clamp(TURN.0, TURN.1);
        // Others that wait for the same are not to come at the same moment.
        Some(turn + Duration::from_micros(random.next_u64() % (turn.as_micros() as u64 / 2 + 1)))
    }

    fn lock(&self) -> MutexGuard<'_, BackoffState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
