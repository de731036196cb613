//! State strings of types whose objects are in the account's own log alone, and that are no mail: identities,
//! submissions, address books, contact cards; and the states before and after what a method changes of
//! them.
//!
//! Such a state is the log position of the last change of the type: mail that arrives does not change it.
//! A response to /changes that ends within an entry leads to a state with an id behind the position
//! ([`SyncPoint`]).

use sealpost_account::AccountState;
use sealpost_account::account::Committed;
use sealpost_account::state::{ChangeKey, Changes, SyncPoint};
use sealpost_base::limits::JMAP_CHANGES;
use sealpost_base::{Error, Position, Result};
use sealpost_jmap::error::MethodErrorType;
use sealpost_jmap::id::Id;
use sealpost_jmap::standard::{ChangesRequest, ChangesResponse};
use sealpost_jmap::{MethodError, State};

use crate::method::{Failure, too_old};
use crate::sync_point_text::{read_point, write_point};

/// The state of a client that knows all changes up to there.
pub(crate) fn state_at(position: Position) -> State {
    State::new(format!("{:x}", position.0))
}

/// How far a client with that state has followed the changes. `None` if the server made no such string.
fn point_of<T: ChangeKey>(state: &State) -> Option<SyncPoint<T>> {
    let point = read_point(state.as_str())?;
    // One state has one string.
    (write_point(point) == state.as_str()).then_some(point)
}

/// The changes since a state. `find` finds them in the account's own log, and `changed` is when the type
/// changed last.
///
/// # Errors
/// `cannotCalculateChanges`.
pub(crate) fn changes_since<T: ChangeKey>(
    log: &AccountState,
    since: &State,
    find: impl Fn(SyncPoint<T>) -> Option<Changes<T>>,
) -> Result<Changes<T>, MethodError> {
    let since = point_of(since).filter(|since| since.position <= log.position());
    since.and_then(find).ok_or_else(too_old)
}

/// The response to /changes, as of [`changes_since`]; `id_of` makes the ids.
///
/// # Errors
/// `cannotCalculateChanges`.
pub(crate) fn changes_response<T: ChangeKey, I: Into<Id>>(
    log: &AccountState,
    changed: Position,
    request: ChangesRequest,
    find: impl Fn(SyncPoint<T>, usize) -> Option<Changes<T>>,
    id_of: impl Fn(T) -> I,
) -> Result<ChangesResponse, MethodError> {
    let most = request.most(JMAP_CHANGES);
    let found = changes_since(log, &request.since_state, |since| find(since, most))?;
    let ids = |keys: Vec<T>| keys.into_iter().map(|key| id_of(key).into()).collect();
    let new_state = match found.more {
        true => State::new(write_point(found.upto)),
        false => state_at(changed),
    };
    Ok(ChangesResponse {
        account_id: request.account_id,
        old_state: request.since_state,
        new_state,
        has_more_changes: found.more,
        created: ids(found.created),
        updated: ids(found.updated),
        destroyed: ids(found.destroyed),
    })
}

/// What a /set writes.
pub(crate) struct RecordChanges {
    before: Position,
    /// The last change of the type that is the method's own, or what was there before.
    last: Position,
    /// Whether the client wants a certain state, until that was checked where the log ends.
    is_expected: bool,
    /// Whether nothing but the method's own changes came after `before`, up to the last of them.
    is_alone: bool,
    has_written: bool,
}

impl RecordChanges {
    /// Nothing yet; `changed` is the position of the last change.
    ///
    /// # Errors
    /// `stateMismatch`.
    pub(crate) fn begin(changed: Position, if_in_state: Option<&State>) -> Result<Self, Failure> {
        if if_in_state.is_some_and(|wanted| *wanted != state_at(changed)) {
            return Err(MethodErrorType::StateMismatch.into());
        }
        let is_expected = if_in_state.is_some();
        Ok(RecordChanges { before: changed, last: changed, is_expected, is_alone: true, has_written: false })
    }

    /// Refuses the first change if the type has another state than the wanted one.
    ///
    /// # Errors
    /// `Conflict`.
    pub(crate) fn check(&self, changed: Position) -> Result<()> {
        match self.expected() {
            Some(expected) if expected != changed => Err(Error::conflict("the state has changed")),
            _ => Ok(()),
        }
    }

    /// The position that the first change has to find, if the client wants a certain state.
    pub(crate) fn expected(&self) -> Option<Position> {
        self.is_expected.then_some(self.before)
    }

    /// The state before.
    pub(crate) fn old_state(&self) -> State {
        state_at(self.before)
    }

    /// An entry of the method's own is there; `changed` is when the type had changed last before it.
    pub(crate) fn wrote(&mut self, changed: Position, position: Position) {
        self.is_alone &= changed <= self.last;
        (self.last, self.is_expected, self.has_written) = (position, false, true);
    }

    /// That commit was made, if it had anything to write; `changed` is when the type had changed last
    /// where it was decided.
    pub(crate) fn committed<T>(&mut self, changed: Position, committed: &Committed<T>) {
        if !committed.applied.is_empty() {
            self.wrote(changed, committed.position);
        }
    }

    /// Whether anything was written.
    pub(crate) fn has_written(&self) -> bool {
        self.has_written
    }

    /// How the method ends if it fails: after a change the client has to look at what was done (RFC 8620
    /// §3.6.2).
    pub(crate) fn failed(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Method(_) if self.has_written() => MethodErrorType::ServerPartialFail.into(),
            failure => failure,
        }
    }

    /// `oldState`, unless others made changes in between, and `newState` (RFC 8620 §5.3); `changed` is when
    /// the type changed last as of now.
    pub(crate) fn states(&self, changed: Position) -> (Option<State>, State) {
        match self.is_alone {
            // An entry that changed nothing leaves the type in the state before.
            true => (Some(self.old_state()), state_at(self.last.min(changed))),
            false => (None, state_at(changed)),
        }
    }
}

/// The same error as a failure of a method: `stateMismatch` for that of [`RecordChanges::check`].
pub(crate) fn failure_of(
    error: Error,
    changes: &RecordChanges,
    state: &AccountState,
    of: fn(&AccountState) -> Position,
) -> Failure {
    match changes.check(of(state)) {
        Err(_) => MethodErrorType::StateMismatch.into(),
        Ok(()) => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(before: u64, writes: &[(u64, u64)], now: u64) -> (Option<String>, String) {
        let mut changes = match RecordChanges::begin(Position(before), None) {
            Ok(changes) => changes,
            Err(failure) => panic!("{failure:?}"),
        };
        writes.iter().for_each(|(changed, at)| changes.wrote(Position(*changed), Position(*at)));
        let (old, new) = changes.states(Position(now));
        (old.map(|state| state.to_string()), new.to_string())
    }

    #[test]
    fn the_old_state_is_given_if_no_other_client_wrote() {
        let known = |old: &str, new: &str| (Some(old.to_owned()), new.to_owned());
        assert_eq!(of(4, &[], 4), known("4", "4"));
        assert_eq!(of(4, &[(4, 7), (7, 9)], 9), known("4", "9"), "mail came in between");
        assert_eq!(of(4, &[(4, 7)], 12), known("4", "7"), "others wrote later");
        assert_eq!(of(4, &[(5, 7)], 7), (None, "7".to_owned()), "others wrote before the first");
        assert_eq!(of(4, &[(4, 7), (8, 9)], 9), (None, "9".to_owned()), "others wrote in between");
        assert_eq!(of(4, &[(4, 7)], 4), known("4", "4"), "it changed nothing");
    }

    #[test]
    fn a_state_may_end_within_an_entry() {
        use sealpost_account::contacts::{AddressBookId, CardId};
        let within = SyncPoint { position: Position(0x2f), within: Some(CardId(0x1c)) };
        let state = State::new(write_point(within));
        assert_eq!(state.as_str(), "2f_p1c");
        assert_eq!(point_of(&state), Some(within));
        assert_eq!(point_of::<AddressBookId>(&state), None, "of another type");
        assert_eq!(point_of(&state_at(Position(7))), Some(SyncPoint::<CardId>::from(Position(7))));
        for bad in ["", "x", "02f", "2f_", "2f_p", "2f_p01c", "2f_p1C", "2f_p100000000", "+2", "2f-"] {
            assert_eq!(point_of::<CardId>(&State::new(bad)), None, "{bad}");
        }
    }
}
