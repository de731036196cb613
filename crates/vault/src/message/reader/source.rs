//! [`Source`]: the object behind a reader; what of it is here, what is in the store, and how its sealed bytes are opened.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use bytes::{Bytes, BytesMut};
use futures::FutureExt;
use futures::future::BoxFuture;
use sealpost_base::limits::CHUNK_BYTES;
use sealpost_base::{Error, Kind, Result};
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

use super::BATCH_CHUNKS;
use crate::Store;
use crate::chunk::{self, GroupOpener, MAX_SEALED_BYTES};
use crate::cipher::{ObjectCipher, PiecePosition};
use crate::message::evicted::{BodySource, StubHead};
use crate::message::{INDEX, INDEX_ENTRY_BYTES, Layout, RAW, SECTION_BYTES, STRUCTURE, TEXT};
use crate::pack::Piece;

/// Sealed bytes that are opened where they arrive; more are opened on a thread that may block.
const INLINE_BYTES: usize = MAX_SEALED_BYTES;
/// The most sealed bytes that are read in one go.
const WINDOW_BYTES: u64 = (BATCH_CHUNKS * MAX_SEALED_BYTES) as u64;

/// The cipher of an object, derived from its key where it is first needed: on the thread that read
/// what is to be opened.
pub(in crate::message) type LazyCipher = LazyLock<ObjectCipher, Box<dyn FnOnce() -> ObjectCipher + Send>>;

/// One message object, and what is known of it.
pub(in crate::message) struct Source {
    pub(in crate::message) store: Store,
    pub(in crate::message) path: String,
    pub(in crate::message) cipher: LazyCipher,
    pub(in crate::message) layout: Layout,
    pub(super) index: OnceCell<Vec<u32>>,
    /// What of the object is here already.
    pub(super) piece: Option<Piece>,
    /// The source of a message with an evicted body; messages of the spool have none.
    pub(in crate::message) elsewhere: Option<BodySource>,
    /// What its stub says, read once.
    pub(in crate::message) stub: OnceCell<StubHead>,
}

impl Source {
    /// The sealed bytes `range`, if they are here.
    pub(super) fn in_hand(&self, range: &Range<u64>) -> Option<Bytes> {
        let piece = self.piece.as_ref()?;
        let from = usize::try_from(range.start.checked_sub(piece.start())?).ok()?;
        let to = usize::try_from(range.end.checked_sub(piece.start())?).ok()?;
        (from <= to && to <= piece.bytes().len()).then(|| piece.bytes().slice(from..to))
    }

    /// The sealed bytes `range`.
    async fn sealed(&self, range: Range<u64>) -> Result<Bytes> {
        match self.in_hand(&range) {
            Some(sealed) => Ok(sealed),
            None => self.store.read_range(&self.path, range).await,
        }
    }

    /// What `open` makes of the sealed bytes `range`: of those that are here, or else of those in the store.
    pub(super) async fn opened<T: Send + 'static>(
        self: Arc<Self>,
        range: Range<u64>,
        open: impl Fn(&Source, &[u8]) -> Result<T> + Clone + Send + 'static,
    ) -> Result<T> {
        let run = async |sealed: Bytes| self.clone().open_off_thread(sealed, open.clone()).await;
        if let Some(sealed) = self.in_hand(&range)
            && let Ok(opened) = run(sealed).await
        {
            return Ok(opened);
        }
        let read = async || run(self.store.read_range(&self.path, range.clone()).await?).await;
        match read().await {
            Err(e) if self.forgets(&self.path, &e).await => read().await,
            opened => opened,
        }
    }

    /// What `open` makes of sealed bytes; on another thread if they are many.
    pub(super) async fn open_off_thread<T: Send + 'static>(
        self: Arc<Self>,
        sealed: Bytes,
        open: impl Fn(&Source, &[u8]) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        match sealed.len() > INLINE_BYTES {
            true => on_blocking_thread(move || open(&self, &sealed)).await,
            false => open(&self, &sealed),
        }
    }

    /// The sealed structure and text, and what is between them.
    pub(super) async fn read_structure_and_text(&self) -> Result<Bytes> {
        self.layout.check()?;
        self.sealed(self.layout.structure_and_text()).await
    }

    /// The two, from their sealed bytes.
    pub(super) fn open_structure_and_text(&self, sealed: &[u8]) -> Result<(Vec<u8>, Vec<u8>)> {
        let start = self.layout.structure_and_text().start;
        let section = |section| {
            let range = self.layout.range(section);
            let sealed = &sealed[(range.start - start) as usize..(range.end - start) as usize];
            self.open_section(section, sealed, SECTION_BYTES, &self.path)
        };
        Ok((section(STRUCTURE)?, section(TEXT)?))
    }

    /// Whether reading `path` again may help after `e`: one answer of a remote store may be wrong,
    /// and the cache has it then. It forgets it.
    pub(in crate::message) async fn forgets(&self, path: &str, e: &Error) -> bool {
        let again = e.kind() == Kind::Corrupt && self.store.forget(path).await;
        if again {
            // If it is damaged, the caller reports it.
            tracing::debug!(path, error = %e, "a message section could not be opened; reading it again");
        }
        again
    }

    /// The plaintext of a section, of `limit` bytes at most; `path`: the object that it was read from.
    pub(in crate::message) fn open_section(
        &self,
        section: u8,
        sealed: &[u8],
        limit: usize,
        path: &str,
    ) -> Result<Vec<u8>> {
        let mut plain =
            chunk::open_section(&self.cipher, section, sealed, limit).map_err(|e| e.context(path))?;
        Ok(std::mem::take(&mut *plain))
    }

    pub(in crate::message) fn check_section(&self, section: u8, sealed: &[u8], limit: usize) -> Result<()> {
        chunk::open_section(&self.cipher, section, sealed, limit).map(drop).map_err(|e| e.context(&self.path))
    }

    /// Whether `object` is the whole of it as it was sealed, but for its footer.
    pub(super) fn check_object(&self, object: &Bytes) -> Result<()> {
        self.layout.check()?;
        let size = self.layout.object_bytes();
        if object.len() as u64 != size {
            let why = format!("{} has {} bytes instead of {size}", self.path, object.len());
            return Err(Error::corrupt(why));
        }
        let part = |section| {
            let range = self.layout.range(section);
            object.slice(range.start as usize..range.end as usize)
        };
        self.check_section(STRUCTURE, &part(STRUCTURE), SECTION_BYTES)?;
        self.check_section(TEXT, &part(TEXT), SECTION_BYTES)?;
        let chunks = self.layout.raw_chunks() as usize;
        if !self.layout.is_compact() {
            self.check_section(INDEX, &part(INDEX), chunks * INDEX_ENTRY_BYTES)?;
        }
        if self.layout.raw_bytes == 0 {
            return self.check_section(RAW, &part(RAW), 0);
        }
        let (raw, until) = (part(RAW), (chunks - 1) as u32);
        let mut cursor = Cursor { number: 0, until, offset: 0, window: 0 };
        while cursor.number <= until {
            cursor = self.open_batch(raw.slice(cursor.offset as usize..), cursor)?.next;
        }
        Ok(())
    }

    /// The sizes of the raw chunks; read once.
    pub(super) async fn index(&self) -> Result<&Vec<u32>> {
        self.index.get_or_try_init(|| self.read_index()).await
    }

    async fn read_index(&self) -> Result<Vec<u32>> {
        match self.read_index_once().await {
            Err(e) if self.forgets(&self.path, &e).await => self.read_index_once().await,
            index => index,
        }
    }

    async fn read_index_once(&self) -> Result<Vec<u32>> {
        self.layout.check()?;
        let expected = self.layout.raw_chunks() as usize * INDEX_ENTRY_BYTES;
        let sealed = self.sealed(self.layout.range(INDEX)).await?;
        let plain =
            chunk::open_section(&self.cipher, INDEX, &sealed, expected).map_err(|e| e.context(&self.path))?;
        let sizes: Vec<u32> = plain
            .chunks_exact(INDEX_ENTRY_BYTES)
            .map(|s| u32::from_be_bytes([0, s[0], s[1], s[2]]))
            .collect();
        let total: u64 = sizes.iter().map(|&size| u64::from(size)).sum();
        if plain.len() != expected || total != self.layout.sealed_raw {
            return Err(Error::corrupt(format!("{} has an index that does not fit it", self.path)));
        }
        Ok(sizes)
    }

    /// Where the raw chunk `number` begins within the object.
    async fn offset(&self, number: u32) -> Result<u64> {
        let start = self.layout.range(RAW).start;
        if number == 0 {
            return Ok(start);
        }
        if !self.layout.is_compact() {
            let before = &self.index().await?[..number as usize];
            return Ok(start + before.iter().map(|&size| u64::from(size)).sum::<u64>());
        }
        // A compact object has no index, but all its chunk headers are in reach.
        let sealed = self.sealed(self.layout.range(RAW)).await?;
        let mut at = 0;
        for _ in 0..number {
            at += chunk::sealed_size(sealed.get(at..).unwrap_or_default())
                .map_err(|e| e.context(&self.path))?;
        }
        Ok(start + at as u64)
    }

    /// Reads and opens the chunks from `cursor` on, [`BATCH_CHUNKS`] at most and one at least. It begins now.
    pub(super) fn batch(self: Arc<Self>, cursor: Cursor) -> BoxFuture<'static, Result<Batch>> {
        let end = self.layout.range(RAW).end;
        let range = cursor.offset..end.min(cursor.offset + cursor.window);
        let Some(sealed) = self.in_hand(&range) else { return self.batch_from_store(range, cursor) };
        let opened = async move {
            let source = self.clone();
            match on_blocking_thread(move || source.open_batch(sealed, cursor)).await {
                Ok(batch) => Ok(batch),
                Err(_) => self.batch_from_store(range, cursor).await,
            }
        };
        opened.boxed()
    }

    fn batch_from_store(
        self: Arc<Self>,
        range: Range<u64>,
        cursor: Cursor,
    ) -> BoxFuture<'static, Result<Batch>> {
        let begin = {
            let (source, store) = (self.clone(), self.store.clone());
            move || {
                let (source, wanted) = (source.clone(), vec![(source.path.clone(), range.clone())]);
                let opened = store.begin_ranges(wanted, move |mut found| match found.pop() {
                    Some(sealed) => source.open_batch(sealed?, cursor),
                    None => Err(Error::internal("a read without an answer")),
                });
                opened.map(|opened| opened.and_then(|batch| batch))
            }
        };
        let first = begin();
        let opened = async move {
            match first.await {
                Err(e) if self.forgets(&self.path, &e).await => begin().await,
                batch => batch,
            }
        };
        opened.boxed()
    }

    /// The batch that `range` of the message begins with.
    pub(super) async fn first(self: Arc<Self>, range: Range<u64>) -> Result<Batch> {
        match self.clone().first_once(range.clone()).await {
            // Of a compact object, where the batch begins may have been read wrong too.
            Err(e) if self.forgets(&self.path, &e).await => self.first_once(range).await,
            batch => batch,
        }
    }

    async fn first_once(self: Arc<Self>, range: Range<u64>) -> Result<Batch> {
        self.layout.check()?;
        let number = (range.start / CHUNK_BYTES as u64) as u32;
        let until = ((range.end - 1) / CHUNK_BYTES as u64) as u32;
        let offset = self.offset(number).await?;
        let chunks = u64::from(until - number) + 1;
        let window = WINDOW_BYTES.min(chunks.saturating_mul(MAX_SEALED_BYTES as u64));
        self.batch(Cursor { number, until, offset, window }).await
    }

    /// Bytes of a message of one chunk, which [`Source::open_whole`] opens into the opener's buffer;
    /// else 0.
    pub(super) fn small_bytes(&self) -> usize {
        match self.layout.raw_bytes <= CHUNK_BYTES as u64 {
            true => self.layout.raw_bytes as usize,
            false => 0,
        }
    }

    /// All pieces of a small message.
    pub(super) fn open_whole(&self, sealed: Bytes, opener: &mut GroupOpener) -> Result<Vec<Bytes>> {
        self.layout.check()?;
        if self.layout.raw_bytes == 0 {
            return Ok(Vec::new());
        }
        let chunks = self.layout.raw_chunks() as usize;
        if chunks == 1 {
            let place = PiecePosition { section: RAW, number: 0, last: true };
            let opened = opener.open(&self.cipher, place, &sealed, self.small_bytes());
            return Ok(vec![opened.map_err(|e| e.context(&self.path))?]);
        }
        let until = (chunks - 1) as u32;
        let batch = self.open_batch(sealed, Cursor { number: 0, until, offset: 0, window: 0 })?;
        if batch.pieces.len() != chunks {
            return Err(Error::corrupt(format!("{} ends within a chunk", self.path)));
        }
        Ok(batch.pieces)
    }

    fn open_batch(&self, sealed: Bytes, mut cursor: Cursor) -> Result<Batch> {
        // The only handle on bytes that were just read: no copy, except for stores that keep one.
        let mut sealed = sealed.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
        let last = (self.layout.raw_chunks() - 1) as u32;
        let start = cursor.offset;
        let mut pieces = Vec::with_capacity(BATCH_CHUNKS.min((cursor.until - cursor.number) as usize + 1));
        while pieces.len() < BATCH_CHUNKS && cursor.number <= cursor.until {
            let size = match chunk::sealed_size(&sealed) {
                Ok(size) if size <= sealed.len() => size,
                // The rest of this chunk is in the next window.
                _ if !pieces.is_empty() => break,
                Ok(_) => return Err(Error::corrupt(format!("{} ends within a chunk", self.path))),
                Err(e) => return Err(e.context(&self.path)),
            };
            let place = PiecePosition { section: RAW, number: cursor.number, last: cursor.number == last };
            let piece =
                chunk::open(&self.cipher, place, sealed.split_to(size)).map_err(|e| e.context(&self.path))?;
            let expected = self.layout.raw_bytes - u64::from(cursor.number) * CHUNK_BYTES as u64;
            if piece.len() as u64 != expected.min(CHUNK_BYTES as u64) {
                return Err(Error::corrupt(format!("{} has a chunk of a wrong size", self.path)));
            }
            pieces.push(piece);
            cursor.offset += size as u64;
            cursor.number += 1;
        }
        // Well compressed chunks need a smaller window; a whole chunk must always fit.
        let used = cursor.offset - start;
        cursor.window = (used + used / 8).clamp(MAX_SEALED_BYTES as u64, WINDOW_BYTES);
        Ok(Batch { pieces, next: cursor })
    }
}

/// The next chunk to read, the last one of the range, and how much to read at once.
#[derive(Clone, Copy)]
pub(super) struct Cursor {
    pub number: u32,
    pub until: u32,
    offset: u64,
    window: u64,
}

pub(super) struct Batch {
    pub pieces: Vec<Bytes>,
    pub next: Cursor,
}

async fn on_blocking_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    spawn_blocking(work)
        .await
        .unwrap_or_else(|e| Err(Error::internal("opening a message panicked").with_source(e)))
}
