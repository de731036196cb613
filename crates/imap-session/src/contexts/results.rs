//! A result that is kept up to date, as the client has it.

use sealpost_base::{Uid, UidSet, limits};
use sealpost_search::{Comparator, Match};

use super::updates::{self, Pairs};

/// A result as the client has it.
pub(super) enum Results {
    /// In the order of the mailbox.
    Set(UidSet),
    /// In another order.
    Sorted { comparators: Vec<Comparator>, list: Vec<Match> },
}

impl Results {
    /// The number of ranges; each message of a list counts as one.
    pub(super) fn ranges(&self) -> usize {
        match self {
            Results::Set(set) => set.range_count(),
            Results::Sorted { list, .. } => list.len(),
        }
    }

    /// Whether a list is too long: adding a message sorts all of it again.
    pub(super) fn are_too_long(&self) -> bool {
        match self {
            Results::Set(set) => set.range_count() > limits::IMAP_CONTEXT_RANGES,
            Results::Sorted { list, .. } => list.len() > limits::IMAP_SORTED_CONTEXT,
        }
    }
}

/// The messages of a list.
pub(super) fn uids(list: &[Match]) -> UidSet {
    let mut uids: Vec<Uid> = list.iter().map(|found| found.uid).collect();
    uids.sort_unstable();
    uids.into_iter().collect()
}

/// Both merged, ascending by UID like the results of a search.
pub(super) fn together(list: &[Match], new: Vec<Match>) -> Vec<Match> {
    let mut all = new;
    all.extend_from_slice(list);
    all.sort_unstable();
    all
}

/// Where the new messages are. Sort keys do not change, so the others normally keep their order. If they do
/// not, because less of long strings could be compared than before, the whole list is reported again.
pub(super) fn placed(mut removed: Pairs, before: &[Match], all: &[Match], old: &UidSet) -> (Pairs, Pairs) {
    let same = all.iter().filter(|found| old.contains(found.uid)).map(|found| found.uid);
    if same.eq(before.iter().map(|found| found.uid)) {
        return (removed, updates::insertions(all, |uid| !old.contains(uid)));
    }
    removed.extend(updates::removals(before, |_| true));
    (removed, updates::insertions(all, |_| true))
}

#[cfg(test)]
mod tests {
    use sealpost_search::MailboxIndex;

    use super::*;

    #[test]
    fn a_list_in_another_order_is_reported_again() {
        let list = |uids: &[u32]| -> Vec<Match> {
            uids.iter()
                .filter_map(|n| {
                    Some(Match { mailbox: MailboxIndex::FIRST, uid: Uid::new(*n)?, relevance: 100 })
                })
                .collect()
        };
        let uids = |numbers: &[u32]| numbers.iter().filter_map(|n| Uid::new(*n)).collect::<Vec<_>>();
        let old: UidSet = uids(&[1, 2, 3]).into_iter().collect();
        let (goes, comes) = placed(Vec::new(), &list(&[3, 1, 2]), &list(&[3, 4, 1, 2]), &old);
        assert_eq!((goes, comes), (Vec::new(), vec![(2, uids(&[4]))]));
        let (goes, comes) = placed(Vec::new(), &list(&[3, 1, 2]), &list(&[1, 4, 3, 2]), &old);
        assert_eq!((goes, comes), (vec![(1, uids(&[3, 1, 2]))], vec![(1, uids(&[1, 4, 3, 2]))]));
    }
}
