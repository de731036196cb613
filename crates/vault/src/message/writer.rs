//! Seals a message while it arrives.
//!
//! Small messages are collected and written as one object at the end. As soon as the sealed bytes pass
//! [`INLINE_OBJECT_BYTES`] the object becomes an upload in parts: from then on one chunk fills while the one
//! before is compressed, sealed and written on other threads.

use bytes::Bytes;
use sealpost_base::limits::{CHUNK_BYTES, INLINE_OBJECT_BYTES};
use sealpost_base::{AccountId, Budget, Error, ObjectId, Permit, Result};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::cipher::{ObjectCipher, PiecePosition};
use crate::compress::Effort;
use crate::message::{
    self, INDEX, Layout, MessageKey, RAW, SECTION_BYTES, STRUCTURE, SealedMessage, TEXT, footer,
};
use crate::store::Upload;
use crate::{Put, Sealed, Store, chunk};

/// What a writer draws from the budget: a chunk that fills, one that is sealed, one that is written.
pub const WRITER_BYTES: usize = 3 * CHUNK_BYTES;

/// Writes one message object. Dropped before [`MessageWriter::finish`], it leaves nothing behind.
pub struct MessageWriter {
    store: Store,
    plain: Vec<u8>,
    raw_bytes: u64,
    stage: Stage,
}

/// What came of a message that is all there.
pub enum Finished {
    /// Its object is small, and not stored yet; the memory that was drawn for it.
    Sealed(SealedMessage, Option<Permit>),
    /// It is durable; its sealed structure.
    Durable(Layout, Bytes),
}

enum Stage {
    Idle(Box<Sink>),
    Busy(JoinHandle<Result<Box<Sink>>>),
    Failed,
}

impl MessageWriter {
    /// Starts the object `object` of `account`; waits for [`WRITER_BYTES`] of budget.
    ///
    /// `key` must be fresh: no other object may ever be written with it.
    pub async fn new(
        store: &Store,
        account: AccountId,
        object: ObjectId,
        key: &MessageKey,
        budget: &Budget,
    ) -> Result<Self> {
        Self::beside(store, account, object, key, budget, 0).await
    }

    /// As [`MessageWriter::new`]; `beside` more bytes are drawn from the budget, for buffers of the caller's.
    pub async fn beside(
        store: &Store,
        account: AccountId,
        object: ObjectId,
        key: &MessageKey,
        budget: &Budget,
        beside: usize,
    ) -> Result<Self> {
        let path = message::path(account, object);
        Self::at(store, path, message::cipher(account, object, key), budget, beside).await
    }

    pub(crate) async fn at(
        store: &Store,
        path: String,
        cipher: ObjectCipher,
        budget: &Budget,
        beside: usize,
    ) -> Result<Self> {
        Self::with(store, path, cipher, budget, beside, Effort::of_message()).await
    }

    pub(crate) async fn with(
        store: &Store,
        path: String,
        cipher: ObjectCipher,
        budget: &Budget,
        beside: usize,
        effort: Effort,
    ) -> Result<Self> {
        let permit = budget.acquire(WRITER_BYTES + beside).await;
        let sink = Sink {
            store: store.clone(),
            path,
            cipher,
            budget: budget.clone(),
            beside,
            permit: Some(permit),
            effort,
            pending: Vec::new(),
            sizes: Vec::new(),
            sealed_raw: 0,
            upload: None,
        };
        let store = store.clone();
        Ok(MessageWriter { store, plain: Vec::new(), raw_bytes: 0, stage: Stage::Idle(Box::new(sink)) })
    }

    /// Bytes written so far.
    pub fn size(&self) -> u64 {
        self.raw_bytes
    }

    /// Takes the next bytes of the message.
    ///
    /// # Errors
    /// `Retry` if the store failed; the writer is of no more use then.
    pub async fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            // A full chunk waits for the next byte: only then is it known not to be the last.
            if self.plain.len() == CHUNK_BYTES {
                let mut sink = self.sink().await?;
                let plain = std::mem::replace(&mut self.plain, Vec::with_capacity(CHUNK_BYTES));
                self.stage = Stage::Busy(tokio::spawn(async move {
                    sink = sink.seal_off_thread(plain, false).await?;
                    sink.drain().await?;
                    Ok(sink)
                }));
            }
            let room = CHUNK_BYTES - self.plain.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.plain.extend_from_slice(now);
            self.raw_bytes += now.len() as u64;
            bytes = later;
        }
        Ok(())
    }

    /// Adds the text and the structure and makes the object durable.
    ///
    /// # Errors
    /// `Retry` if the store failed, `Limit` if text or structure pass [`SECTION_BYTES`].
    pub async fn finish(self, text: &[u8], structure: &[u8]) -> Result<Layout> {
        self.finish_with_structure(text, structure).await.map(|(layout, _)| layout)
    }

    /// As [`MessageWriter::finish`]; also the sealed structure, as it is in the object
    /// ([`super::MessageReader::with_structure`]).
    ///
    /// # Errors
    /// As [`MessageWriter::finish`].
    pub async fn finish_with_structure(self, text: &[u8], structure: &[u8]) -> Result<(Layout, Bytes)> {
        let store = self.store.clone();
        match self.seal(text, structure).await? {
            Finished::Sealed(whole, _drawn) => {
                let told = (whole.layout(), whole.sealed_structure());
                whole.put(&store).await?;
                Ok(told)
            }
            Finished::Durable(layout, sealed_structure) => Ok((layout, sealed_structure)),
        }
    }

    /// As [`MessageWriter::finish`], but a small object is not stored.
    ///
    /// # Errors
    /// As [`MessageWriter::finish`].
    pub async fn seal(mut self, text: &[u8], structure: &[u8]) -> Result<Finished> {
        if text.len() > SECTION_BYTES || structure.len() > SECTION_BYTES {
            return Err(Error::limit(format!("a message's text or structure is over {SECTION_BYTES} bytes")));
        }
        let mut sink = self.sink().await?;
        // At most one chunk: compressing and sealing it takes less than handing it to another
        // thread and back twice.
        sink.seal(&self.plain, true)?;
        drop(std::mem::take(&mut self.plain));
        sink.finish(self.raw_bytes, text, structure).await
    }

    /// Waits for the chunk before; leaves the writer failed if that chunk failed.
    async fn sink(&mut self) -> Result<Box<Sink>> {
        match std::mem::replace(&mut self.stage, Stage::Failed) {
            Stage::Idle(sink) => Ok(sink),
            Stage::Busy(task) => {
                task.await.map_err(|e| Error::internal("sealing a message panicked").with_source(e))?
            }
            Stage::Failed => Err(Error::retry("this message could not be stored")),
        }
    }
}

/// Where sealed chunks go.
struct Sink {
    store: Store,
    path: String,
    cipher: ObjectCipher,
    budget: Budget,
    /// Bytes of the caller's that the permit covers too.
    beside: usize,
    permit: Option<Permit>,
    effort: Effort,
    /// Sealed bytes that were not written yet.
    pending: Vec<u8>,
    /// Size on disk of each raw chunk: three bytes of index each, four here.
    sizes: Vec<u32>,
    sealed_raw: u64,
    upload: Option<Upload>,
}

impl Sink {
    /// Seals one raw chunk on a thread that may block.
    async fn seal_off_thread(mut self: Box<Self>, plain: Vec<u8>, last: bool) -> Result<Box<Self>> {
        let sealed = spawn_blocking(move || self.seal(&plain, last).map(|()| self)).await;
        sealed.map_err(|e| Error::internal("sealing a message panicked").with_source(e))?
    }

    fn seal(&mut self, plain: &[u8], last: bool) -> Result<()> {
        let number = u32::try_from(self.sizes.len())
            .map_err(|_| Error::limit("a message has more chunks than can be numbered"))?;
        let place = PiecePosition { section: RAW, number, last };
        let size = chunk::seal(&self.cipher, place, plain, &mut self.effort, &mut self.pending);
        self.sizes.push(size as u32);
        self.sealed_raw += size as u64;
        Ok(())
    }

    /// Writes what is pending, once it is clear that the object will not be a small one.
    async fn drain(&mut self) -> Result<()> {
        if self.upload.is_none() {
            if self.pending.len() <= INLINE_OBJECT_BYTES {
                return Ok(());
            }
            self.start_upload().await?;
        }
        if self.pending.len() >= self.store.part_bytes() {
            self.write_part().await?;
        }
        Ok(())
    }

    async fn start_upload(&mut self) -> Result<()> {
        if self.store.part_bytes() > CHUNK_BYTES {
            // Given back before more is drawn: writers that hold some and wait for more would wait
            // for each other.
            self.permit = None;
            let bytes = WRITER_BYTES + self.beside + self.store.part_bytes();
            self.permit = Some(self.budget.acquire_large(bytes).await);
            self.pending.reserve_exact(self.part_capacity().saturating_sub(self.pending.len()));
        }
        self.upload = Some(self.store.upload(&self.path).await?);
        Ok(())
    }

    async fn write_part(&mut self) -> Result<()> {
        let part = Sealed::new(std::mem::take(&mut self.pending));
        match &mut self.upload {
            Some(upload) => upload.part(part).await?,
            None => return Err(Error::internal("a part without an upload")),
        }
        // A vector that grows by itself takes up to twice as much.
        self.pending.reserve_exact(self.part_capacity());
        Ok(())
    }

    /// What a part and the chunk with which it is complete take at most, in bytes.
    fn part_capacity(&self) -> usize {
        self.store.part_bytes() + chunk::MAX_SEALED_BYTES
    }

    async fn finish(mut self: Box<Self>, raw_bytes: u64, text: &[u8], structure: &[u8]) -> Result<Finished> {
        let mut sealed_text =
            Vec::with_capacity(text.len() / 2 + chunk::OVERHEAD_BYTES + chunk::MAX_PADDING_BYTES);
        chunk::seal_section(&self.cipher, TEXT, text, &mut sealed_text);
        let mut sealed_structure = Vec::with_capacity(structure.len() + chunk::OVERHEAD_BYTES);
        chunk::seal_section(&self.cipher, STRUCTURE, structure, &mut sealed_structure);
        let layout = Layout {
            raw_bytes,
            sealed_raw: self.sealed_raw,
            sealed_text: sealed_text.len() as u32,
            sealed_structure: sealed_structure.len() as u32,
            sealed_index: 0,
        };
        if self.upload.is_none() && layout.object_bytes() <= INLINE_OBJECT_BYTES as u64 {
            let mut object = Vec::with_capacity(layout.object_bytes() as usize);
            for part in [&sealed_structure, &sealed_text, &self.pending] {
                object.extend_from_slice(part);
            }
            return Ok(Finished::Sealed(SealedMessage::new(self.path, object, layout), self.permit));
        }
        let layout = self.finish_upload(&sealed_text, &sealed_structure, layout).await?;
        Ok(Finished::Durable(layout, sealed_structure.into()))
    }

    async fn finish_upload(
        &mut self,
        sealed_text: &[u8],
        sealed_structure: &[u8],
        mut layout: Layout,
    ) -> Result<Layout> {
        let mut index = Vec::with_capacity(self.sizes.len() * message::INDEX_ENTRY_BYTES);
        for size in &self.sizes {
            index.extend_from_slice(&size.to_be_bytes()[1..]);
        }
        let mut sealed_index = Vec::with_capacity(index.len() + chunk::OVERHEAD_BYTES);
        chunk::seal_section(&self.cipher, INDEX, &index, &mut sealed_index);
        layout.sealed_index = sealed_index.len() as u32;
        if self.upload.is_none() {
            self.start_upload().await?;
        }
        let footer = footer::of(&self.store, &self.path, footer::MAGIC, layout.raw_bytes);
        for section in [sealed_text, sealed_structure, &sealed_index, &footer] {
            self.pending.extend_from_slice(section);
            if self.pending.len() >= self.store.part_bytes() {
                self.write_part().await?;
            }
        }
        if !self.pending.is_empty() {
            self.write_part().await?;
        }
        match self.upload.take() {
            Some(upload) => upload.complete().await?,
            None => return Err(Error::internal("a finished message without an upload")),
        }
        Ok(layout)
    }
}

/// Stores an object that no other process can have written.
///
/// # Errors
/// `Conflict` if there is another one; what the store says.
pub(super) async fn put_own(store: &Store, path: &str, object: Sealed) -> Result<()> {
    match store.put_new(path, object.clone()).await? {
        Put::Created => Ok(()),
        // Backends repeat a write whose reply was lost: then what exists is this very object.
        Put::Exists if store.read_confirmed(path).await?[..] == *object.as_ref() => Ok(()),
        Put::Exists => Err(Error::conflict(format!("{path} was written before"))),
    }
}
