//! The log entries of a session's own command, whose changes need not all be reported to its client.

use sealpost_account::account::Committed;
use sealpost_base::{AccountId, Position};

/// Log entries that only the current command has appended.
#[derive(Default)]
pub(super) struct OwnEntries(Vec<(AccountId, Position)>);

impl OwnEntries {
    /// Notes a change by the current command, if it is an entry of its own.
    pub(super) fn note<T>(&mut self, log: AccountId, committed: &Committed<T>) {
        if !committed.applied.is_empty() {
            self.0.push((log, committed.position));
        }
    }

    /// Notes the entry that the current command appended, if any.
    pub(super) fn note_at(&mut self, log: AccountId, at: Option<Position>) {
        self.0.extend(at.map(|at| (log, at)));
    }

    /// The positions of the entries in that log.
    pub(super) fn of(&self, log: AccountId) -> impl Iterator<Item = Position> {
        self.0.iter().filter(move |(of, _)| *of == log).map(|(_, at)| *at)
    }

    /// Whether the only new entry in a log since `before` is one of this session.
    pub(super) fn is_all_since(&self, log: AccountId, before: Position, now: Position) -> bool {
        now.0 == before.0 + 1 && self.0.contains(&(log, now))
    }

    /// Clears the entries after a command.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
