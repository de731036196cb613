//! How a message is recognized on another server, where it has another UID.

use ring::digest::{SHA256, digest};
use sealpost_base::Timestamp;

/// Half a SHA-256: of the Message-ID, or of other data that does not change from server to server.
pub(super) type Key = [u8; 16];

/// The longest field that is looked at.
const FIELD_BYTES: usize = 998;
/// Fields that tell messages without a Message-ID apart, besides their date. Not their size: some
/// servers report wrong ones.
const FALLBACK_FIELDS: [&[u8]; 4] = [b"date:", b"from:", b"to:", b"subject:"];
/// [`FALLBACK_FIELDS`] as FETCH asks for them.
pub(super) const FALLBACK_FIELD_NAMES: &str = "DATE FROM TO SUBJECT";

/// The fields that [`Mark`] uses, as FETCH asks for them.
pub(crate) const MARK_FIELDS: &str = "MESSAGE-ID DATE FROM TO SUBJECT";

/// Identifies a message on a server that may have changed it when it was appended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    id: Option<Key>,
    fields: Option<Key>,
}

impl Mark {
    /// Of a message with this header.
    pub(crate) fn of(header: &[u8]) -> Self {
        let has_some =
            FALLBACK_FIELDS.iter().any(|name| field(header, name).is_some_and(|field| !field.is_empty()));
        Mark { id: by_id(header), fields: has_some.then(|| by_fields(header, 0, None)) }
    }

    /// Whether both are of one message, as far as headers tell. Servers may add a Message-ID, but
    /// do not change one.
    pub(crate) fn is_like(&self, other: &Mark) -> bool {
        match (self.id, other.id) {
            (Some(id), Some(other)) => id == other,
            _ => self.fields.is_some() && self.fields == other.fields,
        }
    }
}

/// From its Message-ID, if the header has one.
pub(super) fn by_id(header: &[u8]) -> Option<Key> {
    let id = field(header, b"message-id:").filter(|id| !id.is_empty())?;
    Some(half(&[b"id ", &*id].concat()))
}

/// From other fields, and INTERNALDATE if it is given. The size counts if it has none of the fields.
pub(super) fn by_fields(header: &[u8], size: u64, date: Option<Timestamp>) -> Key {
    let fields: Vec<Vec<u8>> =
        FALLBACK_FIELDS.iter().map(|name| field(header, name).unwrap_or_default()).collect();
    let size = if fields.iter().all(Vec::is_empty) { size } else { 0 };
    let mut text = format!("no id {size} {:?}", date.map(Timestamp::seconds)).into_bytes();
    for field in fields {
        text.push(b'\n');
        text.extend_from_slice(&field);
    }
    half(&text)
}

fn half(text: &[u8]) -> Key {
    let mut key = [0; 16];
    key.copy_from_slice(&digest(&SHA256, text).as_ref()[..16]);
    key
}

/// Whether these bytes contain the end of the header.
pub(super) fn ends(bytes: &[u8]) -> bool {
    bytes.split(|b| *b == b'\n').any(is_end)
}

/// Whether the line ends a header: a line of white space continues the field before it.
fn is_end(line: &[u8]) -> bool {
    matches!(line, b"" | b"\r")
}

/// The body of the first field of this name, without white space.
fn field(header: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    let mut lines = header.split(|b| *b == b'\n').peekable();
    while let Some(line) = lines.next() {
        if is_end(line) {
            return None;
        }
        let is_it = line.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name));
        if !is_it {
            continue;
        }
        let mut value = line[name.len()..].to_vec();
        while let Some(more) = lines.next_if(|line| matches!(line.first(), Some(b' ' | b'\t'))) {
            value.extend_from_slice(more);
        }
        value.retain(|b| !b.is_ascii_whitespace());
        value.truncate(FIELD_BYTES);
        return Some(value);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_ids_are_found_however_they_are_folded() {
        let id =
            |header: &str| field(header.as_bytes(), b"message-id:").map(|id| String::from_utf8(id).unwrap());
        assert_eq!(id("Subject: x\r\nMessage-ID: <a@b>\r\n\r\n").as_deref(), Some("<a@b>"));
        assert_eq!(id("message-id:\r\n <a@b>\r\nX: y\r\n").as_deref(), Some("<a@b>"));
        assert_eq!(id("Subject: x\r\n\r\nMessage-ID: <a@b>\r\n"), None);
        // RFC 5322 §4.2: a folded field may have such lines.
        assert_eq!(id("Subject: x\r\n \r\n y\r\nMessage-ID: <a@b>\r\n\r\n").as_deref(), Some("<a@b>"));
        assert_eq!(id("Subject: x\n\t\nMessage-ID:\n \n <a@b>\n\n").as_deref(), Some("<a@b>"));
        assert_eq!(by_id(b"Message-ID: \r\n\r\n"), None);
    }

    #[test]
    fn a_message_id_counts_unless_a_server_made_it() {
        let mark = |header: &str| Mark::of(header.as_bytes());
        let like = |a: &str, b: &str| mark(a).is_like(&mark(b));
        let (id, other) = ("Message-ID: <a@b>\r\nSubject: x\r\n", "Message-ID: <c@d>\r\nSubject: x\r\n");
        assert!(like(id, "message-id: <a@b>\r\nSubject: y\r\n") && !like(id, other));
        assert!(like("Subject: x\r\n", id) && !like("Subject: y\r\n", id));
        assert!(!like("", "") && !like("X: y\r\n\r\n", "X: y\r\n\r\n"));
    }

    #[test]
    fn the_size_counts_only_where_there_is_nothing_else() {
        let key = by_fields;
        assert_ne!(key(b"", 1, None), key(b"", 2, None));
        assert_eq!(key(b"Subject: a\n", 1, None), key(b"Subject:\n a\n", 2, None));
        assert_ne!(key(b"Subject: a\n", 1, None), key(b"From: a\n", 1, None));
        assert_ne!(key(b"Subject: a\n", 1, None), key(b"Subject: a\n", 1, Some(Timestamp(5000))));
    }
}
