//! Mailbox/query and Mailbox/queryChanges (RFC 8621 §2.3, §2.4).

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use sealpost_account::state::ObjectKind;
use sealpost_jmap::error::MethodErrorType;
use sealpost_jmap::id::{Id, MailboxId};
use sealpost_jmap::mailbox::{
    Mailbox, MailboxCondition, MailboxQuery, MailboxQueryChanges, MailboxSortKey, Role,
};
use sealpost_jmap::standard::{
    AddedItem, Comparator, Filter, Operator, QueryChangesResponse, QueryRequest, QueryResponse,
};
use sealpost_jmap::{GivenId, MethodError, State};
use sealpost_search::emails::Collation;
use serde_json::{Map, Value};

use super::changes::since;
use super::list::{LISTED_BYTES, count, list};
use crate::collation::collation;
use crate::method::{Outcome, too_old};
use crate::query_part::{first_index, limit_of};
use crate::responder::Responder;
use crate::scope::Scope;

type MailboxFilter = Option<Filter<MailboxCondition>>;
type MailboxSort = [Comparator<MailboxSortKey>];

pub(crate) async fn query(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let MailboxQuery { query, sort_as_tree, filter_as_tree } = MailboxQuery::from_arguments(arguments)?;
    scope.require(&query.account_id)?;
    check_collations(&query.sort)?;
    let (state, mut mailboxes, _permit) = {
        let many = scope.look(count).await?;
        let permit = scope.permit(many * LISTED_BYTES).await;
        let (state, all) =
            scope.look(|logs| (logs.state(ObjectKind::Mailboxes), list(logs, |_| true))).await?;
        (state, all, permit)
    };
    let matches = matching(&mailboxes, &query.filter, filter_as_tree, scope);
    sort(&mut mailboxes, &query.sort);
    if sort_as_tree {
        mailboxes = as_tree(mailboxes);
    }
    let ids =
        mailboxes.into_iter().filter_map(|mailbox| mailbox.id).filter(|id| matches.contains(id.as_str()));
    let ids: Vec<Id> = ids.map(Id::from).collect();
    let is_tree = sort_as_tree || filter_as_tree;
    let response = window(&query, state, !is_tree, &ids, scope)?;
    responder.respond("Mailbox/query", &response, call_id).await?;
    Ok(())
}

pub(crate) async fn query_changes(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = MailboxQueryChanges::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    check_collations(&request.sort)?;
    let many = scope.look(count).await?;
    let _permit = scope.permit(many * LISTED_BYTES).await;
    let found = scope
        .look_after(&request.since_query_state, |logs| {
            let changes = since(logs, &request.since_query_state, usize::MAX)?;
            Some((logs.state(ObjectKind::Mailboxes), changes, list(logs, |_| true)))
        })
        .await?;
    let (state, changes, mut mailboxes) = found.ok_or_else(too_old)?;
    let matches = matching(&mailboxes, &request.filter, false, scope);
    sort(&mut mailboxes, &request.sort);
    let results = mailboxes.into_iter().filter_map(|mailbox| mailbox.id);
    let results: Vec<MailboxId> = results.filter(|id| matches.contains(id.as_str())).collect();
    // The results and their order depend only on properties, and any of these may change. So `upToId` has no
    // effect (RFC 8620 §5.6), and unchanged mailboxes keep their relative order.
    let is_changed = |id: &MailboxId| changes.created.contains(id) || changes.changed.contains(id);
    let indexed = results.iter().enumerate().filter(|(_, id)| is_changed(id));
    let added: Vec<AddedItem> =
        indexed.map(|(index, id)| AddedItem { id: id.clone().into(), index: index as u64 }).collect();
    let removed: Vec<Id> = changes.changed.iter().chain(&changes.destroyed).cloned().map(Id::from).collect();
    let most = request.max_changes.unwrap_or(u64::MAX);
    if (added.len() + removed.len()) as u64 > most {
        return Err(MethodError::from(MethodErrorType::TooManyChanges).into());
    }
    let response = QueryChangesResponse {
        account_id: request.account_id,
        old_query_state: request.since_query_state,
        new_query_state: state,
        total: request.calculate_total.then_some(results.len() as u64),
        removed,
        added,
    };
    responder.respond("Mailbox/queryChanges", &response, call_id).await?;
    Ok(())
}

/// Only names have collations, and only those that the Session object lists.
fn check_collations(sort: &MailboxSort) -> Result<(), MethodError> {
    let names = sort.iter().filter(|comparator| comparator.key == MailboxSortKey::Name);
    names.map(|comparator| collation(comparator.collation.as_deref())).try_for_each(|known| known.map(drop))
}

/// The requested part of the results (RFC 8620 §5.5).
fn window(
    query: &QueryRequest<MailboxCondition, MailboxSortKey>,
    query_state: State,
    can_calculate_changes: bool,
    ids: &[Id],
    scope: &Scope<'_>,
) -> Result<QueryResponse, MethodError> {
    let first = first_index(query, scope, ids.len(), |anchor| ids.iter().position(|id| id == anchor))?;
    let found: Vec<Id> = ids.iter().skip(first).take(limit_of(query)).cloned().collect();
    Ok(QueryResponse {
        account_id: query.account_id.clone(),
        query_state,
        can_calculate_changes,
        position: first as u64,
        ids: found,
        total: query.calculate_total.then_some(ids.len() as u64),
        limit: None,
    })
}

/// The ids of the matching mailboxes; with `as_tree`, of those whose ancestors all match too.
fn matching(
    mailboxes: &[Mailbox],
    filter: &MailboxFilter,
    as_tree: bool,
    scope: &Scope<'_>,
) -> HashSet<String> {
    let id = |mailbox: &Mailbox| mailbox.id.as_ref().map(|id| id.as_str().to_owned());
    let own = mailboxes
        .iter()
        .filter(|mailbox| filter.as_ref().is_none_or(|filter| passes(filter, mailbox, scope)));
    let own: HashSet<String> = own.filter_map(id).collect();
    if !as_tree {
        return own;
    }
    let parents: HashMap<String, String> =
        mailboxes.iter().filter_map(|mailbox| Some((id(mailbox)?, parent(mailbox)?.to_owned()))).collect();
    let whole = |mailbox: &String| {
        let mut above = Some(mailbox);
        while let Some(one) = above {
            if !own.contains(one) {
                return false;
            }
            above = parents.get(one);
        }
        true
    };
    own.iter().filter(|mailbox| whole(mailbox)).cloned().collect()
}

fn parent(mailbox: &Mailbox) -> Option<&str> {
    mailbox.parent_id.as_ref()?.as_ref()?.id().map(|id| id.as_str())
}

fn role(mailbox: &Mailbox) -> Option<Role> {
    mailbox.role.flatten()
}

fn name(mailbox: &Mailbox) -> &str {
    mailbox.name.as_deref().unwrap_or_default()
}

fn passes(filter: &Filter<MailboxCondition>, mailbox: &Mailbox, scope: &Scope<'_>) -> bool {
    match filter {
        Filter::Operator { operator, conditions } => {
            let mut each = conditions.iter().map(|condition| passes(condition, mailbox, scope));
            match operator {
                Operator::And => each.all(|passes| passes),
                Operator::Or => each.any(|passes| passes),
                Operator::Not => !each.any(|passes| passes),
            }
        }
        Filter::Condition(condition) => meets(condition, mailbox, scope),
    }
}

fn meets(condition: &MailboxCondition, mailbox: &Mailbox, scope: &Scope<'_>) -> bool {
    let in_parent = |wanted: &Option<GivenId>| match wanted {
        None => parent(mailbox).is_none(),
        Some(wanted) => wanted.resolve(&scope.created).is_some_and(|id| parent(mailbox) == Some(id.as_str())),
    };
    let contains = |part: &String| name(mailbox).to_lowercase().contains(&part.to_lowercase());
    condition.parent_id.as_ref().is_none_or(in_parent)
        && condition.name.as_ref().is_none_or(contains)
        && condition.role.is_none_or(|wanted| role(mailbox) == wanted)
        && condition.has_any_role.is_none_or(|wanted| role(mailbox).is_some() == wanted)
        && condition.is_subscribed.is_none_or(|wanted| mailbox.is_subscribed == Some(wanted))
}

/// Sorts mailboxes; equal ones are in the order of their full names.
fn sort(mailboxes: &mut [Mailbox], sort: &MailboxSort) {
    let key = |mailbox: &Mailbox, named: Option<&str>| {
        let mut key = Vec::new();
        named.and_then(Collation::named).unwrap_or_default().key(name(mailbox), usize::MAX, &mut key);
        key
    };
    mailboxes.sort_by(|a, b| {
        let mut orders = sort.iter().map(|comparator| {
            let order = match comparator.key {
                MailboxSortKey::SortOrder => a.sort_order.cmp(&b.sort_order),
                MailboxSortKey::Name => {
                    let named = comparator.collation.as_deref();
                    key(a, named).cmp(&key(b, named))
                }
            };
            if comparator.is_ascending { order } else { order.reverse() }
        });
        orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
}

/// Each parent directly before its children, which keep their order (RFC 8621 §2.3).
fn as_tree(mailboxes: Vec<Mailbox>) -> Vec<Mailbox> {
    let mut children: HashMap<Option<String>, Vec<Mailbox>> = HashMap::new();
    for mailbox in mailboxes {
        children.entry(parent(&mailbox).map(str::to_owned)).or_default().push(mailbox);
    }
    let mut sorted = Vec::new();
    let mut left = children.remove(&None).unwrap_or_default();
    left.reverse();
    while let Some(mailbox) = left.pop() {
        let id = mailbox.id.as_ref().map(|id| id.as_str().to_owned());
        left.extend(children.remove(&id).unwrap_or_default().into_iter().rev());
        sorted.push(mailbox);
    }
    sorted
}
