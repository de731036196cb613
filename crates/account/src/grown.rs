//! New entries in logs, for a task that has no key: which log, up to where, and what kinds of
//! objects the entry touches.
//!
//! The process that appends an entry knows its events, whether or not it can read the log. So a
//! push to a device names the types that changed without opening the account
//! (`docs/decisions/0099-push.md`).

use sealpost_base::{AccountId, Position};

use crate::event::{Batch, Event, FlagAction, SystemFlags};
use crate::{metadata, sort_order};

/// A log has more entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grown {
    /// Whose log it is: an account's, or a shared mailbox's.
    pub log: AccountId,
    /// The position of the last new entry.
    pub position: Position,
    /// What this process appended there; `None` for an entry of another process. Its path alone was
    /// seen, so it may be noise: read the end of the log.
    pub touched: Option<Touched>,
}

/// The kinds of objects that entries touch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Touched(u16);

impl Touched {
    /// None: a client sees no difference.
    pub const NONE: Touched = Touched(0);
    /// Mailboxes: names, roles, subscriptions, order, counts.
    pub const MAILBOXES: Touched = Touched(1);
    /// Messages.
    pub const EMAILS: Touched = Touched(2);
    /// Messages that were not in the log before.
    pub const DELIVERIES: Touched = Touched(4);
    /// Small objects of other kinds.
    pub const OBJECTS: Touched = Touched(8);
    /// Address books.
    pub const ADDRESS_BOOKS: Touched = Touched(16);
    /// Contact cards.
    pub const CARDS: Touched = Touched(32);
    /// Records of submissions.
    pub const SUBMISSIONS: Touched = Touched(64);
    /// Identities that users made.
    pub const IDENTITIES: Touched = Touched(128);
    /// Which messages are in threads.
    pub const THREADS: Touched = Touched(256);
    /// Any of them.
    pub const ALL: Touched = Touched(511);

    /// Both.
    #[must_use]
    pub fn and(self, other: Touched) -> Touched {
        Touched(self.0 | other.0)
    }

    /// Whether one of `other` is among them.
    pub fn has(self, other: Touched) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether it is [`Touched::NONE`].
    pub fn is_none(self) -> bool {
        self == Touched::NONE
    }

    /// What a batch touches. An event that has no effect counts as if it had one: only a process
    /// that can read the log knows better.
    pub(crate) fn of(batch: &Batch) -> Touched {
        batch.events.iter().map(of_event).fold(Touched::NONE, Touched::and)
    }
}

fn of_event(event: &Event) -> Touched {
    const FLAGGED: Touched = Touched(1 | 2);
    const CHANGED: Touched = Touched(1 | 2 | 256);
    const ADDED: Touched = Touched(1 | 2 | 4 | 256);
    match event {
        Event::MailboxCreated { .. }
        | Event::MailboxRenamed { .. }
        | Event::Subscribed { .. }
        | Event::Offered { .. }
        | Event::SpecialUsesSet { .. }
        | Event::HierarchyRenamed { .. }
        | Event::Found { .. } => Touched::MAILBOXES,
        Event::Delivered { report_on: Some(_), .. } => ADDED.and(Touched::SUBMISSIONS),
        Event::Delivered { .. }
        | Event::Appended { .. }
        | Event::Restored { .. }
        | Event::Replaced { .. } => ADDED,
        // A message without \Deleted becomes visible to JMAP, as a new one does.
        Event::FlagsStored { action: FlagAction::Remove, flags, .. }
            if flags.system.contains(SystemFlags::DELETED) =>
        {
            ADDED
        }
        // Without \Deleted the messages that JMAP shows stay the same, unless all flags are new ones.
        Event::FlagsStored { action: FlagAction::Add | FlagAction::Remove, flags, .. }
            if !flags.system.contains(SystemFlags::DELETED) =>
        {
            FLAGGED
        }
        Event::MailboxDeleted { .. }
        | Event::Linked { .. }
        | Event::Copied { .. }
        | Event::Moved { .. }
        | Event::FlagsStored { .. }
        | Event::Expunged { .. } => CHANGED,
        Event::AddressBookCreated { .. }
        | Event::AddressBookChanged { .. }
        | Event::DefaultAddressBookSet { .. } => Touched::ADDRESS_BOOKS,
        // Its cards go with it, or leave it.
        Event::AddressBookDeleted { .. } => Touched::ADDRESS_BOOKS.and(Touched::CARDS),
        Event::CardStored { .. } | Event::CardDeleted { .. } => Touched::CARDS,
        Event::Submitted { .. } | Event::SubmissionOutcome { .. } | Event::SubmissionRemoved { .. } => {
            Touched::SUBMISSIONS
        }
        Event::IdentityStored { .. } | Event::IdentityRemoved { .. } => Touched::IDENTITIES,
        Event::RecentTaken { .. } | Event::Purged { .. } | Event::UidValidityRaised { .. } => Touched::NONE,
        Event::ObjectPut { name, .. } | Event::ObjectRemoved { name } => of_object(name),
    }
}

fn of_object(name: &str) -> Touched {
    if sort_order::mailbox_of(name).is_some() {
        Touched::MAILBOXES
    } else if name.starts_with(metadata::PREFIX) {
        // No type of JMAP shows the metadata of IMAP.
        Touched::NONE
    } else {
        Touched::OBJECTS
    }
}

#[cfg(test)]
mod tests {
    use sealpost_base::{MailboxId, Timestamp, Uid, UidSet};

    use super::*;
    use crate::event::Flags;

    fn touched(event: Event) -> Touched {
        Touched::of(&Batch { at: Timestamp(0), events: vec![event] })
    }

    #[test]
    fn entries_name_the_kinds_of_objects_they_touch() {
        let mailbox = MailboxId(0);
        let uids = || UidSet::range(Uid::new(1).unwrap(), Uid::new(1).unwrap());
        let flags = |action, flag| {
            let flags = Flags::system(flag);
            touched(Event::FlagsStored { mailbox, uids: uids(), action, flags, unchanged_since: None })
        };
        let seen = flags(FlagAction::Add, SystemFlags::SEEN);
        assert_eq!(seen, Touched::EMAILS.and(Touched::MAILBOXES));
        assert!(flags(FlagAction::Add, SystemFlags::DELETED).has(Touched::THREADS));
        assert!(flags(FlagAction::Replace, SystemFlags::SEEN).has(Touched::THREADS));
        assert!(flags(FlagAction::Remove, SystemFlags::DELETED).has(Touched::DELIVERIES));
        assert_eq!(touched(Event::Subscribed { name: "a".into(), on: true }), Touched::MAILBOXES);
        let below = Uid::new(2).unwrap();
        assert!(touched(Event::RecentTaken { mailbox, below }).is_none());
        for (name, expected) in [
            ("sort-order/00000001", Touched::MAILBOXES),
            ("meta/00000001/private/comment", Touched::NONE),
            ("identity/1", Touched::OBJECTS),
        ] {
            assert_eq!(touched(Event::ObjectRemoved { name: name.into() }), expected, "{name}");
        }
        assert_eq!(Touched::MAILBOXES.and(Touched::EMAILS), Touched(3));
    }
}
