//! The states before and after the entries that a method writes (RFC 8620 §5.3).
//!
//! A client at `oldState` applies its own changes locally and continues at `newState`. A response has both
//! only if nothing but the method's own entries lies between them. If another writer appended in between,
//! `oldState` is null, and the client requests the changes.

use std::collections::BTreeMap;

use sealpost_account::account::Committed;
use sealpost_base::{AccountId, Position};
use sealpost_jmap::State;
use sealpost_jmap::error::MethodErrorType;
use sealpost_mailbox::account_changes::{LogPositions, positions};
use sealpost_mailbox::email_change::Written;

use crate::method::Failure;
use crate::scope::Scope;
use crate::state_string::{Head, state_of};

/// The entries of one method.
pub(crate) struct Entries {
    before: LogPositions,
    head: Head,
    pub(crate) written: Written,
    /// Whether `written` has all of them.
    are_known: bool,
}

impl Entries {
    /// Starts without entries.
    ///
    /// # Errors
    /// `stateMismatch` unless the account has the required state. It must still have it when the method
    /// writes its first entry.
    pub(crate) async fn begin(scope: &Scope<'_>, if_in_state: Option<&State>) -> Result<Self, Failure> {
        let (head, before) = scope.look(|logs| (logs.head(), positions(logs))).await?;
        if if_in_state.is_some_and(|wanted| *wanted != state_of(head, &before)) {
            return Err(MethodErrorType::StateMismatch.into());
        }
        let expected = if_in_state.map(|_| before.clone());
        Ok(Entries { before, head, written: Written { expected, ..Written::default() }, are_known: true })
    }

    /// Notes the entry that a step appended to the log, if any.
    pub(crate) fn note(&mut self, log: AccountId, entry: Option<Position>) {
        self.written.entries.extend(entry.map(|at| (log, at)));
    }

    /// Notes the entry of a commit.
    pub(crate) fn committed<T>(&mut self, log: AccountId, committed: &Committed<T>) {
        self.note(log, (!committed.applied.is_empty()).then_some(committed.position));
    }

    /// Notes that a step appended entries it cannot name, or removed a log.
    pub(crate) fn lose_track(&mut self) {
        self.are_known = false;
    }

    /// The state before.
    pub(crate) fn old_state(&self) -> State {
        state_of(self.head, &self.before)
    }

    /// The failure to report if the method fails at this point. After it has written, this is
    /// `serverPartialFail` (RFC 8620 §3.6.2): the client must read the state and must not simply retry.
    pub(crate) fn failed(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Method(_) if !self.written.entries.is_empty() || !self.are_known => {
                MethodErrorType::ServerPartialFail.into()
            }
            failure => failure,
        }
    }

    /// The states for the response: `oldState`, if no other writer appended in between, and `newState`.
    pub(crate) async fn states(&self, scope: &Scope<'_>) -> Result<(Option<State>, State), Failure> {
        let (head, now) = scope.look(|logs| (logs.head(), positions(logs))).await?;
        let after = advanced(&self.before, &self.written.entries);
        Ok(match after.filter(|_| self.are_known && head == self.head) {
            Some(after) => (Some(self.old_state()), state_of(head, &after)),
            None => (None, state_of(head, &now)),
        })
    }
}

/// The positions after these entries. `None` if they do not follow `before` without a gap.
fn advanced(before: &LogPositions, entries: &[(AccountId, Position)]) -> Option<LogPositions> {
    let mut positions: BTreeMap<AccountId, Position> = before.iter().collect();
    for (log, entry) in entries {
        let at = positions.get_mut(log)?;
        if entry.0 != at.0 + 1 {
            return None;
        }
        *at = *entry;
    }
    Some(positions.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_that_has_written_fails_in_part() {
        let (before, written) = (LogPositions::default(), Written::default());
        let head = Head::Own(AccountId([1; 16]));
        let mut entries = Entries { before, head, written, are_known: true };
        let failed = |entries: &Entries| match entries.failed(MethodErrorType::ServerUnavailable.into()) {
            Failure::Method(error) => error,
            Failure::Ended(error) => panic!("{error:?}"),
        };
        assert_eq!(failed(&entries), MethodErrorType::ServerUnavailable.into());
        entries.note(AccountId([1; 16]), None);
        assert_eq!(failed(&entries), MethodErrorType::ServerUnavailable.into());
        entries.note(AccountId([1; 16]), Some(Position(1)));
        assert_eq!(failed(&entries), MethodErrorType::ServerPartialFail.into());
        entries.written.entries.clear();
        entries.lose_track();
        assert_eq!(failed(&entries), MethodErrorType::ServerPartialFail.into());
    }

    #[test]
    fn entries_of_others_in_between_are_noticed() {
        let [own, share] = [1, 2].map(|byte| AccountId([byte; 16]));
        let before: LogPositions = [(own, Position(4)), (share, Position(9))].into_iter().collect();
        let after: LogPositions = [(own, Position(6)), (share, Position(10))].into_iter().collect();
        let entries = [(own, Position(5)), (share, Position(10)), (own, Position(6))];
        assert_eq!(advanced(&before, &entries), Some(after));
        assert_eq!(advanced(&before, &[]), Some(before.clone()));
        assert_eq!(advanced(&before, &[(own, Position(6))]), None);
        assert_eq!(advanced(&before, &[(own, Position(5)), (own, Position(7))]), None);
        assert_eq!(advanced(&before, &[(AccountId([3; 16]), Position(1))]), None, "a log that is new");
    }
}
