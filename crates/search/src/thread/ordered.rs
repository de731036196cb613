//! THREAD=ORDEREDSUBJECT (RFC 5256 §3): one thread for each base subject.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::ThreadItem;
use super::forest::Forest;

/// Threads the messages, given in mailbox order.
pub(crate) fn thread(items: &mut [ThreadItem]) -> Forest {
    // Threads are ordered by their first messages, and their messages by date. With all messages sorted by
    // date, the first one of a subject begins its thread.
    items.sort_unstable_by_key(|item| (item.sent, item.at));
    let mut forest = Forest::with_capacity(items.len());
    let mut roots = Vec::new();
    // The first message of each subject.
    let mut by_subject: HashTable<u32> = HashTable::with_capacity(items.len());
    for item in items.iter() {
        let node = forest.node(item.at);
        let same = |first: &u32| items[*first as usize].subject == item.subject;
        match by_subject.entry(item.subject_hash(), same, |first| items[*first as usize].subject_hash()) {
            // "There are no grandchildren in ORDEREDSUBJECT threading."
            Entry::Occupied(root) => forest.append(*root.get(), node),
            Entry::Vacant(entry) => {
                entry.insert(node);
                roots.push(node);
            }
        }
    }
    forest.set_roots(roots);
    forest
}
