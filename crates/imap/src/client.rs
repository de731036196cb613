//! The client's side of a connection without the connection: bytes in, [`Event`]s out.
//!
//! However the bytes are divided, the events are the same, except for the pieces of
//! [`Event::LiteralData`]. A FETCH response comes out item by item, and a body of more than
//! [`Limits::inline_bytes`] in pieces, so that a message of any size takes constant memory.

mod decoder;

use bytes::Bytes;

pub use crate::parse::Value;
use crate::types::{DateTime, Flag, Response, Section};
pub use decoder::ResponseDecoder;

/// An event in the server's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A complete response other than FETCH.
    Response(Response),
    /// `* n FETCH (`
    FetchBegin(u32),
    /// `* uid UIDFETCH (` (RFC 9586 §3.3)
    UidFetchBegin(u32),
    /// One item of it.
    Fetch(FetchData),
    /// A body of more than [`Limits::inline_bytes`]: that many bytes follow.
    LiteralBegin(BodyName, u64),
    /// The next bytes of it, not empty.
    LiteralData(Bytes),
    /// The last of them was there.
    LiteralEnd,
    /// The FETCH response is complete.
    FetchEnd,
    /// The server does not speak IMAP, or passes the limits. No event follows.
    Broken(&'static str),
}

/// One item of a FETCH response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchData {
    /// `UID`
    Uid(u32),
    /// `FLAGS`
    Flags(Vec<Flag>),
    /// `FLAGS`: the valid ones, and some of the invalid ones in a printable form.
    FlagsInPart(Vec<Flag>, Vec<Box<str>>),
    /// `INTERNALDATE`
    InternalDate(DateTime),
    /// `INTERNALDATE` that is no date: the value in a printable form.
    NoDate(Box<str>),
    /// `RFC822.SIZE`
    Rfc822Size(u64),
    /// `BINARY.SIZE[section]` (RFC 3516 §4.3)
    BinarySize(Section, u64),
    /// `MODSEQ` (RFC 7162 §3.1.4)
    ModSeq(u64),
    /// `ENVELOPE`
    Envelope(Value),
    /// `BODY` or `BODYSTRUCTURE`
    BodyStructure(Value),
    /// A body that fits within [`Limits::inline_bytes`]; `None` is NIL.
    Body(BodyName, Option<Vec<u8>>),
    /// Any other: its name in upper case, and its value.
    Other(Box<str>, Value),
}

/// Which bytes of the message a body is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyName {
    /// `BODY[section]<start>`
    Section {
        /// The section.
        section: Section,
        /// Where the bytes begin, if a part was asked for.
        start: Option<u64>,
    },
    /// `RFC822`
    Rfc822,
    /// `RFC822.HEADER`
    Rfc822Header,
    /// `RFC822.TEXT`
    Rfc822Text,
}

/// Bounds on what the decoder holds for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a body that comes in one piece.
    pub inline_bytes: u64,
    /// Bytes of one response, bodies above `inline_bytes` not included.
    pub response_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { inline_bytes: 64 * 1024, response_bytes: 16 * 1024 * 1024 }
    }
}
