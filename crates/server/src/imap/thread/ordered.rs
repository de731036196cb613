//! THREAD=ORDEREDSUBJECT (RFC 5256 §3): one thread for each base subject.

use std::collections::HashMap;

use super::Item;
use super::forest::Forest;

/// Threads the messages, whose order is that of the mailbox.
pub(super) fn thread(items: &mut [Item]) -> Forest {
    // Threads are in the order of their first messages, and within them everything is by date: with all messages by date,
    // the first one of a subject begins its thread.
    items.sort_unstable_by_key(|item| (item.sent, item.at));
    let mut forest = Forest::default();
    let mut roots = Vec::new();
    let mut by_subject: HashMap<Option<[u64; 2]>, u32> = HashMap::new();
    for item in items.iter() {
        let node = forest.node(item.at);
        match by_subject.get(&item.subject.hash) {
            // "There are no grandchildren in ORDEREDSUBJECT threading."
            Some(root) => forest.append(*root, node),
            None => {
                by_subject.insert(item.subject.hash, node);
                roots.push(node);
            }
        }
    }
    forest.set_roots(roots);
    forest
}
