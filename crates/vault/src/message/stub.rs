//! Messages with evicted bodies: the part that stays here, and the source of the rest.
//!
//! A *thin* object holds the sealed structure and text of a message object byte for byte, and the
//! message's SHA-256 with its first bytes. It is durable before the message object is removed;
//! while both exist, the message object counts. An evicted message never becomes whole again under
//! its key: another version of zstd would seal other bytes under the same nonces. For the same
//! reason the new section is not compressed: a repeated eviction, after a crash, makes the same
//! bytes. Format: `docs/format/message-object.md`.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use sealpost_base::limits::CHUNK_BYTES;
use sealpost_base::{Error, Kind, Result};

use super::evicted::{BodySource, DIGEST_BYTES, EvictedBodies, StubHead, Wanted};
use super::footer::{self, STUB_MAGIC};
use crate::chunk::{self, MAX_SEALED_BYTES};
use crate::cipher::{ObjectCipher, sha256_of};
use crate::message::reader::again;
use crate::message::reader::source::Source;
use crate::message::writer::put_own;
use crate::message::{FOOTER_BYTES, HEAD, Layout, MessageReader, SECTION_BYTES, STRUCTURE, TEXT};
use crate::{Put, Sealed, Store};

/// The most first bytes of a message that stay here when its body is evicted: its header, in almost
/// all cases.
pub const HEAD_BYTES: usize = CHUNK_BYTES - DIGEST_BYTES;

/// A message's stub that is not stored yet.
pub struct MessageStub {
    path: String,
    object: Sealed,
    /// The message object, which is removed.
    whole: String,
}

impl MessageStub {
    /// The stub of a message whose body is evicted, with its first `head` bytes, [`HEAD_BYTES`] at
    /// most. It reads the whole message, and evicts no damaged one.
    ///
    /// # Errors
    /// `Corrupt` if anything of the message cannot be read, `NotFound` if its object is not there;
    /// what the store says.
    pub async fn of(reader: &MessageReader, head: u64) -> Result<Self> {
        let source = reader.source();
        let Some(elsewhere) = &source.elsewhere else {
            return Err(Error::invalid("only the body of an account's message can be evicted"));
        };
        let layout = source.layout;
        layout.check()?;
        let structure = source.store.read_range(&source.path, layout.range(STRUCTURE)).await?;
        let text = source.store.read_range(&source.path, layout.range(TEXT)).await?;
        for (section, sealed) in [(STRUCTURE, &structure), (TEXT, &text)] {
            source.check_section(section, sealed, SECTION_BYTES)?;
        }
        let keep = head.min(HEAD_BYTES as u64).min(layout.raw_bytes) as usize;
        let (mut kept, mut digest, mut bytes) = (vec![0; DIGEST_BYTES], sha256_of(), 0);
        let mut raw = reader.whole_object();
        while let Some(piece) = raw.try_next().await? {
            digest.update(&piece);
            bytes += piece.len() as u64;
            let room = DIGEST_BYTES + keep - kept.len();
            kept.extend_from_slice(&piece[..room.min(piece.len())]);
        }
        if bytes != layout.raw_bytes {
            return Err(Error::corrupt(format!("{} is shorter than it should be", source.path)));
        }
        kept[..DIGEST_BYTES].copy_from_slice(&digest.finish());
        let mut object = Vec::with_capacity(structure.len() + text.len() + kept.len() + 64);
        object.extend_from_slice(&structure);
        object.extend_from_slice(&text);
        chunk::seal_section_raw(&source.cipher, HEAD, &kept, &mut object);
        let path = elsewhere.stub_path();
        object.extend_from_slice(&footer::of(&source.store, &path, STUB_MAGIC, layout.raw_bytes));
        Ok(MessageStub { path, object: Sealed::new(object), whole: source.path.clone() })
    }

    /// Bytes of the object.
    pub fn size(&self) -> usize {
        self.object.len()
    }

    /// Stores all of them, durably, and then removes the message objects.
    ///
    /// # Errors
    /// `Retry` if the store failed: then any of the messages may still be whole. `Conflict` if
    /// there is a stub of other bytes; then all of them are whole.
    pub async fn replace(all: Vec<MessageStub>, store: &Store) -> Result<()> {
        let (objects, wholes): (Vec<_>, Vec<_>) =
            all.into_iter().map(|stub| ((stub.path, stub.object), stub.whole)).unzip();
        if store.put_all_new(&objects).await? == Put::Exists {
            for (path, object) in objects {
                put_own(store, &path, object).await?;
            }
        }
        store.delete_in_order(wholes).await
    }
}

impl Source {
    /// What the stub says; `NotFound` if there is none.
    async fn known(&self, elsewhere: &BodySource) -> Result<&StubHead> {
        self.stub.get_or_try_init(|| self.read_known(elsewhere)).await
    }

    async fn read_known(&self, elsewhere: &BodySource) -> Result<StubHead> {
        match self.read_known_once(elsewhere).await {
            Err(e) if self.forgets(&elsewhere.stub_path(), &e).await => self.read_known_once(elsewhere).await,
            known => known,
        }
    }

    async fn read_known_once(&self, elsewhere: &BodySource) -> Result<StubHead> {
        let path = elsewhere.stub_path();
        let size = self.store.size(&path).await?;
        let range = stub_range(&self.layout, HEAD, size).map_err(|e| e.context(&path))?;
        let sealed = self.store.read_range(&path, range).await?;
        StubHead::open(&self.cipher, &self.layout, &sealed).map_err(|e| e.context(&path))
    }

    /// The text or the structure, from the stub. `missing`: the error of the message object.
    pub(super) async fn open_stub_section(&self, section: u8, missing: Error) -> Result<Vec<u8>> {
        let Some(elsewhere) = self.elsewhere.as_ref().filter(|_| matches!(section, STRUCTURE | TEXT)) else {
            return Err(missing);
        };
        let path = elsewhere.stub_path();
        let range = stub_range(&self.layout, section, 0)?;
        let sealed = self.store.read_range(&path, range.clone()).await;
        match self.open_in_stub(section, &path, sealed, again(&missing)) {
            Err(e) if self.forgets(&path, &e).await => {
                let sealed = self.store.read_range(&path, range).await;
                self.open_in_stub(section, &path, sealed, missing)
            }
            opened => opened,
        }
    }

    /// The same section as it is sealed.
    pub(super) async fn sealed_stub_section(&self, section: u8, missing: Error) -> Result<Bytes> {
        let Some(elsewhere) = &self.elsewhere else { return Err(missing) };
        let sealed =
            self.store.read_range(&elsewhere.stub_path(), stub_range(&self.layout, section, 0)?).await;
        sealed.map_err(|e| if e.kind() == Kind::NotFound { missing } else { e })
    }

    /// Opens what was read of a stub.
    pub(super) fn open_in_stub(
        &self,
        section: u8,
        path: &str,
        sealed: Result<Bytes>,
        missing: Error,
    ) -> Result<Vec<u8>> {
        let sealed = sealed.map_err(|e| if e.kind() == Kind::NotFound { missing } else { e })?;
        self.open_section(section, &sealed, SECTION_BYTES, path)
    }

    /// Where the text is in the stub, if the message can have one.
    pub(super) fn stub_text_range(&self) -> Option<(String, Range<u64>)> {
        let range = stub_range(&self.layout, TEXT, 0).ok()?;
        Some((self.elsewhere.as_ref()?.stub_path(), range))
    }

    /// Bytes of a message whose object is not here, as `missing` says.
    pub(super) async fn bytes_elsewhere(
        &self,
        range: Range<u64>,
        missing: Error,
    ) -> Result<BoxStream<'static, Result<Vec<Bytes>>>> {
        let Some(elsewhere) = &self.elsewhere else { return Err(missing) };
        let known = self.known(elsewhere).await;
        let known = known.map_err(|e| if e.kind() == Kind::NotFound { missing } else { e })?;
        if range.end <= known.head.len() as u64 {
            let bytes = known.head.slice(range.start as usize..range.end as usize);
            return Ok(stream::once(async { Ok(vec![bytes]) }).boxed());
        }
        let Some(bodies) = &elsewhere.bodies else {
            let why = "the body of this message is evicted and not fetched here: open the message on its \
                       server, or use `sealpost archive export`";
            return Err(Error::offloaded(why));
        };
        let wanted = Wanted {
            account: elsewhere.account,
            object: elsewhere.object,
            size: self.layout.raw_bytes,
            sha256: known.sha256,
        };
        let body = bodies.body(wanted).await?;
        if body.size() != wanted.size {
            return Err(Error::offloaded("the fetched message differs from the one with the evicted body"));
        }
        let batches = body.batches(range);
        // It stays as long as it is read.
        Ok(batches.map(move |batch| (batch, body.clone()).0).boxed())
    }
}

impl MessageReader {
    /// The same reader, with a source for an evicted body. Earlier clones have none.
    pub fn with_bodies(mut self, bodies: Arc<dyn EvictedBodies>) -> Self {
        if let Some(source) = Arc::get_mut(self.source_mut())
            && let Some(elsewhere) = &mut source.elsewhere
        {
            elsewhere.bodies = Some(bodies);
        }
        self
    }

    /// SHA-256 of the message if its body was evicted; `None` if it is here.
    ///
    /// # Errors
    /// `NotFound` if there is nothing of it; `Corrupt` if the stub is not what was sealed;
    /// what the store says.
    pub async fn evicted(&self) -> Result<Option<[u8; 32]>> {
        let source = self.source();
        let missing = match source.store.size(&source.path).await {
            Ok(_) => return Ok(None),
            Err(e) if e.kind() == Kind::NotFound => e,
            Err(e) => return Err(e),
        };
        let Some(elsewhere) = &source.elsewhere else { return Err(missing) };
        match source.known(elsewhere).await {
            Ok(known) => Ok(Some(known.sha256)),
            Err(e) if e.kind() == Kind::NotFound => Err(missing),
            Err(e) => Err(e),
        }
    }

    /// The first bytes of the message if its body was evicted: its header, in almost all cases.
    /// `None` if it is here.
    ///
    /// # Errors
    /// As [`MessageReader::evicted`].
    pub async fn evicted_head(&self) -> Result<Option<Bytes>> {
        if self.evicted().await?.is_none() {
            return Ok(None);
        }
        Ok(self.source().stub.get().map(|known| known.head.clone()))
    }

    /// Reads the whole stub and checks every seal. `missing`: the error of the message
    /// object.
    pub(super) async fn verify_stub(&self, missing: Error) -> Result<()> {
        let source = self.source();
        let Some(elsewhere) = &source.elsewhere else { return Err(missing) };
        match source.known(elsewhere).await {
            Err(e) if e.kind() == Kind::NotFound => return Err(missing),
            known => known?,
        };
        let missing = || Error::not_found(format!("{} is not there", elsewhere.stub_path()));
        source.open_stub_section(STRUCTURE, missing()).await?;
        source.open_stub_section(TEXT, missing()).await?;
        let path = elsewhere.stub_path();
        let size = source.store.size(&path).await?;
        let head = stub_range(&source.layout, HEAD, size)?;
        let found = source.store.read_range(&path, head.end..size).await?;
        if !footer::is_of(&source.store, &path, STUB_MAGIC, source.layout.raw_bytes, &found) {
            return Err(Error::corrupt(format!("{path} has a wrong footer")));
        }
        Ok(())
    }
}

/// The range of a section within the stub, which has `size` bytes if the head is requested.
fn stub_range(layout: &Layout, section: u8, size: u64) -> Result<Range<u64>> {
    layout.check()?;
    let (structure, text) = (u64::from(layout.sealed_structure), u64::from(layout.sealed_text));
    let start = structure + text;
    match section {
        STRUCTURE => Ok(0..structure),
        TEXT => Ok(structure..start),
        _ => match size.checked_sub(FOOTER_BYTES as u64) {
            Some(end) if end > start && end - start <= MAX_SEALED_BYTES as u64 => Ok(start..end),
            _ => Err(Error::corrupt("a stub of a size that cannot be")),
        },
    }
}

/// For the fuzz target: an object as it is, of a message with the sizes that `data` begins with,
/// and a head that is sealed right and says what `data` says.
pub(crate) fn fuzz(cipher: &ObjectCipher, data: &[u8]) {
    let Some((sizes, object)) = data.split_first_chunk::<4>() else { return };
    let layout = Layout {
        raw_bytes: u64::from(sizes[0]),
        sealed_raw: u64::from(sizes[1]),
        sealed_text: u32::from(sizes[2]),
        sealed_structure: u32::from(sizes[3]),
        sealed_index: 0,
    };
    if let Ok(range) = stub_range(&layout, HEAD, object.len() as u64) {
        let _ = StubHead::open(cipher, &layout, &object[range.start as usize..range.end as usize]);
    }
    if object.len() <= CHUNK_BYTES {
        let mut sealed = Vec::new();
        chunk::seal_section_raw(cipher, HEAD, object, &mut sealed);
        if let Ok(known) = StubHead::open(cipher, &layout, &sealed) {
            assert_eq!([&known.sha256[..], &known.head].concat(), object);
            assert!(known.head.len() as u64 <= layout.raw_bytes);
        }
    }
}

#[cfg(test)]
mod tests;
