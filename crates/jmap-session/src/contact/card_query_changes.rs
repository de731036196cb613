//! ContactCard/queryChanges (RFC 9610 §3.4): what changed left the results, and what of that matches
//! now came into them. All other cards are as before and in the same order.

use std::collections::HashSet;

use sealpost_account::AccountState;
use sealpost_account::contacts::CardId;
use sealpost_account::state::Changes;
use sealpost_jmap::State;
use sealpost_jmap::contact::CardQueryChanges;
use sealpost_jmap::error::MethodErrorType;
use sealpost_jmap::standard::{AddedItem, QueryChangesResponse};
use serde_json::{Map, Value};

use super::changes::{ALL, since};
use super::filter::CardFilter;
use super::object::id_of_card;
use super::order::CardOrder;
use super::scan::scan_unchanged;
use crate::method::{Failure, Outcome, cannot_calculate};
use crate::responder::Responder;
use crate::scope::Scope;

/// How often the results are read, while others change cards.
const ATTEMPTS: usize = 4;

pub(crate) async fn query_changes(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = CardQueryChanges::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    let filter = CardFilter::new(request.filter.as_ref(), &scope.created)?;
    let order = CardOrder::new(&request.sort)?;
    let (new_query_state, changes, results) = changed_results(scope, &request, &filter, &order).await?;
    let is_changed: HashSet<CardId> = changes.created.iter().chain(&changes.updated).copied().collect();
    let added = results.iter().enumerate().filter(|(_, card)| is_changed.contains(card));
    let added: Vec<AddedItem> =
        added.map(|(index, card)| AddedItem { id: id_of_card(*card), index: index as u64 }).collect();
    let removed: Vec<_> = changes.updated.into_iter().chain(changes.destroyed).map(id_of_card).collect();
    if (removed.len() + added.len()) as u64 > request.max_changes.unwrap_or(u64::MAX) {
        return Err(MethodErrorType::TooManyChanges.into());
    }
    let response = QueryChangesResponse {
        account_id: request.account_id,
        old_query_state: request.since_query_state,
        new_query_state,
        total: request.calculate_total.then_some(results.len() as u64),
        removed,
        added,
    };
    responder.respond("ContactCard/queryChanges", &response, call_id).await?;
    Ok(())
}

/// The changes since the state of the client, the state they lead to, and the results in it.
async fn changed_results(
    scope: &Scope<'_>,
    request: &CardQueryChanges,
    filter: &CardFilter,
    order: &CardOrder,
) -> Result<(State, Changes<CardId>, Vec<CardId>), Failure> {
    for _ in 0..ATTEMPTS {
        let found = scope.look(|logs| {
            let (id, own) = logs[0];
            debug_assert_eq!(id, scope.account().id(), "the account's own log is the first");
            let find = |state: &AccountState, at| state.card_changes(at, ALL);
            let (state, changes) = since(logs, &request.since_query_state, find)?;
            Some((state, changes, own.position(), own.contacts().len()))
        });
        let found = found.await?.ok_or_else(|| cannot_calculate("the state is unknown or too old"))?;
        let (state, changes, at, cards) = found;
        let _permit = scope.permit(cards * order.bytes()).await;
        if let Some(results) = scan_unchanged(scope, filter, order, at).await? {
            return Ok((state, changes, results));
        }
    }
    Err(cannot_calculate("cards change faster than they are read").into())
}
