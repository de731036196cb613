//! A mailbox as an observer knows it, and the difference from its present state.

use sealpost_account::AccountState;
use sealpost_account::state::Mailbox;
use sealpost_base::{ModSeq, Uid, UidValidity};

/// A mailbox as an observer knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailboxDigest {
    /// Its name.
    pub name: String,
    /// Whether the user is subscribed to the name.
    pub subscribed: bool,
    /// Whether its messages are in another log.
    pub link: bool,
    uid_validity: UidValidity,
    uid_next: Uid,
    messages: usize,
    unseen: usize,
    highest_modseq: ModSeq,
}

/// The difference of a mailbox's messages from an observer's known state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MessagesChange {
    /// UIDVALIDITY changed.
    pub validity: bool,
    /// Messages were added or expunged.
    pub counts: bool,
    /// The number of messages without `\Seen` changed.
    pub unseen: bool,
    /// Any message was added, expunged or changed.
    pub any: bool,
}

impl MailboxDigest {
    /// The digest of a mailbox.
    pub fn new(state: &AccountState, mailbox: &Mailbox) -> Self {
        MailboxDigest {
            name: mailbox.name().to_owned(),
            subscribed: state.is_subscribed(mailbox.name()),
            link: mailbox.link().is_some(),
            uid_validity: mailbox.uid_validity(),
            uid_next: mailbox.uid_next(),
            messages: mailbox.len(),
            unseen: mailbox.unseen(),
            highest_modseq: mailbox.highest_modseq(),
        }
    }

    /// The digest of a share's mailbox, under this user's name for it.
    pub fn of_share(share: &AccountState, name: String, subscribed: bool) -> Self {
        MailboxDigest { name, subscribed, ..MailboxDigest::new(share, share.inbox()) }
    }

    /// The difference of the messages in `now`.
    pub fn compare(&self, now: &MailboxDigest) -> MessagesChange {
        MessagesChange {
            validity: self.uid_validity != now.uid_validity,
            counts: (self.uid_next, self.messages) != (now.uid_next, now.messages),
            unseen: self.unseen != now.unseen,
            any: self.highest_modseq != now.highest_modseq,
        }
    }
}
