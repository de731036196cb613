//! Identity/set (RFC 8621 §6.3): all changes of a call are one entry.

use std::collections::BTreeMap;

use sealpost_account::identity::Identity;
use sealpost_account::state::Identities;
use sealpost_account::{AccountState, Event};
use sealpost_base::{IdentityId, Result, limits};
use sealpost_directory::AccountRecord;
use sealpost_jmap::email::EmailAddress;
use sealpost_jmap::error::SetErrorType;
use sealpost_jmap::id::{CreationId, Id};
use sealpost_jmap::identity::{Identity as Given, IdentityProperty, IdentitySetResponse};
use sealpost_jmap::patch::PatchObject;
use sealpost_jmap::read::FromJson;
use sealpost_jmap::standard::{ObjectMap, SetRequest, SetResponse};
use sealpost_jmap::{GivenId, SetError};
use sealpost_queue::runner::mailbox;
use sealpost_submission::sender::may_send_as_pattern;
use serde_json::{Map, Value};

use super::list::{id_of, identity_of, refresh};
use super::show::{changed, show};
use crate::method::{Failure, Outcome};
use crate::record_state::{RecordChanges, failure_of};
use crate::responder::Responder;
use crate::scope::Scope;

pub(crate) async fn set(
    scope: &mut Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = SetRequest::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    let record = refresh(scope).await?;
    let changed = scope.own_state(|state| state.identities().changed()).await?;
    let mut changes = RecordChanges::begin(changed, request.if_in_state.as_ref())?;
    let account_id = request.account_id.clone();
    let wanted = Wanted::read(scope, &record, request).await?;
    let decide = |state: &AccountState| {
        let changed = state.identities().changed();
        changes.check(changed)?;
        let (events, done) = wanted.decide(state.identities());
        Ok((events, (changed, done)))
    };
    let committed = scope.account().commit(decide).await;
    let committed = committed.map_err(|error| {
        failure_of(error, &changes, &scope.account().state(), |state| state.identities().changed())
    })?;
    changes.committed(committed.value.0, &committed);
    let (old_state, new_state) =
        scope.own_state(|state| changes.states(state.identities().changed())).await?;
    let mut response: IdentitySetResponse = SetResponse::new(account_id, new_state);
    response.old_state = old_state;
    wanted.respond(scope, committed.value.1, &mut response);
    responder.respond("Identity/set", &response, call_id).await?;
    Ok(())
}

/// What a call asks for: as far as it can be decided without the state.
struct Wanted {
    create: BTreeMap<CreationId, Result<NewIdentity, SetError>>,
    update: BTreeMap<GivenId, Result<(IdentityId, Given), SetError>>,
    destroy: Vec<(GivenId, Option<IdentityId>)>,
}

/// An identity that is to be made.
struct NewIdentity {
    id: IdentityId,
    identity: Identity,
    /// What the client gave of it.
    given: Vec<IdentityProperty>,
}

/// What became of each, in the same order.
#[derive(Default)]
struct Done {
    created: Vec<Result<(), SetError>>,
    updated: Vec<Result<(), SetError>>,
    destroyed: Vec<Result<(), SetError>>,
}

impl Wanted {
    async fn read(scope: &Scope<'_>, record: &AccountRecord, request: SetRequest) -> Result<Self, Failure> {
        let mut create = BTreeMap::new();
        for (creation, object) in request.create {
            create.insert(creation, new_identity(scope, record, object).await?);
        }
        let destroyed: Vec<_> =
            request.destroy.iter().filter_map(|given| identity_of(given, &scope.created)).collect();
        let update = request.update.into_iter().map(|(given, patch)| {
            let update = match identity_of(&given, &scope.created) {
                None => Err(SetErrorType::NotFound.into()),
                Some(id) if destroyed.contains(&id) => Err(SetErrorType::WillDestroy.into()),
                Some(id) => {
                    let update = PatchObject::new(patch).and_then(Given::for_update);
                    update.and_then(|update| check_lines(&update).map(|()| (id, update)))
                }
            };
            (given, update)
        });
        let update = update.collect();
        let destroy = request.destroy.into_iter().map(|given| {
            let id = identity_of(&given, &scope.created);
            (given, id)
        });
        Ok(Wanted { create, update, destroy: destroy.collect() })
    }

    /// The events, and what becomes of each identity.
    fn decide(&self, known: &Identities) -> (Vec<Event>, Done) {
        let (mut events, mut done) = (Vec::new(), Done::default());
        let (mut count, mut bytes) = (known.len(), known.bytes());
        for new in self.create.values() {
            let created = new.as_ref().map_err(SetError::clone).and_then(|new| {
                fits(count + 1, bytes, &new.identity)?;
                (count, bytes) = (count + 1, bytes + new.identity.bytes());
                events.push(Event::IdentityStored { id: new.id, identity: new.identity.clone() });
                Ok(())
            });
            done.created.push(created);
        }
        for update in self.update.values() {
            let updated = update.as_ref().map_err(SetError::clone).and_then(|(id, update)| {
                let before = known.get(*id).ok_or(SetErrorType::NotFound)?;
                let conflicts = update.conflicts(&show(*id, before));
                if !conflicts.is_empty() {
                    return Err(SetError::invalid_properties(conflicts, "set when it is created"));
                }
                let identity = changed(before, update);
                fits(count, bytes - before.bytes(), &identity)?;
                bytes = bytes - before.bytes() + identity.bytes();
                if identity != *before {
                    events.push(Event::IdentityStored { id: *id, identity });
                }
                Ok(())
            });
            done.updated.push(updated);
        }
        for (_, id) in &self.destroy {
            let destroyed =
                match id.and_then(|id| Some((id, known.get(id)?))) {
                    None => Err(SetErrorType::NotFound.into()),
                    // RFC 8621 §6: the server refuses what `mayDelete` says.
                    Some((_, identity)) if identity.is_own => Err(SetError::from(SetErrorType::Forbidden)
                        .describe("it is of an address of the account")),
                    Some((id, _)) => {
                        events.push(Event::IdentityRemoved { id });
                        Ok(())
                    }
                };
            done.destroyed.push(destroyed);
        }
        (events, done)
    }

    fn respond(self, scope: &mut Scope<'_>, done: Done, response: &mut IdentitySetResponse) {
        for ((creation, new), created) in self.create.into_iter().zip(done.created) {
            match (new, created) {
                (Ok(new), Ok(())) => {
                    let mut identity = show(new.id, &new.identity);
                    let is_set = |property: &IdentityProperty| !new.given.contains(property);
                    let set: Vec<_> = ALL.into_iter().filter(is_set).collect();
                    identity.select(&set);
                    scope.created.insert(creation.clone(), id_of(new.id).into());
                    response.created.insert(creation, identity);
                }
                (Err(error), _) | (_, Err(error)) => drop(response.not_created.insert(creation, error)),
            }
        }
        for ((given, update), updated) in self.update.into_iter().zip(done.updated) {
            match (update, updated) {
                (Ok((id, _)), Ok(())) => drop(response.updated.insert(id_of(id).into(), None)),
                (Err(error), _) | (_, Err(error)) => drop(response.not_updated.insert(given, error)),
            }
        }
        for ((given, id), destroyed) in self.destroy.into_iter().zip(done.destroyed) {
            match (id, destroyed) {
                (Some(id), Ok(())) => response.destroyed.push(Id::from(id_of(id))),
                (_, Err(error)) => drop(response.not_destroyed.insert(given, error)),
                (None, Ok(())) => {}
            }
        }
    }
}

/// All properties.
const ALL: [IdentityProperty; 8] = [
    IdentityProperty::Id,
    IdentityProperty::Name,
    IdentityProperty::Email,
    IdentityProperty::ReplyTo,
    IdentityProperty::Bcc,
    IdentityProperty::TextSignature,
    IdentityProperty::HtmlSignature,
    IdentityProperty::MayDelete,
];

/// Whether an identity has room beside `bytes` of others, all of them being `count`.
fn fits(count: usize, bytes: usize, identity: &Identity) -> Result<(), SetError> {
    if identity.bytes() > limits::IDENTITY_BYTES {
        let text = format!("an identity has at most {} bytes", limits::IDENTITY_BYTES);
        return Err(SetError::from(SetErrorType::TooLarge).describe(text));
    }
    if count > limits::IDENTITIES || bytes + identity.bytes() > limits::IDENTITIES_BYTES {
        let text = format!(
            "an account has at most {} identities, and {} bytes of them",
            limits::IDENTITIES,
            limits::IDENTITIES_BYTES
        );
        return Err(SetError::from(SetErrorType::OverQuota).describe(text));
    }
    Ok(())
}

/// Refuses names and addresses with control characters: clients copy them into header fields.
fn check_lines(given: &Given) -> Result<(), SetError> {
    let is_line = |text: &str| !text.contains(char::is_control);
    let are_lines = |list: &Option<Option<Vec<EmailAddress>>>| {
        let mut all = list.iter().flatten().flatten();
        all.all(|one| is_line(&one.email) && one.name.as_deref().is_none_or(is_line))
    };
    let checks = [
        ("name", given.name.as_deref().is_none_or(is_line)),
        ("replyTo", are_lines(&given.reply_to)),
        ("bcc", are_lines(&given.bcc)),
    ];
    let wrong: Vec<String> =
        checks.into_iter().filter(|(_, is_right)| !is_right).map(|(name, _)| name.to_owned()).collect();
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(SetError::invalid_properties(wrong, "names and addresses have no control characters")),
    }
}

/// An identity that a client creates; its address must be one that the account may send as.
async fn new_identity(
    scope: &Scope<'_>,
    record: &AccountRecord,
    object: ObjectMap,
) -> Result<Result<NewIdentity, SetError>, Failure> {
    let names = object.keys().cloned();
    let given = names.filter_map(|name| IdentityProperty::from_json(name.into()).ok()).collect();
    let read = match Given::new(object).and_then(|read| check_lines(&read).map(|()| read)) {
        Ok(read) => read,
        Err(error) => return Ok(Err(error)),
    };
    let identity = changed(&Identity::default(), &read);
    let email = identity.email.strip_prefix("*@").map(|domain| format!("any@{domain}"));
    if mailbox(email.as_ref().unwrap_or(&identity.email)).is_none() {
        let wrong = vec!["email".to_owned()];
        return Ok(Err(SetError::invalid_properties(wrong, "not an email address")));
    }
    let ctx = scope.user().ctx();
    if !may_send_as_pattern(&ctx.directory, record, &identity.email).await? {
        let text = format!("the account may not send as {}", identity.email);
        return Ok(Err(SetError::from(SetErrorType::ForbiddenFrom).describe(text)));
    }
    Ok(Ok(NewIdentity { id: IdentityId::random(&*ctx.random), identity, given }))
}
