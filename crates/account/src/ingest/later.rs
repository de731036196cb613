//! Messages that arrive one after another, piece by piece. Small ones become durable together: one fsync, or
//! one round trip, for tens of them.

use sealpost_base::Result;
use sealpost_vault::Store;
use sealpost_vault::message::{Finished, SealedMessage};

use super::{Ingest, Scanned, Stored, scanned};

/// Complete small messages of an account that are not stored yet. If it is dropped before [`Later::store`],
/// nothing of them remains.
pub struct Later {
    store: Store,
    waiting: Vec<SealedMessage>,
}

impl Later {
    /// The most bytes that it holds.
    pub const BYTES: usize = 48 * 1024;
    /// Objects larger than this are stored when their message is complete.
    const OBJECT_BYTES: usize = 16 * 1024;

    pub(crate) fn new(store: Store) -> Self {
        Later { store, waiting: Vec::new() }
    }

    /// Stores all messages. Durable when it returns.
    ///
    /// # Errors
    /// Store errors.
    pub async fn store(&mut self) -> Result<()> {
        match std::mem::take(&mut self.waiting) {
            none if none.is_empty() => Ok(()),
            waiting => SealedMessage::store(waiting, &self.store).await,
        }
    }

    /// Adds a message. Stores a large one directly, and earlier ones if all together would exceed the limit.
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
    /// Seals the rest of the message, with its text and structure. It is durable once `later` is stored.
    ///
    /// # Errors
    /// Store errors; nothing remains then, and `later` must not be used again.
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
