//! The messages that a command names: sequence sets resolved in the view (RFC 3501 §6.4.8, §9 `seq-number`).

use sealpost_base::{Uid, UidSet};
use sealpost_imap::types::SequenceSet;

use super::reply::Reply;
use super::selected::Selected;

/// The messages of `set` in the view, by sequence number or by UID.
///
/// # Errors
/// `BAD` for a sequence number beyond the view: the client is out of sync (RFC 3501 §9). Nonexistent UIDs are
/// skipped (RFC 3501 §6.4.8).
pub(super) fn resolve(view: &Selected, set: &SequenceSet, uid: bool) -> Result<UidSet, Reply> {
    if uid { Ok(by_uid(view, set)) } else { by_sequence(view, set) }
}

/// By UID; `*` is the largest in the view.
pub(super) fn by_uid(view: &Selected, set: &SequenceSet) -> UidSet {
    span_of_uids(view, set).intersection(view.uids())
}

/// The requested UID ranges, whether or not the view has all of them: as many as in the command, however many
/// gaps the mailbox has.
pub(super) fn span_of_uids(view: &Selected, set: &SequenceSet) -> UidSet {
    ranges_of_uids(view.uids(), view.saved(), set)
}

/// The same for any mailbox with these `uids`, where `$` is `saved` (RFC 5182 §2.1).
pub(super) fn ranges_of_uids(uids: &UidSet, saved: &UidSet, set: &SequenceSet) -> UidSet {
    let largest = uids.last().map_or(0, Uid::get);
    let ranges = set.resolve(largest).into_iter();
    let ranges = ranges.filter_map(|range| Some((Uid::new(*range.start())?, Uid::new(*range.end())?)));
    with_saved(UidSet::from_ranges(ranges), saved, set)
}

/// The UID ranges for these sequence numbers; numbers beyond the mailbox have none.
pub(super) fn ranges_of_numbers(uids: &UidSet, saved: &UidSet, set: &SequenceSet) -> UidSet {
    let nth = |n: &u32| uids.nth((*n as usize).saturating_sub(1));
    let ranges = set.resolve(u32::try_from(uids.len()).unwrap_or(u32::MAX)).into_iter();
    let ranges = ranges.filter_map(|range| Some((nth(range.start())?, nth(range.end())?)));
    with_saved(UidSet::from_ranges(ranges), saved, set)
}

fn with_saved(asked: UidSet, saved: &UidSet, set: &SequenceSet) -> UidSet {
    match (set.has_saved(), asked.is_empty()) {
        (false, _) => asked,
        (true, true) => saved.clone(),
        (true, false) => asked.union(saved),
    }
}

/// By sequence number; `*` is the last.
pub(super) fn by_sequence(view: &Selected, set: &SequenceSet) -> Result<UidSet, Reply> {
    Ok(span_of_sequence(view, set)?.intersection(view.uids()))
}

/// As [`span_of_uids`], for sequence numbers.
pub(super) fn span_of_sequence(view: &Selected, set: &SequenceSet) -> Result<UidSet, Reply> {
    let len = view.len();
    // `*` in an empty mailbox is beyond it too.
    if set.max(len) > len || (len == 0 && set.has_star()) {
        return Err(Reply::bad("no message has that number"));
    }
    Ok(ranges_of_numbers(view.uids(), view.saved(), set))
}

/// Iterates over a set of messages in batches without borrowing anything else.
pub(super) struct Cursor {
    uids: UidSet,
    at: usize,
}

impl Cursor {
    pub(super) fn new(uids: UidSet) -> Self {
        Cursor { uids, at: 0 }
    }

    /// The next `n` messages, ascending; `None` at the end.
    pub(super) fn next_batch(&mut self, n: usize) -> Option<Vec<Uid>> {
        let end = self.uids.len().min(self.at + n);
        let batch: Vec<Uid> = (self.at..end).filter_map(|i| self.uids.nth(i)).collect();
        self.at = end;
        if batch.is_empty() { None } else { Some(batch) }
    }
}
