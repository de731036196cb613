//! What changed in a mailbox since a client knew it: messages that went, and messages that changed, some at a
//! time.
//!
//! Every second message of a large mailbox may have changed, which is a set of as many ranges, and a client
//! takes as long as it likes to hear of them. So a session never holds more than a part of such a set: the
//! mod-sequences say what comes next.

use sealpost_account::state::{Mailbox, Row};
use sealpost_base::{ModSeq, Uid, UidSet};

/// Ranges of one part: about what a connection may hold anyway.
const RANGES: usize = 512;
/// Rows that changed which are looked at for one part, whether or not they are kept: others have their turn
/// then.
const ROWS: usize = 4096;

/// Some of the messages that changed.
#[derive(Debug, Default)]
pub struct Part {
    /// Which, ascending.
    pub uids: UidSet,
    /// Where the next part begins, if there may be one.
    pub next: Option<Uid>,
}

impl Part {
    /// Whether there is nothing in it, nor in one after it.
    pub fn is_empty(&self) -> bool {
        self.uids.is_empty() && self.next.is_none()
    }
}

/// The first of the rows that changed which are to be kept.
pub fn part(changed: impl Iterator<Item = Row>, keep: impl Fn(&Row) -> bool) -> Part {
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

/// Those of the messages `among` that went after `since`.
pub fn vanished_since(mailbox: &Mailbox, since: ModSeq, among: &UidSet) -> UidSet {
    match mailbox.vanished_since(since) {
        Some(vanished) => vanished.intersection(among),
        // Further back than the mailbox remembers (RFC 7162 §3.2.6): everything that is not there.
        None => among.difference(&mailbox.uids()),
    }
}
