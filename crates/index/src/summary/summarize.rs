//! Making the summary of one message from its stored structure and text.

use sealpost_mime::header::{message_id, word};
use sealpost_mime::{Address, Envelope, Structure, Text};

use super::packed::{put, put_optional};
use super::{Block, HEADER_FIELDS, Parts, Sent, Summary};

/// A summary by itself, as it is on its way into a segment or a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(super) sent: Option<Sent>,
    pub(super) headers_complete: bool,
    pub(super) fields: String,
    pub(super) ids: String,
    pub(super) headers: String,
}

impl Entry {
    /// The summary of the message with this envelope and text.
    pub(crate) fn new(envelope: &Envelope, text: &Text) -> Self {
        Entry {
            sent: envelope.sent_date.map(|seconds| Sent { seconds, zone: envelope.sent_zone }),
            // Headers come first: with any body behind them they are complete.
            headers_complete: !text.truncated || !text.body.is_empty(),
            fields: fields(envelope),
            ids: ids(envelope),
            headers: headers(&text.headers),
        }
    }

    /// The entry of a segment of texts.
    pub(crate) fn of_text(envelope: &Envelope, text: Text) -> Self {
        Entry {
            sent: envelope.sent_date.map(|seconds| Sent { seconds, zone: envelope.sent_zone }),
            headers_complete: !text.truncated,
            fields: text.headers,
            ids: text.body,
            headers: String::new(),
        }
    }

    /// Bytes of its parts together.
    pub(super) fn bytes(&self) -> usize {
        self.fields.len() + self.ids.len() + self.headers.len()
    }

    pub(super) fn parts(&self) -> [&str; 3] {
        [&self.fields, &self.ids, &self.headers]
    }
}

impl Summary {
    /// The summary of one message, from its structure and text.
    pub fn new(structure: &Structure, text: &Text) -> Self {
        let entry = Entry::new(&structure.envelope, text);
        let mut block = Block { parts: Parts::ALL, ..Block::default() };
        block.push(entry.sent, entry.headers_complete, entry.parts());
        Summary { block: block.into(), at: 0 }
    }
}

fn fields(envelope: &Envelope) -> String {
    let mut out = String::new();
    put_optional(&mut out, envelope.subject.as_deref().map(word::decode).as_deref());
    for list in [&envelope.from, &envelope.to, &envelope.cc, &envelope.bcc] {
        put_optional(&mut out, Some(&addresses(list)));
    }
    for list in [&envelope.sender, &envelope.reply_to] {
        let other = (*list != envelope.from).then(|| addresses(list));
        put_optional(&mut out, other.as_deref());
    }
    out
}

fn addresses(list: &[Address]) -> String {
    let mut out = String::new();
    for address in list {
        put_optional(&mut out, address.name.as_deref().map(word::decode).as_deref());
        put_optional(&mut out, address.mailbox.as_deref());
        put_optional(&mut out, address.host.as_deref());
    }
    out
}

fn ids(envelope: &Envelope) -> String {
    let list = |value: &Option<String>| {
        let mut out = String::new();
        message_id::parse_list(value.as_deref().unwrap_or_default()).for_each(|id| put(&mut out, &id));
        out
    };
    let mut out = String::new();
    let own = message_id::parse_list(envelope.message_id.as_deref().unwrap_or_default()).next();
    put_optional(&mut out, own.as_deref());
    put(&mut out, &list(&envelope.in_reply_to));
    put(&mut out, &list(&envelope.references));
    out
}

/// The lines of the fields that are kept, as they are.
fn headers(text: &str) -> String {
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        let kept = |name: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(':'));
        if HEADER_FIELDS.iter().any(kept) {
            out.push_str(line);
        }
    }
    out
}
