//! Email/parse (RFC 8621 §4.9): parses blobs as messages; the emails are in no mailbox.

use std::collections::HashSet;

use sealpost_base::Result;
use sealpost_base::limits::{
    JMAP_BODY_VALUE_BYTES, JMAP_HEADER_BYTES, JMAP_HEADER_VALUE_BYTES, STRUCTURE_BYTES,
};
use sealpost_jmap::email::{Email, EmailField, EmailFields, EmailParse, EmailProperty};
use sealpost_jmap::id::BlobId;
use sealpost_mime::header;
use sealpost_mime::structure::StoredStructure;
use sealpost_vault::message::READER_BYTES;
use serde_json::{Map, Value};

use super::message_bytes::MessageBytes;
use super::object::{self, Source};
use super::plan::Plan;
use crate::blob::{self, Blob, BlobName};
use crate::method::Outcome;
use crate::responder::Responder;
use crate::scope::Scope;

/// Memory for reading one message and for its properties.
const MESSAGE_BYTES: usize =
    READER_BYTES + 8 * STRUCTURE_BYTES + 2 * (JMAP_BODY_VALUE_BYTES + JMAP_HEADER_VALUE_BYTES);

pub(crate) async fn parse(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = EmailParse::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    let properties = request.properties.unwrap_or_else(EmailProperty::parse_defaults);
    let plan = Plan::new(properties, request.body);
    // A call must hold no memory while it waits for memory.
    let _permit = scope.permit(MESSAGE_BYTES).await;
    let mut response = responder.open("Email/parse", call_id);
    response.argument("accountId", scope.id()).await?;
    let (mut not_parsable, mut not_found) = (Vec::new(), Vec::new());
    let (mut seen, mut is_any) = (HashSet::new(), false);
    for given in request.blob_ids {
        if !seen.insert(given.clone()) {
            continue;
        }
        let id = given.resolve(&scope.created).cloned();
        let name = id.as_ref().and_then(|id| BlobName::parse(id.as_str()));
        let opened = match blob::open(scope, &given).await {
            Ok(opened) => opened,
            Err(error) => return Err(response.fail(error.into())),
        };
        let (Some(id), Some(name), Some(blob)) = (id, name, opened) else {
            not_found.push(given);
            continue;
        };
        match read(&plan, &name, BlobId::from(id.clone()), blob).await {
            Ok(Some(email)) => {
                if !std::mem::replace(&mut is_any, true) {
                    response.open_object("parsed");
                }
                response.member(id.as_str(), &email).await?;
            }
            Ok(None) => not_parsable.push(BlobId::from(id)),
            Err(error) => return Err(response.fail(error.into())),
        }
    }
    if is_any {
        response.close_object();
    } else {
        response.argument("parsed", &()).await?;
    }
    response.argument("notParsable", &some(not_parsable)).await?;
    response.argument("notFound", &some(not_found)).await?;
    response.close();
    Ok(())
}

/// `None` for an empty list, which becomes null.
fn some<T>(ids: Vec<T>) -> Option<Vec<T>> {
    Some(ids).filter(|ids| !ids.is_empty())
}

/// The email in a blob. `None` if the blob is not a message.
async fn read(plan: &Plan, name: &BlobName, id: BlobId, blob: Blob) -> Result<Option<Email>> {
    let structure = blob.scan().await?;
    let end = structure.root.header.end.min(JMAP_HEADER_BYTES);
    let header = blob.read(0..end).await?;
    if !begins_as_message(&header) {
        return Ok(None);
    }
    let fields = fields_of(plan, id, &blob);
    let stored = StoredStructure::of(&structure);
    let bytes = MessageBytes::new(blob, None);
    let source = Source { blob: name, header: &header, structure: Some(&stored), bytes: Some(&bytes) };
    object::email(plan, fields, &source).await.map(Some)
}

/// Whether the first line is a header field. The scanner accepts any bytes as a message, so this check tells
/// messages from other files.
fn begins_as_message(header: &[u8]) -> bool {
    let line = header.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
    header::fields(line).next().is_some_and(|(name, _)| name.is_ascii())
}

/// The properties that, for emails in mailboxes, come from the account state.
fn fields_of(plan: &Plan, id: BlobId, blob: &Blob) -> EmailFields {
    let mut fields = EmailFields::default();
    for field in &plan.fields {
        match field {
            EmailField::Id => fields.id = Some(None),
            EmailField::BlobId => fields.blob_id = Some(id.clone()),
            EmailField::ThreadId => fields.thread_id = Some(None),
            EmailField::MailboxIds => fields.mailbox_ids = Some(None),
            EmailField::Keywords => fields.keywords = Some(None),
            EmailField::Size => fields.size = Some(blob.size()),
            EmailField::ReceivedAt => fields.received_at = Some(None),
            _ => {}
        }
    }
    fields
}
