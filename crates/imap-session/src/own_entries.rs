//! The log entries of a session's own command: the client need not get all of them reported.

use sealpost_account::account::Committed;
use sealpost_base::{AccountId, Position};

/// Log entries that the current command alone made.
#[derive(Default)]
pub(super) struct OwnEntries(Vec<(AccountId, Position)>);

impl OwnEntries {
    /// The current command made this change, if it is one.
    pub(super) fn note<T>(&mut self, log: AccountId, committed: &Committed<T>) {
        if !committed.applied.is_empty() {
            self.0.push((log, committed.position));
        }
    }

    /// The current command made the entry at that position, if there is one.
    pub(super) fn note_at(&mut self, log: AccountId, at: Option<Position>) {
        self.0.extend(at.map(|at| (log, at)));
    }

    /// The positions of those in that log.
    pub(super) fn of(&self, log: AccountId) -> impl Iterator<Item = Position> {
        self.0.iter().filter(move |(of, _)| *of == log).map(|(_, at)| *at)
    }

    /// Whether all that is new in a log since `before` is one entry, which this session made.
    pub(super) fn is_all_since(&self, log: AccountId, before: Position, now: Position) -> bool {
        now.0 == before.0 + 1 && self.0.contains(&(log, now))
    }

    /// The command is answered.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
