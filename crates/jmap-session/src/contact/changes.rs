//! AddressBook/changes and ContactCard/changes (RFC 9610 §2.2, §3.2).

use sealpost_account::AccountState;
use sealpost_account::state::Changes;
use sealpost_base::Position;
use sealpost_base::limits::{CARDS, JMAP_CHANGES, TOMBSTONES};
use sealpost_jmap::State;
use sealpost_jmap::contact::{ContactChanges, ContactChangesResponse};
use sealpost_jmap::id::Id;
use sealpost_mailbox::account_changes::{LogPositions, positions};
use serde_json::{Map, Value};

use super::object::{id_of_book, id_of_card};
use crate::method::{Outcome, no_changes};
use crate::responder::Responder;
use crate::scope::{Logs, Scope};

pub(crate) async fn book_changes(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let of = AccountState::address_book_changes;
    changes(scope, responder, arguments, ("AddressBook/changes", call_id), (of, id_of_book)).await
}

pub(crate) async fn card_changes(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let of = AccountState::card_changes;
    changes(scope, responder, arguments, ("ContactCard/changes", call_id), (of, id_of_card)).await
}

/// More cards, or address books, than can have changed.
pub(super) const ALL: usize = CARDS + TOMBSTONES;

/// Finds the changes of one type in the account's own log, since a position and so many at most.
type Find<T> = fn(&AccountState, Position, usize) -> Option<Changes<T>>;

async fn changes<T: Send>(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    (name, call_id): (&str, &str),
    (find, id_of): (Find<T>, fn(T) -> Id),
) -> Outcome {
    let request = ContactChanges::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    let most = request.most(JMAP_CHANGES);
    let found = scope.look(|logs| {
        let changes = |most| since(logs, &request.since_state, |state, at| find(state, at, most));
        changes(most).ok_or_else(|| no_changes(changes(ALL).is_some()))
    });
    let (new_state, found) = found.await??;
    let ids = |objects: Vec<T>| objects.into_iter().map(id_of).collect();
    let response = ContactChangesResponse {
        account_id: request.account_id,
        old_state: request.since_state,
        new_state,
        has_more_changes: found.more,
        created: ids(found.created),
        updated: ids(found.updated),
        destroyed: ids(found.destroyed),
    };
    responder.respond(name, &response, call_id).await?;
    Ok(())
}

/// The changes since that state, and the state that they lead to. `None` if the state is unknown or
/// too long ago.
pub(super) fn since<T>(
    logs: &Logs<'_>,
    state: &State,
    find: impl Fn(&AccountState, Position) -> Option<Changes<T>>,
) -> Option<(State, Changes<T>)> {
    let known = logs.known(state)?;
    let (own, now) = logs.own();
    let at = known.iter().find(|(log, _)| *log == own).map(|(_, at)| at)?;
    let found = if at <= now.position() { find(now, at)? } else { return None };
    let upto: LogPositions = match found.more {
        false => positions(logs),
        // Contacts are in no other log, so what the client knows of those does not matter to it.
        true => known.iter().map(|(log, at)| (log, if log == own { found.upto } else { at })).collect(),
    };
    Some((logs.state(&upto), found))
}
