//! Expunged placements in their grace period, oldest first, packed.

use minicbor::{Decode, Encode};
use sealpost_base::{MailboxId, Timestamp, Uid};

use super::flags::FlagSetId;
use super::messages::MessageNumber;
use super::signed::{from_signed, to_signed};
use super::table::Table;

/// A placement that was expunged and is still in its grace period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Buried {
    /// The message.
    #[n(0)]
    pub message: MessageNumber,
    /// Where it was; that mailbox may be gone too.
    #[n(1)]
    pub mailbox: MailboxId,
    /// The UID it had there.
    #[n(2)]
    pub uid: Uid,
    /// The flags it had.
    #[n(3)]
    pub flags: FlagSetId,
    /// When it was expunged.
    #[n(4)]
    pub at: Timestamp,
}

/// Buried placements in the order in which they were expunged.
#[derive(Clone, Default)]
pub(super) struct Graveyard(Table<5>);

impl Buried {
    fn pack(&self) -> [u64; 5] {
        let numbers = [self.message.0, self.mailbox.0, self.uid.get(), self.flags.0].map(u64::from);
        [numbers[0], numbers[1], numbers[2], numbers[3], from_signed(self.at.0)]
    }

    fn unpack([message, mailbox, uid, flags, at]: [u64; 5]) -> Self {
        Buried {
            message: MessageNumber(message as u32),
            mailbox: MailboxId(mailbox as u32),
            uid: Uid::new(uid as u32).unwrap_or(Uid::MIN),
            flags: FlagSetId(flags as u32),
            at: Timestamp(to_signed(at)),
        }
    }
}

impl Graveyard {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Buried> + '_ {
        self.0.iter().map(Buried::unpack)
    }

    /// Those from the `n`-th on.
    pub(super) fn iter_from(&self, n: usize) -> impl Iterator<Item = Buried> + '_ {
        self.0.iter_from(n).map(Buried::unpack)
    }

    pub(super) fn push(&mut self, buried: &Buried) {
        self.0.push(buried.pack());
    }

    pub(super) fn extend(&mut self, buried: impl IntoIterator<Item = Buried>) {
        self.0.extend(buried.into_iter().map(|buried| buried.pack()));
    }

    /// Shows all to `keep`, which may change them, and keeps those for which it says so.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&mut Buried) -> bool) {
        self.0.retain(|row| {
            let mut buried = Buried::unpack(*row);
            let keeps = keep(&mut buried);
            *row = buried.pack();
            keeps
        });
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }
}
