//! Principal/query and Principal/queryChanges (RFC 9670 §2.4, §2.5).

use sealpost_base::limits::JMAP_QUERY_IDS;
use sealpost_jmap::MethodError;
use sealpost_jmap::id::Id;
use sealpost_jmap::principal::{
    Principal, PrincipalCondition, PrincipalQuery, PrincipalQueryChanges, PrincipalSortKey,
};
use sealpost_jmap::standard::{Comparator, Filter, QueryChangesResponse, QueryResponse};
use sealpost_search::emails::Collation;
use serde_json::{Map, Value};

use super::list::{list, state_of};
use crate::collation::collation;
use crate::method::{Outcome, cannot_calculate};
use crate::query_part::{first_index, limit_of, passes};
use crate::responder::Responder;
use crate::scope::Scope;

pub(crate) async fn query(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let query = PrincipalQuery::from_arguments(arguments)?;
    scope.require(&query.account_id)?;
    check_collations(&query.sort)?;
    let all = list(scope.user(), &scope.shared_accounts().await?).await?;
    let state = state_of(&all);
    let ids = results(all, query.filter.as_ref(), &query.sort);
    let first = first_index(&query, scope, ids.len(), |id| ids.iter().position(|known| known == id))?;
    let limit = limit_of(&query);
    let total = ids.len();
    let most = limit.min(JMAP_QUERY_IDS);
    let is_cut = first.saturating_add(most) < total && most < limit;
    let response = QueryResponse {
        account_id: query.account_id.clone(),
        query_state: state,
        can_calculate_changes: false,
        position: first as u64,
        total: query.calculate_total.then_some(total as u64),
        ids: ids.into_iter().skip(first).take(most).collect(),
        limit: is_cut.then_some(most as u64),
    };
    responder.respond("Principal/query", &response, call_id).await?;
    Ok(())
}

/// None, or changes that the server cannot calculate.
pub(crate) async fn query_changes(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = PrincipalQueryChanges::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    check_collations(&request.sort)?;
    let all = list(scope.user(), &scope.shared_accounts().await?).await?;
    let state = state_of(&all);
    if state != request.since_query_state {
        return Err(cannot_calculate("the principals are others").into());
    }
    let total = results(all, request.filter.as_ref(), &request.sort).len();
    let response = QueryChangesResponse {
        account_id: request.account_id,
        old_query_state: request.since_query_state,
        new_query_state: state,
        total: request.calculate_total.then_some(total as u64),
        removed: Vec::new(),
        added: Vec::new(),
    };
    responder.respond("Principal/queryChanges", &response, call_id).await?;
    Ok(())
}

fn check_collations(sort: &[Comparator<PrincipalSortKey>]) -> Result<(), MethodError> {
    sort.iter().try_for_each(|comparator| collation(comparator.collation.as_deref()).map(drop))
}

/// The principals that match, in their order.
fn results(
    mut all: Vec<Principal>,
    filter: Option<&Filter<PrincipalCondition>>,
    sort: &[Comparator<PrincipalSortKey>],
) -> Vec<Id> {
    all.retain(|principal| {
        let meets = |condition: &PrincipalCondition| meets(condition, principal);
        filter.is_none_or(|filter| passes(filter, &meets))
    });
    if let Some(comparator) = sort.first() {
        all.sort_by_cached_key(|principal| name_key(principal, comparator));
        if !comparator.is_ascending {
            all.reverse();
        }
    }
    all.into_iter().filter_map(|principal| principal.id).collect()
}

fn name_key(principal: &Principal, comparator: &Comparator<PrincipalSortKey>) -> Vec<u8> {
    let collation = comparator.collation.as_deref().and_then(Collation::named).unwrap_or_default();
    let mut key = Vec::new();
    collation.key(principal.name.as_deref().unwrap_or_default(), usize::MAX, &mut key);
    key
}

fn meets(condition: &PrincipalCondition, principal: &Principal) -> bool {
    let PrincipalCondition { account_ids, email, name, text, kind, time_zone } = condition;
    let has = |field: Option<&str>, part: &str| {
        field.is_some_and(|field| field.to_lowercase().contains(&part.to_lowercase()))
    };
    let its_name = principal.name.as_deref();
    let its_email = principal.email.as_ref().and_then(Option::as_deref);
    let accounts = principal.accounts.iter().flatten().flatten();
    let account_matches = |ids: &Vec<String>| {
        let mut accounts = accounts.clone();
        accounts.any(|(account, _)| ids.iter().any(|id| id == account.as_str()))
    };
    account_ids.as_ref().is_none_or(account_matches)
        && email.as_ref().is_none_or(|part| has(its_email, part))
        && name.as_ref().is_none_or(|part| has(its_name, part))
        && text.as_ref().is_none_or(|part| has(its_name, part) || has(its_email, part))
        && kind.as_ref().is_none_or(|kind| kind == "individual")
        // No time zones are known.
        && time_zone.is_none()
}
