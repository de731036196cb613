//! Mailbox/set (RFC 8621 §2.5): creates, then updates, then destroys. Each object is at most one entry of the
//! log.

mod create;
mod destroy;
mod error;
mod shared;
mod update;

use std::collections::HashSet;

use sealpost_account::state::ObjectKind;
use sealpost_jmap::error::{MethodErrorType, SetErrorType};
use sealpost_jmap::id::{CreationId, Id};
use sealpost_jmap::mailbox::{Mailbox, MailboxSet};
use sealpost_jmap::standard::{ObjectMap, SetRequest, SetResponse};
use sealpost_jmap::{GivenId, MethodError, SetError};
use serde_json::{Map, Value};

use self::error::Refused;
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
    let MailboxSet { set, on_destroy_remove_emails } = MailboxSet::from_arguments(arguments)?;
    scope.require(&set.account_id)?;
    let mut entries = Entries::begin(scope, ObjectKind::Mailboxes, set.if_in_state.as_ref()).await?;
    let mut response = SetResponse::new(set.account_id.clone(), entries.old_state());
    let done = run(scope, &mut entries, set, on_destroy_remove_emails, &mut response).await;
    done.map_err(|failure| entries.failed(failure))?;
    (response.old_state, response.new_state) = entries.states(scope).await?;
    responder.respond("Mailbox/set", &response, call_id).await?;
    Ok(())
}

async fn run(
    scope: &mut Scope<'_>,
    entries: &mut Entries,
    set: SetRequest,
    on_destroy_remove_emails: bool,
    response: &mut SetResponse<Mailbox>,
) -> Result<(), Failure> {
    for (creation, object) in parents_first(set.create.into_iter().collect()) {
        match Box::pin(create::create(scope, entries, object)).await {
            Ok(mailbox) => {
                if let Some(id) = &mailbox.id {
                    scope.created.insert(creation.clone(), id.clone().into());
                }
                response.created.insert(creation, mailbox);
            }
            Err(refused) => drop(response.not_created.insert(creation, of_object(refused)?)),
        }
    }
    let doomed: HashSet<Id> =
        set.destroy.iter().filter_map(|given| given.resolve(&scope.created).cloned()).collect();
    for (given, patch) in set.update {
        let Some(id) = given.resolve(&scope.created).cloned() else {
            response.not_updated.insert(given, SetErrorType::NotFound.into());
            continue;
        };
        let updated = match doomed.contains(&id) {
            true => Err(Refused::from(SetErrorType::WillDestroy)),
            false => Box::pin(update::update(scope, entries, &id, patch)).await,
        };
        match updated {
            Ok(()) => drop(response.updated.insert(id, None)),
            Err(refused) => drop(response.not_updated.insert(given, of_object(refused)?)),
        }
    }
    for given in destroy::children_first(scope, set.destroy).await? {
        match Box::pin(destroy::destroy(scope, entries, &given, on_destroy_remove_emails)).await {
            Ok(id) => response.destroyed.push(id),
            Err(refused) => drop(response.not_destroyed.insert(given, of_object(refused)?)),
        }
    }
    Ok(())
}

/// The error to report for one object. If the server failed, the method fails, and the client must read the
/// state of the earlier objects (RFC 8620 §3.6.2).
fn of_object(refused: Refused) -> Result<SetError, MethodError> {
    match refused {
        Refused::Object(error) => Ok(error),
        Refused::Server(error) => {
            tracing::error!(%error, "a mailbox could not be changed");
            Err(MethodErrorType::ServerPartialFail.into())
        }
    }
}

/// Moves each mailbox behind its parent if the same call creates it (RFC 8620 §5.3). Circles stay in order:
/// their parents are not found.
fn parents_first(mut left: Vec<(CreationId, ObjectMap)>) -> Vec<(CreationId, ObjectMap)> {
    let mut sorted = Vec::new();
    loop {
        let waiting: HashSet<CreationId> = left.iter().map(|(creation, _)| creation.clone()).collect();
        let (ready, rest): (Vec<_>, Vec<_>) = left.into_iter().partition(|(_, object)| {
            let parent = object.get("parentId").and_then(Value::as_str).map(str::to_owned);
            match parent.map(GivenId::from) {
                Some(GivenId::Created(parent)) => !waiting.contains(&parent),
                _ => true,
            }
        });
        if ready.is_empty() {
            sorted.extend(rest);
            return sorted;
        }
        sorted.extend(ready);
        left = rest;
    }
}
