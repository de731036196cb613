//! [`Keys`]: by what a message is recognized on another server, where it has another UID.

use std::collections::HashMap;

use ring::digest::{SHA256, digest};
use sealpost_base::Timestamp;

/// Half a SHA-256: of the Message-ID, or of size and date.
pub(super) type Key = [u8; 16];

/// How often each key is there.
#[derive(Debug, Default)]
pub(super) struct Keys(HashMap<Key, u32>);

/// The longest Message-ID that is looked at.
const ID_BYTES: usize = 998;

impl Keys {
    /// Whether nothing is there.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One more.
    pub(super) fn add(&mut self, key: Key) {
        *self.0.entry(key).or_default() += 1;
    }

    /// Whether it is there; then once less.
    pub(super) fn take(&mut self, key: &Key) -> bool {
        match self.0.get_mut(key) {
            Some(count) if *count > 0 => {
                *count -= 1;
                true
            }
            _ => false,
        }
    }
}

/// The key of a message from its header, or the Message-ID field of it.
pub(super) fn key(header: &[u8], size: u64, date: Option<Timestamp>) -> Key {
    let text = match message_id(header) {
        Some(id) => [b"id ", &*id].concat(),
        None => format!("no id {size} {:?}", date.map(Timestamp::seconds)).into_bytes(),
    };
    let mut key = [0; 16];
    key.copy_from_slice(&digest(&SHA256, &text).as_ref()[..16]);
    key
}

/// The body of the first Message-ID field, without white space.
fn message_id(header: &[u8]) -> Option<Vec<u8>> {
    let name = b"message-id:";
    let mut lines = header.split(|b| *b == b'\n').peekable();
    while let Some(line) = lines.next() {
        if line.trim_ascii().is_empty() {
            return None;
        }
        let is_it = line.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name));
        if !is_it {
            continue;
        }
        let mut id = line[name.len()..].to_vec();
        while let Some(more) = lines.next_if(|line| matches!(line.first(), Some(b' ' | b'\t'))) {
            id.extend_from_slice(more);
        }
        id.retain(|b| !b.is_ascii_whitespace());
        id.truncate(ID_BYTES);
        return (!id.is_empty()).then_some(id);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_ids_are_found_however_they_are_folded() {
        let id = |header: &str| message_id(header.as_bytes()).map(|id| String::from_utf8(id).unwrap());
        assert_eq!(id("Subject: x\r\nMessage-ID: <a@b>\r\n\r\n").as_deref(), Some("<a@b>"));
        assert_eq!(id("message-id:\r\n <a@b>\r\nX: y\r\n").as_deref(), Some("<a@b>"));
        assert_eq!(id("Subject: x\r\n\r\nMessage-ID: <a@b>\r\n"), None);
        assert_eq!(id("Message-ID: \r\n\r\n"), None);
    }

    #[test]
    fn what_is_there_twice_is_taken_twice() {
        let mut keys = Keys::default();
        let one = key(b"Message-ID: <a>\n\n", 1, None);
        keys.add(one);
        keys.add(one);
        assert!(keys.take(&one) && keys.take(&one) && !keys.take(&one));
        assert_eq!(one, key(b"X: y\nMessage-ID: <a>\n\n", 2, Some(Timestamp(5))));
        assert_ne!(key(b"", 1, None), key(b"", 2, None));
    }
}
