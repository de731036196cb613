//! Reads an mbox as a stream: memory does not depend on the file, its messages, or the length of a line.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;

use sealpost_base::{Error, Result, Timestamp};

use super::Variant;
use super::body::{AHEAD_BYTES, Body, blank_line};
use super::head::{self, Head};
use super::separator::{Before, separator};
use super::window::Window;
use crate::lines::{LineEnds, ToCrlf};
use crate::{Meta, Source, io_error};

/// How much of a file auto-detection looks at.
const DETECT_BYTES: u64 = 4 * 1024 * 1024;

/// How to read a file.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// The variant, if it is known; otherwise the start of the file decides.
    pub variant: Option<Variant>,
    /// Leaves `Status` and its kin in the messages (they still become flags).
    pub keep_status: bool,
}

/// The messages of one mbox.
pub struct MboxReader<R> {
    window: Window<R>,
    name: String,
    modified: Option<Timestamp>,
    variant: Variant,
    keep_status: bool,
    body: Body,
    /// File bytes of the message, unquoted, line ends as found.
    raw: Vec<u8>,
    /// The same as handed out.
    out: Vec<u8>,
    /// `None` if the message is taken exactly as it is.
    to_crlf: Option<ToCrlf>,
}

impl MboxReader<File> {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// As [`MboxReader::new`], and if the file cannot be opened.
    pub fn open(path: &Path, options: Options) -> Result<Self> {
        let file = File::open(path).map_err(|e| io_error(path, e))?;
        let modified = file.metadata().ok().and_then(|m| crate::eml::modified(&m));
        let mut reader = Self::new(file, &path.display().to_string(), options)?;
        reader.modified = modified;
        Ok(reader)
    }
}

impl<R: Read + Seek> MboxReader<R> {
    /// Reads `file`, called `name` in messages to the user.
    ///
    /// # Errors
    /// `Invalid` if the file is not empty and does not begin with a `From ` line; `Retry` if it cannot be read.
    pub fn new(file: R, name: &str, options: Options) -> Result<Self> {
        let window = Window::new(file).map_err(|e| io_error(name, e))?;
        let mut reader = MboxReader {
            window,
            name: name.to_owned(),
            modified: None,
            variant: options.variant.unwrap_or(Variant::Cl2),
            keep_status: options.keep_status,
            body: Body::default(),
            raw: Vec::new(),
            out: Vec::new(),
            to_crlf: None,
        };
        reader.rewind()?;
        if options.variant.is_none() {
            reader.variant = reader.detect()?;
            reader.rewind()?;
        }
        Ok(reader)
    }

    /// The variant this file is read as.
    pub fn variant(&self) -> Variant {
        self.variant
    }

    /// Goes before the first message, past empty lines that may stand before it.
    fn rewind(&mut self) -> Result<()> {
        let name = self.name.clone();
        self.window.jump(0).map_err(|e| io_error(&name, e))?;
        self.body = Body::at_end();
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
        let Some((from, length)) = separator(ahead, Before::Empty) else {
            return Err(Error::invalid(format!(
                "{name} is not an mbox: it does not begin with a \"From \" line"
            )));
        };
        self.window.consume(length);
        self.body.next = Some((from, begins));
        Ok(())
    }

    /// Reads the start of the file as mboxcl2 and looks whether that fits, see the module above.
    fn detect(&mut self) -> Result<Variant> {
        let (mut bare, mut quoted, mut messages) = (false, false, 0);
        while self.window.offset() < DETECT_BYTES && self.next_message()?.is_some() {
            if self.body.remaining.is_none() {
                return Ok(Variant::Rd);
            }
            messages += 1;
            while self.window.offset() < DETECT_BYTES && self.next_chunk()?.is_some() {}
            bare |= self.body.saw_bare;
            quoted |= self.body.saw_quoted;
        }
        Ok(match (messages, bare, quoted) {
            (0, ..) => Variant::Rd,
            (_, true, _) | (_, false, false) => Variant::Cl2,
            (_, false, true) => Variant::Cl,
        })
    }

    fn pump_raw(&mut self) -> Result<bool> {
        let pumped = self.body.pump(&mut self.window, self.variant, &mut self.raw, false);
        pumped.map_err(|e| self.give_up(e))
    }

    /// Where a file cannot be read its messages end: nothing says where the next one begins.
    fn give_up(&mut self, error: std::io::Error) -> sealpost_base::Error {
        self.body = Body::at_end();
        io_error(&self.name, error)
    }

    /// Reads the header, as far as it is looked at, into `raw`; tells whether an empty line ended it.
    fn read_head(&mut self) -> std::io::Result<bool> {
        while self.raw.len() < head::HEAD_BYTES {
            let more = self.body.pump(&mut self.window, self.variant, &mut self.raw, true)?;
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
        // The byte before is the body's last: a length that cuts a line in two does not hold.
        let Some(seen) = self.window.glance(target - 1, AHEAD_BYTES)? else { return Ok(false) };
        let Some((b'\n', mut rest)) = seen.split_first() else { return Ok(false) };
        while let Some(blank) = blank_line(rest) {
            rest = &rest[blank.len()..];
        }
        Ok(rest.is_empty() || separator(rest, Before::Empty).is_some())
    }
}

impl<R: Read + Seek> Source for MboxReader<R> {
    fn next_message(&mut self) -> Result<Option<Meta>> {
        while !self.body.ended {
            self.pump_raw()?;
            self.raw.clear();
        }
        let Some((from, begins)) = self.body.next.take() else { return Ok(None) };
        self.body = Body::default();
        self.raw.clear();
        let ended = self.read_head().map_err(|e| self.give_up(e))?;
        let first_line = if self.raw.is_empty() { self.body.held.unwrap_or(b"") } else { &self.raw };
        self.to_crlf = match LineEnds::of_first_line(first_line) {
            LineEnds::Lf => Some(ToCrlf::default()),
            LineEnds::Exact => None,
        };
        let head = Head::read(&self.raw, ended);
        let length = head.content_length.filter(|_| ended && self.variant.has_length());
        let length = match length {
            Some(length) if self.length_holds(length).map_err(|e| self.give_up(e))? => Some(length),
            _ => None,
        };
        self.raw = head.without_fields(&self.raw, !self.keep_status, length.is_some());
        if let Some(length) = length {
            self.raw.extend_from_slice(self.body.held.take().unwrap_or(b""));
            self.body.remaining = Some(length);
        }
        Ok(Some(Meta {
            received: from.date,
            modified: self.modified,
            flags: head.flags,
            sender: from.sender,
            place: format!("{}, byte {begins}", self.name),
            internal: head.internal,
        }))
    }

    fn next_chunk(&mut self) -> Result<Option<&[u8]>> {
        while self.raw.is_empty() {
            let more = self.pump_raw()?;
            if !more && self.raw.is_empty() {
                return Ok(None);
            }
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
