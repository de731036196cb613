//! The server's side of a connection without the connection: bytes in, [`Event`]s out.
//!
//! However the bytes are divided, the events are the same. A command is held until it is complete,
//! within [`Limits::command_bytes`]; a longer one is discarded without being held, and answered.
//! The messages of an APPEND are never held: they come out in pieces as they come in, and so does
//! the command around them.
//!
//! ```text
//! loop {
//!     while let Some(event) = decoder.next() { … }       // until None: more bytes are needed
//!     socket.read_buf(decoder.buffer())                  // or decoder.feed(bytes)
//! }
//! ```

mod decoder;
mod line;
mod message;
mod skip;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use bytes::Bytes;
use sealpost_base::limits;

pub use decoder::Decoder;
pub use line::Line;

use crate::types::{AString, AppendHead, AppendLiteral, AppendMessage, Code, Command, Tag};

/// An event in the client's input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A complete, well-formed command.
    Command(Command),
    /// The client announced a literal of a command and waits: send `+ `, then ask for more events.
    NeedContinuation,
    /// An APPEND or REPLACE begins. Its pieces follow in the order in which they stand in the
    /// command, up to [`Event::AppendEnd`]; or else [`Event::Bad`], [`Event::No`] or
    /// [`Event::Fatal`] comes and all of it must be dropped. At any point
    /// [`Decoder::refuse_append`] ends it: answer NO then.
    AppendBegin(AppendHead),
    /// A message of it begins, and the one before is complete.
    AppendMessage(AppendMessage),
    /// A part of the message, to be found under this URL (RFC 4469).
    AppendUrl(AString),
    /// Bytes of the message are announced. Send `+ ` if [`AppendLiteral::sync`] and they are wanted. No
    /// [`Event::NeedContinuation`] comes for it.
    AppendLiteral(AppendLiteral),
    /// The next of these bytes, not empty.
    AppendData(Bytes),
    /// The last message is complete and so is the command line: commit and answer.
    AppendEnd,
    /// A line, without its end, after [`Decoder::expect_line`].
    Line(Line),
    /// Answer BAD, with the tag if there was one, and continue.
    Bad {
        /// The tag of the command, if it could be read.
        tag: Option<Tag>,
        /// The response code, if one fits.
        code: Option<Code>,
        /// The error, for the response text.
        reason: Cow<'static, str>,
    },
    /// Answer NO and continue: well-formed, but refused here (a message too big, an invalid name).
    No {
        /// The tag of the command.
        tag: Tag,
        /// The response code that fits.
        code: Option<Code>,
        /// Why, for the response text.
        reason: Cow<'static, str>,
    },
    /// Say goodbye and close: a line of HTTP came in the place of a command
    /// ([`cross_protocol`](sealpost_base::cross_protocol)). No event follows.
    Http,
    /// Answer BYE and close: the next command cannot be found, or too much input would have to be
    /// discarded to find it. No event follows.
    Fatal {
        /// Why, for the response text.
        reason: Cow<'static, str>,
    },
}

/// Bounds on what the decoder holds, reads or discards for a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one command, literals included; of one that brings messages, bytes between two of
    /// their literals.
    pub command_bytes: usize,
    /// Bytes of one literal of APPEND: above it the answer is NO `[TOOBIG]`. `None`: APPEND is answered BAD.
    pub append_bytes: Option<u64>,
    /// Bytes of a literal that the client does not wait with (`{n+}`): `None` for LITERAL+, which
    /// has no bound of its own, else that of LITERAL- (RFC 7888 §5).
    pub non_sync_bytes: Option<u64>,
    /// Bytes of one refused command's messages that are discarded before the connection is closed.
    pub skipped_bytes: u64,
    /// The same for all else of a refused command.
    pub skipped_command_bytes: u64,
}

impl Limits {
    /// Before login: small, and no message is accepted.
    pub fn anonymous() -> Self {
        Limits {
            command_bytes: limits::IMAP_COMMAND_BYTES_ANONYMOUS,
            append_bytes: None,
            non_sync_bytes: Some(limits::IMAP_LITERAL_MINUS_BYTES),
            skipped_bytes: limits::IMAP_SKIPPED_BYTES_ANONYMOUS,
            skipped_command_bytes: limits::IMAP_SKIPPED_BYTES_ANONYMOUS,
        }
    }

    /// After login.
    pub fn authenticated(append_bytes: u64) -> Self {
        Limits {
            command_bytes: limits::IMAP_COMMAND_BYTES,
            append_bytes: Some(append_bytes),
            non_sync_bytes: None,
            skipped_bytes: limits::IMAP_SKIPPED_BYTES,
            skipped_command_bytes: limits::IMAP_SKIPPED_COMMAND_BYTES,
        }
    }
}
