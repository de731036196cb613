//! State strings of identities and submissions, and the states before and after what a method changes of
//! them.
//!
//! Such a state is the log position of the last change of the type: mail that arrives does not change it.

use sealpost_account::AccountState;
use sealpost_account::account::Committed;
use sealpost_account::state::{Changes, Records, Weighed};
use sealpost_base::limits::JMAP_CHANGES;
use sealpost_base::{Error, Position, Result};
use sealpost_jmap::error::MethodErrorType;
use sealpost_jmap::id::Id;
use sealpost_jmap::standard::{ChangesRequest, ChangesResponse};
use sealpost_jmap::{MethodError, State};

use crate::method::{Failure, no_changes};

/// The state of a client that knows all changes up to there.
pub(crate) fn state_at(position: Position) -> State {
    State::new(format!("{:x}", position.0))
}

/// The position of a state. `None` if the server made no such string.
pub(crate) fn position_of(state: &State) -> Option<Position> {
    let position = u64::from_str_radix(state.as_str(), 16).ok().map(Position)?;
    // One state has one string.
    (state_at(position) == *state).then_some(position)
}

/// The changes of records of an account's own log since a state.
///
/// # Errors
/// `cannotCalculateChanges`.
pub(crate) fn changes_since<K: Copy + Ord, V: Weighed>(
    log: &AccountState,
    records: &Records<K, V>,
    since: &State,
    most: usize,
) -> Result<Changes<K>, MethodError> {
    let changes = |most| position_of(since).and_then(|since| records.changes(since, log.position(), most));
    changes(most).ok_or_else(|| no_changes(changes(usize::MAX).is_some()))
}

/// The response to /changes of records; `id_of` makes their ids.
///
/// # Errors
/// `cannotCalculateChanges`.
pub(crate) fn changes_response<K: Copy + Ord, V: Weighed, I: Into<Id>>(
    log: &AccountState,
    records: &Records<K, V>,
    request: ChangesRequest,
    id_of: impl Fn(K) -> I,
) -> Result<ChangesResponse, MethodError> {
    let found = changes_since(log, records, &request.since_state, request.most(JMAP_CHANGES))?;
    let ids = |keys: Vec<K>| keys.into_iter().map(|key| id_of(key).into()).collect();
    Ok(ChangesResponse {
        account_id: request.account_id,
        old_state: request.since_state,
        new_state: state_at(found.upto),
        has_more_changes: found.more,
        created: ids(found.created),
        updated: ids(found.updated),
        destroyed: ids(found.destroyed),
    })
}

/// What a /set writes.
pub(crate) struct RecordChanges {
    before: Position,
    /// The state that the client wants to change, until that was checked where the log ends.
    expected: Option<Position>,
    own: Vec<Position>,
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
        Ok(RecordChanges { before: changed, expected: if_in_state.map(|_| changed), own: Vec::new() })
    }

    /// Refuses the first change if the type has another state than the wanted one.
    ///
    /// # Errors
    /// `Conflict`.
    pub(crate) fn check(&self, changed: Position) -> Result<()> {
        match self.expected {
            Some(expected) if expected != changed => Err(Error::conflict("the state has changed")),
            _ => Ok(()),
        }
    }

    /// The position that the first change has to find, if the client wants a certain state.
    pub(crate) fn expected(&self) -> Option<Position> {
        self.expected
    }

    /// An entry of the method's own is there.
    pub(crate) fn wrote(&mut self, position: Position) {
        self.own.push(position);
        self.expected = None;
    }

    /// That commit was made, if it had anything to write.
    pub(crate) fn committed<T>(&mut self, committed: &Committed<T>) {
        if !committed.applied.is_empty() {
            self.wrote(committed.position);
        }
    }

    /// Whether anything was written.
    pub(crate) fn has_written(&self) -> bool {
        !self.own.is_empty()
    }

    /// How the method ends if it fails: after a change the client has to look at what was done (RFC 8620
    /// §3.6.2).
    pub(crate) fn failed(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Method(_) if self.has_written() => MethodErrorType::ServerPartialFail.into(),
            failure => failure,
        }
    }

    /// `oldState`, unless others made changes in between, and `newState` (RFC 8620 §5.3).
    pub(crate) fn states<K: Copy + Ord, V: Weighed>(
        &self,
        records: &Records<K, V>,
    ) -> (Option<State>, State) {
        let is_own = records.positions_after(self.before).all(|at| self.own.contains(&at));
        (is_own.then(|| state_at(self.before)), state_at(records.changed()))
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
