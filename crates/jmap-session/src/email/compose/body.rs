//! The body of a message: its tree of parts, their header fields and encodings.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;

use sealpost_jmap::email::{Email, EmailBodyPart, EmailBodyValue};
use sealpost_jmap::id::BlobId;
use sealpost_mime::encode;

use super::header::push_property;
use super::{BlobEncoding, Composer, Pieces, TextEncoding};

/// The maximum length of a line without encoding, in bytes (RFC 5322 §2.1.1).
const LINE_BYTES: usize = 998;

/// A part to be written.
enum Part<'a> {
    /// A multipart of this subtype with its parts; and the client's part, if the client gave it.
    Multipart(Cow<'a, str>, Vec<Part<'a>>, Option<&'a EmailBodyPart>),
    /// A part that the client gave.
    Leaf(&'a EmailBodyPart, LeafRole),
    /// An empty text.
    Empty,
}

/// The property that gave the leaf; it decides the defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeafRole {
    Text,
    Html,
    Attachment,
    Structure,
}

/// Writes the header fields of the body, the empty line and the body.
pub(super) fn write<'a>(composer: &Composer<'_>, email: &'a Email, pieces: &mut Pieces<'a>) {
    let values = email.fields.body_values.as_ref();
    write_part(composer, &tree(email), values, pieces);
}

/// The tree of parts: as the client gave it, or the usual multiparts around its lists (RFC 8621 §4.6).
fn tree(email: &Email) -> Part<'_> {
    let fields = &email.fields;
    if let Some(root) = &fields.body_structure {
        return of_structure(root);
    }
    let text = fields.text_body.iter().flatten().map(|part| Part::Leaf(part, LeafRole::Text));
    let html = fields.html_body.iter().flatten().map(|part| Part::Leaf(part, LeafRole::Html));
    let attachments = fields.attachments.as_deref().unwrap_or_default();
    // Images in the HTML belong to it (RFC 2387).
    let has_html = fields.html_body.as_ref().is_some_and(|list| !list.is_empty());
    let (related, others): (Vec<_>, Vec<_>) =
        attachments.iter().partition(|part| has_html && is_inline(part));
    let leaf = |part| Part::Leaf(part, LeafRole::Attachment);
    let html =
        html.map(|html| together("related", [html].into_iter().chain(related.iter().copied().map(leaf))));
    let body = together("alternative", text.chain(html));
    match others.is_empty() {
        true => body,
        false => {
            let body = if matches!(body, Part::Empty) { None } else { Some(body) };
            Part::Multipart(
                "mixed".into(),
                body.into_iter().chain(others.into_iter().map(leaf)).collect(),
                None,
            )
        }
    }
}

/// Wraps several parts in a multipart; returns a single part as it is.
fn together<'a>(subtype: &'a str, parts: impl Iterator<Item = Part<'a>>) -> Part<'a> {
    let mut parts: Vec<Part<'a>> = parts.collect();
    match parts.len() {
        0 => Part::Empty,
        1 => parts.remove(0),
        _ => Part::Multipart(subtype.into(), parts, None),
    }
}

fn is_inline(part: &EmailBodyPart) -> bool {
    let fields = &part.fields;
    let disposition = fields.disposition.as_ref().and_then(Option::as_deref);
    let has_cid = fields.cid.as_ref().is_some_and(Option::is_some);
    has_cid && disposition.is_some_and(|kind| kind.eq_ignore_ascii_case("inline"))
}

fn of_structure(part: &EmailBodyPart) -> Part<'_> {
    let media_type = part.fields.media_type.as_deref().unwrap_or_default();
    let lower = media_type.to_ascii_lowercase();
    match lower.strip_prefix("multipart/") {
        Some(subtype) => {
            let parts = part.sub_parts().iter().map(of_structure).collect();
            Part::Multipart(subtype.to_owned().into(), parts, Some(part))
        }
        None => Part::Leaf(part, LeafRole::Structure),
    }
}

type Values = BTreeMap<String, EmailBodyValue>;

/// Writes a part with its header fields. For the message itself they end its header.
fn write_part<'a>(
    composer: &Composer<'_>,
    part: &Part<'a>,
    values: Option<&'a Values>,
    pieces: &mut Pieces<'a>,
) {
    match part {
        Part::Empty => pieces.text("Content-Type: text/plain; charset=us-ascii\r\n\r\n"),
        Part::Multipart(subtype, parts, given) => {
            let boundary = format!("=_{}", composer.token());
            let mut fields = format!("Content-Type: multipart/{subtype};\r\n boundary=\"{boundary}\"\r\n");
            if let Some(given) = given {
                push_fields(&mut fields, given, LeafRole::Structure);
            }
            pieces.text(&fields);
            pieces.text("\r\n");
            for part in parts {
                pieces.text(&format!("--{boundary}\r\n"));
                write_part(composer, part, values, pieces);
                pieces.text("\r\n");
            }
            // RFC 2046 §5.1.1: a multipart has at least one part.
            if parts.is_empty() {
                pieces.text(&format!("--{boundary}\r\n\r\n\r\n"));
            }
            pieces.text(&format!("--{boundary}--\r\n"));
        }
        Part::Leaf(part, role) => write_leaf(part, *role, values, pieces),
    }
}

fn write_leaf<'a>(
    part: &'a EmailBodyPart,
    role: LeafRole,
    values: Option<&'a Values>,
    pieces: &mut Pieces<'a>,
) {
    let content = Content::of(part, values);
    let mut fields = String::new();
    let has_type = part.header_properties.iter().any(|(property, _)| property.is_for("Content-Type"));
    if !has_type {
        push_content_type(&mut fields, part, role, &content);
    }
    let _ = write!(fields, "Content-Transfer-Encoding: {}\r\n", content.encoding(part));
    push_fields(&mut fields, part, role);
    pieces.text(&fields);
    pieces.text("\r\n");
    match &content {
        Content::Text(text, encoding) => pieces.value(text, *encoding),
        Content::Blob(id) => {
            let identity = is_message(part);
            pieces.blob(id, if identity { BlobEncoding::Identity } else { BlobEncoding::Base64 });
        }
    }
}

/// The content of a leaf.
enum Content<'a> {
    /// A text.
    Text(&'a str, TextEncoding),
    /// The bytes of a blob.
    Blob(&'a BlobId),
}

impl<'a> Content<'a> {
    fn of(part: &'a EmailBodyPart, values: Option<&'a Values>) -> Self {
        if let Some(blob) = part.fields.blob_id.as_ref().and_then(Option::as_ref) {
            return Content::Blob(blob);
        }
        let id = part.fields.part_id.as_ref().and_then(Option::as_ref);
        let text = id.and_then(|id| values?.get(id)).map_or("", |value| value.value.as_str());
        let is_plain = text.is_ascii() && is_plain(text);
        Content::Text(text, if is_plain { TextEncoding::SevenBit } else { TextEncoding::Quoted })
    }

    fn encoding(&self, part: &EmailBodyPart) -> &'static str {
        match self {
            Content::Text(_, TextEncoding::Quoted) => "quoted-printable",
            Content::Text(_, TextEncoding::SevenBit) => "7bit",
            // RFC 2046 §5.2.1, RFC 6532 §3.7: the parts of a message have encodings of their own.
            Content::Blob(_) if is_message(part) => "8bit",
            Content::Blob(_) => "base64",
        }
    }
}

fn is_message(part: &EmailBodyPart) -> bool {
    let media_type = part.fields.media_type.as_deref().unwrap_or_default();
    ["message/rfc822", "message/global"].iter().any(|kind| media_type.eq_ignore_ascii_case(kind))
}

/// Whether text passes any mail server unchanged.
fn is_plain(text: &str) -> bool {
    text.split('\n').all(|line| {
        let line = line.strip_suffix('\r').unwrap_or(line);
        // Some servers strip trailing spaces, and some put `>` before `From `.
        line.len() <= LINE_BYTES
            && !line.contains(['\r', '\0'])
            && !line.ends_with([' ', '\t'])
            && !line.starts_with("From ")
    }) && !text.ends_with('\r')
}

fn push_content_type(fields: &mut String, part: &EmailBodyPart, role: LeafRole, content: &Content<'_>) {
    let default = match (role, content) {
        (LeafRole::Html, _) => "text/html",
        (LeafRole::Text, _) | (_, Content::Text(..)) => "text/plain",
        _ => "application/octet-stream",
    };
    let media_type = part.fields.media_type.as_deref().filter(|text| !text.is_empty()).unwrap_or(default);
    let _ = write!(fields, "Content-Type: {media_type}");
    let is_text = media_type.get(..5).is_some_and(|begin| begin.eq_ignore_ascii_case("text/"));
    let charset = match content {
        Content::Text(text, _) if is_text => Some(if text.is_ascii() { "us-ascii" } else { "utf-8" }),
        Content::Text(..) => None,
        Content::Blob(_) => part.fields.charset.as_ref().and_then(Option::as_deref),
    };
    if let Some(charset) = charset {
        fields.push_str(&encode::parameter("charset", charset));
    }
    if let Some(name) = name(part) {
        fields.push_str(&encode::parameter("name", name));
    }
    fields.push_str("\r\n");
}

fn name(part: &EmailBodyPart) -> Option<&str> {
    part.fields.name.as_ref().and_then(Option::as_deref).filter(|name| !name.is_empty())
}

/// Writes the other header fields of a part.
fn push_fields(fields: &mut String, part: &EmailBodyPart, role: LeafRole) {
    let known = &part.fields;
    let disposition = known.disposition.as_ref().and_then(Option::as_deref).filter(|kind| !kind.is_empty());
    let is_attachment = role == LeafRole::Attachment || name(part).is_some();
    if let Some(kind) = disposition.or(is_attachment.then_some("attachment")) {
        let _ = write!(fields, "Content-Disposition: {kind}");
        if let Some(name) = name(part) {
            fields.push_str(&encode::parameter("filename", name));
        }
        fields.push_str("\r\n");
    }
    if let Some(cid) = known.cid.as_ref().and_then(Option::as_ref) {
        let _ = write!(fields, "Content-ID: <{cid}>\r\n");
    }
    if let Some(languages) = known.language.as_ref().and_then(Option::as_ref).filter(|list| !list.is_empty())
    {
        fields.push_str(&encode::list("Content-Language", languages));
    }
    if let Some(location) = known.location.as_ref().and_then(Option::as_ref) {
        let _ = write!(fields, "Content-Location: {location}\r\n");
    }
    part.header_properties.iter().for_each(|(property, value)| push_property(fields, property, value));
}
