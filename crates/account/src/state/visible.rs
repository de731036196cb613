//! Which messages JMAP sees: those with a **visible** placement, one that is not flagged `\Deleted`
//! (RFC 8621 §4.1.1); when each became visible, and which have gone.
//!
//! Every change of a visible placement passes here. A message that loses its last one leaves a
//! tombstone, with the position at which it had become visible, so that its removal can be reported
//! to a client from any later position ([`super::changes`]).

use sealpost_base::{ObjectId, Position};

use super::bounded::Bounded;
use super::messages::{MessageNumber, MessageTable};
use crate::event::SystemFlags;
use crate::thread::ThreadId;

/// What has gone lately, and from where.
#[derive(Clone, Default)]
pub(super) struct Departed {
    /// Messages that lost their last visible placement.
    pub(super) messages: Bounded<5>,
    /// Messages that lost a visible placement and have another: position and number.
    pub(super) parted: Bounded<2>,
    /// Mailboxes that were deleted: when, when they were made, their UIDVALIDITY.
    pub(super) mailboxes: Bounded<3>,
    /// When a message became visible last, of those that have not gone since. No part of a checkpoint:
    /// known once there are maps.
    pub(super) appeared: Position,
}

/// A message that nothing visible points to since that position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    /// When it lost its last visible placement.
    pub at: Position,
    /// When it had got its first one.
    pub appeared: Position,
    /// The object that first held it, which its EMAILID names.
    pub object: ObjectId,
    /// The thread it belongs to.
    pub thread: ThreadId,
}

impl Departure {
    fn pack(&self) -> [u64; 5] {
        let object = u128::from_be_bytes(self.object.0);
        [self.at.0, self.appeared.0, (object >> 64) as u64, object as u64, self.thread.0]
    }

    pub(super) fn unpack([at, appeared, high, low, thread]: [u64; 5]) -> Self {
        let object = u128::from(high) << 64 | u128::from(low);
        Departure {
            at: Position(at),
            appeared: Position(appeared),
            object: ObjectId(object.to_be_bytes()),
            thread: ThreadId(thread),
        }
    }
}

impl Departed {
    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.messages.heap_bytes() + self.parted.heap_bytes() + self.mailboxes.heap_bytes()
    }

    /// Ids that clients know mean something else, or nothing: all before `position` is too long ago.
    pub(super) fn forget_all(&mut self, position: Position) {
        self.messages.forget_up_to(position);
        self.parted.forget_up_to(position);
        self.mailboxes.forget_up_to(position);
    }
}

/// Whether a placement with these flags is visible.
pub(super) fn shows(flags: SystemFlags) -> bool {
    !flags.contains(SystemFlags::DELETED)
}

/// What changes when visible placements come and go at one position.
pub(super) struct Visibility<'a> {
    pub(super) messages: &'a mut MessageTable,
    pub(super) departed: &'a mut Departed,
    pub(super) at: Position,
}

impl Visibility<'_> {
    /// One more visible placement points to the message.
    pub(super) fn gain(&mut self, message: MessageNumber) {
        let before = self.messages.visible(message);
        if before == 0 {
            self.messages.set_appeared(message, self.at);
            self.departed.appeared = self.at;
        }
        self.messages.set_visible(message, before.saturating_add(1));
    }

    /// One visible placement fewer points to the message.
    pub(super) fn lose(&mut self, message: MessageNumber) {
        if self.take(message) {
            self.departed.parted.push([self.at.0, u64::from(message.0)]);
        }
    }

    /// As [`Visibility::lose`], for one that another replaces: no tombstone is needed.
    pub(super) fn moved(&mut self, message: MessageNumber) {
        self.take(message);
    }

    /// Whether a visible placement is left.
    fn take(&mut self, message: MessageNumber) -> bool {
        let left = self.messages.visible(message).saturating_sub(1);
        self.messages.set_visible(message, left);
        if left == 0
            && let Some(object) = self.messages.first_object(message)
        {
            let (appeared, thread) = (self.messages.appeared(message), self.messages.thread(message));
            let thread = thread.unwrap_or(ThreadId(0));
            self.departed.messages.push(Departure { at: self.at, appeared, object, thread }.pack());
        }
        left > 0
    }
}
