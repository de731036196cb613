//! Expunged placements in their grace period, oldest first, packed.

use minicbor::{Decode, Encode};
use sealpost_base::{MailboxId, Timestamp, Uid};

use super::flags::FlagSetId;
use super::messages::MessageNumber;
use super::signed::{from_signed, to_signed};
use super::table::Table;

/// A placement that was expunged and is still in its grace period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Tombstone {
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

/// Tombstones in the order in which they were expunged.
#[derive(Clone, Default)]
pub(super) struct Tombstones(Table<5>);

impl Tombstone {
    fn pack(&self) -> [u64; 5] {
        let numbers = [self.message.0, self.mailbox.0, self.uid.get(), self.flags.0].map(u64::from);
        [numbers[0], numbers[1], numbers[2], numbers[3], from_signed(self.at.0)]
    }

    fn unpack([message, mailbox, uid, flags, at]: [u64; 5]) -> Self {
        Tombstone {
            message: MessageNumber(message as u32),
            mailbox: MailboxId(mailbox as u32),
            uid: Uid::new(uid as u32).unwrap_or(Uid::MIN),
            flags: FlagSetId(flags as u32),
            at: Timestamp(to_signed(at)),
        }
    }
}

impl Tombstones {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Tombstone> + '_ {
        self.0.iter().map(Tombstone::unpack)
    }

    /// Those from the `n`-th on.
    pub(super) fn iter_from(&self, n: usize) -> impl Iterator<Item = Tombstone> + '_ {
        self.0.iter_from(n).map(Tombstone::unpack)
    }

    pub(super) fn push(&mut self, tombstone: &Tombstone) {
        self.0.push(tombstone.pack());
    }

    pub(super) fn extend(&mut self, tombstone: impl IntoIterator<Item = Tombstone>) {
        self.0.extend(tombstone.into_iter().map(|tombstone| tombstone.pack()));
    }

    /// Passes all to `keep`, which may change them, and keeps those for which it returns true.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&mut Tombstone) -> bool) {
        self.0.retain(|row| {
            let mut tombstone = Tombstone::unpack(*row);
            let keeps = keep(&mut tombstone);
            *row = tombstone.pack();
            keeps
        });
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }
}
