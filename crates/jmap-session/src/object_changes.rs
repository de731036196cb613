//! /changes for objects that span all logs of an account (RFC 8620 §5.2): emails and threads.

use sealpost_base::limits::JMAP_CHANGES;
use sealpost_jmap::id::Id;
use sealpost_jmap::standard::{ChangesRequest, ChangesResponse};
use sealpost_mailbox::account_changes::{Observable, since};
use serde_json::{Map, Value};

use crate::method::{Outcome, too_old};
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
        .look_after(&request.since_state, |logs| {
            let known = logs.known(&request.since_state)?;
            let found = since::<T>(logs, &known, most)?;
            let new_state = match found.more {
                true => logs.state_at(&found.upto),
                false => logs.state(T::KIND),
            };
            Some((new_state, found))
        })
        .await?;
    let (new_state, found) = found.ok_or_else(too_old)?;
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
