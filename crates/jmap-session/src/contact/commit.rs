//! What a /set writes of contacts: commits to the account's log, in the state that the client asked for
//! (RFC 8620 §5.3).

use sealpost_account::state::ObjectKind;
use sealpost_account::{AccountState, Committed, Event};
use sealpost_base::Result;
use sealpost_jmap::State;
use sealpost_jmap::error::MethodErrorType;

use crate::method::Failure;
use crate::record_state::RecordChanges;
use crate::scope::Scope;

/// The changes of one call.
pub(super) struct ContactChanges {
    kind: ObjectKind,
    written: RecordChanges,
}

impl ContactChanges {
    /// Nothing yet.
    ///
    /// # Errors
    /// `stateMismatch`; store errors.
    pub(super) async fn begin(
        scope: &Scope<'_>,
        kind: ObjectKind,
        if_in_state: Option<&State>,
    ) -> std::result::Result<Self, Failure> {
        let changed = scope.own_state(|state| state.last_change(kind)).await?;
        Ok(ContactChanges { kind, written: RecordChanges::begin(changed, if_in_state)? })
    }

    /// The state before.
    pub(super) fn old_state(&self) -> State {
        self.written.old_state()
    }

    /// As [`RecordChanges::failed`].
    pub(super) fn failed(&self, failure: Failure) -> Failure {
        self.written.failed(failure)
    }

    /// As [`RecordChanges::states`].
    ///
    /// # Errors
    /// Store errors.
    pub(super) async fn states(&self, scope: &Scope<'_>) -> Result<(Option<State>, State)> {
        scope.own_state(|state| self.written.states(state.last_change(self.kind))).await
    }

    /// Decides where the log ends, and notes the entry.
    ///
    /// # Errors
    /// As [`sealpost_account::Account::commit`]; within, `stateMismatch` if others wrote before the first
    /// entry of a call with `ifInState`.
    pub(super) async fn commit<T: Send>(
        &mut self,
        scope: &Scope<'_>,
        mut decide: impl FnMut(&AccountState) -> Result<(Vec<Event>, T)> + Send,
    ) -> Result<std::result::Result<Committed<T>, MethodErrorType>> {
        let (kind, written) = (self.kind, &self.written);
        let committed = scope.account().commit(|state| {
            let changed = state.last_change(kind);
            if written.check(changed).is_err() {
                return Ok((Vec::new(), (changed, None)));
            }
            let (events, value) = decide(state)?;
            Ok((events, (changed, Some(value))))
        });
        let Committed { value: (changed, value), position, applied } = committed.await?;
        let Some(value) = value else { return Ok(Err(MethodErrorType::StateMismatch)) };
        let committed = Committed { value, position, applied };
        self.written.committed(changed, &committed);
        Ok(Ok(committed))
    }
}
