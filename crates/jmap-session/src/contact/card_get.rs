//! ContactCard/get (RFC 9610 §3.1).

use std::collections::HashSet;

use sealpost_account::contacts::CardId;
use sealpost_account::state::ObjectKind;
use sealpost_base::limits::{CARD_BYTES, JMAP_GET_OBJECTS};
use sealpost_jmap::contact::CardGet;
use sealpost_jmap::{GivenId, MethodError, State};
use serde_json::{Map, Value};

use super::object::{card, named_card};
use crate::method::Outcome;
use crate::record_state::state_at;
use crate::responder::Responder;
use crate::scope::Scope;

/// Bytes of the texts of cards that are read together, beside those of the last one.
const TOGETHER_BYTES: usize = 128 * 1024;
/// Memory for each byte of the text of a card: copied, as values, and as the response.
const MEMORY_FACTOR: usize = 8;

pub(crate) async fn get(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = CardGet::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    let _permit = scope.permit((TOGETHER_BYTES + CARD_BYTES) * MEMORY_FACTOR).await;
    // What changes while the response is sent is of a later state: then the client reads it again.
    let (state, all): (State, Result<Vec<CardId>, usize>) = scope
        .own_state(|state| {
            let cards = state.contacts().cards();
            let (many, is_all) = (cards.len(), request.ids.is_none());
            let all = (is_all && many <= JMAP_GET_OBJECTS).then(|| cards.map(|card| card.id).collect());
            (state_at(state.last_change(ObjectKind::Cards)), all.ok_or(many))
        })
        .await?;
    let wanted: Vec<(Option<GivenId>, Option<CardId>)> = match (request.ids, all) {
        (Some(ids), _) => ids
            .into_iter()
            .map(|id| (Some(id.clone()), id.id().and_then(|_| named_card(&id, &scope.created))))
            .collect(),
        (None, Ok(all)) => all.into_iter().map(|id| (None, Some(id))).collect(),
        (None, Err(many)) => {
            return Err(MethodError::too_large("maxObjectsInGet", JMAP_GET_OBJECTS, many).into());
        }
    };
    let properties: Option<HashSet<String>> = request.properties.map(|names| names.into_iter().collect());
    let is_wanted =
        |name: &String| properties.as_ref().is_none_or(|names| name == "id" || names.contains(name));
    let mut not_found = Vec::new();
    let mut response = responder.open("ContactCard/get", call_id);
    response.argument("accountId", scope.id()).await?;
    response.argument("state", &state).await?;
    response.open_array("list");
    let mut left = &wanted[..];
    while !left.is_empty() {
        let cards = match scope.own_state(|state| some(state.contacts(), left)).await {
            Ok(cards) => cards,
            Err(error) => return Err(response.fail(error.into())),
        };
        let (now, later) = left.split_at(cards.len());
        for ((given, _), found) in now.iter().zip(cards) {
            match found {
                Some(mut card) => {
                    card.retain(|name, _| is_wanted(name));
                    response.item(&card).await?;
                }
                None => not_found.extend(given.clone()),
            }
        }
        left = later;
    }
    response.close_array();
    response.array("notFound", &not_found).await?;
    response.close();
    Ok(())
}

/// The first of these cards, at least one, as many as may be read together.
fn some(
    contacts: &sealpost_account::state::Contacts,
    wanted: &[(Option<GivenId>, Option<CardId>)],
) -> Vec<Option<Map<String, Value>>> {
    let (mut cards, mut bytes) = (Vec::new(), 0);
    for (_, id) in wanted {
        let found = id.and_then(|id| contacts.card(id));
        cards.push(found.map(card));
        bytes += found.map_or(0, |card| card.json.len());
        if bytes > TOGETHER_BYTES {
            break;
        }
    }
    cards
}
