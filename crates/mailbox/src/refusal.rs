//! Why an operation was refused, where a protocol may have an answer of its own. All others are
//! errors of `base`, whose kind is enough.

use sealpost_base::{Error, Uid};
use sealpost_directory::Resource;

/// There is not enough of this resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverQuota(pub Resource);

/// The mailbox was deleted, its UIDs mean something else now, or it may not be read any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MailboxGone;

/// Why an operation was refused. It changed nothing, except where a variant says so.
#[derive(Debug)]
pub enum Refusal {
    /// The account that the operation counts for may not have more of a resource.
    OverQuota(OverQuota),
    /// The mailbox that messages go into does not exist, or takes none from this user. Creating it may help.
    NoTarget,
    /// The mailbox that a client has open is gone, or may not be read any more.
    SourceGone,
    /// The name is no mailbox, only a name above others.
    NonexistentParent,
    /// Only a user's own mailboxes have special uses.
    SpecialUseOfOther,
    /// Some of the messages no longer exist.
    MessagesGone,
    /// A message has more than this many bytes, the most that the server takes.
    TooBig(u64),
    /// A message has no bytes.
    Empty,
    /// Others hold the memory for so many messages for too long; the client may retry.
    NoMemory,
    /// The message with this UID is damaged, so none was copied.
    Damaged(Uid),
    /// The messages are in the target, and also still where they were: they could not be expunged there.
    NotExpunged(Error),
    /// Anything else.
    Error(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Refusal::Error(error)
    }
}

impl From<OverQuota> for Refusal {
    fn from(over: OverQuota) -> Self {
        Refusal::OverQuota(over)
    }
}

impl From<MailboxGone> for Refusal {
    fn from(MailboxGone: MailboxGone) -> Self {
        Refusal::SourceGone
    }
}
