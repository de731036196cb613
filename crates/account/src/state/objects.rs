//! The account's small objects, with what they take together, and the latest changes of those that
//! are metadata.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use sealpost_base::{Position, limits};

use crate::metadata::{Change, Holder};

/// Objects by name.
#[derive(Clone, Default)]
pub(super) struct Objects {
    by_name: BTreeMap<String, Vec<u8>>,
    /// Of names and values.
    bytes: usize,
    changes: VecDeque<Change>,
    /// Changes up to here may have been dropped. Not part of a checkpoint: a process that starts
    /// from one knows no earlier change.
    forgotten: Position,
}

impl Objects {
    pub(super) fn restore(by_name: BTreeMap<String, Vec<u8>>, at: Position) -> Self {
        let bytes = by_name.iter().map(|(name, value)| name.len() + value.len()).sum();
        Objects { by_name, bytes, changes: VecDeque::new(), forgotten: at }
    }

    pub(super) fn by_name(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.by_name
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn from(&self, begin: Bound<String>) -> impl Iterator<Item = (&str, &[u8])> {
        let range = self.by_name.range((begin, Bound::Unbounded));
        range.map(|(name, value)| (name.as_str(), value.as_slice()))
    }

    /// Puts an object if it is within the limits; whether it was.
    pub(super) fn put(&mut self, name: &str, value: &[u8], at: Position) -> bool {
        let old = self.by_name.get(name).map(|old| name.len() + old.len());
        let bytes = self.bytes - old.unwrap_or(0) + name.len() + value.len();
        if value.len() > limits::ACCOUNT_OBJECT_BYTES
            || name.len() > limits::MAILBOX_NAME_BYTES
            || (old.is_none() && self.by_name.len() >= limits::ACCOUNT_OBJECTS)
            || bytes > limits::ACCOUNT_OBJECTS_BYTES
        {
            return false;
        }
        self.bytes = bytes;
        self.by_name.insert(name.to_owned(), value.to_vec());
        self.note(name, at);
        true
    }

    /// Removes an object; whether it was there.
    pub(super) fn remove(&mut self, name: &str, at: Position) -> bool {
        let Some(value) = self.by_name.remove(name) else { return false };
        self.bytes -= name.len() + value.len();
        self.note(name, at);
        true
    }

    /// Removes the objects of a deleted mailbox, without notices: its deletion is reported.
    pub(super) fn remove_of(&mut self, holder: Holder) {
        let prefix = format!("{}/", holder.prefix());
        let names: Vec<String> = self
            .from(Bound::Included(prefix.clone()))
            .map(|(n, _)| n.to_owned())
            .take_while(|n| n.starts_with(&prefix))
            .collect();
        for name in names {
            if let Some(value) = self.by_name.remove(&name) {
                self.bytes -= name.len() + value.len();
            }
        }
        self.changes.retain(|change| change.holder != holder);
    }

    fn note(&mut self, name: &str, at: Position) {
        if let Some((holder, entry)) = Holder::of_object(name) {
            self.note_change(Change { at, holder, entry: entry.to_owned() });
        }
    }

    /// Remembers that an entry, which may be a computed one, has another value.
    pub(super) fn note_change(&mut self, change: Change) {
        if self.changes.len() >= limits::METADATA_CHANGES
            && let Some(oldest) = self.changes.pop_front()
        {
            self.forgotten = oldest.at;
        }
        self.changes.push_back(change);
    }

    /// The changes after `since`; `None` if some of them are forgotten.
    pub(super) fn changes(&self, since: Position) -> Option<impl Iterator<Item = &Change>> {
        let start = self.changes.partition_point(|change| change.at <= since);
        (since >= self.forgotten).then(|| self.changes.range(start..))
    }
}
