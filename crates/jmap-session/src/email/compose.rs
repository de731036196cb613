//! Composes the message that an Email object describes (RFC 8621 §4.6).
//!
//! Header fields are ASCII wherever their form allows encoded-words or parameters. Text is 7bit if possible,
//! else quoted-printable. Other bytes are base64, except messages, which keep their own encoding (RFC 2046
//! §5.2.1). Boundaries are random, so that no content can contain one on purpose.
//!
//! A message is a list of pieces: bytes, texts and blobs. Texts and blobs are encoded when the message is
//! stored, since several parts may refer to the same one.

mod body;
mod header;

use std::borrow::Cow;

use sealpost_base::{Random, Timestamp};
use sealpost_jmap::email::Email;
use sealpost_jmap::id::BlobId;
use sealpost_mime::encode;

/// A piece of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// Bytes.
    Bytes(Vec<u8>),
    /// A text to encode.
    Text(&'a str, TextEncoding),
    /// The bytes of a blob.
    Blob(BlobId, BlobEncoding),
}

/// How to encode a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextEncoding {
    /// Unchanged, with CRLF at line ends.
    SevenBit,
    /// Quoted-printable.
    Quoted,
}

impl TextEncoding {
    /// The most bytes that one byte of text can become: `=C3` with soft line breaks.
    pub(super) const GROWTH: usize = 4;

    /// Encodes a text as it appears in the message.
    pub(super) fn encode(self, text: &str) -> Cow<'_, str> {
        match self {
            TextEncoding::Quoted => encode::quoted_printable(text).into(),
            TextEncoding::SevenBit if text.contains('\n') => with_crlf(text).into(),
            TextEncoding::SevenBit => text.into(),
        }
    }
}

fn with_crlf(text: &str) -> String {
    let lines: Vec<&str> = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    lines.join("\r\n")
}

/// How to encode the bytes of a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlobEncoding {
    /// Base64 in lines.
    Base64,
    /// Unchanged.
    Identity,
}

/// The environment for composing messages.
pub(crate) struct Composer<'a> {
    /// The source of boundaries and message ids.
    pub(crate) random: &'a dyn Random,
    /// The host name for message ids.
    pub(crate) hostname: &'a str,
    /// The current time, for messages without a date.
    pub(crate) now: Timestamp,
}

impl Composer<'_> {
    /// Composes the message of an email that [`sealpost_jmap::email::for_create`] has read.
    pub(super) fn compose<'a>(&self, email: &'a Email) -> Vec<Piece<'a>> {
        let mut pieces = Pieces::default();
        pieces.text(&header::of_message(self, email));
        body::write(self, email, &mut pieces);
        pieces.0
    }

    /// Random bytes as hexadecimal digits.
    fn token(&self) -> String {
        let mut bytes = [0; 16];
        self.random.fill(&mut bytes);
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Pieces, with adjacent bytes merged.
#[derive(Debug, Default)]
struct Pieces<'a>(Vec<Piece<'a>>);

impl<'a> Pieces<'a> {
    fn text(&mut self, text: &str) {
        match self.0.last_mut() {
            Some(Piece::Bytes(bytes)) => bytes.extend_from_slice(text.as_bytes()),
            _ => self.0.push(Piece::Bytes(text.as_bytes().to_vec())),
        }
    }

    fn value(&mut self, value: &'a str, encoding: TextEncoding) {
        self.0.push(Piece::Text(value, encoding));
    }

    fn blob(&mut self, blob: &BlobId, encoding: BlobEncoding) {
        self.0.push(Piece::Blob(blob.clone(), encoding));
    }
}

/// Encodes bytes that arrive in pieces to base64, in whole lines.
#[derive(Debug, Default)]
pub(super) struct Base64Lines {
    /// Bytes of an incomplete line.
    held: Vec<u8>,
}

impl Base64Lines {
    /// Bytes per line of 76 characters (RFC 2045 §6.8).
    const LINE_BYTES: usize = 57;

    /// Takes the next bytes and returns the completed lines.
    pub(super) fn push(&mut self, bytes: &[u8]) -> String {
        self.held.extend_from_slice(bytes);
        let whole = self.held.len() / Self::LINE_BYTES * Self::LINE_BYTES;
        let lines = encode::base64(&self.held[..whole]);
        self.held.drain(..whole);
        lines
    }

    /// Returns the last, incomplete line.
    pub(super) fn finish(self) -> String {
        encode::base64(&self.held)
    }
}

#[cfg(test)]
mod tests;
