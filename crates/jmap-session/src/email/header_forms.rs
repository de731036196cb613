//! Header fields in the forms that clients request (RFC 8621 §4.1.2).
//!
//! Parsing is best effort. A value that does not parse in the requested form is null; damaged text is decoded
//! as far as possible.

use sealpost_base::Timestamp;
use sealpost_base::limits::JMAP_HEADER_VALUE_BYTES;
use sealpost_jmap::date::{Date, UtcDate};
use sealpost_jmap::email::{
    EmailAddress, EmailAddressGroup, EmailHeader, HeaderFieldValue, HeaderForm, HeaderProperty, HeaderValue,
};
use sealpost_mime::header::{address, date, message_id};
use sealpost_mime::{Address, header};

/// Memory for a value beside its text, in bytes.
const VALUE_OVERHEAD: usize = 64;

/// The remaining bytes of header values for one email. A client may request the same field a hundred times,
/// for a thousand parts. Values beyond the limit are null.
pub(super) struct HeaderRoom(usize);

impl Default for HeaderRoom {
    fn default() -> Self {
        HeaderRoom(JMAP_HEADER_VALUE_BYTES)
    }
}

impl HeaderRoom {
    fn take(&mut self, raw: &[u8]) -> bool {
        let left = self.0.checked_sub(raw.len() + VALUE_OVERHEAD);
        self.0 = left.unwrap_or(0);
        left.is_some()
    }
}

/// All fields of a header, in order.
pub(super) fn headers(header: &[u8], room: &mut HeaderRoom) -> Vec<EmailHeader> {
    let fields = header::fields(header).take_while(|(name, value)| room.take(name) && room.take(value));
    let show = |(name, value): (&[u8], &[u8])| EmailHeader {
        name: String::from_utf8_lossy(name).into_owned(),
        value: raw(value),
    };
    fields.map(show).collect()
}

/// The value of a header property: of the last field with its name, or of all of them (§4.1.3).
pub(super) fn property(header: &[u8], wanted: &HeaderProperty, room: &mut HeaderRoom) -> HeaderFieldValue {
    let is_named = |(name, _): &(&[u8], &[u8])| name.eq_ignore_ascii_case(wanted.name.as_bytes());
    let mut fields = header::fields(header).filter(is_named).map(|(_, value)| value);
    if wanted.all {
        let fields = fields.take_while(|value| room.take(value));
        return HeaderFieldValue::All(fields.map(|value| in_form(wanted.form, value)).collect());
    }
    let last = fields.by_ref().last().filter(|value| room.take(value));
    HeaderFieldValue::One(last.map_or(HeaderValue::Null, |value| in_form(wanted.form, value)))
}

/// The last field with that name, in the given form; null if there is none.
pub(super) fn last(header: &[u8], name: &str, form: HeaderForm) -> HeaderValue {
    let is_named = |(field, _): &(&[u8], &[u8])| field.eq_ignore_ascii_case(name.as_bytes());
    header::fields(header)
        .filter(is_named)
        .last()
        .map_or(HeaderValue::Null, |(_, value)| in_form(form, value))
}

fn in_form(form: HeaderForm, value: &[u8]) -> HeaderValue {
    let some_strings = |strings: Vec<String>| match strings.is_empty() {
        true => HeaderValue::Null,
        false => HeaderValue::Strings(strings),
    };
    match form {
        HeaderForm::Raw => HeaderValue::Text(raw(value)),
        HeaderForm::Text => HeaderValue::Text(header::text(value)),
        HeaderForm::Addresses => HeaderValue::Addresses(addresses(value)),
        HeaderForm::GroupedAddresses => HeaderValue::Groups(groups(value)),
        HeaderForm::MessageIds => some_strings(message_ids(value)),
        HeaderForm::Urls => some_strings(urls(&header::unfold(value))),
        HeaderForm::Date => date_of(value).map_or(HeaderValue::Null, HeaderValue::Date),
    }
}

/// §4.1.2.1: unchanged, but without NUL, and with U+FFFD for invalid UTF-8.
fn raw(value: &[u8]) -> String {
    let value = value.strip_suffix(b"\n").unwrap_or(value);
    let value = value.strip_suffix(b"\r").unwrap_or(value);
    let mut text = String::from_utf8_lossy(value).into_owned();
    text.retain(|c| c != '\0');
    text
}

/// §4.1.2.3: the mailboxes inside and outside groups.
fn addresses(value: &[u8]) -> Vec<EmailAddress> {
    let (list, _) = address::parse_list(&header::unfold(value));
    list.into_iter().filter(|address| address.host.is_some()).map(shown).collect()
}

/// §4.1.2.4: mailboxes outside groups become groups without a name.
fn groups(value: &[u8]) -> Vec<EmailAddressGroup> {
    let (list, _) = address::parse_list(&header::unfold(value));
    let mut groups: Vec<EmailAddressGroup> = Vec::new();
    let mut is_open = false;
    for address in list {
        match (&address.mailbox, &address.host) {
            (Some(name), None) => {
                let name = Some(header::normal_text(name));
                groups.push(EmailAddressGroup { name, addresses: Vec::new() });
                is_open = true;
            }
            (None, None) => is_open = false,
            _ => {
                if !is_open {
                    groups.push(EmailAddressGroup { name: None, addresses: Vec::new() });
                    is_open = true;
                }
                if let Some(group) = groups.last_mut() {
                    group.addresses.push(shown(address));
                }
            }
        }
    }
    groups
}

fn shown(address: Address) -> EmailAddress {
    let name = address.name.map(|name| header::normal_text(&name).trim().to_owned());
    let mailbox = address.mailbox.unwrap_or_default();
    let email = match address.host.as_deref() {
        None | Some("") => mailbox,
        Some(host) => format!("{}@{host}", local_part(&mailbox)),
    };
    EmailAddress { name: name.filter(|name| !name.is_empty()), email }
}

/// A local part as in an addr-spec (RFC 5322 §3.4.1): quoted if necessary.
fn local_part(text: &str) -> String {
    let is_atext = |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c);
    if text.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atext)) {
        return text.to_owned();
    }
    let mut quoted = String::from("\"");
    for c in text.chars() {
        if c == '"' || c == '\\' {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted.push('"');
    quoted
}

/// §4.1.2.5. Includes text in angle brackets that is no valid msg-id, since clients thread by it.
fn message_ids(value: &[u8]) -> Vec<String> {
    let unfolded = header::unfold(value);
    let ids: Vec<String> = message_id::parse_list(&unfolded).collect();
    if ids.is_empty() { bracketed(&unfolded) } else { ids }
}

/// §4.1.2.6.
fn date_of(value: &[u8]) -> Option<Date> {
    let date = date::parse(&header::unfold(value))?;
    let moment = UtcDate::new(Timestamp(date.seconds.saturating_mul(1000)));
    Date::new(moment, date.zone).or_else(|| Date::new(moment, 0))
}

/// §4.1.2.7: the texts in angle brackets outside comments (RFC 2369 §2).
fn urls(value: &str) -> Vec<String> {
    let mut outside = String::new();
    let (mut depth, mut is_url) = (0usize, false);
    for c in value.chars() {
        match c {
            '<' if depth == 0 => is_url = true,
            '>' => is_url = false,
            '(' if !is_url => depth += 1,
            ')' if depth > 0 => {
                depth -= 1;
                continue;
            }
            _ => {}
        }
        if depth == 0 {
            outside.push(c);
        }
    }
    bracketed(&outside)
}

/// The texts in angle brackets, without white space.
fn bracketed(value: &str) -> Vec<String> {
    let inside = value.split('<').skip(1).filter_map(|rest| rest.split_once('>'));
    let texts = inside.map(|(text, _)| text.split_whitespace().collect::<String>());
    texts.filter(|text| !text.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(form: HeaderForm, value: &str) -> String {
        serde_json::to_string(&in_form(form, value.as_bytes())).unwrap()
    }

    /// The examples of RFC 8621 §4.1.2.3 and §4.1.2.4.
    #[test]
    fn addresses_of_the_rfc() {
        let value = "\"  James Smythe\" <james@example.com>, Friends:\r\n  jane@example.com, \
                     =?UTF-8?Q?John_Sm=C3=AEth?=\r\n  <john@example.com>;\r\n";
        assert_eq!(
            json(HeaderForm::Addresses, value),
            r#"[{"name":"James Smythe","email":"james@example.com"},{"name":null,"email":"jane@example.com"},{"name":"John Smîth","email":"john@example.com"}]"#
        );
        assert_eq!(
            json(HeaderForm::GroupedAddresses, value),
            r#"[{"name":null,"addresses":[{"name":"James Smythe","email":"james@example.com"}]},{"name":"Friends","addresses":[{"name":null,"email":"jane@example.com"},{"name":"John Smîth","email":"john@example.com"}]}]"#
        );
        let after = "a@x, G: b@x;, c@x, d@x";
        assert_eq!(
            json(HeaderForm::GroupedAddresses, after),
            r#"[{"name":null,"addresses":[{"name":null,"email":"a@x"}]},{"name":"G","addresses":[{"name":null,"email":"b@x"}]},{"name":null,"addresses":[{"name":null,"email":"c@x"},{"name":null,"email":"d@x"}]}]"#
        );
    }

    #[test]
    fn unusual_addresses() {
        assert_eq!(
            json(HeaderForm::Addresses, " \"a \\\"b\"@x (Name), undisclosed-recipients:;, root"),
            r#"[{"name":"Name","email":"\"a \\\"b\"@x"},{"name":null,"email":"root"}]"#
        );
        assert_eq!(json(HeaderForm::Addresses, " "), "[]");
    }

    #[test]
    fn ids_urls_and_dates() {
        assert_eq!(json(HeaderForm::MessageIds, " <1@x> (c)\r\n <\"2\"@x>"), r#"["1@x","2@x"]"#);
        assert_eq!(json(HeaderForm::MessageIds, " <no-at>"), r#"["no-at"]"#);
        assert_eq!(json(HeaderForm::MessageIds, " none"), "null");
        let help = " (Use <no> this) <http://x/a\r\n b>, <mailto:x?subject=(a)> (mail)";
        assert_eq!(json(HeaderForm::Urls, help), r#"["http://x/ab","mailto:x?subject=(a)"]"#);
        assert_eq!(json(HeaderForm::Urls, " NO"), "null");
        let date = " Sat, 20 Nov 2021 14:22:01 -0500\r\n";
        assert_eq!(json(HeaderForm::Date, date), r#""2021-11-20T14:22:01-05:00""#);
        assert_eq!(json(HeaderForm::Date, " soon"), "null");
    }

    #[test]
    fn raw_values_and_texts() {
        let value = b" a\0 \xff\r\n\t=?utf-8?q?=C3=A9?=\r\n";
        assert_eq!(raw(value), " a \u{fffd}\r\n\t=?utf-8?q?=C3=A9?=");
        assert_eq!(json(HeaderForm::Text, " =?utf-8?q?caf=C3=A9?=\r\n au lait"), r#""café au lait""#);
    }

    #[test]
    fn the_last_field_counts_and_all_are_listed() {
        let header = b"X-A: 1\r\nx-a: 2\r\nSubject: s\r\n\r\n";
        let value = |name: &str| {
            let wanted = HeaderProperty::parse(name).unwrap();
            serde_json::to_value(property(header, &wanted, &mut HeaderRoom::default())).unwrap()
        };
        assert_eq!(value("header:X-a"), " 2");
        assert_eq!(value("header:X-A:asText:all"), serde_json::json!(["1", "2"]));
        assert_eq!(value("header:None"), serde_json::Value::Null);
        assert_eq!(value("header:None:all"), serde_json::json!([]));
    }

    #[test]
    fn values_beyond_the_limit_are_null() {
        let header = format!("X: {}\r\n\r\n", "a".repeat(JMAP_HEADER_VALUE_BYTES / 2));
        let wanted = HeaderProperty::parse("header:X").unwrap();
        let mut room = HeaderRoom::default();
        assert_ne!(property(header.as_bytes(), &wanted, &mut room), HeaderFieldValue::One(HeaderValue::Null));
        assert_eq!(property(header.as_bytes(), &wanted, &mut room), HeaderFieldValue::One(HeaderValue::Null));
    }
}
