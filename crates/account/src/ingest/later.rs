//! Messages that come in one after the other, piece by piece, and of which the small ones become
//! durable together: one wait for the disk, or one round trip, for tens of them.

use sealpost_base::Result;
use sealpost_vault::Store;
use sealpost_vault::message::{Finished, SealedMessage};

use super::{Ingest, Scanned, Stored, scanned};

/// Small messages of an account that are all there, and not stored yet. Dropped before
/// [`Later::store`], nothing of them is left.
pub struct Later {
    store: Store,
    waiting: Vec<SealedMessage>,
}

impl Later {
    /// What it holds at most, in bytes.
    pub const BYTES: usize = 48 * 1024;
    /// An object that is larger is stored when its message is all there.
    const OBJECT_BYTES: usize = 16 * 1024;

    pub(crate) fn new(store: Store) -> Self {
        Later { store, waiting: Vec::new() }
    }

    /// Stores what waits. Durable when it returns.
    ///
    /// # Errors
    /// What the store says.
    pub async fn store(&mut self) -> Result<()> {
        match std::mem::take(&mut self.waiting) {
            none if none.is_empty() => Ok(()),
            waiting => SealedMessage::store(waiting, &self.store).await,
        }
    }

    /// Takes one, which is stored at once if it is large; stores those before it if they would be
    /// too many together.
    async fn add(&mut self, whole: SealedMessage) -> Result<()> {
        if whole.size() > Self::OBJECT_BYTES {
            return SealedMessage::store(vec![whole], &self.store).await;
        }
        if self.waiting.iter().map(SealedMessage::size).sum::<usize>() + whole.size() > Self::BYTES {
            self.store().await?;
        }
        self.waiting.push(whole);
        Ok(())
    }
}

impl Ingest {
    /// Seals what is left of it, with its text and structure. It is durable when `later` is stored.
    ///
    /// # Errors
    /// What the store says; nothing is left behind then, and `later` is of no more use.
    pub async fn finish_later(self, later: &mut Later) -> Result<Stored> {
        let Scanned { text, structure, threading } = scanned(self.scanner, self.object);
        let layout = match self.writer.seal(&text, &structure).await? {
            Finished::Durable(layout, _) => layout,
            Finished::Sealed(whole, _drawn) => {
                let layout = whole.layout();
                later.add(whole).await?;
                layout
            }
        };
        Ok(Stored::new(self.object, self.key, layout, threading, self.age))
    }
}
