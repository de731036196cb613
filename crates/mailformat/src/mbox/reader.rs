//! Reads an mbox as a stream: memory does not depend on the file, its messages, or the length of a line.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;

use sealpost_base::{Error, Result, Timestamp};
use sealpost_files::io_error;

use super::Variant;
use super::body::{AHEAD_BYTES, Body, blank_line};
use super::head::{self, MboxFields, Notes};
use super::line_end::LineEnd;
use super::own_fields::OwnFields;
use super::separator::{PreviousLine, separator};
use super::window::Window;
use crate::eml::left_out;
use crate::lines::{LineEnds, ToCrlf};
use crate::packed::Behind;
use crate::recognize::BYTE_ORDER_MARK;

use crate::{Meta, Source};

/// How much of a file auto-detection reads.
const DETECT_BYTES: u64 = 4 * 1024 * 1024;

/// How to read a file.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// The variant, if it is known; otherwise the start of the file decides.
    pub variant: Option<Variant>,
    /// Treats `X-Gmail-Labels` as an ordinary field.
    pub ignore_labels: bool,
    /// Treats all fields as the messages' own: flags are elsewhere.
    pub ignore_flags: bool,
}

/// The messages of one mbox.
pub struct MboxReader<R> {
    window: Window<R>,
    name: String,
    modified: Option<Timestamp>,
    /// Whether `Content-Length` is used.
    lengths: bool,
    /// The quoting of messages with a known length, and of all others.
    counted: Variant,
    plain: Variant,
    notes: Notes,
    /// Nothing was read yet.
    first: bool,
    body: Body,
    own: OwnFields,
    /// Unquoted bytes of the message, with line ends as in the file.
    raw: Vec<u8>,
    /// The same as passed on.
    out: Vec<u8>,
    /// `None` if the message keeps its line ends.
    to_crlf: Option<ToCrlf>,
    /// For a message that Sealpost wrote exactly.
    line_end: Option<LineEnd>,
    behind: Behind,
}

impl MboxReader<File> {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// As [`MboxReader::new`], and if the file cannot be opened.
    pub fn open(path: &Path, options: Options) -> Result<Self> {
        let file = File::open(path).map_err(|e| io_error(path, e))?;
        let modified = file.metadata().ok().and_then(|m| crate::eml::modified(&m));
        Ok(Self::new(file, &path.display().to_string(), options)?.modified(modified))
    }
}

impl<R: Read + Seek> MboxReader<R> {
    /// Reads `file`, called `name` in messages to the user.
    ///
    /// # Errors
    /// `Invalid` if the file is not empty and does not begin with a `From ` line; `Retry` if it
    /// cannot be read.
    pub fn new(file: R, name: &str, options: Options) -> Result<Self> {
        let window = Window::new(file).map_err(|e| io_error(name, e))?;
        let mut reader = MboxReader {
            window,
            name: name.to_owned(),
            modified: None,
            lengths: options.variant.is_none_or(Variant::has_length),
            counted: options.variant.unwrap_or(Variant::Cl2),
            plain: options.variant.unwrap_or(Variant::Rd),
            notes: match options {
                Options { ignore_flags: true, .. } => Notes::None,
                Options { ignore_labels: true, .. } => Notes::Flags,
                _ => Notes::FlagsAndLabels,
            },
            first: true,
            body: Body::default(),
            own: OwnFields::unquoting(),
            raw: Vec::new(),
            out: Vec::new(),
            to_crlf: None,
            line_end: None,
            behind: Behind::default(),
        };
        reader.rewind()?;
        if options.variant.is_none() {
            reader.counted = reader.detect();
            reader.rewind()?;
        }
        Ok(reader)
    }

    /// The same, for a file with this modification time.
    #[must_use]
    pub fn modified(mut self, modified: Option<Timestamp>) -> Self {
        self.modified = modified;
        self
    }

    /// The same, for a file of which decompression may have left something out.
    #[must_use]
    pub(crate) fn behind(mut self, behind: Behind) -> Self {
        self.behind = behind;
        self
    }

    /// Goes before the first message, past an optional byte order mark and empty lines.
    fn rewind(&mut self) -> Result<()> {
        let name = self.name.clone();
        self.window.jump(0).map_err(|e| io_error(&name, e))?;
        (self.body, self.first) = (Body::at_end(), true);
        let ahead = self.window.peek(AHEAD_BYTES).map_err(|e| io_error(&name, e))?;
        if ahead.starts_with(BYTE_ORDER_MARK) {
            self.window.consume(BYTE_ORDER_MARK.len());
        }
        loop {
            let ahead = self.window.peek(AHEAD_BYTES).map_err(|e| io_error(&name, e))?;
            let Some(blank) = blank_line(ahead) else { break };
            self.window.consume(blank.len());
        }
        let begins = self.window.offset();
        let ahead = self.window.peek(AHEAD_BYTES).map_err(|e| io_error(&name, e))?;
        if ahead.is_empty() {
            return Ok(());
        }
        let Some((from, length)) = separator(ahead, PreviousLine::Start) else {
            return Err(Error::invalid(format!(
                "{name} is not an mbox: it does not begin with a \"From \" line"
            )));
        };
        self.window.consume(length);
        self.body.next = Some((from, begins));
        Ok(())
    }

    /// Reads the start of the file to detect how messages with a length write lines that begin
    /// `From `.
    fn detect(&mut self) -> Variant {
        let (mut bare, mut quoted) = (false, false);
        // Read errors are reported when the messages are read.
        while self.window.offset() < DETECT_BYTES && matches!(self.next_message(), Ok(Some(_))) {
            let counted = self.body.remaining.is_some();
            while self.window.offset() < DETECT_BYTES && matches!(self.next_chunk(), Ok(Some(_))) {}
            bare |= counted && self.body.saw_bare;
            quoted |= counted && self.body.saw_quoted;
        }
        if quoted && !bare { Variant::Cl } else { Variant::Cl2 }
    }

    fn pump_raw(&mut self) -> Result<bool> {
        let variant = if self.body.remaining.is_some() { self.counted } else { self.plain };
        let pumped = self.body.pump(&mut self.window, variant, &mut self.raw, false);
        pumped.map_err(|e| self.give_up(e))
    }

    /// Restores the names of the message's own fields, in the bytes just read.
    fn unquote_own(&mut self) {
        if !self.own.is_done() {
            let read = std::mem::take(&mut self.raw);
            self.own.push(&read, &mut self.raw);
        }
    }

    /// Holds, of the bytes just read, those that may not belong to the message.
    fn hold_line_end(&mut self) {
        if let Some(end) = &mut self.line_end {
            end.push(&mut self.raw);
        }
    }

    /// A read error ends the messages: the start of the next one is unknown.
    fn give_up(&mut self, error: std::io::Error) -> sealpost_base::Error {
        self.body = Body::at_end();
        io_error(&self.name, error)
    }

    /// Reads the header, up to the limit, into `raw`; returns whether an empty line ended it.
    fn read_head(&mut self) -> std::io::Result<bool> {
        while self.raw.len() < head::HEAD_BYTES {
            let more = self.body.pump(&mut self.window, self.plain, &mut self.raw, true)?;
            if self.body.held.is_some() {
                return Ok(true);
            }
            if !more {
                break;
            }
        }
        Ok(false)
    }

    /// Whether a message whose body begins here and has `length` bytes ends at a separator.
    fn length_holds(&mut self, length: u64) -> std::io::Result<bool> {
        let Some(target) = self.window.offset().checked_add(length) else { return Ok(false) };
        // The byte before is the body's last: a length that ends within a line is wrong.
        let Some(seen) = self.window.glance(target - 1, AHEAD_BYTES)? else { return Ok(false) };
        let Some((b'\n', mut rest)) = seen.split_first() else { return Ok(false) };
        while let Some(blank) = blank_line(rest) {
            rest = &rest[blank.len()..];
        }
        let at_end = rest.is_empty() && seen.len() < AHEAD_BYTES;
        Ok(at_end || separator(rest, PreviousLine::Empty).is_some())
    }
}

impl<R: Read + Seek> Source for MboxReader<R> {
    fn next_message(&mut self) -> Result<Option<Meta>> {
        while !self.body.ended {
            self.pump_raw()?;
            self.raw.clear();
        }
        let Some((from, begins)) = self.body.next.take() else {
            return left_out(&self.name, &std::mem::take(&mut self.behind)).map(|()| None);
        };
        let first = std::mem::replace(&mut self.first, false);
        (self.body, self.own) = (Body::default(), OwnFields::unquoting());
        self.raw.clear();
        let ended = self.read_head().map_err(|e| self.give_up(e))?;
        let first_line = if self.raw.is_empty() { self.body.held.unwrap_or(b"") } else { &self.raw };
        self.to_crlf = match LineEnds::of_first_line(first_line) {
            LineEnds::Lf => Some(ToCrlf::default()),
            LineEnds::Exact => None,
        };
        let head = MboxFields::read(&self.raw, ended, first, self.notes);
        let length = head.content_length.filter(|_| ended && self.lengths);
        let length = match length {
            Some(length) if self.length_holds(length).map_err(|e| self.give_up(e))? => Some(length),
            _ => None,
        };
        self.raw = head.without_fields(&self.raw, length.is_some());
        if let Some(length) = length {
            self.raw.extend_from_slice(self.body.held.take().unwrap_or(b""));
            self.body.remaining = Some(length);
        }
        let is_exact =
            head.is_ours && self.notes != Notes::None && self.to_crlf.is_none() && length.is_none();
        self.line_end = is_exact.then(LineEnd::default);
        self.unquote_own();
        self.hold_line_end();
        Ok(Some(Meta {
            received: from.date,
            modified: self.modified,
            flags: head.flags,
            labels: head.labels,
            sender: from.sender,
            place: format!("{}, byte {begins}", self.name),
            internal: head.internal,
        }))
    }

    fn next_chunk(&mut self) -> Result<Option<&[u8]>> {
        while self.raw.is_empty() {
            let more = self.pump_raw()?;
            self.unquote_own();
            if !more && self.raw.is_empty() {
                self.own.finish(&mut self.raw);
                self.hold_line_end();
                let end = self.line_end.take().map_or_else(Vec::new, |end| end.finish(self.body.closed));
                self.raw.extend(end);
                if self.raw.is_empty() {
                    return Ok(None);
                }
                break;
            }
            self.hold_line_end();
        }
        self.out.clear();
        match &mut self.to_crlf {
            Some(convert) => convert.push(&self.raw, &mut self.out),
            None => std::mem::swap(&mut self.out, &mut self.raw),
        }
        self.raw.clear();
        Ok(Some(&self.out))
    }

    fn bytes_done(&self) -> u64 {
        self.window.offset()
    }
}
