//! The states before and after the entries that a method writes (RFC 8620 §5.3).
//!
//! A client at `oldState` applies its own changes locally and continues at `newState`. A response has both
//! only if nothing but the method's own entries lies between them. If another writer appended in between,
//! `oldState` is null, and the client requests the changes.

use std::collections::BTreeMap;

use sealpost_account::account::Committed;
use sealpost_account::state::ObjectKind;
use sealpost_base::{AccountId, Position};
use sealpost_jmap::State;
use sealpost_jmap::error::MethodErrorType;
use sealpost_mailbox::account_changes::{LogPositions, last_changes, positions};
use sealpost_mailbox::email_change::Written;

use crate::method::Failure;
use crate::scope::Scope;
use crate::state_string::{Head, state_of};

/// The entries of one method.
pub(crate) struct Entries {
    kind: ObjectKind,
    head: Head,
    /// Where the logs ended.
    before: LogPositions,
    /// When objects of the kind had changed last.
    changed: LogPositions,
    pub(crate) written: Written,
    /// Whether `written` has all of them.
    are_known: bool,
}

impl Entries {
    /// Starts without entries; `kind` is what the method changes.
    ///
    /// # Errors
    /// `stateMismatch` unless the account has the required state. It must still have it when the method
    /// writes its first entry.
    pub(crate) async fn begin(
        scope: &Scope<'_>,
        kind: ObjectKind,
        if_in_state: Option<&State>,
    ) -> Result<Self, Failure> {
        let now = scope.look(|logs| (logs.head(), positions(logs), last_changes(logs, kind))).await?;
        let (head, before, changed) = now;
        if if_in_state.is_some_and(|wanted| *wanted != state_of(head, &changed)) {
            return Err(MethodErrorType::StateMismatch.into());
        }
        let expected = if_in_state.map(|_| (kind, changed.clone()));
        let written = Written { expected, ..Written::default() };
        Ok(Entries { kind, head, before, changed, written, are_known: true })
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
        state_of(self.head, &self.changed)
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
        let now = scope.look(|logs| (logs.head(), last_changes(logs, self.kind))).await?;
        let after = advanced(&self.before, &self.written.entries);
        Ok(match after.filter(|_| self.are_known && now.0 == self.head) {
            Some(after) => {
                let after = changed_by_then(&self.changed, &self.before, &after, &now.1);
                (Some(self.old_state()), state_of(self.head, &after))
            }
            None => (None, state_of(now.0, &now.1)),
        })
    }
}

/// The last changes as of the positions `after` of the logs; `changed` are those as of the positions
/// `before`, and `now` those of now. After a method's own entry that no other one followed, that is exact;
/// else, at most as late as that entry.
fn changed_by_then(
    changed: &LogPositions,
    before: &LogPositions,
    after: &LogPositions,
    now: &LogPositions,
) -> LogPositions {
    let of = |positions: &LogPositions, log| {
        positions.iter().find(|(other, _)| *other == log).map_or(Position::ZERO, |(_, at)| at)
    };
    let by_then = |(log, end): (AccountId, Position)| {
        let at = match of(now, log) {
            last if last <= end => last,
            _ if end == of(before, log) => of(changed, log),
            _ => end,
        };
        (log, at)
    };
    after.iter().map(by_then).collect()
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
        let (before, changed, written) = Default::default();
        let (kind, head) = (ObjectKind::Emails, Head::Own(AccountId([1; 16])));
        let mut entries = Entries { kind, head, before, changed, written, are_known: true };
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
    fn states_after_own_entries_are_those_of_the_type() {
        let [own, share] = [1, 2].map(|byte| AccountId([byte; 16]));
        let of = |own_at, share_at| -> LogPositions {
            [(own, Position(own_at)), (share, Position(share_at))].into_iter().collect()
        };
        let by_then = |after, now| changed_by_then(&of(3, 5), &of(4, 9), &after, &now);
        assert_eq!(by_then(of(4, 9), of(3, 5)), of(3, 5), "nothing was written");
        assert_eq!(by_then(of(6, 9), of(6, 5)), of(6, 5));
        assert_eq!(by_then(of(6, 9), of(3, 5)), of(3, 5), "the entries changed nothing of the type");
        assert_eq!(by_then(of(6, 9), of(8, 10)), of(6, 5), "others wrote later");
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
