//! MDN/parse (RFC 9007 §2.2): parses blobs as notifications (RFC 8098 §3).
//!
//! `forEmailId` stays null: RFC 9007 lets the server resolve the Message-ID, and several emails can match.

use std::collections::BTreeMap;

use futures::TryStreamExt;
use sealpost_base::limits::{JMAP_HEADER_BYTES, STRUCTURE_BYTES};
use sealpost_base::{Result, limits};
use sealpost_jmap::id::BlobId;
use sealpost_jmap::mdn::{
    ActionMode, DispositionType, Mdn, MdnDisposition, MdnParse, MdnParseResponse, SendingMode,
};
use sealpost_mime::decode::charset::CharsetDecoder;
use sealpost_mime::header;
use sealpost_mime::structure::{Part, Structure};
use sealpost_vault::message::READER_BYTES;
use serde_json::{Map, Value};

use crate::blob::{self, Blob};
use crate::method::Outcome;
use crate::responder::Responder;
use crate::scope::Scope;

/// The most bytes read of a notification's text, and of its fields.
const MOST_BYTES: u64 = limits::CHUNK_BYTES as u64;
/// Memory for one notification while it is read.
const MESSAGE_BYTES: usize = READER_BYTES + 8 * STRUCTURE_BYTES;

pub(crate) async fn parse(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = MdnParse::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    // The results are kept until they are sent: at most `MOST_BYTES` of each.
    let kept = request.blob_ids.len() * 3 * MOST_BYTES as usize;
    let _permit = scope.permit(MESSAGE_BYTES + kept).await;
    let mut response = MdnParseResponse {
        account_id: request.account_id,
        parsed: BTreeMap::new(),
        not_parsable: Vec::new(),
        not_found: Vec::new(),
    };
    for given in request.blob_ids {
        let id = given.resolve(&scope.created).cloned().map(BlobId::from);
        let (Some(id), Some(blob)) = (id, blob::open(scope, &given).await?) else {
            response.not_found.push(given);
            continue;
        };
        match read(&blob).await? {
            Some(mdn) => drop(response.parsed.insert(id, mdn)),
            None => response.not_parsable.push(id),
        }
    }
    responder.respond("MDN/parse", &response, call_id).await?;
    Ok(())
}

/// The notification in a message. `None` if it is none.
async fn read(blob: &Blob) -> Result<Option<Mdn>> {
    let structure = blob.scan().await?;
    let Some([text, fields, rest @ ..]) = report_of(&structure) else { return Ok(None) };
    let written = decoded(blob, fields).await?;
    let Some(mut mdn) = mdn_of(&header_alone(&written)) else { return Ok(None) };
    let header = blob.read(0..structure.root.header.end.min(JMAP_HEADER_BYTES)).await?;
    let is_subject = |(name, _): &(&[u8], &[u8])| name.eq_ignore_ascii_case(b"subject");
    mdn.subject = header::fields(&header).filter(is_subject).last().map(|(_, value)| header::text(value));
    mdn.text_body = match text.is("text", "plain") {
        true => Some(text_of(text, &decoded(blob, text).await?)),
        false => None,
    };
    mdn.include_original_message = rest.first().is_some_and(|part| part.message().is_some());
    Ok(Some(mdn))
}

/// The parts of a notification (RFC 8098 §3): the text, the fields, and optionally the message.
fn report_of(structure: &Structure) -> Option<&[Part]> {
    let root = &structure.root;
    let is_mdn =
        root.param("report-type").is_some_and(|kind| kind.eq_ignore_ascii_case("disposition-notification"));
    let parts = root.children().filter(|_| is_mdn && root.is("multipart", "report"))?;
    parts.get(1).filter(|part| part.is("message", "disposition-notification"))?;
    Some(parts)
}

/// The start of a part, decoded.
async fn decoded(blob: &Blob, part: &Part) -> Result<Vec<u8>> {
    let part = blob.part(part.body.clone(), part.transfer_encoding()).await?;
    let mut pieces = part.bytes(0..part.size().min(MOST_BYTES)).await?;
    let mut all = Vec::new();
    while let Some(piece) = pieces.try_next().await? {
        all.extend_from_slice(&piece);
    }
    Ok(all)
}

fn text_of(part: &Part, bytes: &[u8]) -> String {
    let mut decoder = CharsetDecoder::of_body(part.param("charset").as_deref(), false);
    let mut text = String::new();
    decoder.push(bytes, &mut text);
    decoder.finish(&mut text);
    text.replace("\r\n", "\n")
}

/// The fields, without empty lines before or between them.
fn header_alone(bytes: &[u8]) -> Vec<u8> {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    lines.filter(|line| !line.trim_ascii().is_empty()).flatten().copied().collect()
}

/// Parses the fields (RFC 8098 §3.2). `None` if a mandatory field is missing.
fn mdn_of(fields: &[u8]) -> Option<Mdn> {
    let (mut texts, mut errors) = (BTreeMap::new(), Vec::new());
    let (mut disposition, mut others) = (None, BTreeMap::new());
    for (name, value) in header::fields(fields) {
        let lower = String::from_utf8_lossy(name).to_ascii_lowercase();
        let text = header::text(value);
        match lower.as_str() {
            "disposition" => disposition = disposition.or_else(|| disposition_of(&text)),
            "error" => errors.push(text),
            "reporting-ua"
            | "mdn-gateway"
            | "original-recipient"
            | "final-recipient"
            | "original-message-id" => {
                texts.entry(lower).or_insert(text);
            }
            _ => drop(others.insert(String::from_utf8_lossy(name).into_owned(), text)),
        }
    }
    let mut text = |name: &str| texts.remove(name).filter(|text| !text.is_empty());
    Some(Mdn {
        for_email_id: None,
        subject: None,
        text_body: None,
        include_original_message: false,
        reporting_ua: text("reporting-ua"),
        disposition: disposition?,
        mdn_gateway: text("mdn-gateway"),
        original_recipient: text("original-recipient"),
        // Without it, the notification has no recipient.
        final_recipient: Some(text("final-recipient")?),
        original_message_id: text("original-message-id"),
        error: Some(errors).filter(|errors| !errors.is_empty()),
        extension_fields: Some(others).filter(|others| !others.is_empty()),
    })
}

/// Parses `manual-action/MDN-sent-manually; displayed/modifier` (RFC 8098 §3.2.6), ignoring case.
fn disposition_of(text: &str) -> Option<MdnDisposition> {
    let lower = text.to_ascii_lowercase();
    let (mode, rest) = lower.split_once(';')?;
    let (action, sending) = mode.split_once('/')?;
    let kind = rest.split('/').next()?;
    Some(MdnDisposition {
        action_mode: ActionMode::from_name(action.trim())?,
        sending_mode: SendingMode::from_name(sending.trim())?,
        disposition_type: DispositionType::from_name(kind.trim())?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_notification() {
        let fields = b"Reporting-UA: joes-pc; Foomail\r\nFinal-Recipient: rfc822;a@x\r\nerror: one\r\nError: two\r\n\
                       X-Other: o\r\nDisposition: AUTOMATIC-action/MDN-sent-Automatically;\r\n processed/error\r\n";
        let mdn = mdn_of(fields).unwrap();
        assert_eq!(mdn.reporting_ua.as_deref(), Some("joes-pc; Foomail"));
        assert_eq!(mdn.final_recipient.as_deref(), Some("rfc822;a@x"));
        assert_eq!(mdn.error, Some(vec!["one".into(), "two".into()]));
        assert_eq!(mdn.extension_fields, Some(BTreeMap::from([("X-Other".into(), "o".into())])));
        assert_eq!(mdn.disposition.disposition_type, DispositionType::Processed);
        assert_eq!(mdn.disposition.action_mode, ActionMode::Automatic);
    }

    #[test]
    fn without_recipient_or_disposition_it_is_none() {
        assert_eq!(mdn_of(b"Disposition: manual-action/MDN-sent-manually; displayed\r\n"), None);
        for bad in ["displayed", "manual-action; displayed", "manual-action/mdn-sent-manually; eaten"] {
            let fields = format!("Final-Recipient: rfc822;a@x\r\nDisposition: {bad}\r\n");
            assert_eq!(mdn_of(fields.as_bytes()), None, "{bad}");
        }
    }
}
