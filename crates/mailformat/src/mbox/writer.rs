//! Writes mboxrd: the variant with reversible quoting. Flags come first in a message's header; its
//! own fields of such names are quoted (`own_fields`).

use std::fs::File;
use std::io::{BufWriter, Error, Write};
use std::path::Path;

use sealpost_base::Timestamp;
use sealpost_files::owner;

use super::line_end;
use super::own_fields::{OwnFields, PREFIX};
use crate::flags::status_fields;
use crate::lines::{LineEnds, ToLf};

/// The data around a message in the file.
#[derive(Debug, Clone)]
pub struct Envelope<'a> {
    /// The sender; empty or unprintable becomes `MAILER-DAEMON`.
    pub sender: &'a str,
    /// When it was received.
    pub received: Timestamp,
    /// Its flags, kept in `Status`, `X-Status` and `X-Keywords` fields.
    pub flags: &'a [String],
}

/// Writes messages into one mboxrd file.
pub struct MboxWriter<W> {
    file: W,
    line_ends: LineEnds,
    to_lf: ToLf,
    own: OwnFields,
    /// The line before a message that begins with a continuation line.
    between: Vec<u8>,
    started: bool,
    /// At the start of a line: so many bytes of `From ` have come and are held.
    matched: Option<usize>,
    last: u8,
    converted: Vec<u8>,
    header: Vec<u8>,
    quoted: Vec<u8>,
}

const BUFFER_BYTES: usize = 256 * 1024;
const FROM: &[u8; 5] = b"From ";

impl MboxWriter<BufWriter<File>> {
    /// Creates a file that only its owner can read, replacing one that an earlier run left
    /// unfinished.
    ///
    /// # Errors
    /// The file system's error.
    pub fn create(path: &Path, line_ends: LineEnds) -> Result<Self, Error> {
        let file = BufWriter::with_capacity(BUFFER_BYTES, owner::create_anew(path)?);
        Ok(Self::new(file, line_ends))
    }
}

impl<W: Write> MboxWriter<W> {
    /// Writes to `file` (buffer it). With [`LineEnds::Lf`], CRLF becomes LF, and a message that
    /// does not end in a line end gets one; with [`LineEnds::Exact`] messages keep their bytes
    /// (`line_end`).
    pub fn new(file: W, line_ends: LineEnds) -> Self {
        MboxWriter {
            file,
            line_ends,
            to_lf: ToLf::default(),
            own: OwnFields::quoting(),
            between: Vec::new(),
            started: false,
            matched: Some(0),
            last: b'\n',
            converted: Vec::new(),
            header: Vec::new(),
            quoted: Vec::new(),
        }
    }

    /// Begins a message.
    ///
    /// # Errors
    /// If the file cannot be written; so do all the others.
    pub fn begin(&mut self, envelope: &Envelope<'_>) -> Result<(), Error> {
        let sender = envelope.sender;
        let plain = !sender.is_empty() && sender.chars().all(|c| c.is_alphanumeric() || c.is_ascii_graphic());
        let sender = if plain { sender } else { "MAILER-DAEMON" };
        writeln!(self.file, "From {sender} {}", crate::date::asctime(envelope.received))?;
        let line_end = if self.line_ends == LineEnds::Exact { "\r\n" } else { "\n" };
        // These fields are written even without flags: then a header field follows the separator,
        // whatever the message begins with, and its line end shows how the message's line ends are
        // stored.
        self.file.write_all(status_fields(envelope.flags, line_end).as_bytes())?;
        self.between = [PREFIX, b":", line_end.as_bytes()].concat();
        self.started = false;
        self.own = OwnFields::quoting();
        self.to_lf = ToLf::default();
        self.matched = Some(0);
        self.last = b'\n';
        Ok(())
    }

    /// Writes the next piece of the message.
    ///
    /// # Errors
    /// As [`MboxWriter::begin`].
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let Some(first) = bytes.first() else { return Ok(()) };
        if !std::mem::replace(&mut self.started, true) && matches!(first, b' ' | b'\t') {
            self.file.write_all(&self.between)?;
        }
        self.converted.clear();
        match self.line_ends {
            LineEnds::Lf => self.to_lf.push(bytes, &mut self.converted),
            LineEnds::Exact => self.converted.extend_from_slice(bytes),
        }
        self.quote_own();
        self.quote()
    }

    /// Ends the message.
    ///
    /// # Errors
    /// As [`MboxWriter::begin`].
    pub fn end(&mut self) -> Result<(), Error> {
        self.converted.clear();
        self.to_lf.finish(&mut self.converted);
        self.quote_own();
        self.own.finish(&mut self.converted);
        self.quote()?;
        if let Some(held) = self.matched.filter(|held| *held > 0) {
            self.file.write_all(&FROM[..held])?;
        }
        self.file.write_all(match (self.line_ends, self.last) {
            (_, b'\n') => b"\n",
            (LineEnds::Lf, _) => b"\n\n",
            (LineEnds::Exact, last) => line_end::missing(last),
        })
    }

    /// The file, to read its position, or to remove a message that could not be finished; the next
    /// call must be [`MboxWriter::begin`].
    pub fn file(&mut self) -> &mut W {
        &mut self.file
    }

    /// Flushes and returns the file.
    ///
    /// # Errors
    /// As [`MboxWriter::begin`].
    pub fn finish(mut self) -> Result<W, Error> {
        self.file.flush()?;
        Ok(self.file)
    }

    /// Renames the message's own fields that would count as the file's, in `converted`.
    fn quote_own(&mut self) {
        if !self.own.is_done() {
            self.header.clear();
            self.own.push(&self.converted, &mut self.header);
            std::mem::swap(&mut self.header, &mut self.converted);
        }
    }

    /// Writes `converted` with one more `>` on every line that begins `>*From `. Since all `>` are
    /// alike, the existing ones can be written before it is known whether one is added.
    fn quote(&mut self) -> Result<(), Error> {
        self.quoted.clear();
        let bytes = &self.converted;
        let mut at = 0;
        while at < bytes.len() {
            let Some(matched) = self.matched else {
                let to = memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |n| at + n + 1);
                self.quoted.extend_from_slice(&bytes[at..to]);
                self.matched = (bytes[to - 1] == b'\n').then_some(0);
                at = to;
                continue;
            };
            let byte = bytes[at];
            if byte == FROM[matched] {
                at += 1;
                self.matched = Some(matched + 1);
                if matched + 1 == FROM.len() {
                    self.quoted.extend_from_slice(b">From ");
                    self.matched = None;
                }
            } else if byte == b'>' && matched == 0 {
                self.quoted.push(byte);
                at += 1;
            } else {
                self.quoted.extend_from_slice(&FROM[..matched]);
                self.matched = None;
            }
        }
        if let Some(last) = bytes.last() {
            self.last = *last;
        }
        self.file.write_all(&self.quoted)
    }
}
