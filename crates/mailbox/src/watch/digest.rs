//! A mailbox as an observer knows it, and how its messages differ by now.

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

/// How the messages of a mailbox differ from an observer's known state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MessagesChange {
    /// UIDs mean something else now.
    pub validity: bool,
    /// Messages came or went.
    pub counts: bool,
    /// The number of messages that are not `\StoreMoment` is another one.
    pub unseen: bool,
    /// Any message came, went or changed.
    pub any: bool,
}

impl MailboxDigest {
    /// The mailbox as it is.
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

    /// The mailbox of a share as it is, under the name that it has for this user.
    pub fn of_share(share: &AccountState, name: String, subscribed: bool) -> Self {
        MailboxDigest { name, subscribed, ..MailboxDigest::new(share, share.inbox()) }
    }

    /// How the messages differ in the mailbox's present state.
    pub fn compare(&self, now: &MailboxDigest) -> MessagesChange {
        MessagesChange {
            validity: self.uid_validity != now.uid_validity,
            counts: (self.uid_next, self.messages) != (now.uid_next, now.messages),
            unseen: self.unseen != now.unseen,
            any: self.highest_modseq != now.highest_modseq,
        }
    }
}
