//! One sealed message object: its raw bytes, its searchable text and its structure, each readable by itself.
//!
//! Every message has its own random key, which lives in the event that points to the message. A [`MessageWriter`]
//! seals while bytes arrive and holds a few chunks at most, whatever the size of the message; a [`MessageReader`]
//! opens only the chunks it is asked for. Small ones that are there whole are sealed and stored many at a time ([`Whole`]).
//! Of a message whose body was given up the rest stays ([`Thin`]), and readers ask elsewhere for the body ([`Bodies`]). What is read was authenticated: account, object, section, number and
//! the end of each section are bound to every chunk. Format: `docs/format/message-object.md`.

mod footer;
mod reader;
pub(crate) mod thin;
mod whole;
mod writer;

use std::ops::Range;

use minicbor::{Decode, Encode};
use sealpost_base::limits::CHUNK_BYTES;
use sealpost_base::{AccountId, Error, ObjectId, Random, Result};
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::chunk;
use crate::cipher::{ObjectCipher, sha256};

pub use footer::size_in;
pub use reader::{MessageReader, READER_BYTES};
pub use thin::{Bodies, HEAD_BYTES, Thin, Wanted, thin_path};
pub use whole::Whole;
pub use writer::{Finished, MessageWriter, WRITER_BYTES};

/// Plaintext bytes that the text or the structure of one message may have.
pub const SECTION_BYTES: usize = 4 * 1024 * 1024;

const RAW: u8 = 0;
const TEXT: u8 = 1;
const STRUCTURE: u8 = 2;
const INDEX: u8 = 3;
/// In a thin object alone.
const HEAD: u8 = 4;
const FOOTER_BYTES: usize = footer::BYTES;
/// Bytes of one chunk's size in the index.
const INDEX_ENTRY_BYTES: usize = 3;

/// The key of one message object: 32 random bytes, never used for another one.
#[derive(Clone, Zeroize, ZeroizeOnDrop, Encode, Decode)]
#[cbor(transparent)]
pub struct MessageKey(#[cbor(n(0), with = "minicbor::bytes")] [u8; 32]);

impl MessageKey {
    /// A new key.
    pub fn generate(random: &dyn Random) -> Self {
        let mut key = MessageKey([0; 32]);
        random.fill(&mut key.0);
        key
    }

    /// The key of these bytes, as [`MessageKey::as_bytes`] gave them.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        MessageKey(bytes)
    }

    /// The secret bytes, for the sealed event that carries them.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// The sizes of a message object's sections, in bytes; kept with its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Layout {
    /// The message itself, as it was received.
    #[n(0)]
    pub raw_bytes: u64,
    /// The sealed raw chunks.
    #[n(1)]
    pub sealed_raw: u64,
    /// The sealed text chunks.
    #[n(2)]
    pub sealed_text: u32,
    /// The sealed structure chunks.
    #[n(3)]
    pub sealed_structure: u32,
    /// The sealed index; 0 in a compact object (see [`Layout::is_compact`]).
    #[n(4)]
    pub sealed_index: u32,
}

impl Layout {
    /// A compact object was written at once and begins with structure and text, so that they are read without the
    /// rest; others were written as the message arrived: raw first, then text, structure and index.
    pub fn is_compact(&self) -> bool {
        self.sealed_index == 0
    }

    /// Size of the whole object in bytes.
    pub fn object_bytes(&self) -> u64 {
        self.sealed_raw
            .saturating_add(self.sealed_text.into())
            .saturating_add(self.sealed_structure.into())
            .saturating_add(self.sealed_index.into())
            .saturating_add(FOOTER_BYTES as u64)
    }

    /// Chunks of the raw section; an empty message has one, so that its emptiness is sealed too.
    fn raw_chunks(&self) -> u64 {
        self.raw_bytes.div_ceil(CHUNK_BYTES as u64).max(1)
    }

    /// Where a section is within the object.
    fn range(&self, section: u8) -> Range<u64> {
        let (raw, text) = (self.sealed_raw, u64::from(self.sealed_text));
        let (structure, index) = (u64::from(self.sealed_structure), u64::from(self.sealed_index));
        let (start, size) = match (section, self.is_compact()) {
            (STRUCTURE, true) => (0, structure),
            (TEXT, true) => (structure, text),
            (RAW, true) => (structure.saturating_add(text), raw),
            (RAW, false) => (0, raw),
            (TEXT, false) => (raw, text),
            (STRUCTURE, false) => (raw.saturating_add(text), structure),
            _ => (raw.saturating_add(text).saturating_add(structure), index),
        };
        start..start.saturating_add(size)
    }

    /// Where structure and text are, which are neighbours.
    fn structure_and_text(&self) -> Range<u64> {
        let (structure, text) = (self.range(STRUCTURE), self.range(TEXT));
        structure.start.min(text.start)..structure.end.max(text.end)
    }

    /// Sealed bytes of structure and text together.
    pub fn structure_and_text_bytes(&self) -> u64 {
        u64::from(self.sealed_structure) + u64::from(self.sealed_text)
    }

    /// Refuses sizes that no writer produces, before anything is allocated by them.
    fn check(&self) -> Result<()> {
        let most = |plain: u64| {
            let chunks = plain.div_ceil(CHUNK_BYTES as u64).max(1);
            let beside = chunks.saturating_mul(chunk::OVERHEAD_BYTES as u64);
            beside.saturating_add(plain).saturating_add(chunk::MAX_PADDING_BYTES as u64)
        };
        let chunks = self.raw_chunks();
        let sound = u32::try_from(chunks).is_ok()
            && self.sealed_raw <= most(self.raw_bytes)
            && self.sealed_raw >= chunks.saturating_mul(chunk::OVERHEAD_BYTES as u64)
            && u64::from(self.sealed_text) <= most(SECTION_BYTES as u64)
            && u64::from(self.sealed_structure) <= most(SECTION_BYTES as u64)
            && u64::from(self.sealed_index) <= most(chunks.saturating_mul(INDEX_ENTRY_BYTES as u64));
        if sound { Ok(()) } else { Err(Error::corrupt("a message layout that cannot be")) }
    }
}

/// The path of a message object.
pub fn path(account: AccountId, object: ObjectId) -> String {
    format!("acct/{account}/msg/{object}")
}

fn cipher(account: AccountId, object: ObjectId, key: &MessageKey) -> ObjectCipher {
    let context = sha256(&[b"sealpost message v1", &account.0, &object.0]);
    ObjectCipher::new(&[], &key.0, context)
}

#[cfg(test)]
mod misled;
#[cfg(test)]
mod tests;
