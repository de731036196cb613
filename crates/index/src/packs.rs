//! Packs: the pieces of many messages that clients request together, in one object of a few MiB, so
//! that a thousand messages take tens of requests to a remote store and not a thousand.
//!
//! There are two kinds: whole small messages, and the structures of all messages. Both hold the
//! sealed bytes as they are in the messages' objects. They are derived: a pack that is missing,
//! damaged or behind costs requests and nothing else, and a piece is used only if the account's
//! message of that number still is that object. What was purged is gone from the packs with the
//! same round that removes its object.
//!
//! Format: `docs/format/pack.md`. Reasons: `docs/decisions/0033-packs.md`.

mod compaction;
mod known;
mod make;
mod reads;
mod verify;

use std::sync::Arc;

use futures::TryStreamExt;
use sealpost_base::Result;
use sealpost_vault::pack;

use crate::Index;
use crate::summary::{Known, SegmentName, Stored};

pub use known::Packed;
pub(crate) use known::Packs;
pub use reads::PackReads;
pub use verify::verify;

impl Index {
    /// The packs of that kind, listed if they never were.
    async fn packs_of(&self, kind: Packed) -> Result<Arc<Known>> {
        let known = self.derived.packs.known(kind).clone();
        if !known.listed {
            self.list_packs().await?;
        }
        Ok(self.derived.packs.known(kind).clone())
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
            *self.derived.packs.known(kind) = Arc::new(Known::new(true, packs));
        }
        Ok(())
    }

    async fn remove_pack(&self, kind: Packed, name: SegmentName) -> Result<()> {
        self.derived.packs.forget(kind, name);
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
