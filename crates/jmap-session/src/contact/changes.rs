//! AddressBook/changes and ContactCard/changes (RFC 9610 §2.2, §3.2).

use sealpost_account::state::ObjectKind;
use sealpost_jmap::contact::ContactChanges;
use serde_json::{Map, Value};

use super::object::{id_of_book, id_of_card};
use crate::method::Outcome;
use crate::record_state::changes_response;
use crate::responder::Responder;
use crate::scope::Scope;

pub(crate) async fn book_changes(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = ContactChanges::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    let response = scope.own_state(|state| {
        let changed = state.last_change(ObjectKind::AddressBooks);
        let find = |since, most| state.address_book_changes(since, most);
        changes_response(state, changed, request, find, id_of_book)
    });
    responder.respond("AddressBook/changes", &response.await??, call_id).await?;
    Ok(())
}

pub(crate) async fn card_changes(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = ContactChanges::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    let response = scope.own_state(|state| {
        let changed = state.last_change(ObjectKind::Cards);
        changes_response(state, changed, request, |since, most| state.card_changes(since, most), id_of_card)
    });
    responder.respond("ContactCard/changes", &response.await??, call_id).await?;
    Ok(())
}
