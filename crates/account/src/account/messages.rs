//! The messages of an account: storing new ones, and reading stored ones and their derived data.

use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use futures::stream::BoxStream;
use sealpost_base::{AccountId, Error, ObjectId, Result};
use sealpost_mime::{Layer, Structure, Text};
use sealpost_vault::message::MessageReader;

use super::Account;
use crate::decoded::{Decoded, Span};
use crate::event::Message;
use crate::ingest::{Ingest, IngestBatch, Later, Resealed, Stored};

/// Memory of a decoded structure, in multiples of its encoded size.
const DECODED_FACTOR: usize = 4;
/// The most bytes of a header that is cached.
const CACHED_HEADER_BYTES: usize = 16 * 1024;

impl Account {
    /// Starts to store a message.
    ///
    /// # Errors
    /// Store errors.
    pub async fn ingest(&self) -> Result<Ingest> {
        Ingest::new(&self.env, self.id, 0).await
    }

    /// As [`Account::ingest`], for a caller that also holds `beside` bytes of other buffers
    /// ([`Accounts::ingest_beside`]).
    ///
    /// # Errors
    /// Store errors.
    pub async fn ingest_beside(&self, beside: usize) -> Result<Ingest> {
        Ingest::new(&self.env, self.id, beside).await
    }

    /// Collects messages that arrive one after another and makes them durable together.
    pub fn later(&self) -> Later {
        Later::new(self.store().clone())
    }

    /// Starts to store complete messages: many cost little more than one.
    pub fn ingest_batch(&self) -> IngestBatch {
        IngestBatch::new(self.env.clone(), self.id)
    }

    /// Seals a message of this log for another log, without scanning it again.
    pub(crate) async fn reseal(&self, message: &Message, to: AccountId) -> Result<Stored> {
        let reader = self.reader(message);
        let (text, structure) = (reader.text().await?, reader.structure().await?);
        let mut writer = Resealed::new(&self.env, to, message).await?;
        let mut raw = reader.raw(0..message.size());
        while let Some(piece) = raw.try_next().await? {
            writer.write(&piece).await?;
        }
        writer.finish(&text, &structure).await
    }

    /// A reader of a stored message. It fetches an evicted body from its source.
    pub fn reader(&self, message: &Message) -> MessageReader {
        let store = self.env.store();
        let reader = MessageReader::new(store, self.id, message.object, &message.key, message.layout);
        let came = self.delivered().get(&message.object);
        self.asking(match came {
            Some(sealed) => reader.with_structure(Bytes::clone(&sealed)),
            None => reader,
        })
    }

    /// The structure of a message, cached if it was read recently.
    ///
    /// # Errors
    /// `Corrupt` if the object is damaged, `NotFound` if it does not exist, or store errors.
    pub async fn structure(&self, message: &Message) -> Result<Arc<Structure>> {
        self.structure_by(&self.reader(message), message).await
    }

    /// As [`Account::structure`], by a reader of that message that may already have parts of it.
    ///
    /// # Errors
    /// As [`Account::structure`].
    pub async fn structure_by(&self, reader: &MessageReader, message: &Message) -> Result<Arc<Structure>> {
        let cache = self.env.structures();
        if let Some(structure) = cache.get(&message.object) {
            return Ok(structure);
        }
        let encoded = reader.structure().await?;
        let structure = Arc::new(Structure::decode(&encoded)?);
        cache.put(self.id, message.object, structure.clone(), encoded.len() * DECODED_FACTOR);
        Ok(structure)
    }

    /// The structure of that message, if it is cached.
    pub fn cached_structure(&self, object: ObjectId) -> Option<Arc<Structure>> {
        self.env.structures().get(&object)
    }

    /// The header that [`Account::cache_header`] was given for that message, if it is still cached.
    pub fn cached_header(&self, object: ObjectId) -> Option<Arc<Vec<u8>>> {
        self.env.headers().get(&object)
    }

    /// Caches the header of a message as it is in the message, unless it is large: the newest messages, which
    /// clients list again and again, are in no segment yet.
    pub fn cache_header(&self, object: ObjectId, header: &[u8]) {
        if header.len() <= CACHED_HEADER_BYTES {
            self.env.headers().put(self.id, object, Arc::new(header.to_vec()), header.len());
        }
    }

    /// The decoded form of these layers of a message, at least one: cached if they were read recently,
    /// otherwise by reading through them one after another.
    ///
    /// # Errors
    /// As [`Account::structure`].
    pub async fn decoded(&self, message: &Message, layers: &[Layer]) -> Result<Arc<Decoded>> {
        self.decoded_by(message.object, &self.reader(message), layers).await
    }

    /// As [`Account::decoded`], by the reader of that object.
    pub(super) async fn decoded_by(
        &self,
        object: ObjectId,
        reader: &MessageReader,
        layers: &[Layer],
    ) -> Result<Arc<Decoded>> {
        let cache = self.env.decoded();
        let mut found: Option<Arc<Decoded>> = None;
        for (at, layer) in layers.iter().enumerate() {
            let key = (object, layers[..=at].to_vec());
            found = Some(match cache.get(&key) {
                Some(decoded) => decoded,
                None => {
                    let decoded = Arc::new(Decoded::measure(reader, found, layer.clone()).await?);
                    cache.put(self.id, key, decoded.clone(), decoded.memory());
                    decoded
                }
            });
        }
        found.ok_or_else(|| Error::internal("nothing to decode"))
    }

    /// The bytes of a span of a message.
    ///
    /// # Errors
    /// As [`Account::structure`].
    pub async fn bytes(&self, message: &Message, span: Span) -> Result<BoxStream<'static, Result<Bytes>>> {
        self.bytes_by(message.object, &self.reader(message), span).await
    }

    /// As [`Account::bytes`], by the reader of that object.
    pub(super) async fn bytes_by(
        &self,
        object: ObjectId,
        reader: &MessageReader,
        span: Span,
    ) -> Result<BoxStream<'static, Result<Bytes>>> {
        if span.layers.is_empty() {
            return Ok(reader.raw(span.range));
        }
        Ok(self.decoded_by(object, reader, &span.layers).await?.stream(reader, span.range))
    }

    /// The searchable text of a message.
    ///
    /// # Errors
    /// As [`Account::structure`].
    pub async fn text(&self, message: &Message) -> Result<Text> {
        Text::decode(&self.reader(message).text().await?)
    }

    /// Calls `each` with the index and the searchable text of each of several messages, in order. They are
    /// read together, so the caller must bound their number, and opened one after another.
    pub async fn texts(&self, messages: &[&Message], mut each: impl FnMut(usize, Result<Text>)) {
        let readers: Vec<MessageReader> = messages.iter().map(|message| self.reader(message)).collect();
        MessageReader::texts(&readers, |at, text| each(at, text.and_then(|text| Text::decode(&text)))).await;
    }
}
