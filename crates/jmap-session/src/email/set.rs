//! Email/set (RFC 8621 §4.6): creates, then updates, then destroys. However many emails a call names, each
//! log gets one entry for new emails and one for changes.

mod create;
mod update;

use std::collections::BTreeSet;

use sealpost_account::object_id::object_of;
use sealpost_account::state::ObjectKind;
use sealpost_jmap::email::EmailSetResponse;
use sealpost_jmap::error::SetErrorType;
use sealpost_jmap::id::Id;
use sealpost_jmap::standard::{SetRequest, SetResponse};
use sealpost_jmap::{GivenId, SetError};
use sealpost_mailbox::email_change::{EmailChange, change_emails};
use serde_json::{Map, Value};

use super::refused::{Refused, of_object};
use crate::entries::Entries;
use crate::method::{Failure, Outcome};
use crate::responder::Responder;
use crate::scope::Scope;

pub(crate) async fn set(
    scope: &mut Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = SetRequest::from_arguments(arguments)?;
    scope.require_writable(&request.account_id)?;
    set_emails(scope, responder, request, call_id).await
}

/// The same for arguments that were read: the implicit call after a submission (RFC 8621 §7.5).
pub(crate) async fn set_emails(
    scope: &mut Scope<'_>,
    responder: &mut Responder<'_>,
    request: SetRequest,
    call_id: &str,
) -> Outcome {
    let mut entries = Entries::begin(scope, ObjectKind::Emails, request.if_in_state.as_ref()).await?;
    let mut response: EmailSetResponse = SetResponse::new(request.account_id.clone(), entries.old_state());
    let done = run(scope, &mut entries, request, &mut response).await;
    done.map_err(|failure| entries.failed(failure))?;
    (response.old_state, response.new_state) = entries.states(scope).await?;
    responder.respond("Email/set", &response, call_id).await?;
    Ok(())
}

async fn run(
    scope: &mut Scope<'_>,
    entries: &mut Entries,
    request: SetRequest,
    response: &mut EmailSetResponse,
) -> Result<(), Failure> {
    create::create(scope, entries, request.create, response).await?;
    let doomed: BTreeSet<&Id> =
        request.destroy.iter().filter_map(|given| given.resolve(&scope.created)).collect();
    let updates = update::read(scope, request.update, &doomed, response).await?;
    let destroys = request.destroy.iter().map(|given| (given.clone(), EmailChange::Destroy));
    change(scope, entries, updates.into_iter().chain(destroys).collect(), response).await
}

/// Changes and destroys all emails together. A second change of the same email goes into another round.
async fn change(
    scope: &Scope<'_>,
    entries: &mut Entries,
    mut changes: Vec<(GivenId, EmailChange)>,
    response: &mut EmailSetResponse,
) -> Result<(), Failure> {
    while !changes.is_empty() {
        let (mut objects, mut given, mut again) = (BTreeSet::new(), Vec::new(), Vec::new());
        let mut together = Vec::new();
        for (name, change) in changes {
            let id = name.resolve(&scope.created).cloned();
            match id.and_then(|id| Some((object_of(id.as_str())?, id))) {
                None => refuse(response, name, &change, SetErrorType::NotFound.into()),
                Some((object, _)) if !objects.insert(object) => again.push((name, change)),
                Some((object, id)) => {
                    given.push((name, id));
                    together.push((object, change));
                }
            }
        }
        let writer = scope.writer().await?;
        let done = change_emails(writer, &together, &mut entries.written).await?;
        for (((name, id), (_, change)), done) in given.into_iter().zip(together).zip(done) {
            match (done, &change) {
                (Ok(()), EmailChange::Destroy) => response.destroyed.push(id),
                (Ok(()), EmailChange::Update { .. }) => drop(response.updated.insert(id, None)),
                (Err(refusal), _) => {
                    let error = of_object(Refused::from(refusal))?;
                    refuse(response, name, &change, error);
                }
            }
        }
        changes = again;
    }
    Ok(())
}

fn refuse(response: &mut EmailSetResponse, name: GivenId, change: &EmailChange, error: SetError) {
    match change {
        EmailChange::Destroy => response.not_destroyed.insert(name, error),
        EmailChange::Update { .. } => response.not_updated.insert(name, error),
    };
}
