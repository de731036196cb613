//! /changes for objects that span all logs of an account (RFC 8620 §5.2): emails and threads.

use sealpost_base::limits::JMAP_CHANGES;
use sealpost_jmap::MethodError;
use sealpost_jmap::id::Id;
use sealpost_jmap::standard::{ChangesRequest, ChangesResponse};
use sealpost_mailbox::account_changes::{Observable, since};
use serde_json::{Map, Value};

use crate::method::{Outcome, no_changes};
use crate::responder::Responder;
use crate::scope::Scope;

/// Responds to the method `name`; `id_of` makes the id of an object.
pub(crate) async fn changes<T: Observable + Send>(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    (name, call_id): (&str, &str),
    id_of: impl Fn(T) -> String,
) -> Outcome {
    let request = ChangesRequest::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    let most = request.most(JMAP_CHANGES);
    let found = scope
        .look(|logs| {
            let known = logs.known(&request.since_state);
            let changes = |most| known.as_ref().and_then(|known| since::<T>(logs, known, most));
            let found = changes(most).ok_or_else(|| no_changes(changes(usize::MAX).is_some()))?;
            Ok::<_, MethodError>((logs.state(&found.upto), found))
        })
        .await?;
    let (new_state, found) = found?;
    let ids = |objects: Vec<T>| objects.into_iter().filter_map(|object| Id::new(id_of(object))).collect();
    let response = ChangesResponse {
        account_id: request.account_id,
        old_state: request.since_state,
        new_state,
        has_more_changes: found.more,
        created: ids(found.created),
        updated: ids(found.updated),
        destroyed: ids(found.destroyed),
    };
    responder.respond(name, &response, call_id).await?;
    Ok(())
}
