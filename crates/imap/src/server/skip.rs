//! [`Skip`]: reads a refused command to its end without holding it.

use bytes::{Buf, BytesMut};
use memchr::memchr;

use super::{Event, Limits};
use crate::parse::literal_at_end;

/// Bytes at a line's end that decide whether a literal follows: more than any literal header has.
const TAIL_BYTES: usize = 32;

pub(super) struct Skip {
    /// Bytes of a literal still to come.
    literal: u64,
    /// The end of the present line as far as it came.
    tail: Vec<u8>,
    /// Bytes of messages discarded so far.
    of_messages: u64,
    /// All others.
    of_command: u64,
    /// Literals are those of messages.
    messages: bool,
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
    /// A bound on discarded bytes is passed.
    TooMuch,
}

impl Skip {
    /// First `literal` bytes, then lines and literals up to the end of the command; then `event`.
    pub(super) fn new(literal: u64, event: Option<Event>) -> Self {
        let (of_messages, of_command) = (0, 0);
        Skip { literal, tail: Vec::new(), of_messages, of_command, messages: false, event, plain: false }
    }

    /// The same for a command that brings messages.
    pub(super) fn messages(literal: u64, event: Option<Event>) -> Self {
        Skip { messages: true, ..Self::new(literal, event) }
    }

    /// One line, whatever it holds.
    pub(super) fn line(event: Event) -> Self {
        Skip { plain: true, ..Self::new(0, Some(event)) }
    }

    /// Discards input of the command: at most as many bytes of messages as `limits` allows, and of
    /// the rest of the command (line ends not counted, so that the result does not depend on how
    /// the bytes are divided).
    pub(super) fn advance(&mut self, input: &mut BytesMut, limits: &Limits) -> Outcome {
        loop {
            let (so_far, most) = match self.messages {
                true => (&mut self.of_messages, limits.skipped_bytes),
                false => (&mut self.of_command, limits.skipped_command_bytes),
            };
            if so_far.saturating_add(self.literal) > most {
                return Outcome::TooMuch;
            }
            let here = usize::try_from(self.literal).unwrap_or(usize::MAX).min(input.len());
            input.advance(here);
            self.literal -= here as u64;
            *so_far += here as u64;
            if self.literal > 0 {
                return Outcome::Wait;
            }
            let end = memchr(b'\n', input);
            let line = &input[..end.unwrap_or(input.len())];
            self.of_command += line.len() as u64;
            if self.of_command > limits.skipped_command_bytes {
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
                // The end of the command, or a client that waits for the answer.
                _ => return Outcome::Done(self.event.take()),
            }
        }
    }
}
