//! ContactCard/queryChanges (RFC 9610 §3.4): what changed left the results, and what of that matches
//! now came into them. All other cards are as before and in the same order.

use std::collections::HashSet;

use sealpost_account::AccountState;
use sealpost_account::contacts::CardId;
use sealpost_jmap::contact::CardQueryChanges;
use sealpost_jmap::error::MethodErrorType;
use sealpost_jmap::standard::{AddedItem, QueryChangesResponse};
use serde_json::{Map, Value};

use super::filter::CardFilter;
use super::object::id_of_card;
use super::order::CardOrder;
use super::scan::{Scanned, scan_in_one_state};
use crate::method::{Outcome, cannot_calculate};
use crate::record_state::{changes_since, state_at};
use crate::responder::Responder;
use crate::scope::Scope;

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
    let find = |state: &AccountState| {
        changes_since(state, &request.since_query_state, |since| state.card_changes(since, usize::MAX))
    };
    let scanned = scan_in_one_state(scope, &filter, &order, find).await?;
    let Scanned { changed, value: changes, cards: results, permit: _permit } =
        scanned.ok_or_else(|| cannot_calculate("cards change faster than they are read"))?;
    let changes = changes?;
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
        new_query_state: state_at(changed),
        total: request.calculate_total.then_some(results.len() as u64),
        removed,
        added,
    };
    responder.respond("ContactCard/queryChanges", &response, call_id).await?;
    Ok(())
}
