//! Opens a message object: each section by itself, and any range of the raw bytes as a stream.

pub(super) mod source;
mod walk;

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};
use sealpost_base::limits::CHUNK_BYTES;
use sealpost_base::{AccountId, Error, Kind, ObjectId, Result};
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};

use crate::Store;
use crate::chunk::{GroupOpener, MAX_SEALED_BYTES};
use crate::cipher::ObjectCipher;
use crate::message::evicted::BodySource;
use crate::message::{self, FOOTER_BYTES, Layout, MessageKey, RAW, SECTION_BYTES, STRUCTURE, TEXT, footer};
use crate::pack::Piece;
use source::{LazyCipher, Source};
use walk::Walk;

/// Chunks that a stream reads and opens in one go.
const BATCH_CHUNKS: usize = 8;
/// The most memory one [`MessageReader::raw`] stream holds: a batch that is handed out, one that is
/// being opened.
pub const READER_BYTES: usize = 2 * BATCH_CHUNKS * (CHUNK_BYTES + MAX_SEALED_BYTES);
/// Bytes of text that are scanned before other tasks run.
const TEXT_BYTES_AT_ONCE: usize = 64 * 1024;

/// Reads one message object. Cloning shares what was read of its index.
#[derive(Clone)]
pub struct MessageReader(Arc<Source>);

impl MessageReader {
    /// A reader of the object `object` of `account`. Reads nothing yet.
    pub fn new(
        store: &Store,
        account: AccountId,
        object: ObjectId,
        key: &MessageKey,
        layout: Layout,
    ) -> Self {
        let (path, key) = (message::path(account, object), key.clone());
        let cipher = LazyCipher::new(Box::new(move || message::cipher(account, object, &key)));
        Self::with(store, path, cipher, layout, Some(BodySource { account, object, bodies: None }))
    }

    pub(crate) fn at(store: &Store, path: String, cipher: ObjectCipher, layout: Layout) -> Self {
        Self::with(store, path, LazyCipher::new(Box::new(move || cipher)), layout, None)
    }

    fn with(
        store: &Store,
        path: String,
        cipher: LazyCipher,
        layout: Layout,
        elsewhere: Option<BodySource>,
    ) -> Self {
        let (store, index, stub) = (store.clone(), OnceCell::new(), OnceCell::new());
        MessageReader(Arc::new(Source { store, path, cipher, layout, index, piece: None, elsewhere, stub }))
    }

    pub(super) fn source(&self) -> &Arc<Source> {
        &self.0
    }

    pub(super) fn source_mut(&mut self) -> &mut Arc<Source> {
        &mut self.0
    }

    /// The same reader, which has that piece of the object already. What the piece does not have,
    /// or what of it cannot be opened, is read from the store. Clones that were made before do not
    /// have it.
    pub fn with_piece(mut self, piece: Piece) -> Self {
        if let Some(source) = Arc::get_mut(&mut self.0) {
            source.piece = Some(piece);
        }
        self
    }

    /// The same reader, with the sealed structure from [`super::MessageWriter::finish_with_structure`]. A
    /// structure that cannot be of this object is ignored; one that cannot be opened is read from
    /// the store.
    pub fn with_structure(self, sealed: Bytes) -> Self {
        let range = self.0.layout.range(STRUCTURE);
        let fits = self.0.layout.check().is_ok() && sealed.len() as u64 == range.end - range.start;
        if fits { self.with_piece(Piece::new(range.start, sealed)) } else { self }
    }

    /// The sealed structure, for a pack. It can be opened.
    ///
    /// # Errors
    /// `Corrupt` if it is not what was sealed; what the store says.
    pub async fn structure_piece(&self) -> Result<Piece> {
        let source = &self.0;
        source.layout.check()?;
        let range = source.layout.range(STRUCTURE);
        let start = range.start;
        let check = |sealed: &Bytes| source.check_section(STRUCTURE, sealed, SECTION_BYTES);
        if let Some(sealed) = source.in_hand(&range)
            && check(&sealed).is_ok()
        {
            return Ok(Piece::new(start, sealed));
        }
        let read = async || {
            let sealed = source.store.read_range(&source.path, range.clone()).await?;
            check(&sealed)?;
            Ok(sealed)
        };
        let sealed = match read().await {
            Err(e) if source.forgets(&source.path, &e).await => read().await,
            sealed => sealed,
        };
        match sealed {
            // The same bytes are in the stub.
            Err(e) if e.kind() == Kind::NotFound => {
                let sealed = source.sealed_stub_section(STRUCTURE, e).await?;
                check(&sealed)?;
                Ok(Piece::new(start, sealed))
            }
            sealed => Ok(Piece::new(start, sealed?)),
        }
    }

    /// The whole object, for a pack. All of it can be opened.
    ///
    /// # Errors
    /// What the store says; `Corrupt` if it is not what was sealed.
    pub async fn object_piece(&self) -> Result<Piece> {
        let source = &self.0;
        let check = |object: &Bytes| source.check_object(object).map(|()| Piece::new(0, object.clone()));
        if let Some(object) = source.in_hand(&(0..source.layout.object_bytes()))
            && let Ok(piece) = check(&object)
        {
            return Ok(piece);
        }
        source.store.read_opened(&source.path, check).await
    }

    /// The sizes this reader was made with.
    pub fn layout(&self) -> Layout {
        self.0.layout
    }

    /// The structure, as the writer was given it.
    ///
    /// # Errors
    /// `Corrupt` if it is not what was sealed, `NotFound` if there is no such object.
    pub async fn structure(&self) -> Result<Vec<u8>> {
        self.section(STRUCTURE, SECTION_BYTES).await
    }

    /// The searchable text, as the writer was given it.
    pub async fn text(&self) -> Result<Vec<u8>> {
        self.section(TEXT, SECTION_BYTES).await
    }

    /// Structure and text, in one read: they are neighbours.
    ///
    /// # Errors
    /// As [`MessageReader::structure`].
    pub async fn structure_and_text(&self) -> Result<(Vec<u8>, Vec<u8>)> {
        let source = self.0.clone();
        source.layout.check()?;
        let both = source.layout.structure_and_text();
        match source.opened(both, Source::open_structure_and_text).await {
            Err(e) if e.kind() == Kind::NotFound => Ok((
                self.0.open_stub_section(STRUCTURE, again(&e)).await?,
                self.0.open_stub_section(TEXT, e).await?,
            )),
            opened => opened,
        }
    }

    /// The same, opened under a permit of `limit`, which is returned with it. It bounds how many are in
    /// memory, however many are being read: their opened size is not known before.
    pub async fn structure_and_text_within<'a>(
        &self,
        limit: &'a Semaphore,
    ) -> (Result<(Vec<u8>, Vec<u8>)>, Option<SemaphorePermit<'a>>) {
        let read = self.0.read_structure_and_text().await;
        let permit = limit.acquire().await.ok();
        let opened = match read {
            Ok(sealed) => self.0.clone().open_off_thread(sealed, Source::open_structure_and_text).await,
            Err(e) => Err(e),
        };
        // The caller handles every error.
        if opened.is_ok() { (opened, permit) } else { (self.structure_and_text().await, permit) }
    }

    /// The searchable texts of several messages of one store, as [`MessageReader::text`] gives
    /// each, in order. They are read together, so the caller bounds how many, and opened one after
    /// the other as `each` is called with it.
    pub async fn texts(readers: &[MessageReader], mut each: impl FnMut(usize, Result<Vec<u8>>)) {
        let Some(first) = readers.first() else { return };
        let wanted = |reader: &MessageReader| {
            // A layout that cannot be is refused below.
            let range = reader.0.layout.check().map_or(0..0, |()| reader.0.layout.range(TEXT));
            (reader.0.path.clone(), range)
        };
        let sealed = first.0.store.read_ranges(readers.iter().map(wanted).collect()).await;
        // For evicted messages they are in the stubs.
        let missing = |sealed: &Result<Bytes>| sealed.as_ref().is_err_and(|e| e.kind() == Kind::NotFound);
        let stubs = readers.iter().zip(&sealed).filter(|(_, sealed)| missing(sealed));
        let stubs: Vec<_> = stubs.filter_map(|(reader, _)| reader.0.stub_text_range()).collect();
        let mut stubs = match stubs.is_empty() {
            true => Vec::new().into_iter(),
            false => first.0.store.read_ranges(stubs).await.into_iter(),
        };
        let open = |reader: &MessageReader, sealed: Result<Bytes>, stub: Option<Result<Bytes>>| {
            reader.0.layout.check()?;
            let sealed = match (sealed, stub) {
                (Err(e), Some(stub)) => return reader.0.open_in_stub(TEXT, &reader.0.path, stub, e),
                (sealed, _) => sealed?,
            };
            reader.0.open_section(TEXT, &sealed, SECTION_BYTES, &reader.0.path)
        };
        let mut looked_at = 0;
        for (at, (reader, sealed)) in readers.iter().zip(sealed).enumerate() {
            let asked = missing(&sealed) && reader.0.stub_text_range().is_some();
            let stub = if asked { stubs.next() } else { None };
            let mut text = open(reader, sealed, stub);
            if let Err(e) = &text
                && reader.0.forgets(&reader.0.path, e).await
            {
                text = reader.text().await;
            }
            looked_at += text.as_ref().map_or(0, Vec::len);
            each(at, text);
            // How much it is does not show in what is stored, and looking for much in it takes long.
            if looked_at >= TEXT_BYTES_AT_ONCE {
                looked_at = 0;
                tokio::task::yield_now().await;
            }
        }
    }

    /// Whether [`MessageReader::whole`] can read the message.
    pub fn is_small(&self) -> bool {
        self.0.layout.raw_bytes <= (BATCH_CHUNKS * CHUNK_BYTES) as u64
    }

    /// All bytes of several small messages of one store, in pieces, each with an answer of its own,
    /// in order: one question to the store. What it holds is what the messages have, and that once
    /// more while they are opened. It begins now, and not when the future is first polled.
    pub fn whole(readers: Vec<MessageReader>) -> BoxFuture<'static, Vec<Result<Vec<Bytes>>>> {
        let Some(store) = readers.first().map(|first| first.0.store.clone()) else {
            return futures::future::ready(Vec::new()).boxed();
        };
        let wanted = readers.iter().map(|reader| {
            // A layout that cannot be, or is not that of a small message, is refused below.
            let small = reader.0.layout.check().is_ok() && reader.is_small();
            let asks = small && reader.0.in_hand(&reader.0.layout.range(RAW)).is_none();
            (reader.0.path.clone(), if asks { reader.0.layout.range(RAW) } else { 0..0 })
        });
        let (wanted, count, again) = (wanted.collect(), readers.len(), readers.clone());
        let opened = store.begin_ranges(wanted, move |found| {
            let mut opener = GroupOpener::new(readers.iter().map(|reader| reader.0.small_bytes()).sum());
            let opened = readers.iter().zip(found).map(|(reader, sealed)| {
                let in_hand =
                    reader.0.layout.check().ok().and_then(|()| reader.0.in_hand(&reader.0.layout.range(RAW)));
                reader.0.open_whole(in_hand.map_or(sealed, Ok)?, &mut opener)
            });
            opened.collect::<Vec<_>>()
        });
        let failed =
            move |e: Error| (0..count).map(|_| Err(Error::new(e.kind(), e.to_string()))).collect::<Vec<_>>();
        let mended = async move {
            let mut opened = opened.await.unwrap_or_else(failed);
            for (reader, opened) in again.iter().zip(&mut opened) {
                if let Err(e) = opened
                    && reader.0.forgets(&reader.0.path, e).await
                {
                    *opened = reader.batches(0..u64::MAX).try_concat().await;
                }
            }
            opened
        };
        mended.boxed()
    }

    /// The bytes `range` of the message, cut at its end, in pieces of at most [`CHUNK_BYTES`]: as
    /// [`MessageReader::batches`], one at a time.
    pub fn raw(&self, range: Range<u64>) -> BoxStream<'static, Result<Bytes>> {
        let one_by_one = |batch: Result<Vec<Bytes>>| match batch {
            Ok(pieces) => pieces.into_iter().map(Ok).collect(),
            Err(e) => vec![Err(e)],
        };
        self.batches(range).flat_map(move |batch| futures::stream::iter(one_by_one(batch))).boxed()
    }

    /// The bytes `range` of the message, cut at its end, as they are read: several pieces of at
    /// most [`CHUNK_BYTES`] at a time.
    ///
    /// The next pieces are read and opened on other threads while the caller has these. The stream
    /// ends after its first error; it holds at most [`READER_BYTES`], which the caller may draw
    /// from its budget.
    pub fn batches(&self, range: Range<u64>) -> BoxStream<'static, Result<Vec<Bytes>>> {
        let end = range.end.min(self.0.layout.raw_bytes);
        if range.start >= end {
            return futures::stream::empty().boxed();
        }
        Walk::new(self.0.clone(), range.start..end, true).batches()
    }

    /// All bytes, of the message object alone.
    pub(super) fn whole_object(&self) -> BoxStream<'static, Result<Bytes>> {
        let end = self.0.layout.raw_bytes;
        if end == 0 {
            return futures::stream::empty().boxed();
        }
        let batches = Walk::new(self.0.clone(), 0..end, false).batches();
        batches.map_ok(|pieces| futures::stream::iter(pieces).map(Ok)).try_flatten().boxed()
    }

    /// Reads the whole object, or the stub of a message with an evicted body, and checks
    /// everything that was sealed, and that nothing follows it.
    pub async fn verify(&self) -> Result<()> {
        let source = &self.0;
        let size = match source.store.size(&source.path).await {
            Err(e) if e.kind() == Kind::NotFound => return self.verify_stub(e).await,
            size => size?,
        };
        if size != source.layout.object_bytes() {
            return Err(Error::corrupt(format!(
                "{} has {size} bytes instead of {}",
                source.path,
                source.layout.object_bytes()
            )));
        }
        if source.layout.raw_bytes == 0 {
            self.section(RAW, 0).await?;
        }
        let mut raw = self.raw(0..u64::MAX);
        while let Some(piece) = raw.next().await {
            piece?;
        }
        self.text().await?;
        self.structure().await?;
        if !source.layout.is_compact() {
            source.index().await?;
        }
        let footer = source.store.read_range(&source.path, size - FOOTER_BYTES as u64..size).await?;
        if !footer::is_of(&source.store, &source.path, footer::MAGIC, source.layout.raw_bytes, &footer) {
            return Err(Error::corrupt(format!("{} has a wrong footer", source.path)));
        }
        Ok(())
    }

    async fn section(&self, section: u8, limit: usize) -> Result<Vec<u8>> {
        let source = self.0.clone();
        source.layout.check()?;
        let range = source.layout.range(section);
        let opened = source
            .opened(range, move |source, sealed| source.open_section(section, sealed, limit, &source.path))
            .await;
        match opened {
            Err(e) if e.kind() == Kind::NotFound => self.0.open_stub_section(section, e).await,
            opened => opened,
        }
    }
}

/// The same error once more, without its cause.
pub(super) fn again(error: &Error) -> Error {
    Error::new(error.kind(), error.to_string())
}
