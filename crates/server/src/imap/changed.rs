//! Messages that changed since a client knew them, some at a time.
//!
//! Every second message of a large mailbox may have changed, which is a set of as many ranges, and a client takes as long as it
//! likes to hear of them. So a session never holds more than a part of such a set: the mod-sequences say what comes next.

use sealpost_account::state::{Mailbox, Row};
use sealpost_base::{ModSeq, Uid, UidSet};

/// Ranges of one part: about what a connection may hold anyway.
const RANGES: usize = 512;

/// Some of the messages that changed.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// Which, ascending.
    pub(super) uids: UidSet,
    /// Where the next part begins, if there may be one.
    pub(super) next: Option<Uid>,
}

/// The first of the messages from that UID on which changed after `since` and are to be kept.
pub(super) fn part(mailbox: &Mailbox, since: ModSeq, from: Uid, keep: impl Fn(&Row) -> bool) -> Part {
    let mut part = Part::default();
    for row in mailbox.changed_since_from(since, from).filter(keep) {
        if part.uids.range_count() == RANGES {
            part.next = Some(row.uid);
            break;
        }
        part.uids.push(row.uid);
    }
    part
}
