//! Packs: what of many messages is asked for together, in one object of a few MiB, so that a remote store is asked tens of times
//! for a thousand messages and not a thousand times.
//!
//! There are two kinds: whole small messages, and the structures of all messages. Both hold the sealed octets as they are in
//! the messages' objects. They are derived: a pack that is missing, damaged or behind costs requests and nothing else, and a piece is
//! used only if the account's message of that number still is that object. What was purged is gone from the packs with
//! the same round that removes its object.
//!
//! Format: `docs/format/pack.md`. Reasons: `docs/decisions/0033-packs.md`.

mod make;
mod reads;
mod tidy;
mod verify;

use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::TryStreamExt;
use sealpost_base::{AccountId, Result, limits};
use sealpost_vault::pack;
use tokio::sync::Mutex as AsyncMutex;

use crate::account::Account;
use crate::event::Message;
use crate::summary::{Known, SegmentName, Stored};

pub use reads::PackReads;
pub use verify::verify;

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

    fn folder(self) -> &'static str {
        match self {
            Packed::Structures => "structure",
            Packed::Messages => "message",
        }
    }

    fn path(self, account: AccountId, name: SegmentName) -> String {
        format!("{}/{}/{name}", pack::prefix(account), self.folder())
    }

    /// Octets of the message in a pack of this kind; `None` if it has no place in one.
    fn size(self, message: &Message) -> Option<u64> {
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
    /// Held by whoever makes or removes packs, so that one process does not do it twice at once.
    change: AsyncMutex<()>,
    making: AtomicBool,
    /// Messages below this number were looked at.
    seen: AtomicU32,
}

impl Packs {
    fn known(&self, kind: Packed) -> MutexGuard<'_, Arc<Known>> {
        let known = match kind {
            Packed::Structures => &self.structures,
            Packed::Messages => &self.messages,
        };
        known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, kind: Packed, stored: Stored) {
        let mut known = self.known(kind);
        let all = known.segments().iter().copied().chain([stored]).collect();
        *known = Arc::new(Known::new(known.listed, all));
    }

    fn forget(&self, kind: Packed, name: SegmentName) {
        let mut known = self.known(kind);
        let others = known.segments().iter().copied().filter(|stored| stored.name != name).collect();
        *known = Arc::new(Known::new(known.listed, others));
    }
}

impl Account {
    /// The packs of that kind, listed if they never were.
    async fn packs_of(&self, kind: Packed) -> Result<Arc<Known>> {
        let known = self.packs.known(kind).clone();
        if !known.listed {
            self.list_packs().await?;
        }
        Ok(self.packs.known(kind).clone())
    }

    /// Lists the packs as they are in the store now: both kinds, one request.
    async fn list_packs(&self) -> Result<()> {
        let mut found = Packed::ALL.map(|kind| (kind, Vec::new()));
        let mut listed = self.store().list(&pack::prefix(self.id()), None);
        while let Some(object) = listed.try_next().await? {
            let Some((kind, name)) = parse(&object.path) else { continue };
            let stored = Stored { name, bytes: object.size };
            found.iter_mut().filter(|(other, _)| *other == kind).for_each(|(_, packs)| packs.push(stored));
        }
        for (kind, packs) in found {
            *self.packs.known(kind) = Arc::new(Known::new(true, packs));
        }
        Ok(())
    }

    async fn remove_pack(&self, kind: Packed, name: SegmentName) -> Result<()> {
        self.packs.forget(kind, name);
        self.store().delete(&kind.path(self.id(), name)).await
    }
}

/// What a path says about a pack.
fn parse(path: &str) -> Option<(Packed, SegmentName)> {
    let mut parts = path.rsplit('/');
    let name = parts.next()?.parse().ok()?;
    let folder = parts.next()?;
    Some((Packed::ALL.into_iter().find(|kind| kind.folder() == folder)?, name))
}
