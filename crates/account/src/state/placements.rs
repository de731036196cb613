//! What is to be placed in a mailbox.

use super::flags::FlagSetId;
use super::messages::MessageNumber;
use super::table::Table;

/// Messages with their flags, to be placed together, packed: they may be all of a mailbox.
#[derive(Default)]
pub(super) struct Placements(Table<2>);

impl Placements {
    pub(super) fn one(message: MessageNumber, flags: FlagSetId) -> Self {
        let mut one = Self::default();
        one.push(message, flags);
        one
    }

    pub(super) fn push(&mut self, message: MessageNumber, flags: FlagSetId) {
        self.0.push([u64::from(message.0), u64::from(flags.0)]);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (MessageNumber, FlagSetId)> + '_ {
        self.0.iter().map(|[message, flags]| (MessageNumber(message as u32), FlagSetId(flags as u32)))
    }
}
