//! Email/queryChanges (RFC 8621 §4.5).

use sealpost_account::object_id::{email_id_of, object_of};
use sealpost_base::limits::JMAP_CHANGES;
use sealpost_base::{AccountId, ObjectId};
use sealpost_jmap::MethodError;
use sealpost_jmap::email::EmailQueryChanges;
use sealpost_jmap::error::MethodErrorType;
use sealpost_jmap::id::Id;
use sealpost_jmap::standard::{AddedItem, QueryChangesResponse};
use sealpost_mailbox::account_changes::LogPositions;
use sealpost_search::emails::{Bounds, EmailChanges, EmailQuery, EmailsView, UnknownChanges};
use serde_json::{Map, Value};

use super::filter::filter_of;
use super::sort::sort_of;
use crate::method::{Outcome, cannot_calculate};
use crate::progress::{CallerProgress, query_failure};
use crate::responder::Responder;
use crate::scope::Scope;
use crate::state_string::{positions_in, state_of};

/// Estimated memory for a change, in bytes: the id twice, and its index.
const CHANGE_BYTES: usize = 160;

/// The results of a query and their changes.
struct Found {
    changes: Result<EmailChanges, UnknownChanges>,
    upto: LogPositions,
    total: usize,
}

pub(crate) async fn query_changes(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let EmailQueryChanges { changes: request, collapse_threads } =
        EmailQueryChanges::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    let sort = sort_of(&request.sort)?;
    let asked = EmailQuery { filter: filter_of(scope, request.filter.as_ref()).await?, sort };
    let up_to = request.up_to_id.as_ref().and_then(|id| object_of(id.resolve(&scope.created)?.as_str()));
    let _permit = scope.permit(JMAP_CHANGES * CHANGE_BYTES).await;
    let bounds = Bounds { collapsed: collapse_threads, up_to, most: JMAP_CHANGES };
    let logs = scope.logs().await?;
    logs.catch_up_with(&request.since_query_state).await?;
    let head = logs.look(|logs| logs.head()).await?;
    let search = scope.email_search(&logs, &asked);
    let pick = |view: &EmailsView<'_>| {
        let known: Vec<AccountId> = view.logs().collect();
        let since = positions_in(&request.since_query_state, scope.reach(), &known);
        let since = since.map(|(_, known)| known).filter(|_| view.has_changes());
        let changes = since.ok_or(UnknownChanges::TooOld).and_then(|since| view.changes(&since, bounds));
        Found { changes, upto: view.last_changes(), total: view.len(collapse_threads) }
    };
    let found = scope.engine().emails(search, &mut CallerProgress::new(scope), pick).await;
    let Found { changes, upto, total } = found.map_err(query_failure)?;
    logs.check_still_readable().await?;
    drop(logs);
    let changes = changes.map_err(|why| match why {
        UnknownChanges::TooOld => cannot_calculate("the state is unknown or too old"),
        UnknownChanges::TooMany if request.max_changes.is_some() => too_many(),
        UnknownChanges::TooMany => cannot_calculate("too much has changed"),
    })?;
    let EmailChanges { removed, added } = changes;
    if (removed.len() + added.len()) as u64 > request.max_changes.unwrap_or(u64::MAX) {
        return Err(too_many().into());
    }
    let id = |object: ObjectId| Id::new(email_id_of(object));
    let item = |(index, object)| Some(AddedItem { id: id(object)?, index: index as u64 });
    let response = QueryChangesResponse {
        account_id: request.account_id,
        old_query_state: request.since_query_state,
        new_query_state: state_of(head, &upto),
        total: request.calculate_total.then_some(total as u64),
        removed: removed.into_iter().filter_map(id).collect(),
        added: added.into_iter().filter_map(item).collect(),
    };
    responder.respond("Email/queryChanges", &response, call_id).await?;
    Ok(())
}

fn too_many() -> MethodError {
    MethodErrorType::TooManyChanges.into()
}
