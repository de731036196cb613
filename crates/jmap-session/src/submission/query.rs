//! EmailSubmission/query and EmailSubmission/queryChanges (RFC 8621 §7.3, §7.4).

use std::cmp::Ordering;
use std::collections::BTreeSet;

use sealpost_account::object_id::email_id_of;
use sealpost_account::state::{Record, Submissions};
use sealpost_account::submission::SubmissionRecord;
use sealpost_base::SubmissionId;
use sealpost_jmap::GivenId;
use sealpost_jmap::error::MethodErrorType;
use sealpost_jmap::id::{CreatedIds, Id};
use sealpost_jmap::standard::{AddedItem, Comparator, Filter, QueryChangesResponse, QueryResponse};
use sealpost_jmap::submission::{
    SubmissionCondition, SubmissionQuery, SubmissionQueryChanges, SubmissionSortKey,
};
use serde_json::{Map, Value};

use super::settle::settle;
use super::show::{id_of, submission_of, undo_status};
use crate::identity;
use crate::method::Outcome;
use crate::query_part::{first_index, limit_of, passes};
use crate::record_state::{changes_since, state_at};
use crate::responder::Responder;
use crate::scope::Scope;

pub(crate) async fn query(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let query = SubmissionQuery::from_arguments(arguments)?;
    scope.require(&query.account_id)?;
    settle(scope).await?;
    let created = &scope.created;
    let (state, ids) = scope
        .own_state(|state| {
            let known = state.submissions();
            (state_at(known.changed()), results(known, query.filter.as_ref(), &query.sort, created))
        })
        .await?;
    let anchor = |id: &Id| {
        let id = submission_of(&GivenId::Id(id.clone()), created)?;
        ids.iter().position(|known| *known == id)
    };
    let first = first_index(&query, scope, ids.len(), anchor)?;
    let response = QueryResponse {
        account_id: query.account_id.clone(),
        query_state: state,
        can_calculate_changes: true,
        position: first as u64,
        total: query.calculate_total.then_some(ids.len() as u64),
        ids: ids.iter().skip(first).take(limit_of(&query)).map(|id| id_of(*id).into()).collect(),
        limit: None,
    };
    responder.respond("EmailSubmission/query", &response, call_id).await?;
    Ok(())
}

pub(crate) async fn query_changes(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = SubmissionQueryChanges::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    settle(scope).await?;
    let (filter, sort, created) = (request.filter.as_ref(), &request.sort, &scope.created);
    let (state, results, changes) = scope
        .own_state(|state| {
            let known = state.submissions();
            let find = |since| known.changes(since, state.position(), usize::MAX);
            let changes = changes_since(state, &request.since_query_state, find);
            (state_at(known.changed()), results(known, filter, sort, created), changes)
        })
        .await?;
    let changes = changes?;
    // What a client sorts by never changes: the others stay as they are, in the same order.
    let moved: BTreeSet<SubmissionId> = changes.created.iter().chain(&changes.updated).copied().collect();
    let removed = changes.updated.iter().chain(&changes.destroyed);
    let removed: Vec<Id> = removed.map(|id| id_of(*id).into()).collect();
    let added = results.iter().enumerate().filter(|(_, id)| moved.contains(id));
    let added: Vec<AddedItem> =
        added.map(|(index, id)| AddedItem { id: id_of(*id).into(), index: index as u64 }).collect();
    if (removed.len() + added.len()) as u64 > request.max_changes.unwrap_or(u64::MAX) {
        return Err(MethodErrorType::TooManyChanges.into());
    }
    let response = QueryChangesResponse {
        account_id: request.account_id,
        old_query_state: request.since_query_state,
        new_query_state: state,
        total: request.calculate_total.then_some(results.len() as u64),
        removed,
        added,
    };
    responder.respond("EmailSubmission/queryChanges", &response, call_id).await?;
    Ok(())
}

/// The submissions that match, in their order: those that are equal by when they were made.
fn results(
    known: &Submissions,
    filter: Option<&Filter<SubmissionCondition>>,
    sort: &[Comparator<SubmissionSortKey>],
    created: &CreatedIds,
) -> Vec<SubmissionId> {
    let meets = |record: &SubmissionRecord| {
        filter.is_none_or(|filter| {
            passes(filter, &|condition: &SubmissionCondition| matches(condition, record, created))
        })
    };
    let mut found: Vec<_> = known.iter().filter(|(_, record)| meets(&record.value)).collect();
    found.sort_by(|(_, a), (_, b)| {
        let mut orders = sort.iter().map(|comparator| {
            let order = compare(comparator.key, &a.value, &b.value);
            if comparator.is_ascending { order } else { order.reverse() }
        });
        orders.find(|order| order.is_ne()).unwrap_or_else(|| made(a).cmp(&made(b)))
    });
    found.into_iter().map(|(id, _)| id).collect()
}

/// When a submission was made; of several in one entry, any order that stays.
fn made(record: &Record<SubmissionRecord>) -> (sealpost_base::Position, SubmissionId) {
    (record.created, record.value.submission.id)
}

fn compare(key: SubmissionSortKey, a: &SubmissionRecord, b: &SubmissionRecord) -> Ordering {
    let (a, b) = (&a.submission, &b.submission);
    match key {
        SubmissionSortKey::EmailId => a.email.cmp(&b.email),
        SubmissionSortKey::ThreadId => a.thread.to_string().cmp(&b.thread.to_string()),
        SubmissionSortKey::SentAt => a.send_at.cmp(&b.send_at),
    }
}

fn matches(condition: &SubmissionCondition, record: &SubmissionRecord, created: &CreatedIds) -> bool {
    let SubmissionCondition { identity_ids, email_ids, thread_ids, undo_status: undo, before, after } =
        condition;
    let submission = &record.submission;
    let is_among = |ids: &Option<Vec<GivenId>>, own: &dyn Fn() -> String| {
        ids.as_ref().is_none_or(|ids| {
            let own = own();
            ids.iter().any(|given| given.resolve(created).is_some_and(|id| id.as_str() == own))
        })
    };
    is_among(identity_ids, &|| identity::id_of(submission.identity).to_string())
        && is_among(email_ids, &|| email_id_of(submission.email))
        && is_among(thread_ids, &|| submission.thread.to_string())
        && undo.is_none_or(|undo| undo_status(record.progress) == undo)
        && before.is_none_or(|before| submission.send_at < before.timestamp())
        && after.is_none_or(|after| submission.send_at >= after.timestamp())
}
