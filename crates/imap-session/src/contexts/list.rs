//! The searches of the selected mailbox that are kept up to date, and their memory.

use std::sync::Arc;

use sealpost_account::state::Mailbox;
use sealpost_base::{Position, Uid, limits};
use sealpost_imap::types::Correlator;
use sealpost_search::Query;

use super::results::Results;
use super::updates;

/// The contexts of the selected mailbox.
#[derive(Default)]
pub(crate) struct Contexts {
    pub(super) list: Vec<Context>,
    /// All results include changes up to here.
    pub(super) position: Position,
}

/// A search that is kept up to date.
pub(super) struct Context {
    /// The command that started the search.
    pub(super) correlator: Correlator,
    /// Whether updates carry UIDs.
    pub(super) uid: bool,
    pub(super) query: Arc<Query>,
    /// When ages were last checked, in seconds since 1970.
    pub(super) looked: i64,
    pub(super) results: Results,
}

/// The changes in the result of one context.
pub(crate) struct Update {
    pub(super) correlator: Correlator,
    pub(super) uid: bool,
    pub(super) goes: Vec<Vec<(u32, sealpost_imap::types::SequenceSet)>>,
}

impl Contexts {
    /// The number of ranges of all results.
    pub(crate) fn ranges(&self) -> usize {
        self.list.iter().map(|context| context.results.ranges()).sum()
    }

    /// Whether another result may be kept up to date.
    pub(super) fn have_room(&self, results: &Results) -> bool {
        self.list.len() < limits::IMAP_CONTEXTS
            && self.ranges() + results.ranges() <= limits::IMAP_CONTEXT_RANGES
            && !results.are_too_long()
    }

    /// Removes expunged messages from the results. `number` gives the numbers that the client still has.
    pub(crate) fn gone(&mut self, mailbox: &Mailbox, number: impl Fn(Uid) -> Option<u32>) -> Vec<Update> {
        if self.list.is_empty() || mailbox.highest_modseq() <= self.position {
            return Vec::new();
        }
        let vanished = mailbox.vanished_since(self.position);
        let mut updates = Vec::new();
        for context in &mut self.list {
            let pairs = match &mut context.results {
                Results::Set(set) => {
                    let gone = match &vanished {
                        Some(vanished) => set.intersection(vanished),
                        // Older than the mailbox's record of expunges.
                        None => set.difference(&mailbox.uids()),
                    };
                    *set = set.difference(&gone);
                    updates::unplaced(gone.iter())
                }
                Results::Sorted { list, .. } => {
                    let pairs = updates::removals(list, |uid| mailbox.row(uid).is_none());
                    list.retain(|found| mailbox.row(found.uid).is_some());
                    pairs
                }
            };
            let uid = context.uid;
            let numbered = |found: Uid| if uid { Some(found.get()) } else { number(found) };
            let goes: Vec<_> = updates::responses(pairs, numbered).collect();
            if !goes.is_empty() {
                updates.push(Update { correlator: context.correlator.clone(), uid, goes });
            }
        }
        updates
    }
}

#[cfg(test)]
mod tests {
    use sealpost_search::{MailboxIndex, Match};

    use super::*;

    fn scattered(n: usize) -> impl Iterator<Item = Uid> {
        (1..=n as u32).filter_map(|n| Uid::new(n * 2))
    }

    #[test]
    fn results_are_bounded() {
        let set = |n: usize| Results::Set(scattered(n).collect());
        let list = |n: usize| {
            let found = |uid| Match { mailbox: MailboxIndex::FIRST, uid, relevance: 100 };
            let list = scattered(n).map(found).collect();
            Results::Sorted { comparators: Vec::new(), list }
        };
        let none = Contexts::default();
        assert!(none.have_room(&set(limits::IMAP_CONTEXT_RANGES)));
        assert!(!none.have_room(&set(limits::IMAP_CONTEXT_RANGES + 1)));
        assert!(none.have_room(&list(limits::IMAP_SORTED_CONTEXT)));
        assert!(!none.have_room(&list(limits::IMAP_SORTED_CONTEXT + 1)));
    }
}
