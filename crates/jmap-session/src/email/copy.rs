//! Email/copy (RFC 8621 §4.7): between the caller's own account and those of other owners.
//!
//! A copy is sealed again, for the log that it comes into, and keeps the id of the original. So an
//! account that has the email already has nothing to get: `alreadyExists`.

use std::collections::{BTreeMap, BTreeSet};

use sealpost_account::object_id::{email_id_of, object_of};
use sealpost_account::state::ObjectKind;
use sealpost_base::ObjectId;
use sealpost_jmap::email::{Email, EmailCopy};
use sealpost_jmap::error::{MethodErrorType, SetErrorDetail, SetErrorType};
use sealpost_jmap::id::{CreationId, Id};
use sealpost_jmap::standard::{CopyRequest, CopyResponse};
use sealpost_jmap::{GivenId, SetError};
use sealpost_mailbox::emails::Email as StoredEmail;
use serde_json::{Map, Value, json};

use super::add::{NewEmail, Source, add};
use super::keywords::flags_of;
use super::places::Places;
use super::set::set;
use crate::entries::Entries;
use crate::method::{Failure, Outcome};
use crate::responder::Responder;
use crate::scope::{OpenLogs, Scope};

pub(crate) async fn copy(
    scope: &mut Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = CopyRequest::from_arguments(arguments)?;
    scope.require_writable(&request.account_id)?;
    let from = scope.of_account(&request.from_account_id).await?;
    let from = from.ok_or(MethodErrorType::FromAccountNotFound)?;
    let sources = from.logs().await?;
    if let Some(wanted) = &request.if_from_in_state {
        let state = sources.look(|logs| logs.state(ObjectKind::Emails)).await?;
        if state != *wanted {
            return Err(MethodErrorType::StateMismatch.into());
        }
    }
    let mut entries = Entries::begin(scope, ObjectKind::Emails, request.if_in_state.as_ref()).await?;
    let mut response = CopyResponse {
        from_account_id: request.from_account_id.clone(),
        account_id: request.account_id,
        old_state: None,
        new_state: entries.old_state(),
        created: BTreeMap::new(),
        not_created: BTreeMap::new(),
    };
    let mut copies = Vec::new();
    for (creation, object) in request.create {
        match EmailCopy::new(object) {
            Ok(copy) => copies.push((creation, copy)),
            Err(error) => drop(response.not_created.insert(creation, error)),
        }
    }
    let copied = Box::pin(run(scope, &sources, &mut entries, copies, &mut response)).await;
    let copied = copied.map_err(|failure| entries.failed(failure))?;
    (response.old_state, response.new_state) = entries.states(scope).await?;
    responder.respond("Email/copy", &response, call_id).await?;
    if !request.on_success_destroy_original || copied.is_empty() {
        return Ok(());
    }
    // RFC 8620 §5.4: an implicit call of /set, after this one and under its id.
    let mut arguments = Map::new();
    arguments.insert("accountId".to_owned(), json!(request.from_account_id));
    arguments.insert("destroy".to_owned(), json!(copied));
    if let Some(state) = request.destroy_from_if_in_state {
        arguments.insert("ifInState".to_owned(), json!(state));
    }
    scope.select(Some(request.from_account_id.as_str())).await?;
    Box::pin(set(scope, responder, arguments, call_id)).await
}

/// Copies the emails; the ids of the originals that were.
async fn run(
    scope: &mut Scope<'_>,
    sources: &OpenLogs,
    entries: &mut Entries,
    copies: Vec<(CreationId, EmailCopy)>,
    response: &mut CopyResponse<Email>,
) -> Result<Vec<Id>, Failure> {
    let ids = copies.iter().flat_map(|(_, copy)| &copy.mailbox_ids.0).collect();
    let places = Places::find(scope, ids).await?;
    let (mut new, mut originals, mut seen) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
    for (creation, copy) in copies {
        let original = copy.id.resolve(&scope.created).cloned();
        match read(scope, sources, &places, copy, &mut seen).await? {
            Ok(email) => {
                originals.extend(original.map(|id| (creation.clone(), id)));
                new.push((creation, email));
            }
            Err(error) => drop(response.not_created.insert(creation, error)),
        }
    }
    let mut copied = Vec::new();
    for (creation, added) in add(scope, entries, new).await? {
        match added {
            Ok(email) => {
                copied.extend(originals.remove(&creation));
                response.created.insert(creation, email);
            }
            Err(error) => drop(response.not_created.insert(creation, error)),
        }
    }
    Ok(copied)
}

/// The copy of one email, with what the client does not set as in the original. `seen` has those
/// that the call copies already.
async fn read(
    scope: &Scope<'_>,
    sources: &OpenLogs,
    places: &Places,
    copy: EmailCopy,
    seen: &mut BTreeSet<ObjectId>,
) -> Result<Result<NewEmail, SetError>, Failure> {
    let places = match places.of(copy.mailbox_ids.0.iter()) {
        Ok(places) => places,
        Err(error) => return Ok(Err(error)),
    };
    let Some(object) = object_in(scope, &copy.id) else { return Ok(Err(SetErrorType::NotFound.into())) };
    let found = sources.look(|logs| {
        let email = StoredEmail::find(logs, object)?;
        let message = email.message(logs)?;
        Some((email, message))
    });
    let Some((email, message)) = found.await? else { return Ok(Err(SetErrorType::NotFound.into())) };
    let is_there = scope.look(|logs| StoredEmail::find(logs, object).is_some()).await?;
    if is_there || !seen.insert(object) {
        let error = SetError::from(SetErrorType::AlreadyExists);
        let existing = Id::new(email_id_of(object));
        return Ok(Err(existing.map_or(error.clone(), |id| error.with(SetErrorDetail::ExistingId(id)))));
    }
    let source = sources.iter().find(|log| log.id() == email.stored.0);
    let Some(source) = source.cloned() else { return Ok(Err(SetErrorType::NotFound.into())) };
    let flags = match copy.keywords {
        Some(keywords) => flags_of(&keywords.0),
        None => sealpost_account::Flags { system: email.flags.system, keywords: email.flags.keywords },
    };
    let received = copy.received_at.map_or(email.received, |at| at.timestamp());
    Ok(Ok(NewEmail { message: Source::Stored(source, Box::new(message)), places, flags, received }))
}

fn object_in(scope: &Scope<'_>, given: &GivenId) -> Option<ObjectId> {
    object_of(given.resolve(&scope.created)?.as_str())
}
