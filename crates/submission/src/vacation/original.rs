//! [`Original`]: what a delivered message says that decides on a vacation response, found as the
//! message streams by.
//!
//! [`HeaderScan`] holds the fields that matter and the one that arrives, at most
//! [`limits::VACATION_HEADER_BYTES`]. What is longer is cut: an address behind that is not found, and
//! then there is no reply.

use memchr::memchr;
use sealpost_base::limits;
use sealpost_mime::header::address::parse_list;
use sealpost_mime::header::{message_id, text, unfold};

use super::unanswerable::{Unanswerable, of_field};

/// Bytes of the field that arrives.
const FIELD_BYTES: usize = limits::VACATION_HEADER_BYTES / 4;
/// Bytes of all fields with recipients together.
const RECIPIENTS_BYTES: usize = limits::VACATION_HEADER_BYTES / 4;
/// Bytes of a Subject, of a Message-ID and of References that are kept.
const SHORT_BYTES: usize = 1024;
/// Bytes of one identifier in the reply (RFC 5322 §2.1.1: a line has at most 998).
const ID_BYTES: usize = 500;
/// Identifiers in References: the first, and the last ones.
const REFERENCES: usize = 10;

/// What a message says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Original {
    /// Why it gets no reply, if so.
    pub unanswerable: Option<Unanswerable>,
    /// To, Cc, Bcc and their Resent- forms, unfolded (RFC 5230 §4.5).
    pub(super) recipients: Vec<String>,
    /// The subject, decoded.
    pub subject: Option<String>,
    /// The Message-ID, without its angle brackets.
    pub message_id: Option<String>,
    /// What it refers to, the same way, oldest first.
    pub references: Vec<String>,
}

/// One address in To, Cc and their like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addressed {
    /// The address.
    pub address: String,
    /// The name before it, if it is harmless.
    pub name: String,
}

/// Reads the header of a message, however it is cut.
#[derive(Debug, Default)]
pub struct HeaderScan {
    field: Vec<u8>,
    /// The line that arrives has had its first byte.
    in_line: bool,
    /// The first bytes of the line, to find the empty one.
    is_blank: bool,
    done: bool,
    received: usize,
    kept: usize,
    references: Option<String>,
    in_reply_to: Option<String>,
    original: Original,
}

impl HeaderScan {
    /// Takes the next bytes of the message.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while let (false, Some(&first)) = (self.done, bytes.first()) {
            if !self.in_line {
                if !matches!(first, b' ' | b'\t') {
                    self.end_field();
                }
                (self.in_line, self.is_blank) = (true, true);
            }
            let end = memchr(b'\n', bytes);
            let (piece, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
            self.is_blank &= piece.iter().all(|byte| matches!(byte, b'\r' | b'\n'));
            let held = piece.len().min(FIELD_BYTES.saturating_sub(self.field.len()));
            self.field.extend_from_slice(&piece[..held]);
            if end.is_some() {
                self.in_line = false;
                self.done = self.is_blank;
            }
            bytes = rest;
        }
    }

    /// Whether the header is complete.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// The message is complete, or at least its header.
    pub fn finish(mut self) -> Original {
        self.end_field();
        // RFC 5322 §3.6.4: without References those of the parent are in In-Reply-To, if it is one.
        let ids = |value: &str| message_id::parse_list(value).filter(|id| is_id(id)).collect::<Vec<_>>();
        let mut references = self.references.as_deref().map(ids).unwrap_or_default();
        if references.is_empty() {
            references =
                self.in_reply_to.as_deref().map(ids).filter(|ids| ids.len() == 1).unwrap_or_default();
        }
        if references.len() > REFERENCES {
            references.drain(1..=references.len() - REFERENCES);
        }
        self.original.references = references;
        if self.received > limits::VACATION_RECEIVED_FIELDS {
            self.original.unanswerable.get_or_insert(Unanswerable::Loop);
        }
        self.original
    }

    /// Bytes that are held.
    #[cfg(test)]
    fn held(&self) -> usize {
        let short = [&self.references, &self.in_reply_to, &self.original.subject, &self.original.message_id];
        self.field.capacity() + self.kept + short.into_iter().flatten().map(String::len).sum::<usize>()
    }

    fn end_field(&mut self) {
        let field = std::mem::take(&mut self.field);
        let Some(colon) = memchr(b':', &field) else { return };
        let name = String::from_utf8_lossy(field[..colon].trim_ascii_end()).to_ascii_lowercase();
        let value = &field[colon + 1..];
        match name.as_str() {
            "to" | "cc" | "bcc" | "resent-to" | "resent-cc" | "resent-bcc" => self.keep_recipients(value),
            "subject" if self.original.subject.is_none() => {
                self.original.subject = Some(bounded(text(short(value)), SHORT_BYTES));
            }
            "message-id" if self.original.message_id.is_none() => {
                let mut ids =
                    message_id::parse_list(&unfold(short(value))).filter(|id| is_id(id)).collect::<Vec<_>>();
                self.original.message_id = (ids.len() == 1).then(|| ids.remove(0));
            }
            "references" => self.references = Some(bounded(unfold(long(value)), SHORT_BYTES)),
            "in-reply-to" => self.in_reply_to = Some(bounded(unfold(short(value)), SHORT_BYTES)),
            "received" => self.received += 1,
            _ => {
                if let Some(why) = of_field(&name, value) {
                    self.original.unanswerable.get_or_insert(why);
                }
            }
        }
    }

    fn keep_recipients(&mut self, value: &[u8]) {
        let value = bounded(unfold(value), RECIPIENTS_BYTES.saturating_sub(self.kept));
        self.kept += value.len();
        if !value.is_empty() {
            self.original.recipients.push(value);
        }
    }
}

impl Original {
    /// The addresses to which it was sent, as far as its header says.
    pub fn addressed(&self) -> impl Iterator<Item = Addressed> {
        let all = self.recipients.iter().flat_map(|value| parse_list(value).0);
        all.filter_map(|address| {
            let (mailbox, host) = (address.mailbox.as_ref()?, address.host.as_ref()?);
            let is_whole = !mailbox.is_empty() && !host.is_empty();
            let name = display_name(address.name.as_deref());
            is_whole.then(|| Addressed { address: written(mailbox, host), name })
        })
    }
}

/// The name before an address in To, for the reply. The victim of a forged sender gets what
/// the message had there, so it repeats nothing that leads anywhere.
fn display_name(name: Option<&str>) -> String {
    let name = text(name.unwrap_or_default().as_bytes());
    let is_harmless = name.chars().count() <= limits::VACATION_QUOTED_CHARS / 4
        && !name.contains(['@', '/', ':', '<', '>', '\\'])
        && !name.to_lowercase().contains("www.");
    if is_harmless { name.trim().to_owned() } else { String::new() }
}

/// An address of its parts, the local part in quotes if it needs them (RFC 5321 §4.1.2).
fn written(local: &str, host: &str) -> String {
    let is_atom = |c: char| c.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.".contains(c);
    let is_dot_atom = local.chars().all(is_atom)
        && !local.starts_with('.')
        && !local.ends_with('.')
        && !local.contains("..");
    if is_dot_atom {
        return format!("{local}@{host}");
    }
    let quoted = local.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{quoted}\"@{host}")
}

fn is_id(id: &str) -> bool {
    id.len() <= ID_BYTES && id.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'<' | b'>'))
}

/// The beginning of a text: decoding can make it longer.
fn bounded(mut text: String, most: usize) -> String {
    text.truncate(text.floor_char_boundary(most));
    text.shrink_to_fit();
    text
}

fn short(value: &[u8]) -> &[u8] {
    &value[..value.len().min(SHORT_BYTES)]
}

/// Of References the last ones count.
fn long(value: &[u8]) -> &[u8] {
    &value[value.len().saturating_sub(SHORT_BYTES)..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn original(header: &str) -> Original {
        let mut scan = HeaderScan::default();
        scan.push(header.as_bytes());
        scan.finish()
    }

    #[test]
    fn messages_of_many_servers_may_loop() {
        let of = |hops: usize| original(&"Received: by a\r\n".repeat(hops)).unanswerable;
        assert_eq!(of(limits::VACATION_RECEIVED_FIELDS), None);
        assert_eq!(of(limits::VACATION_RECEIVED_FIELDS + 1), Some(Unanswerable::Loop));
    }

    #[test]
    fn fields_are_found_however_the_message_is_cut() {
        let message = "Received: x\r\nTo: =?utf-8?Q?J=C3=A4ne?= <jane@here.example>,\r\n\t\"Doe, J\" <jd@here.example>\r\n\
                       CC: Friends: a@b.example, c@here.example;\r\nSubject: =?utf-8?Q?=C3=A4?=\r\n b\r\n\
                       Message-ID: <1@x>\r\nReferences: <0@x>\r\n <00@x>\r\n\r\nTo: body@here.example\r\n";
        for message in [message.to_owned(), message.replace("\r\n", "\n")] {
            for cut in 1..message.len() {
                let mut scan = HeaderScan::default();
                message.as_bytes().chunks(cut).for_each(|piece| scan.push(piece));
                assert!(scan.is_done());
                let found = scan.finish();
                let of = |address: &str, name: &str| Addressed {
                    address: address.to_owned(),
                    name: name.to_owned(),
                };
                assert_eq!(
                    found.addressed().collect::<Vec<_>>(),
                    [
                        of("jane@here.example", "Jäne"),
                        of("jd@here.example", "Doe, J"),
                        of("a@b.example", ""),
                        of("c@here.example", "")
                    ]
                );
                assert_eq!(found.subject.as_deref(), Some("ä b"));
                assert_eq!(found.message_id.as_deref(), Some("1@x"));
                assert_eq!(found.references, ["0@x", "00@x"]);
            }
        }
    }

    #[test]
    fn names_that_lead_somewhere_are_left_out() {
        for (name, kept) in [
            ("Jane Doe", "Jane Doe"),
            ("Win at www.shop.example", ""),
            ("http://shop.example", ""),
            ("a@b.example", ""),
            ("x".repeat(limits::VACATION_QUOTED_CHARS).as_str(), ""),
        ] {
            let found = original(&format!("To: \"{name}\" <jane@here.example>\r\n\r\n"));
            assert_eq!(found.addressed().next().unwrap().name, kept);
        }
    }

    #[test]
    fn a_long_header_is_not_held() {
        let mut scan = HeaderScan::default();
        let long = format!("To: {}\r\n", "a@b.example, ".repeat(10_000));
        for field in
            [long.as_str(), long.as_str(), &long.replace("To", "X"), &long.replace("To", "References")]
        {
            field.as_bytes().chunks(1000).for_each(|piece| scan.push(piece));
            assert!(scan.held() <= limits::VACATION_HEADER_BYTES, "{} bytes", scan.held());
        }
        assert!(scan.finish().addressed().count() < limits::VACATION_HEADER_BYTES / 12);
    }

    #[test]
    fn references_keep_the_first_and_the_last() {
        let many: String = (0..30).map(|n| format!(" <{n}@x>")).collect();
        let found = original(&format!("References:{many}\r\n\r\n"));
        assert_eq!(found.references.len(), REFERENCES);
        assert_eq!((found.references[0].as_str(), found.references[9].as_str()), ("0@x", "29@x"));
        assert_eq!(original("In-Reply-To: <a@x>\r\n\r\n").references, ["a@x"]);
        assert!(original("In-Reply-To: <a@x> <b@x>\r\n\r\n").references.is_empty());
    }

    #[test]
    fn local_parts_are_quoted_if_they_must_be() {
        for (local, text) in [
            ("a.b+c", "a.b+c@x"),
            ("a b", "\"a b\"@x"),
            ("a..b", "\"a..b\"@x"),
            ("a\"\\", "\"a\\\"\\\\\"@x"),
            ("ä", "ä@x"),
        ] {
            assert_eq!(written(local, "x"), text);
        }
    }
}
