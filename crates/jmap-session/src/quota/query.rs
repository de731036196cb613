//! Quota/query and Quota/queryChanges (RFC 9425 §4.4, §4.5).

use std::cmp::Ordering;

use sealpost_jmap::MethodError;
use sealpost_jmap::error::MethodErrorType;
use sealpost_jmap::id::Id;
use sealpost_jmap::quota::{Quota, QuotaCondition, QuotaQuery, QuotaQueryChanges, QuotaSortKey};
use sealpost_jmap::standard::{AddedItem, Comparator, Filter, QueryChangesResponse, QueryResponse};
use sealpost_search::emails::Collation;
use serde_json::{Map, Value};

use super::list::{Change, Values};
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
    let query = QuotaQuery::from_arguments(arguments)?;
    scope.require(&query.account_id)?;
    let values = Values::now(scope).await?;
    let ids = results(&values, query.filter.as_ref(), &query.sort)?;
    let first = first_index(&query, scope, ids.len(), |id| ids.iter().position(|known| known == id))?;
    let response = QueryResponse {
        account_id: query.account_id.clone(),
        query_state: values.state(),
        can_calculate_changes: true,
        position: first as u64,
        total: query.calculate_total.then_some(ids.len() as u64),
        ids: ids.into_iter().skip(first).take(limit_of(&query)).collect(),
        limit: None,
    };
    responder.respond("Quota/query", &response, call_id).await?;
    Ok(())
}

pub(crate) async fn query_changes(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = QuotaQueryChanges::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    let since = Values::of_state(&request.since_query_state);
    let since = since.ok_or_else(|| cannot_calculate("the state is unknown"))?;
    let now = Values::now(scope).await?;
    let (changes, _) = since.changes(&now, usize::MAX);
    let results = results(&now, request.filter.as_ref(), &request.sort)?;
    // Unchanged quotas keep their order.
    let removed = changes.iter().filter(|(_, change)| *change != Change::Created);
    let removed: Vec<Id> = removed.map(|(id, _)| id.clone()).collect();
    let is_changed = |id: &Id| changes.iter().any(|(changed, _)| changed == id);
    let added = results.iter().enumerate().filter(|(_, id)| is_changed(id));
    let added: Vec<AddedItem> =
        added.map(|(index, id)| AddedItem { id: id.clone(), index: index as u64 }).collect();
    if (removed.len() + added.len()) as u64 > request.max_changes.unwrap_or(u64::MAX) {
        return Err(MethodErrorType::TooManyChanges.into());
    }
    let response = QueryChangesResponse {
        account_id: request.account_id,
        old_query_state: request.since_query_state,
        new_query_state: now.state(),
        total: request.calculate_total.then_some(results.len() as u64),
        removed,
        added,
    };
    responder.respond("Quota/queryChanges", &response, call_id).await?;
    Ok(())
}

/// The matching quotas, in order.
fn results(
    values: &Values,
    filter: Option<&Filter<QuotaCondition>>,
    sort: &[Comparator<QuotaSortKey>],
) -> Result<Vec<Id>, MethodError> {
    let names = sort.iter().filter(|comparator| comparator.key == QuotaSortKey::Name);
    names.map(|one| collation(one.collation.as_deref())).try_for_each(|known| known.map(drop))?;
    let mut found = values.quotas();
    found.retain(|(_, quota)| {
        filter.is_none_or(|filter| passes(filter, &|condition: &QuotaCondition| meets(condition, quota)))
    });
    found.sort_by(|(_, a), (_, b)| {
        let mut orders = sort.iter().map(|comparator| {
            let order = match comparator.key {
                QuotaSortKey::Used => a.used.cmp(&b.used),
                QuotaSortKey::Name => name_key(a, comparator).cmp(&name_key(b, comparator)),
            };
            if comparator.is_ascending { order } else { order.reverse() }
        });
        orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
    Ok(found.into_iter().map(|(id, _)| id).collect())
}

fn name_key(quota: &Quota, comparator: &Comparator<QuotaSortKey>) -> Vec<u8> {
    let collation = comparator.collation.as_deref().and_then(Collation::named).unwrap_or_default();
    let mut key = Vec::new();
    collation.key(quota.name.as_deref().unwrap_or_default(), usize::MAX, &mut key);
    key
}

fn meets(condition: &QuotaCondition, quota: &Quota) -> bool {
    let QuotaCondition { name, scope, resource_type, data_type } = condition;
    let has_name = |part: &String| {
        quota.name.as_ref().is_some_and(|name| name.to_lowercase().contains(&part.to_lowercase()))
    };
    name.as_ref().is_none_or(has_name)
        && scope.is_none_or(|wanted| quota.scope == Some(wanted))
        && resource_type.is_none_or(|wanted| quota.resource_type == Some(wanted))
        && data_type.as_ref().is_none_or(|wanted| quota.types.iter().flatten().any(|known| known == wanted))
}
