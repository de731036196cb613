//! Packs that this process knows of.

use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sealpost_base::{AccountId, limits};
use sealpost_vault::pack;
use tokio::sync::Mutex as AsyncMutex;

use crate::summary::{Known, SegmentName, Stored};
use sealpost_account::Message;

/// What of its messages a pack holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Packed {
    /// The structure, which is all that FETCH needs to say what a message is like.
    Structures,
    /// The whole object, of small messages.
    Messages,
}

impl Packed {
    /// Both.
    pub const ALL: [Packed; 2] = [Packed::Structures, Packed::Messages];

    pub(super) fn folder(self) -> &'static str {
        match self {
            Packed::Structures => "structure",
            Packed::Messages => "message",
        }
    }

    pub(super) fn path(self, account: AccountId, name: SegmentName) -> String {
        format!("{}/{}/{name}", pack::prefix(account), self.folder())
    }

    /// Bytes of the message in a pack of this kind; `None` if it has no place in one.
    pub(super) fn size(self, message: &Message) -> Option<u64> {
        let (size, most) = match self {
            Packed::Structures => (u64::from(message.layout.sealed_structure), limits::PACK_BYTES),
            Packed::Messages => (message.layout.object_bytes(), limits::PACKED_MESSAGE_BYTES),
        };
        (size <= most as u64).then_some(size)
    }
}

/// The packs of a loaded account, as far as this process knows.
#[derive(Default)]
pub(crate) struct Packs {
    structures: Mutex<Arc<Known>>,
    messages: Mutex<Arc<Known>>,
    /// Held while packs are made or removed, so that one process does not do it twice at once.
    pub(super) change: AsyncMutex<()>,
    pub(super) making: AtomicBool,
    /// Messages below this number were examined.
    pub(super) examined: AtomicU32,
}

impl Packs {
    pub(super) fn known(&self, kind: Packed) -> MutexGuard<'_, Arc<Known>> {
        let known = match kind {
            Packed::Structures => &self.structures,
            Packed::Messages => &self.messages,
        };
        known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, kind: Packed, stored: Stored) {
        let mut known = self.known(kind);
        let all = known.segments().iter().copied().chain([stored]).collect();
        *known = Arc::new(Known::new(known.listed, all));
    }

    pub(super) fn forget(&self, kind: Packed, name: SegmentName) {
        let mut known = self.known(kind);
        let others = known.segments().iter().copied().filter(|stored| stored.name != name).collect();
        *known = Arc::new(Known::new(known.listed, others));
    }
}
