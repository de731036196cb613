//! The scanner: takes a message in pieces and produces its structure and its text.
//!
//! MIME consists of lines, so the scanner goes from LF to LF. In a header every line is collected
//! (up to `limits::HEADER_FIELD_BYTES`). In a body a line is only examined if it starts with `--`;
//! all others are skipped at the speed of `memchr`, and passed to the text [`pipe`] if the part is
//! text. A line end is withheld from the text until the next line is known not to be a boundary,
//! because the line end before a boundary belongs to the boundary (RFC 2046 §5.1.1).
//!
//! Decisions made here:
//! - A boundary is compared with the beginning of the line, as RFC 2046 §5.1.1 requires; if several
//!   parts are open, an exact match takes precedence over a longer line, the innermost part over an
//!   outer one. A boundary also ends a header.
//! - A part that is never closed ends where the part around it ends, or with the message.
//! - Boundaries beyond `limits::MIME_PARTS` are ordinary lines. Multiparts and messages nested
//!   deeper than `limits::MIME_DEPTH` are `application/octet-stream`, and not scanned.
//! - A message in base64 or quoted-printable, which RFC 2046 §5.2.1 forbids, is decoded and scanned
//!   like any other ([`feed`]).

mod feed;
mod fields;
mod frame;
mod pipe;

use memchr::memchr;
use sealpost_base::limits;

use crate::envelope::Envelope;
use crate::header::line_content;
use crate::structure::{Part, Structure};
use crate::text::{CappedText, TextSink};
use feed::Feed;
use fields::ValueBudget;
use frame::Frame;
use pipe::Preview;

/// Bytes of a line that decide whether it is a boundary.
const BOUNDARY_LINE_BYTES: usize = 512;

/// Scans one message. Memory is bounded for any input.
pub struct Scanner<S: TextSink = CappedText> {
    shared: Shared<S>,
    walk: Walk,
}

/// State shared by the scan of a message and those of encoded messages inside it.
struct Shared<S> {
    sink: S,
    preview: Preview,
    room: ValueBudget,
    /// Parts opened so far.
    parts: usize,
}

/// The state of the scan of one message, from its first byte to its last.
struct Walk {
    /// Encoded messages around this one.
    layers: usize,
    /// Bytes taken so far: the offset of the next one.
    offset: u64,
    /// LF seen so far.
    lines: u64,
    mode: Mode,
    /// In a header: the line so far. In a body: the start of a line that may be a boundary.
    line: Vec<u8>,
    /// Where that line starts.
    line_offset: u64,
    /// The header field so far, unfinished because the next line may continue it.
    field: Vec<u8>,
    /// In a body, the next byte begins a line.
    line_start: bool,
    /// The last byte was CR.
    cr: bool,
    /// Bytes of the line end before the current line, if it belongs to the body being scanned.
    eol: u64,
    /// The parts that are open, outermost first.
    frames: Vec<Frame>,
    root: Part,
    envelope: Envelope,
    /// Receives the body of the innermost part.
    feed: Option<Feed>,
    /// The line end withheld from it: nothing, CR, LF or CRLF.
    held: &'static [u8],
    received_fields: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// In the header of the innermost part.
    Header,
    /// In the body of the innermost part; if that is a multipart, in its preamble or epilogue.
    Body,
    /// In a boundary line, after the bytes that decided it.
    Boundary { closing: bool },
}

impl Scanner<CappedText> {
    /// A scanner that keeps `limits::TEXT_BYTES` of text.
    pub fn new() -> Self {
        Self::with_sink(CappedText::default())
    }
}

impl Default for Scanner<CappedText> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: TextSink> Scanner<S> {
    /// A scanner that writes the text to `sink`.
    pub fn with_sink(sink: S) -> Self {
        let shared = Shared { sink, preview: Preview::default(), room: ValueBudget::default(), parts: 1 };
        Scanner { shared, walk: Walk::new(0, 0) }
    }

    /// Takes the next bytes of the message.
    pub fn push(&mut self, bytes: &[u8]) {
        self.walk.push(bytes, &mut self.shared);
    }

    /// Ends the message.
    pub fn finish(mut self) -> (Structure, S) {
        self.walk.finish(&mut self.shared);
        let Scanner { shared, walk } = self;
        let structure = Structure {
            size: walk.offset,
            lines: walk.lines,
            root: walk.root,
            envelope: walk.envelope,
            preview: Some(shared.preview.into_text()),
            received_fields: walk.received_fields,
            limited: shared.room.limited,
        };
        (structure, shared.sink)
    }
}

impl Walk {
    /// The scan of a message at that depth, within so many encoded ones.
    fn new(depth: usize, layers: usize) -> Self {
        Walk {
            layers,
            offset: 0,
            lines: 0,
            mode: Mode::Header,
            line: Vec::new(),
            line_offset: 0,
            field: Vec::new(),
            line_start: true,
            cr: false,
            eol: 0,
            frames: vec![Frame::message(0, depth)],
            root: Part::default(),
            envelope: Envelope::default(),
            feed: None,
            held: b"",
            received_fields: 0,
        }
    }

    /// Whether the innermost part is the scanned message, and not one inside it.
    fn is_top(&self) -> bool {
        self.layers == 0 && self.frames.len() == 1
    }

    fn push(&mut self, mut bytes: &[u8], shared: &mut Shared<impl TextSink>) {
        while !bytes.is_empty() {
            let used = match self.mode {
                Mode::Header => self.header(bytes, shared),
                Mode::Body if !self.line.is_empty() => self.doubtful_line(bytes, shared),
                Mode::Body => self.body(bytes, shared),
                Mode::Boundary { closing } => self.rest_of_boundary(bytes, closing, shared),
            };
            bytes = &bytes[used..];
        }
    }

    fn finish(&mut self, shared: &mut Shared<impl TextSink>) {
        let line = std::mem::take(&mut self.line);
        match self.mode {
            Mode::Header if !line.is_empty() => self.header_line(&line, 0, shared),
            Mode::Body if !line.is_empty() => self.decide(&line, shared),
            _ => {}
        }
        if let Mode::Boundary { closing } = self.mode {
            self.after_boundary(closing, shared);
        }
        self.end_open_headers(self.offset, shared);
        self.end_text(true, shared);
        while !self.frames.is_empty() {
            self.close(self.offset, self.lines);
        }
    }

    /// Collects a header line up to its end, or up to the limit.
    fn header(&mut self, bytes: &[u8], shared: &mut Shared<impl TextSink>) -> usize {
        let lf = memchr(b'\n', bytes);
        let used = lf.map_or(bytes.len(), |lf| lf + 1);
        let fits = (limits::HEADER_FIELD_BYTES - self.line.len()).min(used);
        self.line.extend_from_slice(&bytes[..fits]);
        shared.room.limited |= fits < used;
        self.offset += used as u64;
        let crlf = lf.is_some_and(|lf| if lf > 0 { bytes[lf - 1] == b'\r' } else { self.cr });
        self.cr = bytes[..used].ends_with(b"\r");
        if lf.is_some() {
            let mut line = std::mem::take(&mut self.line);
            self.header_line(&line, 1 + u64::from(crlf), shared);
            line.clear();
            self.line = line;
            self.line_offset = self.offset;
        }
        used
    }

    /// Takes one header line, which ends at the current offset with a line end of `eol` bytes; only
    /// the end of the message leaves a line without one.
    fn header_line(&mut self, line: &[u8], eol: u64, shared: &mut Shared<impl TextSink>) {
        let lf = eol.min(1);
        if let Some((index, closing)) = self.boundary_of(line, shared) {
            self.boundary(index, closing, self.line_offset, shared);
            self.lines += lf;
            self.eol = eol;
            self.after_boundary(closing, shared);
        } else if line_content(line).is_empty() {
            self.lines += lf;
            self.end_header(self.offset, shared);
        } else {
            self.lines += lf;
            if !matches!(line[0], b' ' | b'\t') || self.field.is_empty() {
                self.end_field(shared);
            }
            let fits = (limits::HEADER_FIELD_BYTES - self.field.len()).min(line.len());
            self.field.extend_from_slice(&line[..fits]);
            shared.room.limited |= fits < line.len();
        }
    }

    /// Takes the lines of a body up to a boundary line, which is not consumed, or to a line start
    /// that may become one.
    fn body(&mut self, bytes: &[u8], shared: &mut Shared<impl TextSink>) -> usize {
        if !self.frames.iter().any(|frame| frame.boundary.is_some()) {
            // Only the end of the message can end this body.
            self.text(bytes, shared);
            self.lines += memchr::memchr_iter(b'\n', bytes).count() as u64;
            self.offset += bytes.len() as u64;
            return bytes.len();
        }
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            if self.line_start && rest[0] == b'-' && rest.get(1).is_none_or(|second| *second == b'-') {
                let window = &rest[..rest.len().min(BOUNDARY_LINE_BYTES)];
                let lf = memchr(b'\n', window);
                if lf.is_none() && rest.len() < BOUNDARY_LINE_BYTES {
                    self.text(&bytes[..at], shared);
                    self.line.extend_from_slice(rest);
                    self.line_offset = self.offset + at as u64;
                    self.offset += bytes.len() as u64;
                    return bytes.len();
                }
                if let Some((index, closing)) =
                    self.boundary_of(&window[..lf.map_or(window.len(), |lf| lf + 1)], shared)
                {
                    self.text(&bytes[..at], shared);
                    self.offset += at as u64;
                    self.boundary(index, closing, self.offset, shared);
                    return at;
                }
            }
            match memchr(b'\n', rest) {
                Some(length) => {
                    let lf = at + length;
                    self.end_line(if lf > 0 { bytes[lf - 1] == b'\r' } else { self.cr });
                    at = lf + 1;
                }
                None => {
                    self.cr = bytes.ends_with(b"\r");
                    self.line_start = false;
                    at = bytes.len();
                }
            }
        }
        self.text(bytes, shared);
        self.offset += bytes.len() as u64;
        bytes.len()
    }

    /// A body line ended, with CRLF or with a bare LF.
    fn end_line(&mut self, crlf: bool) {
        self.lines += 1;
        self.eol = 1 + u64::from(crlf);
        self.line_start = true;
        self.cr = false;
    }

    /// Completes a withheld line start as far as needed to decide whether it is a boundary.
    fn doubtful_line(&mut self, bytes: &[u8], shared: &mut Shared<impl TextSink>) -> usize {
        let room = (BOUNDARY_LINE_BYTES - self.line.len()).min(bytes.len());
        let lf = memchr(b'\n', &bytes[..room]);
        let used = lf.map_or(room, |lf| lf + 1);
        self.line.extend_from_slice(&bytes[..used]);
        self.offset += used as u64;
        let may_be = self.line.len() < 2 || self.line.starts_with(b"--");
        if lf.is_some() || self.line.len() == BOUNDARY_LINE_BYTES || !may_be {
            let mut line = std::mem::take(&mut self.line);
            self.decide(&line, shared);
            line.clear();
            self.line = line;
        }
        used
    }

    /// Decides a withheld line start, which ends at the current offset.
    fn decide(&mut self, line: &[u8], shared: &mut Shared<impl TextSink>) {
        let complete = line.ends_with(b"\n");
        if let Some((index, closing)) = self.boundary_of(line, shared) {
            self.boundary(index, closing, self.line_offset, shared);
            if complete {
                self.lines += 1;
                self.eol = (line.len() - line_content(line).len()) as u64;
                self.after_boundary(closing, shared);
            } else {
                self.cr = line.ends_with(b"\r");
            }
            return;
        }
        self.text(line, shared);
        if complete {
            self.end_line(line.ends_with(b"\r\n"));
        } else {
            self.line_start = false;
            self.cr = line.ends_with(b"\r");
        }
    }

    /// Skips the rest of a boundary line.
    fn rest_of_boundary(&mut self, bytes: &[u8], closing: bool, shared: &mut Shared<impl TextSink>) -> usize {
        let lf = memchr(b'\n', bytes);
        let used = lf.map_or(bytes.len(), |lf| lf + 1);
        self.offset += used as u64;
        match lf {
            Some(lf) => {
                let crlf = if lf > 0 { bytes[lf - 1] == b'\r' } else { self.cr };
                self.end_line(crlf);
                self.after_boundary(closing, shared);
            }
            None => self.cr = bytes.ends_with(b"\r"),
        }
        used
    }

    /// Passes body bytes on, except for a final line end, which is withheld.
    fn text(&mut self, bytes: &[u8], shared: &mut Shared<impl TextSink>) {
        let Some(feed) = &mut self.feed else { return };
        let Some((&last, before)) = bytes.split_last() else { return };
        if matches!(feed, Feed::Message(_))
            && self.line.capacity() + self.field.capacity() > BOUNDARY_LINE_BYTES
        {
            // The message inside has its own header: memory is reserved for one at a time.
            (self.line, self.field) = (Vec::new(), Vec::new());
        }
        let joins = before.is_empty() && self.held == b"\r" && last == b'\n';
        let (now, hold): (&[u8], &'static [u8]) = match last {
            _ if joins => (b"", b"\r\n"),
            b'\n' if before.ends_with(b"\r") => (&before[..before.len() - 1], b"\r\n"),
            b'\n' => (before, b"\n"),
            b'\r' => (before, b"\r"),
            _ => (bytes, b""),
        };
        if !joins {
            feed.push(self.held, shared);
            feed.push(now, shared);
        }
        self.held = hold;
    }

    /// Ends the body of the innermost part; `whole`: the withheld line end belongs to it.
    fn end_text(&mut self, whole: bool, shared: &mut Shared<impl TextSink>) {
        let held = std::mem::take(&mut self.held);
        let Some(mut feed) = self.feed.take() else { return };
        if whole {
            feed.push(held, shared);
        }
        if let (Some(message), Some(frame)) = (feed.finish(shared), self.frames.last_mut()) {
            frame.hold_message(message);
        }
    }
}

#[cfg(test)]
mod tests;
