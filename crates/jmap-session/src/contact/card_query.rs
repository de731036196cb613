//! ContactCard/query (RFC 9610 §3.3).

use sealpost_account::object_id::card_of;
use sealpost_base::Error;
use sealpost_base::limits::JMAP_QUERY_IDS;
use sealpost_jmap::contact::CardQuery;
use serde_json::{Map, Value};

use super::filter::CardFilter;
use super::object::id_of_card;
use super::order::CardOrder;
use super::scan::{Scanned, scan_in_one_state};
use crate::method::Outcome;
use crate::query_part::{first_index, limit_of};
use crate::record_state::state_at;
use crate::responder::Responder;
use crate::scope::Scope;

pub(crate) async fn query(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let query = CardQuery::from_arguments(arguments)?;
    scope.require(&query.account_id)?;
    let filter = CardFilter::new(query.filter.as_ref(), &scope.created)?;
    let order = CardOrder::new(&query.sort)?;
    let scanned = scan_in_one_state(scope, &filter, &order, |_| ()).await?;
    let busy = || Error::retry("cards change faster than they are read");
    let Scanned { changed, cards: found, permit: _permit, .. } = scanned.ok_or_else(busy)?;
    let total = found.len();
    let index_of = |id: &sealpost_jmap::Id| {
        let card = card_of(id.as_str())?;
        found.iter().position(|known| *known == card)
    };
    let first = first_index(&query, scope, total, index_of)?;
    let limit = limit_of(&query);
    let most = limit.min(JMAP_QUERY_IDS);
    let mut response = responder.open("ContactCard/query", call_id);
    response.argument("accountId", scope.id()).await?;
    response.argument("queryState", &state_at(changed)).await?;
    response.argument("canCalculateChanges", &true).await?;
    response.argument("position", &first).await?;
    response.open_array("ids");
    for card in found.iter().skip(first).take(most) {
        response.item(&id_of_card(*card)).await?;
    }
    response.close_array();
    if query.calculate_total {
        response.argument("total", &total).await?;
    }
    if most < limit && first.saturating_add(most) < total {
        response.argument("limit", &most).await?;
    }
    response.close();
    Ok(())
}
