//! Appends that lose again and again at one position: to an entry that no listing shows.
//!
//! Whoever loses reads on and comes again. Where an index of the store is damaged, there is nothing
//! to read on to, and it would come again for ever.

use std::sync::{Mutex, PoisonError};

use sealpost_base::Position;

/// Losses in a row at one position before it is looked whether a listing shows what is there.
const DOUBTFUL: u32 = 4;
/// Losses in a row to what no listing shows before that is called damage. A store may list what was
/// written a moment later.
const DAMAGE: u32 = 10;

/// Where it was lost last, and how often in a row.
#[derive(Default)]
pub(crate) struct Lost(Mutex<(Position, u32)>);

/// What to do about a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Read on.
    First,
    /// Read on if a listing shows what is there, else wait a moment, longer each round.
    Doubtful(u32),
    /// The same, and do not come again if it does not.
    Last,
}

impl Lost {
    /// It was lost at `position`.
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

    /// There is something to read on to.
    pub(crate) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (Position::ZERO, 0);
    }
}
