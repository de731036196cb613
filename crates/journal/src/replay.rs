//! Decides from their contents which entries of a log count, without store or keys.
//!
//! An entry counts if it carries the hash of the last one that counts; there may be skipped positions between
//! the two. If it carries another hash, an entry that others have read is missing. Then the meaning of UIDs
//! is unknown, and replay stops until a renumbering states which entries count (`docs/format/log-entry.md`).

use std::collections::VecDeque;

use sealpost_base::{Position, limits};
use sealpost_vault::Hash;
use sealpost_vault::entry::{CountedEntries, Generation, Renumbering};

use crate::{Content, Entry, Tail};

/// Processes the entries of a log in order, starting after a known end.
#[derive(Debug, Clone)]
pub struct Replay {
    tail: Tail,
    /// The entries after `begun` that counted, in order.
    counted: VecDeque<(Position, Hash)>,
    begun: Position,
    cover: Option<Cover>,
}

/// A later renumbering, which states what counts up to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cover {
    /// Where it is.
    pub position: Position,
    /// The generation of UIDs from the break on.
    pub generation: Generation,
    /// Its contents.
    pub renumbering: Renumbering,
}

/// The role of an entry in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It counts.
    Counts,
    /// It does not follow the last entry that counts: an entry between the two is missing.
    Broken,
    /// It states that other entries count than those that were read.
    Disputed,
}

impl Replay {
    /// Starts after `tail`.
    pub fn after(tail: Tail) -> Self {
        Replay { tail, counted: VecDeque::new(), begun: tail.position, cover: None }
    }

    /// The last entry that counts.
    pub fn tail(&self) -> Tail {
        self.tail
    }

    /// Whether replay has passed a break whose renumbering is still ahead.
    pub fn is_covered(&self) -> bool {
        self.cover.is_some()
    }

    /// Notes that this process appended the entry at `tail`, after the last one that counts.
    pub fn appended(&mut self, tail: Tail) {
        self.count(tail);
    }

    /// Classifies the next entry. If it counts, it becomes the last one.
    pub fn next(&mut self, entry: &Entry) -> Step {
        if let Some(cover) = self.cover
            && entry.position < cover.position
        {
            self.count(Tail { generation: self.tail.generation, ..entry.tail() });
            return Step::Counts;
        }
        let is_covers = self.cover.take().is_some();
        if !is_covers && entry.prev != self.tail.hash {
            return Step::Broken;
        }
        if let Content::Renumbering(renumbering) = &entry.content
            && renumbering.from > self.begun
            && *renumbering != Renumbering::of(renumbering.from, self.counted_from(renumbering.from))
        {
            return Step::Disputed;
        }
        self.count(entry.tail());
        Step::Counts
    }

    /// Continues a broken log by that renumbering. The next entry is again the one that does not follow.
    pub fn continue_by(&mut self, cover: Cover) {
        self.tail.generation = cover.generation;
        self.cover = Some(cover);
    }

    /// Whether the entry at `tail` counted; `None` if that is too long ago.
    pub fn counted(&self, tail: &Tail) -> Option<bool> {
        if tail.position <= self.begun {
            return None;
        }
        Some(self.counted.contains(&(tail.position, tail.hash)))
    }

    /// The position from which a renumbering must state what counts, if an entry that carries `prev` does not
    /// follow. No process may have read a different entry before it.
    pub(crate) fn fork_of(&self, prev: &Hash) -> Position {
        let known = self.counted.iter().rev().find(|(_, hash)| hash == prev);
        known.map_or(self.tail.position, |(position, _)| *position).next()
    }

    pub(crate) fn counted_from(&self, from: Position) -> CountedEntries {
        let counted = self.counted.iter().filter(|(position, _)| *position >= from);
        counted.fold(CountedEntries::NONE, |sum, (position, hash)| sum.with(*position, hash))
    }

    fn count(&mut self, tail: Tail) {
        self.tail = tail;
        self.counted.push_back((tail.position, tail.hash));
        if self.counted.len() > limits::ENTRIES_COMPARED
            && let Some((oldest, _)) = self.counted.pop_front()
        {
            self.begun = oldest;
        }
    }
}
