//! What a client may say of an email that it creates (RFC 8621 §4.6), so that there is one message
//! that it means.

use sealpost_base::limits::MIME_PARTS;

use super::body::EmailBodyPart;
use super::header::{HeaderFieldValue, HeaderForm, HeaderProperties, HeaderValue};
use super::object::{Email, EmailField};
use crate::data_type::{Access, all_wrong};
use crate::error::SetError;
use crate::read::{Fields, Mismatch};
use crate::standard::ObjectMap;

/// Reads an email of `create` of Email/set. All that is wrong is in one `invalidProperties`. Blobs
/// and mailboxes are for the session to look up.
pub fn for_create(object: ObjectMap) -> Result<Email, SetError> {
    let given: Vec<EmailField> = object.keys().filter_map(|name| EmailField::from_name(name)).collect();
    let mut fields = Fields::from(object);
    let mut wrong = Vec::new();
    let email = Email::take(&mut fields, &mut wrong);
    while let Some((name, _)) = fields.pop() {
        wrong.push(Mismatch::because("unknown property").within(&name));
    }
    for field in given.iter().filter(|field| field.access() == Access::ServerSet) {
        wrong.push(Mismatch::because("set by the server alone").within(field.name()));
    }
    if email.fields.mailbox_ids.as_ref().and_then(Option::as_ref).is_none_or(|set| set.0.is_empty()) {
        wrong.push(Mismatch::because("expected at least one mailbox").within("mailboxIds"));
    }
    for (field, is_null) in [
        ("keywords", email.fields.keywords == Some(None)),
        ("receivedAt", email.fields.received_at == Some(None)),
    ] {
        if is_null {
            wrong.push(Mismatch::because("null; omit it for the default").within(field));
        }
    }
    check_headers(&email, &given, &mut wrong);
    check_lines(&email, &mut wrong);
    check_body(&email, &mut wrong);
    match all_wrong(&wrong) {
        Some(error) => Err(error),
        None => Ok(email),
    }
}

/// Each header field once, and none that parts have.
fn check_headers(email: &Email, given: &[EmailField], wrong: &mut Vec<Mismatch>) {
    let fields: Vec<&str> = given.iter().filter_map(|field| field.header_field()).collect();
    check_distinct(&email.header_properties, &fields, wrong);
    for (property, _) in &email.header_properties {
        if property.name.to_ascii_lowercase().starts_with("content-") {
            wrong.push(Mismatch::because("only parts have Content fields").within(&property.to_string()));
        }
    }
    let Some(root) = &email.fields.body_structure else { return };
    for (property, _) in &root.header_properties {
        let is_given = email.header_properties.iter().any(|(other, _)| other.is_for(&property.name))
            || fields.iter().any(|field| property.is_for(field));
        if is_given {
            let why = Mismatch::because("the email itself has this header field");
            wrong.push(why.within(&property.to_string()).within("bodyStructure"));
        }
    }
}

fn check_distinct(properties: &HeaderProperties, fields: &[&str], wrong: &mut Vec<Mismatch>) {
    for (index, (property, value)) in properties.iter().enumerate() {
        let is_again = properties[..index].iter().any(|(other, _)| other.is_for(&property.name))
            || fields.iter().any(|field| property.is_for(field));
        if is_again {
            wrong.push(
                Mismatch::because("another property is for the same header field")
                    .within(&property.to_string()),
            );
        }
        let values = match value {
            HeaderFieldValue::One(value) => std::slice::from_ref(value),
            HeaderFieldValue::All(values) => values,
        };
        if !values.iter().all(|value| is_one_field(property.form, value)) {
            wrong.push(Mismatch::because("must not end the header field").within(&property.to_string()));
        }
    }
}

fn is_one_line(text: &str) -> bool {
    !text.contains(['\r', '\n', '\0'])
}

/// A raw value may be folded: CRLF before a space or tab, with more than spaces after it.
fn is_folded(text: &str) -> bool {
    let mut lines = text.split("\r\n");
    let first = lines.next().is_some_and(is_one_line);
    first && lines.all(|line| line.starts_with([' ', '\t']) && !line.trim().is_empty() && is_one_line(line))
}

/// Whether a value stays one header field, whatever is in it.
fn is_one_field(form: HeaderForm, value: &HeaderValue) -> bool {
    let is_address = |address: &super::EmailAddress| {
        is_one_line(&address.email) && address.name.as_deref().is_none_or(is_one_line)
    };
    match value {
        HeaderValue::Text(text) if form == HeaderForm::Raw => is_folded(text),
        HeaderValue::Text(text) => is_one_line(text),
        HeaderValue::Addresses(addresses) => addresses.iter().all(is_address),
        HeaderValue::Groups(groups) => groups.iter().all(|group| {
            group.name.as_deref().is_none_or(is_one_line) && group.addresses.iter().all(is_address)
        }),
        HeaderValue::Strings(strings) => strings.iter().all(|text| is_one_line(text)),
        HeaderValue::Date(_) | HeaderValue::Null => true,
    }
}

/// The convenience properties stay one header field each.
fn check_lines(email: &Email, wrong: &mut Vec<Mismatch>) {
    let fields = &email.fields;
    let mut check = |name: &str, is_one: bool| {
        if !is_one {
            wrong.push(Mismatch::because("must be one line").within(name));
        }
    };
    let subject = fields.subject.iter().flatten();
    check("subject", subject.map(String::as_str).all(is_one_line));
    for (name, ids) in [
        ("messageId", &fields.message_id),
        ("inReplyTo", &fields.in_reply_to),
        ("references", &fields.references),
    ] {
        check(name, ids.iter().flatten().flatten().all(|id| is_one_line(id)));
    }
    for (name, addresses) in [
        ("sender", &fields.sender),
        ("from", &fields.from),
        ("to", &fields.to),
        ("cc", &fields.cc),
        ("bcc", &fields.bcc),
        ("replyTo", &fields.reply_to),
    ] {
        let is_one =
            addresses.iter().flatten().flatten().all(|address| {
                is_one_line(&address.email) && address.name.as_deref().is_none_or(is_one_line)
            });
        check(name, is_one);
    }
}

fn check_body(email: &Email, wrong: &mut Vec<Mismatch>) {
    let fields = &email.fields;
    let lists = [
        ("textBody", &fields.text_body),
        ("htmlBody", &fields.html_body),
        ("attachments", &fields.attachments),
    ];
    if fields.body_structure.is_some() {
        for (name, _) in lists.iter().filter(|(_, list)| list.is_some()) {
            wrong.push(Mismatch::because("not together with bodyStructure").within(name));
        }
    }
    for (name, list, media_type) in
        [("textBody", &fields.text_body, "text/plain"), ("htmlBody", &fields.html_body, "text/html")]
    {
        let is_right = |part: &EmailBodyPart| {
            part.fields.media_type.as_ref().is_none_or(|it| it.eq_ignore_ascii_case(media_type))
        };
        if list.as_ref().is_some_and(|list| list.len() != 1 || !list.iter().all(is_right)) {
            wrong.push(Mismatch::because(format!("expected one part of type {media_type}")).within(name));
        }
    }
    let structure = fields.body_structure.as_slice();
    let lists = lists.map(|(name, list)| (name, list.as_deref().unwrap_or_default()));
    let mut parts = 0;
    for (name, list) in [("bodyStructure", structure)].into_iter().chain(lists) {
        for part in list.iter().flat_map(EmailBodyPart::walk) {
            parts += 1;
            check_part(email, part, name, wrong);
        }
    }
    if parts > MIME_PARTS {
        wrong.push(Mismatch::because(format!("more than {MIME_PARTS} parts")).within("bodyStructure"));
    }
    for value in fields.body_values.iter().flat_map(|values| values.values()) {
        if value.is_encoding_problem || value.is_truncated {
            let why = "isEncodingProblem and isTruncated must be false";
            wrong.push(Mismatch::because(why).within("bodyValues"));
        }
    }
}

fn check_part(email: &Email, part: &EmailBodyPart, list: &str, wrong: &mut Vec<Mismatch>) {
    let fields = &part.fields;
    let mut refuse = |name: &str, why: &str| wrong.push(Mismatch::because(why).within(name).within(list));
    let part_id = fields.part_id.as_ref().and_then(Option::as_ref);
    let has_blob = fields.blob_id.as_ref().is_some_and(Option::is_some);
    let has_children = fields.sub_parts.as_ref().is_some_and(Option::is_some);
    let is_multipart =
        fields.media_type.as_ref().is_some_and(|it| it.to_ascii_lowercase().starts_with("multipart/"));
    match (part_id, has_blob) {
        _ if has_children && list != "bodyStructure" => refuse("subParts", "only in bodyStructure"),
        _ if is_multipart != has_children => {
            refuse("subParts", "expected of type multipart, and of no other")
        }
        (Some(_), true) => refuse("partId", "not together with blobId"),
        (Some(_), _) | (_, true) if is_multipart => {
            refuse("partId", "a multipart has neither partId nor blobId")
        }
        (None, false) if !is_multipart => refuse("partId", "missing, as is blobId"),
        _ => {}
    }
    if let Some(id) = part_id {
        if !email.fields.body_values.as_ref().is_some_and(|values| values.contains_key(id)) {
            refuse("partId", "not in bodyValues");
        }
        if fields.charset.as_ref().is_some_and(Option::is_some) {
            refuse("charset", "not together with partId");
        }
        if fields.size.is_some() {
            refuse("size", "not together with partId");
        }
    }
    if fields.headers.is_some() {
        refuse("headers", "each header field is a property of its own");
    }
    let texts = [&fields.name, &fields.charset, &fields.disposition, &fields.cid, &fields.location];
    let texts = texts.into_iter().flatten().flatten().chain(&fields.media_type);
    let mut texts = texts.chain(fields.language.iter().flatten().flatten());
    if !texts.all(|text| is_one_line(text)) {
        refuse("type", "text of a part must be one line");
    }
    check_part_headers(part, list, wrong);
}

fn check_part_headers(part: &EmailBodyPart, list: &str, wrong: &mut Vec<Mismatch>) {
    let fields = &part.fields;
    let has_name = fields.name.as_ref().is_some_and(Option::is_some);
    let has_charset = fields.charset.as_ref().is_some_and(Option::is_some);
    let given = [
        ("Content-Type", fields.media_type.is_some() || has_name || has_charset),
        ("Content-Disposition", fields.disposition.as_ref().is_some_and(Option::is_some) || has_name),
        ("Content-Id", fields.cid.as_ref().is_some_and(Option::is_some)),
        ("Content-Language", fields.language.as_ref().is_some_and(Option::is_some)),
        ("Content-Location", fields.location.as_ref().is_some_and(Option::is_some)),
        // No part may have it: how parts are encoded is for the server.
        ("Content-Transfer-Encoding", true),
    ];
    let given: Vec<&str> = given.iter().filter(|(_, is_given)| *is_given).map(|(name, _)| *name).collect();
    let mut found = Vec::new();
    check_distinct(&part.header_properties, &given, &mut found);
    wrong.extend(found.into_iter().map(|mismatch| mismatch.within(list)));
}
