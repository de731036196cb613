//! APPEND and REPLACE, piece by piece: their messages stream, and one command may bring many (RFC
//! 3501 §6.3.11, RFC 3502, RFC 4469, RFC 8508).
//!
//! The pieces follow each other as they stand in the command: one [`AppendHead`]; for each message
//! an [`AppendMessage`] and then its bytes, which are one [`AppendLiteral`] or, with CATENATE, any
//! number of literals and URLs.

use super::date::DateTime;
use super::flag::Flag;
use super::mailbox::Mailbox;
use super::sequence::SeqNumber;
use super::string::Tag;

/// APPEND or REPLACE up to its first message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppendHead {
    /// The tag its completion carries.
    pub tag: Tag,
    /// The message that goes away when the new one is there: REPLACE, or `UID REPLACE`.
    pub replaces: Option<Replaces>,
    /// Where to.
    pub mailbox: Mailbox,
}

/// The message that REPLACE replaces (RFC 8508 §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replaces {
    /// Whether the number is a UID.
    pub uid: bool,
    /// The message, in the selected mailbox.
    pub number: SeqNumber,
}

/// The arguments before a message's bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AppendMessage {
    /// Flags to set.
    pub flags: Vec<Flag>,
    /// The internal date to give it.
    pub date: Option<DateTime>,
    /// Whether it is put together from parts (RFC 4469 §3).
    pub catenate: bool,
}

/// Bytes that are announced: a message, or a part of one in CATENATE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppendLiteral {
    /// How many bytes.
    pub size: u64,
    /// Whether the client waits for `+ ` before it sends them.
    pub sync: bool,
    /// Whether it is a literal8 (`~{n}`), in which NUL is allowed (RFC 3516 §4.4).
    pub binary: bool,
    /// Whether it is `UTF8 (~{n}…)`: headers in UTF-8 (RFC 6855 §4).
    pub utf8: bool,
}
