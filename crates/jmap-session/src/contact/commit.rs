//! Commits to the account's log, in the state that the client asked for (RFC 8620 §5.3).

use sealpost_account::{AccountState, Committed, Event};
use sealpost_base::Result;
use sealpost_jmap::error::MethodErrorType;

use crate::entries::Entries;
use crate::scope::Scope;

/// Decides where the log ends, and notes the entry.
///
/// # Errors
/// As [`sealpost_account::Account::commit`]; within, `stateMismatch` if others wrote before the first
/// entry of a call with `ifInState`.
pub(super) async fn commit_in_state<T: Send>(
    scope: &Scope<'_>,
    entries: &mut Entries,
    mut decide: impl FnMut(&AccountState) -> Result<(Vec<Event>, T)> + Send,
) -> Result<std::result::Result<Committed<T>, MethodErrorType>> {
    let (log, written) = (scope.account().id(), &entries.written);
    let committed = scope.account().commit(|state| {
        if written.entries.is_empty() && !written.may_follow(log, state) {
            return Ok((Vec::new(), None));
        }
        let (events, value) = decide(state)?;
        Ok((events, Some(value)))
    });
    let Committed { value, position, applied } = committed.await?;
    let Some(value) = value else { return Ok(Err(MethodErrorType::StateMismatch)) };
    let committed = Committed { value, position, applied };
    entries.committed(log, &committed);
    Ok(Ok(committed))
}
