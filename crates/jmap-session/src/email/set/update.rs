//! Reads the updates of emails: keywords and mailboxes.

use std::collections::{BTreeMap, BTreeSet};

use sealpost_account::object_id::object_of;
use sealpost_jmap::email::{EmailProperty, EmailSetResponse, EmailUpdate};
use sealpost_jmap::error::SetErrorType;
use sealpost_jmap::id::Id;
use sealpost_jmap::patch::PatchObject;
use sealpost_jmap::read::FromJson;
use sealpost_jmap::standard::ObjectMap;
use sealpost_jmap::true_set::SetChange;
use sealpost_jmap::{GivenId, SetError};
use sealpost_mailbox::email_change::{EmailChange, FlagEdit, PlaceEdit};

use crate::email::get::one;
use crate::email::keywords::flags_of;
use crate::email::places::Places;
use crate::method::Failure;
use crate::scope::Scope;

/// The valid changes of a call; the response reports the others.
pub(super) async fn read(
    scope: &Scope<'_>,
    update: BTreeMap<GivenId, ObjectMap>,
    doomed: &BTreeSet<&Id>,
    response: &mut EmailSetResponse,
) -> Result<Vec<(GivenId, EmailChange)>, Failure> {
    let mut updates = Vec::new();
    for (given, patch) in update {
        let id = given.resolve(&scope.created);
        let read = match id {
            Some(id) if doomed.contains(id) => Err(SetErrorType::WillDestroy.into()),
            Some(id) if object_of(id.as_str()).is_some() => {
                PatchObject::new(patch).and_then(EmailUpdate::new)
            }
            _ => Err(SetErrorType::NotFound.into()),
        };
        match read {
            Ok(update) => updates.push((given, update)),
            Err(error) => drop(response.not_updated.insert(given, error)),
        }
    }
    let ids = updates.iter().flat_map(|(_, update)| update.mailbox_ids.iter().flat_map(ids_of)).collect();
    let places = Places::find(scope, ids).await?;
    let mut changes = Vec::new();
    for (given, update) in updates {
        let checked = match update.has_unchanged() {
            true => check_unchanged(scope, &given, &update).await?,
            false => Ok(()),
        };
        match checked.and_then(|()| change(&places, update)) {
            Ok(change) => changes.push((given, change)),
            Err(error) => drop(response.not_updated.insert(given, error)),
        }
    }
    Ok(changes)
}

/// Checks that immutable properties in the update have their present values (RFC 8620 §5.3).
async fn check_unchanged(
    scope: &Scope<'_>,
    given: &GivenId,
    update: &EmailUpdate,
) -> Result<Result<(), SetError>, Failure> {
    let object = given.resolve(&scope.created).and_then(|id| object_of(id.as_str()));
    // Serialise back to the property names that the client sent.
    let sent = serde_json::to_value(&update.unchanged).unwrap_or_default();
    let names = sent.as_object().into_iter().flat_map(|members| members.keys().cloned());
    let properties = names.filter_map(|name| EmailProperty::from_json(name.into()).ok()).collect();
    let current = match object {
        Some(object) => one(scope, object, properties).await?,
        None => None,
    };
    let Some(current) = current else { return Ok(Err(SetErrorType::NotFound.into())) };
    let conflicts = update.conflicts(&current);
    Ok(match conflicts.is_empty() {
        true => Ok(()),
        false => Err(SetError::invalid_properties(conflicts, "immutable, and not as they are")),
    })
}

/// All mailboxes that a change names.
fn ids_of(change: &SetChange<GivenId>) -> impl Iterator<Item = &GivenId> {
    let (first, second) = match change {
        SetChange::Replace(ids) => (ids, None),
        SetChange::Change { add, remove } => (add, Some(remove)),
    };
    first.iter().chain(second.into_iter().flatten())
}

fn change(places: &Places, update: EmailUpdate) -> Result<EmailChange, SetError> {
    let flags = update.keywords.map(|change| match change {
        SetChange::Replace(keywords) => FlagEdit::Replace(flags_of(&keywords)),
        SetChange::Change { add, remove } => {
            FlagEdit::Change { add: flags_of(&add), remove: flags_of(&remove) }
        }
    });
    let mailboxes = match update.mailbox_ids {
        None => None,
        Some(SetChange::Replace(ids)) => Some(PlaceEdit::Replace(places.of(ids.iter())?)),
        Some(SetChange::Change { add, remove }) => {
            // An email cannot be in a mailbox that does not exist, so there is nothing to remove.
            let (add, remove) = (places.of(add.iter())?, places.known(remove.iter()));
            Some(PlaceEdit::Change { add, remove })
        }
    };
    Ok(EmailChange::Update { flags, mailboxes })
}
