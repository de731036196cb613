//! ShareNotification/query and ShareNotification/queryChanges (RFC 9670 §3.4, §3.5).

use sealpost_account::share_notice::{ShareNotice, ShareNotices};
use sealpost_jmap::error::MethodErrorType;
use sealpost_jmap::id::Id;
use sealpost_jmap::share_notification::{
    ShareNotificationCondition, ShareNotificationQuery, ShareNotificationQueryChanges,
    ShareNotificationSortKey,
};
use sealpost_jmap::standard::{AddedItem, Comparator, Filter, QueryChangesResponse, QueryResponse};
use serde_json::{Map, Value};

use super::list::{changes_in, id_of, notices, state_of};
use crate::method::{Outcome, cannot_calculate};
use crate::query_part::{first_index, limit_of, passes};
use crate::responder::Responder;
use crate::scope::Scope;
use crate::session_object::account_id;

type NoticeFilter<'a> = Option<&'a Filter<ShareNotificationCondition>>;
type NoticeSort = [Comparator<ShareNotificationSortKey>];

pub(crate) async fn query(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let query = ShareNotificationQuery::from_arguments(arguments)?;
    scope.require(&query.account_id)?;
    let known = notices(scope).await?;
    let found = results(&known, query.filter.as_ref(), &query.sort);
    let ids: Vec<Id> = found.into_iter().filter_map(id_of).collect();
    let first = first_index(&query, scope, ids.len(), |id| ids.iter().position(|known| known == id))?;
    let response = QueryResponse {
        account_id: query.account_id.clone(),
        query_state: state_of(known.changes),
        can_calculate_changes: true,
        position: first as u64,
        total: query.calculate_total.then_some(ids.len() as u64),
        ids: ids.into_iter().skip(first).take(limit_of(&query)).collect(),
        limit: None,
    };
    responder.respond("ShareNotification/query", &response, call_id).await?;
    Ok(())
}

pub(crate) async fn query_changes(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = ShareNotificationQueryChanges::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    let known = notices(scope).await?;
    let found = changes_in(&request.since_query_state).and_then(|since| known.since(since));
    let found = found.ok_or_else(|| cannot_calculate("the state is unknown or too old"))?;
    // A notice never changes: what was and is there stays in its order.
    let results = results(&known, request.filter.as_ref(), &request.sort);
    let added = results.iter().enumerate().filter(|(_, id)| found.created.contains(id));
    let added: Vec<AddedItem> =
        added.filter_map(|(index, id)| Some(AddedItem { id: id_of(*id)?, index: index as u64 })).collect();
    let removed: Vec<Id> = found.destroyed.into_iter().filter_map(id_of).collect();
    if (removed.len() + added.len()) as u64 > request.max_changes.unwrap_or(u64::MAX) {
        return Err(MethodErrorType::TooManyChanges.into());
    }
    let response = QueryChangesResponse {
        account_id: request.account_id,
        old_query_state: request.since_query_state,
        new_query_state: state_of(known.changes),
        total: request.calculate_total.then_some(results.len() as u64),
        removed,
        added,
    };
    responder.respond("ShareNotification/queryChanges", &response, call_id).await?;
    Ok(())
}

/// The notices that match, in their order: the oldest first, unless the client says otherwise.
fn results(known: &ShareNotices, filter: NoticeFilter<'_>, sort: &NoticeSort) -> Vec<u64> {
    let matches = |notice: &&ShareNotice| {
        let meets = |condition: &ShareNotificationCondition| meets(condition, notice);
        filter.is_none_or(|filter| passes(filter, &meets))
    };
    let mut found: Vec<&ShareNotice> = known.notices.iter().filter(matches).collect();
    if let Some(comparator) = sort.first() {
        found.sort_by_key(|notice| (notice.created(), notice.id));
        if !comparator.is_ascending {
            found.reverse();
        }
    }
    found.into_iter().map(|notice| notice.id).collect()
}

fn meets(condition: &ShareNotificationCondition, notice: &ShareNotice) -> bool {
    let ShareNotificationCondition { after, before, object_type, object_account_id } = condition;
    after.is_none_or(|date| notice.created() >= date.timestamp())
        && before.is_none_or(|date| notice.created() < date.timestamp())
        && object_type.as_ref().is_none_or(|name| name == "Mailbox")
        && object_account_id.as_ref().is_none_or(|id| *id == account_id(notice.mailbox.owner))
}
