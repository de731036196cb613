//! Stores a message as its bytes arrive: scanned, sealed and written chunk by chunk.
//!
//! For a message of any size, an ingest holds a few chunks, the capped text and the structure. Nothing refers
//! to the object before an event does; an object that never gets an event is collected after the grace
//! period.

mod age;
mod later;
mod stored;
mod whole;

use sealpost_base::{AccountId, ObjectId, Result, limits};
use sealpost_mime::{CappedText, Scanner};
use sealpost_vault::message::{MessageKey, MessageWriter};

use crate::env::AccountEnv;
use crate::event::Message;
use crate::thread::{ThreadId, Threading};
use age::Age;
pub(crate) use age::UNDER_WAY;
pub use later::Later;
pub use stored::Stored;
pub use whole::IngestBatch;

/// The most that the scanner holds of a message: its text, its structure, and a header field with the next
/// line.
const SCANNED_BYTES: usize = limits::TEXT_BYTES
    + limits::STRUCTURE_BYTES
    + limits::MIME_PARTS * limits::MIME_PART_BYTES
    + 2 * limits::HEADER_FIELD_BYTES;

/// A message that is being stored. Dropping it leaves nothing behind.
pub struct Ingest {
    object: ObjectId,
    key: MessageKey,
    scanner: Scanner<CappedText>,
    writer: MessageWriter,
    size: u64,
    /// Whether a small structure becomes part of the delivery's event.
    goes_along: bool,
    age: Age,
}

/// A message that is stored again for another log, with its existing text and structure.
pub(crate) struct Resealed {
    origin: ObjectId,
    object: ObjectId,
    key: MessageKey,
    thread: ThreadId,
    writer: MessageWriter,
    age: Age,
}

impl Ingest {
    /// `beside`: bytes that the caller holds as long as the ingest lives, reserved together with its own.
    pub(crate) async fn new(env: &AccountEnv, account: AccountId, beside: usize) -> Result<Self> {
        let random = env.random();
        let object = ObjectId::random(random);
        let key = MessageKey::generate(random);
        let age = Age::begin(env.shared_clock());
        let writer =
            MessageWriter::beside(env.store(), account, object, &key, env.storing(), beside + SCANNED_BYTES);
        let writer = writer.await?;
        let goes_along = env.store().wants_packs();
        Ok(Ingest { object, key, scanner: Scanner::new(), writer, size: 0, goes_along, age })
    }

    /// Writes the next bytes of the message, unchanged.
    ///
    /// # Errors
    /// Store errors; the ingest must not be used again.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.scanner.push(bytes);
        self.size += bytes.len() as u64;
        self.writer.write(bytes).await
    }

    /// Bytes so far.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Stores the rest of the message, with its text and structure. Durable when it returns.
    ///
    /// # Errors
    /// Store errors; nothing remains then.
    pub async fn finish(self) -> Result<Stored> {
        let Scanned { text, structure, threading } = scanned(self.scanner, self.object);
        let layout = self.writer.finish(&text, &structure).await?;
        Ok(Stored::new(self.object, self.key, layout, threading, self.age))
    }

    /// As [`Ingest::finish`], for a message that will be [delivered](Accounts::deliver). In a remote store,
    /// where each request counts, a small structure becomes part of the event.
    ///
    /// # Errors
    /// As [`Ingest::finish`].
    pub async fn finish_to_deliver(self) -> Result<Stored> {
        let Scanned { text, structure, threading } = scanned(self.scanner, self.object);
        let (layout, sealed) = self.writer.finish_with_structure(&text, &structure).await?;
        let structure =
            (self.goes_along && sealed.len() <= limits::DELIVERED_STRUCTURE_BYTES).then_some(sealed);
        Ok(Stored { structure, ..Stored::new(self.object, self.key, layout, threading, self.age) })
    }
}

/// The scan result of a complete message.
struct Scanned {
    /// Its text and structure in stored form.
    text: Vec<u8>,
    structure: Vec<u8>,
    threading: Threading,
}

fn scanned(scanner: Scanner<CappedText>, object: ObjectId) -> Scanned {
    let (structure, text) = scanner.finish();
    let threading = Threading::of(&structure.envelope, object);
    Scanned { text: text.into_text().encode(), structure: structure.encode(), threading }
}

impl Resealed {
    /// Stores `message` again, for `account`.
    pub(crate) async fn new(env: &AccountEnv, account: AccountId, message: &Message) -> Result<Self> {
        let random = env.random();
        let (object, key) = (ObjectId::random(random), MessageKey::generate(random));
        let age = Age::begin(env.shared_clock());
        let writer = MessageWriter::new(env.store(), account, object, &key, env.storing()).await?;
        Ok(Resealed { origin: message.first_object(), object, key, thread: message.thread, writer, age })
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.writer.write(bytes).await
    }

    pub(crate) async fn finish(self, text: &[u8], structure: &[u8]) -> Result<Stored> {
        let layout = self.writer.finish(text, structure).await?;
        let origin = Some(Box::new(self.origin));
        // It stays in its thread.
        let threading = Threading::decided(self.thread);
        Ok(Stored { origin, ..Stored::new(self.object, self.key, layout, threading, self.age) })
    }
}
