//! Email/import (RFC 8621 §4.8).

use sealpost_account::state::ObjectKind;
use sealpost_base::Timestamp;
use sealpost_jmap::SetError;
use sealpost_jmap::email::{EmailImport, EmailImportRequest, EmailImportResponse};
use sealpost_jmap::error::SetErrorType;
use sealpost_jmap::id::BlobId;
use sealpost_mime::header::{date, fields};
use sealpost_vault::message::READER_BYTES;
use serde_json::{Map, Value};

use super::add::{NewEmail, Source, add};
use super::keywords::flags_of;
use super::places::Places;
use super::refused::{Refused, of_object};
use crate::blob;
use crate::entries::Entries;
use crate::method::Outcome;
use crate::responder::Responder;
use crate::scope::Scope;

/// Bytes at the start of a blob that import reads, to recognise a message and find its time of receipt.
const HEAD_BYTES: u64 = 64 * 1024;

pub(crate) async fn import(
    scope: &mut Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = EmailImportRequest::from_arguments(arguments)?;
    scope.require_writable(&request.account_id)?;
    let mut entries = Entries::begin(scope, ObjectKind::Emails, request.if_in_state.as_ref()).await?;
    let mut response = EmailImportResponse {
        account_id: request.account_id,
        old_state: None,
        new_state: entries.old_state(),
        created: Default::default(),
        not_created: Default::default(),
    };
    let mut imports = Vec::new();
    for (creation, object) in request.emails {
        match EmailImport::new(object) {
            Ok(import) => imports.push((creation, import)),
            Err(error) => drop(response.not_created.insert(creation, error)),
        }
    }
    let places =
        Places::find(scope, imports.iter().flat_map(|(_, import)| &import.mailbox_ids.0).collect()).await?;
    let mut new = Vec::new();
    {
        let _permit = scope.permit(READER_BYTES).await;
        for (creation, import) in imports {
            match read(scope, &places, import).await {
                Ok(email) => new.push((creation, email)),
                Err(refused) => drop(response.not_created.insert(creation, of_object(refused)?)),
            }
        }
    }
    let added = add(scope, &mut entries, new).await.map_err(|failure| entries.failed(failure))?;
    for (creation, added) in added {
        match added {
            Ok(email) => drop(response.created.insert(creation, email)),
            Err(error) => drop(response.not_created.insert(creation, error)),
        }
    }
    (response.old_state, response.new_state) = entries.states(scope).await?;
    responder.respond("Email/import", &response, call_id).await?;
    Ok(())
}

/// Reads the blob of an import.
async fn read(scope: &Scope<'_>, places: &Places, import: EmailImport) -> Result<NewEmail, Refused> {
    let EmailImport { blob_id, mailbox_ids, keywords, received_at } = import;
    let places = places.of(mailbox_ids.0.iter())?;
    let blob = blob::open(scope, &blob_id).await?;
    let id = blob_id.resolve(&scope.created).cloned().map(BlobId::from);
    let (Some(blob), Some(id)) = (blob, id) else {
        // RFC 8621 §4.8: an unknown id is an invalid property.
        let why = format!("{blob_id}: there is no such blob");
        return Err(SetError::invalid_properties(vec!["blobId".to_owned()], why).into());
    };
    let head = blob.read(0..blob.size().min(HEAD_BYTES)).await?;
    if !begins_message(&head) {
        let error = SetError::from(SetErrorType::InvalidEmail);
        return Err(error.describe("the blob does not begin with a header field").into());
    }
    let received = received_at.map(|at| at.timestamp()).or_else(|| received(&head));
    let received = received.unwrap_or(scope.composer().now);
    Ok(NewEmail { message: Source::Blob(id), places, flags: flags_of(&keywords.0), received })
}

/// Whether the bytes begin with a header field (RFC 5322 §2.2) with a plausible name.
fn begins_message(head: &[u8]) -> bool {
    let Some(colon) = head.iter().position(|byte| *byte == b':') else { return false };
    let name = head[..colon].trim_ascii_end();
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

/// The time in the most recent Received field, which is the first one.
fn received(head: &[u8]) -> Option<Timestamp> {
    let (_, value) = fields(head).find(|(name, _)| name.eq_ignore_ascii_case(b"Received"))?;
    let value = sealpost_mime::header::unfold(value);
    let (_, at) = value.rsplit_once(';')?;
    let date = date::parse(at.trim())?;
    Some(Timestamp(date.seconds.checked_mul(1000)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_begins_with_a_header_field() {
        for message in ["Subject: x\r\n\r\n", "From : a@b\n", "X-A.b_c:\r\n"] {
            assert!(begins_message(message.as_bytes()), "{message}");
        }
        for other in ["", "\r\n", "no message", "two words: x", "{\"a\": 1}", ": x", "\0a: b", "\u{fffe}a: b"]
        {
            assert!(!begins_message(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn the_first_received_field_has_the_time() {
        let head = b"Received: by x;\r\n Fri, 20 Nov 2026 12:00:00 +0100\r\nReceived: by y; nonsense\r\n\r\n";
        assert_eq!(received(head), Some(Timestamp(1_795_172_400_000)));
        assert_eq!(received(b"Received: by y; nonsense\r\n\r\n"), None);
        assert_eq!(received(b"Subject: x\r\n\r\nReceived: by x; Fri, 20 Nov 2026 12:00:00 +0100\r\n"), None);
    }
}
