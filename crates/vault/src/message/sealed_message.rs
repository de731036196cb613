//! Messages that are there whole: sealed without waiting for anything, and many stored together.
//!
//! What comes of it is the object that a [`super::MessageWriter`] makes of the same message.

use bytes::Bytes;
use sealpost_base::limits::{CHUNK_BYTES, INLINE_OBJECT_BYTES};
use sealpost_base::{AccountId, Error, ObjectId, Result};

use crate::compress::Effort;
use crate::message::writer::put_own;
use crate::message::{
    self, FOOTER_BYTES, INDEX, INDEX_ENTRY_BYTES, Layout, MessageKey, RAW, SECTION_BYTES, STRUCTURE, TEXT,
    footer,
};
use crate::{Batch, Put, Sealed, Store, chunk, cipher::PiecePosition};

/// A message's object that is not stored yet.
pub struct SealedMessage {
    path: String,
    /// As it is stored, but for its footer.
    object: Vec<u8>,
    layout: Layout,
}

impl SealedMessage {
    /// The largest message that is sealed whole.
    pub const MESSAGE_BYTES: usize = 1024 * 1024;

    /// Seals the object `object` of `account`; `None` if it is too large for this
    /// ([`SealedMessage::MESSAGE_BYTES`]), and has to go through a [`super::MessageWriter`] with
    /// another key.
    ///
    /// `key` must be fresh: no other object may ever be written with it.
    pub fn seal(
        account: AccountId,
        object: ObjectId,
        key: &MessageKey,
        raw: &[u8],
        text: &[u8],
        structure: &[u8],
    ) -> Option<Self> {
        if raw.len() > Self::MESSAGE_BYTES || text.len() > SECTION_BYTES || structure.len() > SECTION_BYTES {
            return None;
        }
        let cipher = message::cipher(account, object, key);
        let chunks = raw.len().div_ceil(CHUNK_BYTES).max(1);
        let beside = chunks * (chunk::OVERHEAD_BYTES + INDEX_ENTRY_BYTES) + 4 * chunk::MAX_PADDING_BYTES;
        let mut sealed = Vec::with_capacity(structure.len() + text.len() / 2 + raw.len() + beside);
        let sealed_structure = chunk::seal_section(&cipher, STRUCTURE, structure, &mut sealed);
        let sealed_text = chunk::seal_section(&cipher, TEXT, text, &mut sealed);
        let front = sealed.len();
        let (mut effort, mut index) = (Effort::of_message(), Vec::with_capacity(chunks * INDEX_ENTRY_BYTES));
        for number in 0..chunks {
            let piece = &raw[number * CHUNK_BYTES..raw.len().min((number + 1) * CHUNK_BYTES)];
            let place = PiecePosition { section: RAW, number: number as u32, last: number + 1 == chunks };
            let size = chunk::seal(&cipher, place, piece, &mut effort, &mut sealed);
            index.extend_from_slice(&(size as u32).to_be_bytes()[1..]);
        }
        let mut layout = Layout {
            raw_bytes: raw.len() as u64,
            sealed_raw: (sealed.len() - front) as u64,
            sealed_text: u32::try_from(sealed_text).ok()?,
            sealed_structure: u32::try_from(sealed_structure).ok()?,
            sealed_index: 0,
        };
        if layout.object_bytes() > INLINE_OBJECT_BYTES as u64 {
            // As of one that was sealed while it arrived: raw, text, structure.
            sealed.rotate_left(front);
            let raw_end = sealed.len() - front;
            sealed[raw_end..].rotate_left(sealed_structure);
            layout.sealed_index = chunk::seal_section(&cipher, INDEX, &index, &mut sealed) as u32;
        }
        Some(SealedMessage { path: message::path(account, object), object: sealed, layout })
    }

    pub(super) fn new(path: String, object: Vec<u8>, layout: Layout) -> Self {
        SealedMessage { path, object, layout }
    }

    fn into_object(mut self, store: &Store) -> (String, Sealed) {
        let footer = footer::of(store, &self.path, footer::MAGIC, self.layout.raw_bytes);
        self.object.extend_from_slice(&footer);
        (self.path, Sealed::new(self.object))
    }

    /// Stores it. It is durable when it returns.
    ///
    /// # Errors
    /// As [`SealedMessage::store`].
    pub(super) async fn put(self, store: &Store) -> Result<()> {
        let (path, object) = self.into_object(store);
        put_own(store, &path, object).await
    }

    /// Bytes of the object.
    pub fn size(&self) -> usize {
        self.object.len() + FOOTER_BYTES
    }

    /// The sizes of its sections, for the event that refers to it.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Its sealed structure.
    pub(super) fn sealed_structure(&self) -> Bytes {
        let range = self.layout.range(STRUCTURE);
        Bytes::copy_from_slice(&self.object[range.start as usize..range.end as usize])
    }

    /// Stores all of them. All are durable when it returns.
    ///
    /// # Errors
    /// `Retry` if the store failed; any of them may then be there. `Conflict` if one was written before.
    pub async fn store(all: Vec<SealedMessage>, store: &Store) -> Result<()> {
        let batch = store.batch();
        Self::add(all, &batch, store).await?;
        Self::finish(batch).await
    }

    /// Puts all of them into a batch of `store`; they are durable when that is.
    ///
    /// # Errors
    /// As [`SealedMessage::store`]; the batch is of no more use then.
    pub async fn add(all: Vec<SealedMessage>, batch: &Batch, store: &Store) -> Result<()> {
        let objects = all.into_iter().map(|whole| whole.into_object(store));
        if store.is_local() {
            return batch.add(objects.collect()).await.map(drop);
        }
        let objects: Vec<_> = objects.collect();
        if batch.add(objects.clone()).await? == Put::Exists {
            // Backends repeat writes whose reply was lost. Which of them were there, and what they
            // are, is known one by one.
            for (path, object) in objects {
                put_own(store, &path, object).await?;
            }
        }
        Ok(())
    }

    /// Makes the messages of the batch durable.
    ///
    /// # Errors
    /// As [`SealedMessage::store`].
    pub async fn finish(batch: Batch) -> Result<()> {
        match batch.finish().await? {
            Put::Created => Ok(()),
            Put::Exists => Err(Error::conflict("a message of a batch was written before")),
        }
    }
}
