//! Header fields of messages and parts, each from the form that the client sent (RFC 8621 §4.1.2).

use std::fmt::Write;

use sealpost_jmap::date::Date;
use sealpost_jmap::email::{
    Email, EmailAddress, EmailAddressGroup, HeaderFieldValue, HeaderForm, HeaderProperty, HeaderValue,
};
use sealpost_mime::encode;
use sealpost_mime::header::date;

use super::Composer;

/// The header of a message, without the fields of its body.
pub(super) fn of_message(composer: &Composer<'_>, email: &Email) -> String {
    let fields = &email.fields;
    let mut out = String::new();
    let root = fields.body_structure.as_ref().map(|root| root.header_properties.as_slice());
    let given: Vec<&(HeaderProperty, HeaderFieldValue)> =
        email.header_properties.iter().chain(root.unwrap_or_default()).collect();
    let has = |name: &str| given.iter().any(|(property, value)| property.is_for(name) && !is_absent(value));
    match fields.sent_at.as_ref().and_then(Option::as_ref) {
        Some(at) => push_date(&mut out, "Date", *at),
        None if !has("Date") => {
            let _ = write!(out, "Date: {}\r\n", date::format(composer.now.0.div_euclid(1000), 0));
        }
        None => {}
    }
    for (name, addresses) in [
        ("From", &fields.from),
        ("Sender", &fields.sender),
        ("Reply-To", &fields.reply_to),
        ("To", &fields.to),
        ("Cc", &fields.cc),
        ("Bcc", &fields.bcc),
    ] {
        push_addresses(&mut out, name, addresses.iter().flatten().flatten());
    }
    match fields.message_id.as_ref().and_then(Option::as_ref).filter(|ids| !ids.is_empty()) {
        Some(ids) => push_ids(&mut out, "Message-ID", ids),
        None if !has("Message-ID") => {
            let _ = write!(out, "Message-ID: <{}@{}>\r\n", composer.token(), composer.hostname);
        }
        None => {}
    }
    for (name, ids) in [("In-Reply-To", &fields.in_reply_to), ("References", &fields.references)] {
        push_ids(&mut out, name, ids.as_ref().and_then(Option::as_deref).unwrap_or_default());
    }
    if let Some(subject) = fields.subject.as_ref().and_then(Option::as_ref) {
        out.push_str(&encode::unstructured("Subject", subject));
    }
    email.header_properties.iter().for_each(|(property, value)| push_property(&mut out, property, value));
    if !has("MIME-Version") {
        out.push_str("MIME-Version: 1.0\r\n");
    }
    out
}

/// Writes the header fields of a property: one, several, or none if the value is null.
pub(super) fn push_property(out: &mut String, property: &HeaderProperty, value: &HeaderFieldValue) {
    let values = match value {
        HeaderFieldValue::One(value) => std::slice::from_ref(value),
        HeaderFieldValue::All(values) => values,
    };
    values.iter().for_each(|value| push_value(out, property, value));
}

fn is_absent(value: &HeaderFieldValue) -> bool {
    match value {
        HeaderFieldValue::One(value) => *value == HeaderValue::Null,
        HeaderFieldValue::All(values) => values.iter().all(|value| *value == HeaderValue::Null),
    }
}

fn push_value(out: &mut String, property: &HeaderProperty, value: &HeaderValue) {
    let name = &property.name;
    match value {
        // Written unchanged: with its folds and the space after the colon.
        HeaderValue::Text(text) if property.form == HeaderForm::Raw => {
            let _ = write!(out, "{name}:{text}\r\n");
        }
        HeaderValue::Text(text) => out.push_str(&encode::unstructured(name, text)),
        HeaderValue::Addresses(addresses) => push_addresses(out, name, addresses.iter()),
        HeaderValue::Groups(groups) => push_groups(out, name, groups),
        HeaderValue::Strings(urls) if property.form == HeaderForm::Urls => {
            let urls: Vec<String> = urls.iter().map(|url| format!("<{url}>")).collect();
            push_list(out, name, &urls);
        }
        HeaderValue::Strings(ids) => push_ids(out, name, ids),
        HeaderValue::Date(date) => push_date(out, name, *date),
        HeaderValue::Null => {}
    }
}

fn push_date(out: &mut String, name: &str, at: Date) {
    let seconds = at.moment.timestamp().0.div_euclid(1000);
    let _ = write!(out, "{name}: {}\r\n", date::format(seconds, at.offset_minutes()));
}

fn push_list(out: &mut String, name: &str, items: &[String]) {
    if !items.is_empty() {
        out.push_str(&encode::list(name, items));
    }
}

fn push_addresses<'a>(out: &mut String, name: &str, addresses: impl Iterator<Item = &'a EmailAddress>) {
    push_list(out, name, &addresses.map(mailbox).collect::<Vec<_>>());
}

fn push_groups(out: &mut String, name: &str, groups: &[EmailAddressGroup]) {
    let mut items = Vec::new();
    for group in groups {
        let mut members: Vec<String> = group.addresses.iter().map(mailbox).collect();
        if let Some(phrase) = &group.name {
            // RFC 5322 §3.4: the group's name before its first member, a semicolon after its last.
            let first = members.first().cloned().unwrap_or_default();
            let rest = members.split_off(members.len().min(1));
            members = [format!("{}: {first}", encode::phrase(phrase))].into_iter().chain(rest).collect();
            if let Some(last) = members.last_mut() {
                last.push(';');
            }
        }
        items.extend(members);
    }
    push_list(out, name, &items);
}

fn mailbox(address: &EmailAddress) -> String {
    encode::mailbox(address.name.as_deref().unwrap_or_default(), &address.email)
}

/// Writes message ids in angle brackets, folded between them. Ids that are not ASCII are written as UTF-8
/// (RFC 6532 §3.3).
fn push_ids(out: &mut String, name: &str, ids: &[String]) {
    if ids.is_empty() {
        return;
    }
    let _ = write!(out, "{name}:");
    for (number, id) in ids.iter().enumerate() {
        out.push_str(if number > 0 { "\r\n " } else { " " });
        let _ = write!(out, "<{id}>");
    }
    out.push_str("\r\n");
}
