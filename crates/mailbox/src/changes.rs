//! Changes of a mailbox since a client's state, in parts: created, changed and expunged messages.
//!
//! If every second message of a large mailbox has changed, the set has as many ranges, and a slow client
//! takes long to receive them. So a session holds only a part of such a set; mod-sequences determine the next
//! part.

use sealpost_account::state::{Mailbox, Row};
use sealpost_base::{ModSeq, Uid, UidSet};

/// Ranges of one part: about what the memory of a connection covers.
const RANGES: usize = 512;
/// Changed rows to read for one part, whether or not they are reported; then other tasks run.
const ROWS: usize = 4096;

/// What a client knows of a mailbox. The two positions differ while the session holds back expunges (RFC 3501
/// §7.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownUpTo {
    /// It knows the flags of its messages up to this change.
    pub flags: ModSeq,
    /// It knows the expunged messages up to this change.
    pub expunges: ModSeq,
    /// It knows the messages below this UID.
    pub uid_next: Uid,
}

/// Changes of a mailbox.
#[derive(Debug, Default)]
pub struct MailboxChanges {
    /// New messages.
    pub created: UidSet,
    /// The first part of the changed messages; [`updated`] returns the next ones.
    pub updated: Part,
    /// Expunged messages, among those that the client has.
    pub destroyed: UidSet,
}

/// A part of the changed messages.
#[derive(Debug, Default)]
pub struct Part {
    /// Their UIDs.
    pub uids: UidSet,
    /// The first UID of the next part, if there may be one.
    pub next: Option<Uid>,
}

impl Part {
    /// Whether this part and all later ones are empty.
    pub fn is_empty(&self) -> bool {
        self.uids.is_empty() && self.next.is_none()
    }
}

/// Changes of a mailbox for a client that has the messages `has`. `keep` selects the changed messages to
/// report.
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

/// A part of the messages that changed after `since`, from one UID on, and below another if given. `keep`
/// selects the messages to report.
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
        // `since` is older than the mailbox's record of expunges (RFC 7162 §3.2.6): every UID that does not
        // exist.
        None => among.difference(&mailbox.uids()),
    }
}
