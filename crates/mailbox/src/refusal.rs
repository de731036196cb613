//! Why an operation was refused, for cases in which a protocol may have a reply of its own. All others are
//! errors of `base`, whose kind decides the reply.

use sealpost_base::{Error, Uid};
use sealpost_directory::Resource;

/// This resource is exhausted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverQuota(pub Resource);

/// The mailbox was deleted, its UIDs have a new meaning, or the user may no longer read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MailboxGone;

/// Why an operation was refused. It changed nothing, unless a variant says so.
#[derive(Debug)]
pub enum Refusal {
    /// The account for which the operation counts may not use more of a resource.
    OverQuota(OverQuota),
    /// The target mailbox does not exist, or this user may not insert there. Creating it may help.
    NoTarget,
    /// The mailbox that a client has open was deleted, or may no longer be read.
    SourceGone,
    /// The name is a nonexistent parent.
    NonexistentParent,
    /// Only a user's own mailboxes have special uses.
    SpecialUseOfOther,
    /// Some of the messages no longer exist.
    MessagesGone,
    /// A message exceeds the maximum size, which is this many bytes.
    TooBig(u64),
    /// A message has no bytes.
    Empty,
    /// Other requests have held the memory for so many messages for too long; the client may retry.
    NoMemory,
    /// The message with this UID is damaged, so none was copied.
    Damaged(Uid),
    /// The messages are in the target and also in the source, where they could not be expunged.
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
