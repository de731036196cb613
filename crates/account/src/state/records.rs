//! Objects of an account that clients follow by log positions and that are no mail: identities,
//! submissions. Removed ones are remembered, a bounded number of them, for changes since a position.

use std::collections::{BTreeMap, VecDeque};

use minicbor::{Decode, Encode};
use sealpost_base::{Position, limits};

use super::sync_point::{Changes, SyncPoint, page_end};

/// What takes memory.
pub trait Weighed {
    /// How many bytes, as far as its limits count them.
    fn bytes(&self) -> usize;
}

/// Objects by id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Records<K, V> {
    items: BTreeMap<K, Record<V>>,
    /// Oldest first.
    removed: VecDeque<Removed<K>>,
    /// Removals up to here may be forgotten.
    forgotten: Position,
    /// The last change that clients see.
    changed: Position,
    /// Of all objects.
    bytes: usize,
}

/// An object with the positions of its changes.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Record<V> {
    /// The object.
    #[n(0)]
    pub value: V,
    /// Where it was made.
    #[n(1)]
    pub created: Position,
    /// Where it changed last, as far as clients see it.
    #[n(2)]
    pub changed: Position,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
struct Removed<K> {
    #[n(0)]
    id: K,
    #[n(1)]
    created: Position,
    #[n(2)]
    at: Position,
}

/// All of it, for a checkpoint.
#[derive(Encode, Decode)]
struct Stored<K, V> {
    #[n(0)]
    items: Vec<(K, Record<V>)>,
    #[n(1)]
    removed: Vec<Removed<K>>,
    #[n(2)]
    forgotten: Position,
    #[n(3)]
    changed: Position,
}

impl<K, V> Default for Records<K, V> {
    fn default() -> Self {
        Records {
            items: BTreeMap::new(),
            removed: VecDeque::new(),
            forgotten: Position::ZERO,
            changed: Position::ZERO,
            bytes: 0,
        }
    }
}

impl<K: Copy + Ord, V: Weighed> Records<K, V> {
    /// The object of that id.
    pub fn get(&self, id: K) -> Option<&V> {
        self.items.get(&id).map(|record| &record.value)
    }

    /// All objects, by id.
    pub fn iter(&self) -> impl Iterator<Item = (K, &Record<V>)> {
        self.items.iter().map(|(id, record)| (*id, record))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Bytes of all objects.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The position of the last change: what a client knows that has read all of them.
    pub fn changed(&self) -> Position {
        self.changed
    }

    /// Whether nothing was ever in it.
    pub(super) fn is_untouched(&self) -> bool {
        self.changed == Position::ZERO
    }

    pub(super) fn put(&mut self, id: K, value: V, at: Position) {
        let before = self.items.get(&id);
        let created = before.map_or(at, |record| record.created);
        self.bytes = self.bytes - before.map_or(0, |record| record.value.bytes()) + value.bytes();
        self.items.insert(id, Record { value, created, changed: at });
        self.changed = at;
    }

    /// Changes the object of that id, if there is one, and not its bytes; `change` says whether clients
    /// see it. Whether they do.
    pub(super) fn change(&mut self, id: K, at: Position, change: impl FnOnce(&mut V) -> bool) -> bool {
        let Some(record) = self.items.get_mut(&id) else { return false };
        let is_seen = change(&mut record.value);
        if is_seen {
            record.changed = at;
            self.changed = at;
        }
        is_seen
    }

    pub(super) fn remove(&mut self, id: K, at: Position) -> Option<V> {
        let record = self.items.remove(&id)?;
        self.bytes -= record.value.bytes();
        if self.removed.len() >= limits::RECORD_TOMBSTONES
            && let Some(oldest) = self.removed.pop_front()
        {
            self.forgotten = oldest.at;
        }
        self.removed.push_back(Removed { id, created: record.created, at });
        self.changed = at;
        Some(record.value)
    }

    /// What became of objects after `since`, up to a point before which at most `most` changed; `end`
    /// is where the log ends. `None` if `since` is too long ago or has not been yet.
    pub fn changes(&self, since: impl Into<SyncPoint<K>>, end: Position, most: usize) -> Option<Changes<K>> {
        let since = since.into();
        if since.position < self.forgotten || since.position > end {
            return None;
        }
        let gone = self.removed.iter().filter(|gone| {
            let known = since.of(gone.id);
            gone.at > known && gone.created <= known
        });
        let mut found: Vec<((Position, K), Kind)> =
            gone.map(|gone| ((gone.at, gone.id), Kind::Destroyed)).collect();
        found.extend(self.iter().filter_map(|(id, record)| {
            let known = since.of(id);
            match record.created > known {
                // Where it was made: an answer up to there has it.
                true => Some(((record.created, id), Kind::Created)),
                false => (record.changed > known).then_some(((record.changed, id), Kind::Updated)),
            }
        }));
        found.sort_unstable();
        let order: Vec<(Position, K)> = found.iter().map(|(at, _)| *at).collect();
        let cut = page_end(&order, most);
        let upto = cut.unwrap_or(self.changed.into());
        found.retain(|((at, id), _)| *at <= upto.of(*id));
        let of = |kind| found.iter().filter(|found| found.1 == kind).map(|((_, id), _)| *id).collect();
        let (created, updated, destroyed) = (of(Kind::Created), of(Kind::Updated), of(Kind::Destroyed));
        Some(Changes { created, updated, destroyed, upto, more: cut.is_some() })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Created,
    Updated,
    Destroyed,
}

impl<K: Copy + Ord + Encode<()>, V: Clone + Encode<()>> Records<K, V> {
    /// The bytes of a checkpoint.
    pub(super) fn chunk(&self) -> Vec<u8> {
        let stored = Stored {
            items: self.items.iter().map(|(id, record)| (*id, record.clone())).collect(),
            removed: self.removed.iter().map(|gone| Removed { ..*gone }).collect(),
            forgotten: self.forgotten,
            changed: self.changed,
        };
        minicbor::to_vec(stored).unwrap_or_default()
    }
}

impl<K: Copy + Ord + for<'b> Decode<'b, ()>, V: Weighed + for<'b> Decode<'b, ()>> Records<K, V> {
    /// What [`Records::chunk`] wrote; `None` if it is anything else.
    pub(super) fn restore(bytes: &[u8], upto: Position) -> Option<Self> {
        let stored: Stored<K, V> = minicbor::decode(bytes).ok()?;
        let is_known = |at: Position| at <= stored.changed;
        let fits = stored.changed <= upto
            && stored.changed > Position::ZERO
            && stored.forgotten <= stored.changed
            && stored.removed.len() <= limits::RECORD_TOMBSTONES
            && stored.removed.is_sorted_by_key(|gone| gone.at)
            && stored.removed.iter().all(|gone| is_known(gone.at) && gone.created <= gone.at)
            && stored.items.is_sorted_by(|a, b| a.0 < b.0)
            && stored
                .items
                .iter()
                .all(|(_, record)| is_known(record.changed) && record.created <= record.changed);
        let bytes = stored.items.iter().map(|(_, record)| record.value.bytes()).sum();
        fits.then(|| Records {
            bytes,
            items: stored.items.into_iter().collect(),
            removed: stored.removed.into(),
            forgotten: stored.forgotten,
            changed: stored.changed,
        })
    }
}
