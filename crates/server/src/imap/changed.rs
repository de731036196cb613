//! Messages that changed since a client knew them, some at a time.
//!
//! Every second message of a large mailbox may have changed, which is a set of as many ranges, and a client takes as long as it
//! likes to hear of them. So a session never holds more than a part of such a set: the mod-sequences say what comes next.

use sealpost_account::state::Row;
use sealpost_base::{Uid, UidSet};

/// Ranges of one part: about what a connection may hold anyway.
const RANGES: usize = 512;
/// Rows that changed which are looked at for one part, whether or not they are kept: others have their turn then.
const ROWS: usize = 4096;

/// Some of the messages that changed.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// Which, ascending.
    pub(super) uids: UidSet,
    /// Where the next part begins, if there may be one.
    pub(super) next: Option<Uid>,
}

impl Part {
    /// Whether there is nothing in it, nor in one after it.
    pub(super) fn is_empty(&self) -> bool {
        self.uids.is_empty() && self.next.is_none()
    }
}

/// The first of the rows that changed which are to be kept.
pub(super) fn part(changed: impl Iterator<Item = Row>, keep: impl Fn(&Row) -> bool) -> Part {
    let mut part = Part::default();
    for (looked, row) in changed.enumerate() {
        if looked == ROWS || part.uids.range_count() == RANGES {
            part.next = Some(row.uid);
            break;
        }
        if keep(&row) {
            part.uids.push(row.uid);
        }
    }
    part
}
