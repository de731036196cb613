//! Replies as a client reads them (RFC 5321 §4.2).

use std::borrow::Cow;
use std::fmt;

use bytes::{Buf, BytesMut};

use crate::types::{Enhanced, Reply};

/// Bytes of one reply line (RFC 5321 §4.5.3.1.5 allows 512; servers send more).
const LINE_BYTES: usize = 4096;
/// Lines of one reply.
const LINES: usize = 256;
/// Bytes of one reply, all its lines together.
const REPLY_BYTES: usize = 16 * 1024;

/// The server's output is no reply. Later output cannot be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyError {
    /// A line that does not begin with a code from 200 to 599.
    Code,
    /// Lines of one reply with different codes.
    Codes,
    /// A line or a reply beyond the limit.
    TooLong,
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReplyError::Code => "a reply line without a reply code",
            ReplyError::Codes => "a reply whose lines have different codes",
            ReplyError::TooLong => "a reply that is too long",
        })
    }
}

impl std::error::Error for ReplyError {}

/// Cuts a byte stream into replies.
#[derive(Debug, Default)]
pub struct ReplyDecoder {
    input: BytesMut,
    /// Bytes of `input` known to hold no line end.
    searched: usize,
    partial: Option<Reply>,
    /// Bytes of `partial`.
    bytes: usize,
}

impl ReplyDecoder {
    /// A decoder at the start of a connection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes bytes, cut anywhere.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// The next whole reply, if it is there.
    ///
    /// # Errors
    /// If the server does not speak the protocol.
    pub fn next_reply(&mut self) -> Result<Option<Reply>, ReplyError> {
        while let Some(found) = memchr::memchr(b'\n', &self.input[self.searched..]) {
            let end = self.searched + found;
            self.searched = 0;
            let (code, text, more) = line(&self.input[..end])?;
            self.input.advance(end + 1);
            self.bytes += end;
            if self.bytes > REPLY_BYTES {
                return Err(ReplyError::TooLong);
            }
            self.add(code, text)?;
            if !more {
                self.bytes = 0;
                return Ok(self.partial.take());
            }
        }
        self.searched = self.input.len();
        if self.searched > LINE_BYTES { Err(ReplyError::TooLong) } else { Ok(None) }
    }

    /// Whether there is input beyond the replies taken so far.
    pub fn has_input(&self) -> bool {
        self.partial.is_some() || !self.input.is_empty()
    }

    /// Drops unread input (RFC 3207 §4.2). Returns how many bytes that was.
    pub fn discard_input(&mut self) -> usize {
        let dropped = self.input.len();
        *self = Self::default();
        dropped
    }

    fn add(&mut self, code: u16, text: String) -> Result<(), ReplyError> {
        let (enhanced, text) = match Enhanced::split(&text) {
            // RFC 2034 §3: the class agrees with the code's first digit.
            Some((enhanced, rest)) if u16::from(enhanced.class) == code / 100 => {
                (Some(enhanced), rest.to_owned())
            }
            _ => (None, text),
        };
        let reply = self.partial.get_or_insert(Reply { code, enhanced, lines: Vec::new() });
        if reply.code != code {
            return Err(ReplyError::Codes);
        }
        if reply.lines.len() == LINES {
            return Err(ReplyError::TooLong);
        }
        reply.lines.push(Cow::Owned(text));
        Ok(())
    }
}

/// `Reply-code ( "-" / [ SP ] ) [ textstring ]`; code, text, whether more lines follow.
fn line(line: &[u8]) -> Result<(u16, String, bool), ReplyError> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() > LINE_BYTES {
        return Err(ReplyError::TooLong);
    }
    let (digits, rest) = line.split_at_checked(3).ok_or(ReplyError::Code)?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return Err(ReplyError::Code);
    }
    let code = digits.iter().fold(0, |code, digit| code * 10 + u16::from(digit - b'0'));
    let (more, text) = match rest {
        [] => (false, rest),
        [b' ', text @ ..] => (false, text),
        [b'-', text @ ..] => (true, text),
        _ => return Err(ReplyError::Code),
    };
    if !(200..600).contains(&code) {
        return Err(ReplyError::Code);
    }
    Ok((code, String::from_utf8_lossy(text).into_owned(), more))
}
