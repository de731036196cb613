//! The server's side of the protocol: bytes in, cut anywhere, and [`Event`]s out.
//!
//! The decoder only frames and parses; the caller decides what a command means in its session. The
//! decoder never reads ahead of that decision: after [`Event::Command`] of DATA the caller either
//! calls [`Decoder::begin_data`] or continues, and further input is read accordingly. Bytes of BDAT
//! are always framed as such, even if the transaction failed (RFC 3030 §2). Memory: one command line, and
//! input that the caller has not taken yet.

#[cfg(test)]
mod tests;

use bytes::{Buf, Bytes, BytesMut};
use sealpost_base::{cross_protocol, limits};
use zeroize::Zeroize;

use crate::data::{DataDecoder, End, Piece};
use crate::parse;
use crate::types::{Command, Misuse, Secret};

/// An event in the client's input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A command. For BDAT, its bytes follow as [`Event::Data`], then [`Event::ChunkEnd`].
    Command(Command),
    /// A line that is no command; the session continues after the reply.
    Bad(Misuse),
    /// The line that answers a challenge of AUTH, without its CRLF; see [`Decoder::expect_auth_line`].
    AuthLine(Secret),
    /// Bytes of the message, of DATA (without added dots) or of a BDAT chunk.
    Data(Bytes),
    /// The end of DATA's message.
    DataEnd(End),
    /// The end of a BDAT chunk.
    ChunkEnd,
    /// Later input cannot be parsed; the session must end.
    Fatal(Fatal),
}

/// Why a session must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fatal {
    /// A line that still did not end after [`limits::SMTP_DISCARD_BYTES`].
    EndlessLine,
    /// A BDAT chunk whose size does not fit: its end cannot be found.
    ChunkSize,
    /// A line of HTTP ([`cross_protocol`]): further input is not from a mail client.
    Http,
}

#[derive(Debug)]
enum Mode {
    /// Reading a command line.
    Line,
    /// Reading the answer to a challenge of AUTH.
    AuthLine,
    /// Dropping the rest of a bad line; how many bytes so far, and whether the last one was CR.
    Discard { bytes: usize, cr: bool },
    /// Mail data of DATA.
    Data(DataDecoder),
    /// Bytes of a BDAT chunk still to come.
    Chunk(u64),
    /// Bytes to drop after a BDAT line that was wrong, which is reported after them.
    Swallow { bytes: u64, misuse: Misuse },
    /// After [`Event::Fatal`].
    Dead,
}

/// The result of one step.
enum Step {
    Event(Event),
    Again,
    Starved,
}

/// Cuts a client's bytes into events.
#[derive(Debug)]
pub struct Decoder {
    input: BytesMut,
    mode: Mode,
    /// Bytes of `input` that were searched for a line end already.
    searched: usize,
    line_limit: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// A decoder at the start of a session, with [`limits::SMTP_COMMAND_BYTES`].
    pub fn new() -> Self {
        Self::with_line_limit(limits::SMTP_COMMAND_BYTES)
    }

    /// A decoder that takes command lines of up to `bytes`, CRLF included.
    pub fn with_line_limit(bytes: usize) -> Self {
        Decoder { input: BytesMut::new(), mode: Mode::Line, searched: 0, line_limit: bytes }
    }

    /// Takes bytes, cut anywhere.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// The buffer, to read into it directly in place of [`Decoder::feed`]. Append only.
    pub fn space(&mut self, bytes: usize) -> &mut BytesMut {
        self.input.reserve(bytes);
        &mut self.input
    }

    /// Frees the memory of an empty buffer, before a wait.
    pub fn release(&mut self) {
        if self.input.is_empty() {
            self.input = BytesMut::new();
        }
    }

    /// The next event; `None` until more bytes are fed.
    pub fn next_event(&mut self) -> Option<Event> {
        loop {
            match self.step() {
                Step::Event(event) => return Some(event),
                Step::Again => {}
                Step::Starved => return None,
            }
        }
    }

    /// The server sent 354: mail data follows. Call it right after the DATA command.
    pub fn begin_data(&mut self) {
        self.searched = 0;
        self.mode = Mode::Data(DataDecoder::new());
    }

    /// The server sent a challenge (334): the next line answers it, whatever it looks like, and may
    /// have up to [`limits::SMTP_AUTH_LINE_BYTES`]. Call it right after AUTH, or after the answer
    /// before.
    pub fn expect_auth_line(&mut self) {
        self.searched = 0;
        self.mode = Mode::AuthLine;
    }

    /// Drops all input that the caller has not taken. Returns how many bytes that was. Call it before TLS
    /// starts: plaintext input must not pass for protected input (RFC 3207 §4.2).
    pub fn discard_input(&mut self) -> usize {
        let dropped = self.input.len();
        self.input.clear();
        self.searched = 0;
        self.mode = Mode::Line;
        dropped
    }

    fn step(&mut self) -> Step {
        match &mut self.mode {
            Mode::Line | Mode::AuthLine => self.line(),
            Mode::Discard { .. } => self.discard(),
            Mode::Data(decoder) => match decoder.next_piece(&mut self.input) {
                None => Step::Starved,
                Some(Piece::Data(data)) => Step::Event(Event::Data(data)),
                Some(Piece::End(end)) => self.back_to_lines(Event::DataEnd(end)),
            },
            Mode::Chunk(0) => self.back_to_lines(Event::ChunkEnd),
            Mode::Chunk(left) => {
                take(&mut self.input, left).map_or(Step::Starved, |data| Step::Event(Event::Data(data)))
            }
            Mode::Swallow { bytes: 0, misuse } => {
                let misuse = *misuse;
                self.back_to_lines(Event::Bad(misuse))
            }
            Mode::Swallow { bytes, .. } => {
                take(&mut self.input, bytes).map_or(Step::Starved, |_| Step::Again)
            }
            Mode::Dead => {
                self.input.clear();
                Step::Starved
            }
        }
    }

    fn back_to_lines(&mut self, event: Event) -> Step {
        self.mode = Mode::Line;
        self.searched = 0;
        Step::Event(event)
    }

    fn line(&mut self) -> Step {
        let is_auth = matches!(self.mode, Mode::AuthLine);
        let limit = if is_auth { limits::SMTP_AUTH_LINE_BYTES } else { self.line_limit };
        let window = self.input.len().min(limit);
        let Some(found) = memchr::memchr(b'\n', &self.input[self.searched..window]) else {
            self.searched = window;
            return if window < limit { Step::Starved } else { self.bad_line(window, Misuse::LineTooLong) };
        };
        let end = self.searched + found;
        // RFC 5321 §2.3.8: only CRLF ends a line. Text behind a bare LF is dropped up to a real
        // line end, so that it is never a command.
        if end == 0 || self.input[end - 1] != b'\r' {
            return self.bad_line(end + 1, Misuse::LineEnd);
        }
        let mut line = self.input.split_to(end + 1);
        self.searched = 0;
        if is_auth {
            return self.auth_line(&mut line[..end - 1]);
        }
        if is_http(&line) {
            return self.fatal(Fatal::Http);
        }
        let step = self.parsed(&line[..end - 1]);
        if matches!(step, Step::Event(Event::Command(Command::Auth(_)))) {
            line.as_mut().zeroize();
        }
        step
    }

    /// Base64 has no other characters; the copy in the input is wiped.
    fn auth_line(&mut self, line: &mut [u8]) -> Step {
        let event = match std::str::from_utf8(line) {
            Ok(text) if text.bytes().all(|b| b.is_ascii_graphic()) => Event::AuthLine(Secret::new(text)),
            _ => Event::Bad(Misuse::Characters),
        };
        line.zeroize();
        self.back_to_lines(event)
    }

    fn parsed(&mut self, line: &[u8]) -> Step {
        // A bare CR is a control character, which no command has. It only gets another reply.
        let parsed = if line.contains(&b'\r') { Err(Misuse::LineEnd) } else { parse::command(line) };
        if let Ok(Command::Bdat(chunk)) = &parsed {
            self.mode = Mode::Chunk(chunk.size);
        }
        let misuse = match parsed {
            Ok(command) => return Step::Event(Event::Command(command)),
            Err(misuse) => misuse,
        };
        match parse::bdat_digits(line).map(str::parse) {
            None => Step::Event(Event::Bad(misuse)),
            Some(Ok(bytes)) => {
                self.mode = Mode::Swallow { bytes, misuse };
                Step::Again
            }
            Some(Err(_)) => self.fatal(Fatal::ChunkSize),
        }
    }

    fn bad_line(&mut self, bytes: usize, misuse: Misuse) -> Step {
        if is_http(&self.input) {
            return self.fatal(Fatal::Http);
        }
        let cr = self.input[bytes - 1] == b'\r';
        self.input.advance(bytes);
        self.searched = 0;
        self.mode = Mode::Discard { bytes: 0, cr };
        Step::Event(Event::Bad(misuse))
    }

    fn discard(&mut self) -> Step {
        let Mode::Discard { bytes, cr } = &mut self.mode else { return Step::Again };
        let window = self.input.len().min(limits::SMTP_DISCARD_BYTES - *bytes);
        let line_end = memchr::memchr_iter(b'\n', &self.input[..window])
            .find(|&lf| if lf == 0 { *cr } else { self.input[lf - 1] == b'\r' });
        if let Some(lf) = line_end {
            self.input.advance(lf + 1);
            self.mode = Mode::Line;
            return Step::Again;
        }
        if let Some(&last) = self.input[..window].last() {
            *cr = last == b'\r';
        }
        *bytes += window;
        let endless = *bytes == limits::SMTP_DISCARD_BYTES;
        self.input.advance(window);
        if endless { self.fatal(Fatal::EndlessLine) } else { Step::Starved }
    }

    fn fatal(&mut self, fatal: Fatal) -> Step {
        self.mode = Mode::Dead;
        self.input.clear();
        Step::Event(Event::Fatal(fatal))
    }
}

/// Whether the line that `input` begins with is one of HTTP. No command begins with a method, or
/// with a word that ends in a colon.
fn is_http(input: &[u8]) -> bool {
    cross_protocol::begins_with_method(input) || cross_protocol::is_header_field(input)
}

/// Takes up to `left` bytes from the front of `input` and counts them; `None` if there are none.
fn take(input: &mut BytesMut, left: &mut u64) -> Option<Bytes> {
    if input.is_empty() {
        return None;
    }
    let bytes = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
    *left -= bytes as u64;
    Some(input.split_to(bytes).freeze())
}
