//! Creates emails from Email objects.

use std::collections::{BTreeMap, BTreeSet};

use sealpost_jmap::email::{Email, EmailSetResponse, for_create};
use sealpost_jmap::id::CreationId;
use sealpost_jmap::standard::ObjectMap;
use sealpost_jmap::{GivenId, SetError};
use serde_json::Value;

use crate::email::add::{NewEmail, Source, add};
use crate::email::keywords::flags_of;
use crate::email::places::Places;
use crate::entries::Entries;
use crate::method::Failure;
use crate::scope::Scope;

/// The properties that contain parts.
const BODY: [&str; 4] = ["bodyStructure", "textBody", "htmlBody", "attachments"];

/// Creates the emails of a call.
pub(super) async fn create(
    scope: &mut Scope<'_>,
    entries: &mut Entries,
    create: BTreeMap<CreationId, ObjectMap>,
    response: &mut EmailSetResponse,
) -> Result<(), Failure> {
    let mut emails = Vec::new();
    for (creation, mut object) in create {
        for name in BODY {
            object.get_mut(name).into_iter().for_each(|body| name_blobs(scope, body));
        }
        match for_create(object) {
            Ok(email) => emails.push((creation, email)),
            Err(error) => drop(response.not_created.insert(creation, error)),
        }
    }
    let places = Places::find(scope, emails.iter().flat_map(|(_, email)| mailboxes(email)).collect()).await?;
    let mut new = Vec::new();
    for (creation, email) in emails {
        match new_email(scope, &places, email) {
            Ok(email) => new.push((creation, email)),
            Err(error) => drop(response.not_created.insert(creation, error)),
        }
    }
    for (creation, added) in add(scope, entries, new).await? {
        match added {
            Ok(email) => drop(response.created.insert(creation, email)),
            Err(error) => drop(response.not_created.insert(creation, error)),
        }
    }
    Ok(())
}

fn mailboxes(email: &Email) -> impl Iterator<Item = &GivenId> {
    email.fields.mailbox_ids.iter().flatten().flat_map(|set| &set.0)
}

fn new_email(scope: &Scope<'_>, places: &Places, email: Email) -> Result<NewEmail, SetError> {
    let places: BTreeSet<_> = places.of(mailboxes(&email))?;
    let flags = flags_of(email.fields.keywords.iter().flatten().flat_map(|set| &set.0));
    let received = email.fields.received_at.flatten().map(|at| at.timestamp());
    let received = received.unwrap_or_else(|| scope.composer().now);
    Ok(NewEmail { message: Source::Composed(Box::new(email)), places, flags, received })
}

/// Replaces creation ids of blobs that the request created earlier, in all parts of a body.
fn name_blobs(scope: &Scope<'_>, body: &mut Value) {
    let mut left = vec![body];
    while let Some(value) = left.pop() {
        match value {
            Value::Array(parts) => left.extend(parts),
            Value::Object(part) => {
                if let Some(Value::String(text)) = part.get_mut("blobId")
                    && let GivenId::Created(creation) = GivenId::from(text.clone())
                    && let Some(id) = scope.created.id_of(&creation)
                {
                    *text = id.as_str().to_owned();
                }
                left.extend(part.get_mut("subParts"));
            }
            _ => {}
        }
    }
}
