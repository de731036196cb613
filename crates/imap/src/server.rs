//! The server's side of a connection without the connection: bytes in, [`Event`]s out.
//!
//! However the bytes are divided, the events are the same. A command is held until it is complete, within
//! [`Limits::command_bytes`]; one that is longer is read and thrown away without being held, and answered. The
//! message of an APPEND is never held: it comes out in pieces as it comes in.
//!
//! ```text
//! loop {
//!     while let Some(event) = decoder.next() { … }       // until None: more bytes are needed
//!     socket.read_buf(decoder.buffer())                  // or decoder.feed(bytes)
//! }
//! ```

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use sealpost_base::limits;

use crate::types::{AppendHead, Code, Command, Tag};

/// What the client sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A complete, well-formed command.
    Command(Command),
    /// The client announced a literal of a command and waits: send `+ `, then ask for more events.
    NeedContinuation,
    /// An APPEND up to its message. Send `+ ` if [`AppendHead::sync`] and the message is wanted; else
    /// [`Decoder::refuse_append`] and answer NO. No [`Event::NeedContinuation`] comes for it.
    AppendBegin(AppendHead),
    /// The next octets of the message, not empty.
    AppendData(Bytes),
    /// The message was complete and so was the command line: commit and answer. If the line goes on wrongly,
    /// [`Event::Bad`] comes instead and the message must be forgotten.
    AppendEnd,
    /// A line, without its end, after [`Decoder::expect_line`].
    Line(Bytes),
    /// Answer BAD, with the tag if there was one, and go on.
    Bad {
        /// The tag of the command, if it could be read.
        tag: Option<Tag>,
        /// What is wrong, for the response text.
        reason: Cow<'static, str>,
    },
    /// Answer NO and go on: well-formed, but refused here (a message too big, a name that is no name).
    No {
        /// The tag of the command.
        tag: Tag,
        /// The response code that fits.
        code: Option<Code>,
        /// Why, for the response text.
        reason: Cow<'static, str>,
    },
    /// Answer BYE and close: the next command cannot be found, or it would take too much to find it. No event
    /// follows.
    Fatal {
        /// Why, for the response text.
        reason: Cow<'static, str>,
    },
}

/// What a client may make the decoder hold, read or throw away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one command, literals included, a message's not.
    pub command_bytes: usize,
    /// Octets of one message of APPEND: above it the answer is NO `[TOOBIG]`.
    pub append_bytes: u64,
    /// Bytes of one refused command that are thrown away before the connection is given up.
    pub skipped_bytes: u64,
}

impl Limits {
    /// Before login: small, and no message is accepted.
    pub fn anonymous() -> Self {
        Limits {
            command_bytes: limits::IMAP_COMMAND_BYTES_ANONYMOUS,
            append_bytes: 0,
            skipped_bytes: limits::IMAP_SKIPPED_BYTES_ANONYMOUS,
        }
    }

    /// After login.
    pub fn authenticated(append_bytes: u64) -> Self {
        Limits {
            command_bytes: limits::IMAP_COMMAND_BYTES,
            append_bytes,
            skipped_bytes: limits::IMAP_SKIPPED_BYTES,
        }
    }
}

/// The decoder: one for each connection.
#[derive(Debug)]
pub struct Decoder {
    input: BytesMut,
    limits: Limits,
    utf8: bool,
}

impl Decoder {
    /// A decoder that waits for a command.
    pub fn new(limits: Limits) -> Self {
        Decoder { input: BytesMut::new(), limits, utf8: false }
    }

    /// Other limits from the next command on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Mailbox names are UTF-8, not modified UTF-7, after `ENABLE IMAP4rev2` or `UTF8=ACCEPT`.
    pub fn set_utf8(&mut self, utf8: bool) {
        self.utf8 = utf8;
    }

    /// Adds bytes that came from the client. Take every event first, or the buffer grows.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// Where to read bytes into directly: only append to it.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.input
    }

    /// The next event; `None`: more bytes are needed.
    #[allow(clippy::should_implement_trait, reason = "None is not the end, only a pause")]
    pub fn next(&mut self) -> Option<Event> {
        None
    }

    /// The next line is not a command: it comes as [`Event::Line`] (AUTHENTICATE, IDLE). Call it once for each line.
    /// A line over `limits::IMAP_LINE_BYTES` comes as [`Event::Bad`] without a tag, and the exchange is over.
    pub fn expect_line(&mut self) {}

    /// After [`Event::AppendBegin`], or while its data comes: the message is not wanted. Octets that come
    /// nevertheless are thrown away; no further event for this command follows, unless it is [`Event::Fatal`].
    pub fn refuse_append(&mut self) {}

    /// Forgets what was received and not yet taken: before the TLS handshake, what came in the clear must not be
    /// taken for what was protected (RFC 3501 §6.2.1).
    pub fn clear(&mut self) {}

    /// Bytes received and not yet turned into events.
    pub fn pending(&self) -> usize {
        self.input.len()
    }
}
