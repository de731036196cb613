//! What a message object consists of, and where each part of it is.

use std::ops::Range;

use minicbor::{Decode, Encode};
use sealpost_base::limits::CHUNK_BYTES;
use sealpost_base::{Error, Result};

use super::footer;
use crate::chunk;

/// Plaintext bytes that the text or the structure of one message may have.
pub const SECTION_BYTES: usize = 4 * 1024 * 1024;

pub(super) const RAW: u8 = 0;
pub(super) const TEXT: u8 = 1;
pub(super) const STRUCTURE: u8 = 2;
pub(super) const INDEX: u8 = 3;
/// In a stub alone.
pub(super) const HEAD: u8 = 4;
pub(super) const FOOTER_BYTES: usize = footer::BYTES;
/// Bytes of one chunk's size in the index.
pub(super) const INDEX_ENTRY_BYTES: usize = 3;

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
    /// A compact object was written at once and begins with structure and text, so that they are
    /// read without the rest; others were written as the message arrived: raw first, then text,
    /// structure and index.
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
    pub(super) fn raw_chunks(&self) -> u64 {
        self.raw_bytes.div_ceil(CHUNK_BYTES as u64).max(1)
    }

    /// Where a section is within the object.
    pub(super) fn range(&self, section: u8) -> Range<u64> {
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
    pub(super) fn structure_and_text(&self) -> Range<u64> {
        let (structure, text) = (self.range(STRUCTURE), self.range(TEXT));
        structure.start.min(text.start)..structure.end.max(text.end)
    }

    /// Sealed bytes of structure and text together.
    pub fn structure_and_text_bytes(&self) -> u64 {
        u64::from(self.sealed_structure) + u64::from(self.sealed_text)
    }

    /// Refuses sizes that no writer produces, before anything is allocated by them.
    pub(super) fn check(&self) -> Result<()> {
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
