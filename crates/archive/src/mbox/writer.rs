//! Writes mboxrd: the variant whose quoting can be undone.

use std::io::{Error, Write};

use sealpost_base::Timestamp;

use crate::flags::status_fields;
use crate::lines::{LineEnds, ToLf};

/// What stands around a message in the file.
#[derive(Debug, Clone)]
pub struct Envelope<'a> {
    /// Who sent it; empty or unprintable becomes `MAILER-DAEMON`.
    pub sender: &'a str,
    /// When it was received.
    pub received: Timestamp,
    /// Its flags, kept in `Status`, `X-Status` and `X-Keywords` fields; `None` writes no such field.
    pub flags: Option<&'a [String]>,
}

/// Messages into one mboxrd file.
pub struct MboxWriter<W> {
    file: W,
    line_ends: LineEnds,
    to_lf: ToLf,
    /// Fields to put before the message once its first byte is known.
    fields: String,
    started: bool,
    /// At the start of a line: so many bytes of `From ` have come and are held.
    matched: Option<usize>,
    last: u8,
    converted: Vec<u8>,
    quoted: Vec<u8>,
}

const FROM: &[u8; 5] = b"From ";

impl<W: Write> MboxWriter<W> {
    /// Writes to `file` (buffer it). With [`LineEnds::Lf`], CRLF becomes LF; with [`LineEnds::Exact`] messages keep
    /// their bytes, except that one that does not end in a line end gets one.
    pub fn new(file: W, line_ends: LineEnds) -> Self {
        MboxWriter {
            file,
            line_ends,
            to_lf: ToLf::default(),
            fields: String::new(),
            started: false,
            matched: Some(0),
            last: b'\n',
            converted: Vec::new(),
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
        self.fields = match (envelope.flags, self.line_ends) {
            (Some(flags), _) => status_fields(flags, line_end),
            // Tells a reader that the bytes are exact, whatever the message's own first line looks like.
            (None, LineEnds::Exact) => status_fields(&[], line_end),
            (None, LineEnds::Lf) => String::new(),
        };
        self.started = false;
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
        self.start(Some(*first))?;
        self.converted.clear();
        match self.line_ends {
            LineEnds::Lf => self.to_lf.push(bytes, &mut self.converted),
            LineEnds::Exact => self.converted.extend_from_slice(bytes),
        }
        self.quote()
    }

    /// Ends the message.
    ///
    /// # Errors
    /// As [`MboxWriter::begin`].
    pub fn end(&mut self) -> Result<(), Error> {
        self.start(None)?;
        self.converted.clear();
        self.to_lf.finish(&mut self.converted);
        self.quote()?;
        if let Some(held) = self.matched.filter(|held| *held > 0) {
            self.file.write_all(&FROM[..held])?;
        }
        if self.last != b'\n' {
            self.file.write_all(b"\n")?;
        }
        self.file.write_all(b"\n")
    }

    /// The file, for whoever wants to know where it stands or to take a message back that could not be finished;
    /// the next thing written must be [`MboxWriter::begin`].
    pub fn file(&mut self) -> &mut W {
        &mut self.file
    }

    /// Flushes and gives the file back.
    ///
    /// # Errors
    /// As [`MboxWriter::begin`].
    pub fn finish(mut self) -> Result<W, Error> {
        self.file.flush()?;
        Ok(self.file)
    }

    /// Fields must not run into a message that begins with a continuation line: then the flags go.
    fn start(&mut self, first: Option<u8>) -> Result<(), Error> {
        if !std::mem::replace(&mut self.started, true) && !matches!(first, Some(b' ' | b'\t')) {
            self.file.write_all(self.fields.as_bytes())?;
        }
        Ok(())
    }

    /// Writes `converted` with one `>` more on every line that begins `>*From `. Since all `>` are alike, those
    /// that were there can go out before it is known whether one is to be added.
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
