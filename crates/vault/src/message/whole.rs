//! Small messages that are there whole: sealed without waiting for anything, and many stored together.
//!
//! What comes of it is the compact object that a [`super::MessageWriter`] makes of the same message.

use sealpost_base::limits::{CHUNK_BYTES, INLINE_OBJECT_BYTES};
use sealpost_base::{AccountId, ObjectId, Result};

use crate::compress::Effort;
use crate::message::writer::put_own;
use crate::message::{self, Layout, MessageKey, RAW, STRUCTURE, TEXT};
use crate::{Put, Sealed, Store, chunk, cipher::Place};

/// A message's object that is not stored yet.
pub struct Whole {
    path: String,
    object: Sealed,
    layout: Layout,
}

impl Whole {
    /// Seals the object `object` of `account`; `None` if it is too large for this, and has to go through a
    /// [`super::MessageWriter`] with another key.
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
        if raw.len() > CHUNK_BYTES
            || text.len() > INLINE_OBJECT_BYTES
            || structure.len() > INLINE_OBJECT_BYTES
        {
            return None;
        }
        let cipher = message::cipher(account, object, key);
        let mut sealed = Vec::with_capacity(structure.len() + text.len() / 2 + raw.len() + 256);
        let sealed_structure = chunk::seal_section(&cipher, STRUCTURE, structure, &mut sealed);
        let sealed_text = chunk::seal_section(&cipher, TEXT, text, &mut sealed);
        let place = Place { section: RAW, number: 0, last: true };
        let sealed_raw = chunk::seal(&cipher, place, raw, &mut Effort::default(), &mut sealed);
        let layout = Layout {
            raw_bytes: raw.len() as u64,
            sealed_raw: sealed_raw as u64,
            sealed_text: u32::try_from(sealed_text).ok()?,
            sealed_structure: u32::try_from(sealed_structure).ok()?,
            sealed_index: 0,
        };
        if layout.object_bytes() > INLINE_OBJECT_BYTES as u64 {
            return None;
        }
        sealed.extend_from_slice(&layout.footer());
        Some(Whole { path: message::path(account, object), object: Sealed::new(sealed), layout })
    }

    /// Bytes of the object.
    pub fn size(&self) -> usize {
        self.object.len()
    }

    /// The sizes of its sections, for whoever refers to it.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Stores all of them, on the local backend as one transaction. All are durable when it returns.
    ///
    /// # Errors
    /// `Retry` if the store failed; any of them may then be there. `Conflict` if one was written before.
    pub async fn store(all: Vec<Whole>, store: &Store) -> Result<()> {
        let objects: Vec<_> = all.into_iter().map(|whole| (whole.path, whole.object)).collect();
        if store.put_all_new(&objects).await? == Put::Created {
            return Ok(());
        }
        // Which of them were there, and what they are, is known one by one.
        for (path, object) in objects {
            put_own(store, &path, object).await?;
        }
        Ok(())
    }
}
