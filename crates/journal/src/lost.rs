//! Repeated losses of an append at one position, to an entry that no listing shows.
//!
//! A writer that loses catches up and retries. If an index of the store is damaged, there is nothing to catch
//! up with, and the writer would retry forever.

use std::sync::{Mutex, PoisonError};

use sealpost_base::Position;

/// Consecutive losses at one position before a listing is checked for the object there.
const DOUBTFUL: u32 = 4;
/// Consecutive losses to an unlisted object before it counts as damage. A store may list an object shortly
/// after it was written.
const DAMAGE: u32 = 10;

/// The position of the last loss, and the number of losses in a row.
#[derive(Default)]
pub(crate) struct Lost(Mutex<(Position, u32)>);

/// How to handle a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Catch up.
    First,
    /// Catch up if a listing shows the object; else wait, longer each round.
    Doubtful(u32),
    /// Catch up if a listing shows the object; else fail.
    Last,
}

impl Lost {
    /// Notes that an append lost at `position`.
    pub(crate) fn at(&self, position: Position) -> Loss {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.0 != position {
            *last = (position, 0);
        }
        last.1 += 1;
        match last.1 {
            n if n < DOUBTFUL => Loss::First,
            n if n < DAMAGE => Loss::Doubtful(n - DOUBTFUL),
            _ => Loss::Last,
        }
    }

    /// Notes that there is an entry to catch up with.
    pub(crate) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (Position::ZERO, 0);
    }
}
