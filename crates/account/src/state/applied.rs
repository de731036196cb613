//! [`Applied`]: what an event did to the state.

use sealpost_base::{MailboxId, UidSet, UidValidity};

use crate::contacts::{AddressBookId, CardId};

/// What an event did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// Nothing: what it refers to is gone, or it was so already.
    Nothing,
    /// Something with nothing to tell.
    Done,
    /// A mailbox was made.
    Created(MailboxId),
    /// Messages were placed in a mailbox.
    Placed {
        /// Where.
        mailbox: MailboxId,
        /// UIDVALIDITY there.
        uid_validity: UidValidity,
        /// The UIDs they had where they came from, ascending; empty for new messages. For one that
        /// replaced another, the other's.
        from: UidSet,
        /// Their UIDs, ascending, in the same order.
        uids: UidSet,
    },
    /// Flags were stored.
    Stored {
        /// Messages whose flags are now different.
        changed: UidSet,
        /// Messages left alone because they changed after `unchanged_since` (RFC 7162 §3.1.3 MODIFIED).
        modified: UidSet,
    },
    /// Messages went away.
    Removed(UidSet),
    /// An address book was made.
    AddressBook(AddressBookId),
    /// A contact card was made or replaced.
    Card(CardId),
}
