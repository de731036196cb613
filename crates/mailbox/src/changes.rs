//! Changes of a mailbox since a client's state: created, changed and expunged messages, in parts.
//!
//! Every second message of a large mailbox may have changed, which is a set of as many ranges, and
//! a slow client may take long to receive them. So a session never holds more than a part of such a
//! set: the mod-sequences determine the next part.

use sealpost_account::state::{Mailbox, Row};
use sealpost_base::{ModSeq, Uid, UidSet};

/// Ranges of one part: about what a connection may hold anyway.
const RANGES: usize = 512;
/// Changed rows that are read for one part, whether or not they are kept; then other tasks run.
const ROWS: usize = 4096;

/// Up to where a client knows a mailbox. The two positions differ while expunges are held back from it
/// (RFC 3501 §7.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownUpTo {
    /// It knows the flags of its messages up to this change.
    pub flags: ModSeq,
    /// It knows which messages are gone up to this change.
    pub expunges: ModSeq,
    /// It knows of messages below this UID.
    pub uid_next: Uid,
}

/// Changes of a mailbox.
#[derive(Debug, Default)]
pub struct MailboxChanges {
    /// Messages that are new.
    pub created: UidSet,
    /// The first part of the messages that changed. The next ones are [`updated`].
    pub updated: Part,
    /// Messages that are gone, among those that the client has.
    pub destroyed: UidSet,
}

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

/// Changes of a mailbox of which a client has the messages `has`. `keep` selects the changed
/// messages to report.
pub fn since(
    mailbox: &Mailbox,
    known: KnownUpTo,
    has: &UidSet,
    keep: impl Fn(&Row) -> bool,
) -> MailboxChanges {
    let mut changes = MailboxChanges::default();
    let highest = mailbox.highest_modseq();
    if highest > known.expunges {
        changes.destroyed = vanished_since(mailbox, known.expunges, has);
    }
    if highest > known.flags {
        changes.updated = updated(mailbox, known.flags, Uid::MIN, Some(known.uid_next), keep);
    }
    if mailbox.uid_next() > known.uid_next {
        changes.created = mailbox.uids_from(known.uid_next);
    }
    changes
}

/// A part of the messages that changed after `since`: from one UID on, and below another if there
/// is one. `keep` says which are news.
pub fn updated(
    mailbox: &Mailbox,
    since: ModSeq,
    from: Uid,
    below: Option<Uid>,
    keep: impl Fn(&Row) -> bool,
) -> Part {
    let changed = mailbox.changed_since_from(since, from);
    let mut part = Part::default();
    for (looked, row) in changed.take_while(|row| below.is_none_or(|below| row.uid < below)).enumerate() {
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

/// Those of the messages `among` that were expunged after `since`.
pub fn vanished_since(mailbox: &Mailbox, since: ModSeq, among: &UidSet) -> UidSet {
    match mailbox.vanished_since(since) {
        Some(vanished) => vanished.intersection(among),
        // Older than the mailbox's record of expunges (RFC 7162 §3.2.6): every UID that does not
        // exist.
        None => among.difference(&mailbox.uids()),
    }
}
