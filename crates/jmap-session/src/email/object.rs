//! The Email object (RFC 8621 §4.1), made from the parts of a message that were read.

use std::collections::BTreeMap;

use sealpost_base::Result;
use sealpost_base::limits::{JMAP_BODY_VALUE_BYTES, JMAP_HEADER_BYTES};
use sealpost_jmap::email::{
    BodyField, BodyPartFields, Email, EmailAddress, EmailBodyPart, EmailBodyValue, EmailField, EmailFields,
    HeaderValue,
};
use sealpost_mime::structure::StoredStructure;

use super::body_tree::{BodyLists, BodyPart};
use super::body_value::BodyText;
use super::header_forms::{self, HeaderRoom};
use super::message_bytes::{MessageBytes, unless_damaged};
use super::plan::{Plan, form_of};
use crate::blob::BlobName;

/// A message, read as far as the plan requires.
pub(super) struct Source<'a> {
    /// The blob that contains the parts.
    pub(super) blob: &'a BlobName,
    /// Empty if damaged or not read.
    pub(super) header: &'a [u8],
    pub(super) structure: Option<&'a StoredStructure<'a>>,
    /// `None` if the plan reads only header and structure.
    pub(super) bytes: Option<&'a MessageBytes>,
}

/// The email: the given properties in `known`, and those read from the message.
///
/// # Errors
/// Store errors. A damaged message gives all properties that can be read.
pub(super) async fn email(plan: &Plan, known: EmailFields, source: &Source<'_>) -> Result<Email> {
    let mut fields = known;
    let mut room = HeaderRoom::default();
    for field in &plan.fields {
        if let Some(name) = field.header_field() {
            let value = header_forms::last(source.header, name, form_of(*field));
            set(&mut fields, *field, value);
        }
    }
    if plan.wants(EmailField::Headers) {
        fields.headers = Some(header_forms::headers(source.header, &mut room));
    }
    let values = plan
        .headers
        .iter()
        .map(|wanted| (wanted.clone(), header_forms::property(source.header, wanted, &mut room)));
    let header_properties = values.collect();
    if plan.wants(EmailField::Preview) {
        let preview = source.structure.and_then(|structure| structure.preview);
        fields.preview = Some(preview.unwrap_or_default().to_owned());
    }
    match source.structure.and_then(BodyPart::tree) {
        Some(root) => show_body(plan, &mut fields, source, &root, &mut room).await?,
        None => show_no_body(plan, &mut fields),
    }
    Ok(Email { fields, header_properties })
}

/// Sets a convenience property.
fn set(fields: &mut EmailFields, field: EmailField, value: HeaderValue) {
    let strings = |value| if let HeaderValue::Strings(strings) = value { Some(strings) } else { None };
    let addresses = |value| -> Option<Vec<EmailAddress>> {
        if let HeaderValue::Addresses(list) = value { Some(list) } else { None }
    };
    match field {
        EmailField::MessageId => fields.message_id = Some(strings(value)),
        EmailField::InReplyTo => fields.in_reply_to = Some(strings(value)),
        EmailField::References => fields.references = Some(strings(value)),
        EmailField::Sender => fields.sender = Some(addresses(value)),
        EmailField::From => fields.from = Some(addresses(value)),
        EmailField::To => fields.to = Some(addresses(value)),
        EmailField::Cc => fields.cc = Some(addresses(value)),
        EmailField::Bcc => fields.bcc = Some(addresses(value)),
        EmailField::ReplyTo => fields.reply_to = Some(addresses(value)),
        EmailField::Subject => {
            fields.subject = Some(if let HeaderValue::Text(text) = value { Some(text) } else { None });
        }
        EmailField::SentAt => {
            fields.sent_at = Some(if let HeaderValue::Date(date) = value { Some(date) } else { None });
        }
        _ => {}
    }
}

/// Sets the body properties of a message whose structure is damaged or not requested.
fn show_no_body(plan: &Plan, fields: &mut EmailFields) {
    if plan.wants(EmailField::HasAttachment) {
        fields.has_attachment = Some(false);
    }
    for (field, list) in [
        (EmailField::TextBody, &mut fields.text_body),
        (EmailField::HtmlBody, &mut fields.html_body),
        (EmailField::Attachments, &mut fields.attachments),
    ] {
        if plan.wants(field) {
            *list = Some(Vec::new());
        }
    }
    if plan.wants(EmailField::BodyStructure) {
        fields.body_structure = Some(EmailBodyPart::default());
    }
    if plan.wants(EmailField::BodyValues) {
        fields.body_values = Some(BTreeMap::new());
    }
}

async fn show_body(
    plan: &Plan,
    fields: &mut EmailFields,
    source: &Source<'_>,
    root: &BodyPart<'_>,
    room: &mut HeaderRoom,
) -> Result<()> {
    if plan.wants(EmailField::HasAttachment) {
        fields.has_attachment = Some(BodyLists::has_attachment(root));
    }
    let lists = BodyLists::of(root);
    if plan.wants(EmailField::BodyValues) {
        fields.body_values = Some(values(plan, source, root, &lists).await?);
    }
    let mut shown = Vec::new();
    let mut texts = [
        (EmailField::TextBody, &lists.text, &mut fields.text_body),
        (EmailField::HtmlBody, &lists.html, &mut fields.html_body),
        (EmailField::Attachments, &lists.attachments, &mut fields.attachments),
    ];
    for (_, list, _) in texts.iter().filter(|(field, ..)| plan.wants(*field)) {
        shown.extend(list.iter().copied());
    }
    if plan.wants(EmailField::BodyStructure) {
        root.walk(&mut |part| shown.push(part));
    }
    let read = PartsRead::of(plan, source, shown).await?;
    for (field, list, target) in &mut texts {
        if plan.wants(*field) {
            let parts = list.iter().map(|part| show_part(plan, source, &read, part, room));
            **target = Some(parts.collect());
        }
    }
    if plan.wants(EmailField::BodyStructure) {
        fields.body_structure = Some(show_tree(plan, source, &read, root, room));
    }
    Ok(())
}

/// The size and header of each part that were read from the message, by section number.
#[derive(Default)]
struct PartsRead(BTreeMap<Vec<u32>, (u64, Vec<u8>)>);

impl PartsRead {
    async fn of(plan: &Plan, source: &Source<'_>, parts: Vec<&BodyPart<'_>>) -> Result<Self> {
        let mut read = PartsRead::default();
        let Some(bytes) = source.bytes else { return Ok(read) };
        let mut header_bytes = JMAP_HEADER_BYTES;
        for part in parts {
            if read.0.contains_key(&part.path) {
                continue;
            }
            let (body, encoding) = (part.stored.body(), part.stored.transfer_encoding());
            let mut size = part.stored.size();
            if plan.reads_sizes() && !part.is_multipart() {
                // A damaged part reports its encoded size.
                size = unless_damaged(bytes.decoded_size(body, encoding).await)?.unwrap_or(size);
            }
            let mut header = Vec::new();
            if plan.reads_part_headers() && part.stored.header().start > 0 {
                let mut range = part.stored.header();
                range.end = range.end.min(range.start + header_bytes);
                header_bytes -= range.end - range.start;
                let take = |piece: &[u8]| {
                    header.extend_from_slice(piece);
                    true
                };
                unless_damaged(bytes.read(range, take).await)?;
            }
            read.0.insert(part.path.clone(), (size, header));
        }
        Ok(read)
    }

    fn size(&self, part: &BodyPart<'_>) -> u64 {
        self.0.get(&part.path).map_or(part.stored.size(), |(size, _)| *size)
    }

    /// The header of a part. That of the message itself was read before.
    fn header<'h>(&'h self, source: &'h Source<'_>, part: &BodyPart<'_>) -> &'h [u8] {
        if part.stored.header().start == 0 {
            return source.header;
        }
        self.0.get(&part.path).map_or(&[], |(_, header)| header)
    }
}

/// A part with its children.
fn show_tree(
    plan: &Plan,
    source: &Source<'_>,
    read: &PartsRead,
    part: &BodyPart<'_>,
    room: &mut HeaderRoom,
) -> EmailBodyPart {
    let mut shown = show_part(plan, source, read, part, room);
    if part.is_multipart() {
        let parts = part.parts.iter().map(|part| show_tree(plan, source, read, part, room));
        // Always present, whatever properties the call requests: without them there is no structure.
        shown.fields.sub_parts = Some(Some(parts.collect()));
    }
    shown
}

/// A part without its children.
fn show_part(
    plan: &Plan,
    source: &Source<'_>,
    read: &PartsRead,
    part: &BodyPart<'_>,
    room: &mut HeaderRoom,
) -> EmailBodyPart {
    let stored = part.stored;
    let header = read.header(source, part);
    let mut fields = BodyPartFields::default();
    for field in &plan.part_fields {
        match field {
            BodyField::PartId => fields.part_id = Some(part.part_id()),
            BodyField::BlobId => fields.blob_id = Some(blob_id(source, part)),
            BodyField::Size => fields.size = Some(read.size(part)),
            BodyField::Headers => fields.headers = Some(header_forms::headers(header, room)),
            BodyField::Name => fields.name = Some(stored.filename()),
            BodyField::Type => fields.media_type = Some(format!("{}/{}", stored.media_type, stored.subtype)),
            BodyField::Charset => {
                fields.charset = Some(if part.is_text() { stored.param("charset") } else { None });
            }
            BodyField::Disposition => {
                fields.disposition = Some(stored.disposition.as_ref().map(|found| found.kind.to_owned()));
            }
            BodyField::Cid => fields.cid = Some(stored.content_id.map(without_brackets)),
            BodyField::Language => {
                let tags: Vec<String> = stored.language.iter().map(|&tag| tag.to_owned()).collect();
                fields.language = Some(Some(tags).filter(|tags| !tags.is_empty()));
            }
            BodyField::Location => fields.location = Some(stored.location.map(str::to_owned)),
            BodyField::SubParts => fields.sub_parts = Some(None),
        }
    }
    let values =
        plan.part_headers.iter().map(|wanted| (wanted.clone(), header_forms::property(header, wanted, room)));
    let header_properties = values.collect();
    EmailBodyPart { fields, header_properties }
}

fn blob_id(source: &Source<'_>, part: &BodyPart<'_>) -> Option<sealpost_jmap::id::BlobId> {
    if part.is_multipart() { None } else { source.blob.part(&part.path)?.id() }
}

/// A Content-ID without comments and angle brackets.
fn without_brackets(value: &str) -> String {
    let inside = value.split_once('<').map_or(value, |(_, inside)| inside);
    inside.split_once('>').map_or(inside, |(inside, _)| inside).trim().to_owned()
}

/// The requested texts, by part.
async fn values(
    plan: &Plan,
    source: &Source<'_>,
    root: &BodyPart<'_>,
    lists: &BodyLists<'_, '_>,
) -> Result<BTreeMap<String, EmailBodyValue>> {
    let options = &plan.body;
    let mut wanted = Vec::new();
    if options.fetch_text_body_values {
        wanted.extend(lists.text.iter().copied());
    }
    if options.fetch_html_body_values {
        wanted.extend(lists.html.iter().copied());
    }
    if options.fetch_all_body_values {
        root.walk(&mut |part| wanted.push(part));
    }
    let mut values = BTreeMap::new();
    let Some(bytes) = source.bytes else { return Ok(values) };
    let mut left = JMAP_BODY_VALUE_BYTES;
    for part in wanted.into_iter().filter(|part| part.is_text()) {
        let Some(id) = part.part_id().filter(|id| !values.contains_key(id)) else { continue };
        let asked = usize::try_from(options.max_body_value_bytes).unwrap_or(usize::MAX);
        let most = if asked == 0 { left } else { asked.min(left) };
        let mut text = BodyText::new(part.stored, most);
        let take = |piece: &[u8]| {
            text.push(piece);
            !text.is_full()
        };
        let read = unless_damaged(bytes.read(part.stored.body(), take).await)?;
        let mut value = text.finish();
        value.is_encoding_problem |= read.is_none();
        left -= value.value.len().min(left);
        values.insert(id, value);
    }
    Ok(values)
}
