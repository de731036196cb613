//! [`Skip`]: reads a refused command to its end without holding it.

use bytes::{Buf, BytesMut};
use memchr::memchr;

use super::Event;
use crate::parse::literal_at_end;

/// Bytes at a line's end that decide whether a literal follows: more than any literal header has.
const TAIL_BYTES: usize = 32;

pub(super) struct Skip {
    /// Octets of a literal still to come.
    literal: u64,
    /// The end of the present line as far as it came.
    tail: Vec<u8>,
    /// Bytes thrown away so far.
    skipped: u64,
    /// The answer when the command's end is reached.
    event: Option<Event>,
    /// Whether this is a line in which literals mean nothing.
    plain: bool,
}

pub(super) enum Outcome {
    /// More bytes are needed.
    Wait,
    /// The next byte begins a new command.
    Done(Option<Event>),
    /// The bound on what is thrown away is passed.
    TooMuch,
}

impl Skip {
    /// First `literal` octets, then lines and literals up to the end of the command; then `event`.
    pub(super) fn new(literal: u64, event: Option<Event>) -> Self {
        Skip { literal, tail: Vec::new(), skipped: 0, event, plain: false }
    }

    /// The same, already answered.
    pub(super) fn silent(literal: u64) -> Self {
        Self::new(literal, None)
    }

    /// One line, whatever it holds.
    pub(super) fn line(event: Event) -> Self {
        Skip { plain: true, ..Self::new(0, Some(event)) }
    }

    /// Throws away what is there, at most `most` bytes in all (line ends not counted, so that the result does not
    /// depend on how the bytes are divided).
    pub(super) fn advance(&mut self, input: &mut BytesMut, most: u64) -> Outcome {
        loop {
            if self.skipped.saturating_add(self.literal) > most {
                return Outcome::TooMuch;
            }
            let here = usize::try_from(self.literal).unwrap_or(usize::MAX).min(input.len());
            input.advance(here);
            self.literal -= here as u64;
            self.skipped += here as u64;
            if self.literal > 0 {
                return Outcome::Wait;
            }
            let end = memchr(b'\n', input);
            let line = &input[..end.unwrap_or(input.len())];
            self.skipped += line.len() as u64;
            if self.skipped > most {
                return Outcome::TooMuch;
            }
            self.tail.extend_from_slice(&line[line.len().saturating_sub(TAIL_BYTES)..]);
            self.tail.drain(..self.tail.len().saturating_sub(TAIL_BYTES));
            let Some(end) = end else {
                input.clear();
                return Outcome::Wait;
            };
            input.advance(end + 1);
            let line = self.tail.strip_suffix(b"\r").unwrap_or(&self.tail);
            match literal_at_end(line) {
                Some(literal) if !self.plain && !literal.sync => {
                    self.literal = literal.size;
                    self.tail.clear();
                }
                // The end of the command, or the client waits and the answer will tell it.
                _ => return Outcome::Done(self.event.take()),
            }
        }
    }
}
