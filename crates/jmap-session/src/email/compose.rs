//! The message that an Email object means (RFC 8621 §4.6).
//!
//! Header fields are ASCII wherever they have a form with encoded-words or parameters; text is 7bit
//! where it can be, else quoted-printable; all other bytes are base64, except messages, which keep
//! their own encoding (RFC 2046 §5.2.1). Boundaries are random, so no part can contain one by
//! intent.
//!
//! The message is a list of pieces: bytes, and texts and blobs that are encoded when it is stored, as
//! several parts may have the same one.

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
    /// These bytes.
    Bytes(Vec<u8>),
    /// A text, which is not encoded yet.
    Text(&'a str, TextEncoding),
    /// The bytes of a blob.
    Blob(BlobId, BlobEncoding),
}

/// How a text is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextEncoding {
    /// As it is, with CRLF at the ends of lines.
    SevenBit,
    /// In quoted-printable.
    Quoted,
}

impl TextEncoding {
    /// Bytes that a byte of text becomes at most: `=C3` with soft line ends.
    pub(super) const GROWTH: usize = 4;

    /// The text as it is in the message.
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

/// How the bytes of a blob are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlobEncoding {
    /// In lines of base64.
    Base64,
    /// As they are.
    Identity,
}

/// What messages are made with.
pub(crate) struct Composer<'a> {
    /// Where boundaries and message ids come from.
    pub(crate) random: &'a dyn Random,
    /// The host name in message ids.
    pub(crate) hostname: &'a str,
    /// The time, for messages without a date.
    pub(crate) now: Timestamp,
}

impl Composer<'_> {
    /// The message of an email that [`sealpost_jmap::email::for_create`] has read.
    pub(super) fn compose<'a>(&self, email: &'a Email) -> Vec<Piece<'a>> {
        let mut pieces = Pieces::default();
        pieces.text(&header::of_message(self, email));
        body::write(self, email, &mut pieces);
        pieces.0
    }

    /// So many random bytes as hexadecimal digits.
    fn token(&self) -> String {
        let mut bytes = [0; 16];
        self.random.fill(&mut bytes);
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Pieces, of which none follows another one of bytes.
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

/// Base64 of bytes that come in pieces, in whole lines.
#[derive(Debug, Default)]
pub(super) struct Base64Lines {
    /// Bytes of an incomplete line.
    held: Vec<u8>,
}

impl Base64Lines {
    /// Bytes in a line of 76 characters (RFC 2045 §6.8).
    const LINE_BYTES: usize = 57;

    /// Takes the next bytes; the lines that are complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> String {
        self.held.extend_from_slice(bytes);
        let whole = self.held.len() / Self::LINE_BYTES * Self::LINE_BYTES;
        let lines = encode::base64(&self.held[..whole]);
        self.held.drain(..whole);
        lines
    }

    /// That was all; the last line.
    pub(super) fn finish(self) -> String {
        encode::base64(&self.held)
    }
}

#[cfg(test)]
mod tests;
