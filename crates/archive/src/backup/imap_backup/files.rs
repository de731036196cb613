//! The mbox and the JSON of one folder, being written.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use sealpost_base::Result;
use sealpost_files::{io_error, length, longer, open_file, replace, sync_directory_of};

use super::adopt::Paths;
use super::from_line;
use super::json;
use super::quote::{Quoter, Unquoting};
use super::rewrite::{renumber, rewrite};
use crate::backup::contents::Contents;
use crate::backup::direct_writer::Appending;
use crate::backup::folder::Files;
use crate::backup::journal::Message;
use crate::backup::{Arrived, Flags, Resume};

/// The JSON is rewritten after so many new messages, plus as many as it has already.
const PUBLISH_MESSAGES: u64 = 1000;

/// The files of an open folder.
pub struct MboxFiles {
    path: PathBuf,
    json: PathBuf,
    mbox: Appending,
    uidvalidity: u32,
    message: Option<Current>,
    /// Messages that the JSON has; `None`: it is not up to date.
    published: Option<u64>,
    published_once: u64,
    notices: Vec<String>,
}

struct Current {
    begins: u64,
    /// The text so far, while the header is incomplete.
    head: Option<Vec<u8>>,
    quoter: Quoter,
    /// How many LF it ends with.
    line_feeds: usize,
}

impl Current {
    /// Writes the next piece of the message, quoted, once its header is complete and the `From`
    /// line was written.
    fn write(&mut self, text: &[u8], out: &mut impl Write) -> io::Result<()> {
        let Some(mut head) = self.head.take() else { return self.quote(text, out) };
        let known = head.len();
        // Usually the whole header comes at once, and is parsed in place.
        let begun = if known == 0 {
            Cow::Borrowed(text)
        } else {
            head.extend_from_slice(text);
            Cow::Owned(head)
        };
        match from_line::header_end(&begun, known) {
            None if begun.len() < from_line::HEAD_BYTES => {
                self.head = Some(begun.into_owned());
                Ok(())
            }
            end => self.begin(&begun, end.unwrap_or(begun.len()), out),
        }
    }

    /// Writes the `From` line of a message with a header of this size, and its beginning.
    fn begin(&mut self, begun: &[u8], header: usize, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&from_line::line(&begun[..header]))?;
        self.quote(begun, out)
    }

    fn quote(&mut self, text: &[u8], out: &mut impl Write) -> io::Result<()> {
        self.line_feeds = match text.iter().rposition(|b| *b != b'\n') {
            Some(last) => text.len() - 1 - last,
            None => self.line_feeds + text.len(),
        };
        self.quoter.push(text, out)
    }

    /// Writes the rest after all text came, and the empty line after the message.
    fn finish(&mut self, out: &mut impl Write) -> io::Result<()> {
        if let Some(head) = self.head.take() {
            self.begin(&head, head.len(), out)?;
        }
        self.quoter.finish(out)?;
        out.write_all(&b"\n\n"[self.line_feeds.min(2)..])
    }
}

impl MboxFiles {
    /// Opens, or creates, the files; `length`: bytes of the mbox that are kept. `published`:
    /// messages in the JSON, if that is up to date.
    ///
    /// # Errors
    /// `Retry` if that fails.
    pub fn open(
        path: PathBuf,
        json: PathBuf,
        uidvalidity: u32,
        length: u64,
        published: Option<u64>,
    ) -> Result<Self> {
        let new = !path.exists();
        let mbox = Appending::open(&path, length).map_err(|e| io_error(&path, e))?;
        if new {
            sync_directory_of(&path)?;
        }
        Ok(MboxFiles {
            path,
            json,
            mbox,
            uidvalidity,
            message: None,
            published,
            published_once: published.unwrap_or(0),
            notices: Vec::new(),
        })
    }

    /// Adds a notice for the user.
    pub fn notice(&mut self, text: String) {
        self.notices.push(text);
    }

    /// Limits the size of the mbox.
    #[cfg(test)]
    pub fn limit(&mut self, room: u64) {
        self.mbox.full_at = Some(room);
    }

    fn paths(&self, contents: &Contents) -> Paths {
        let (mbox, json) = (self.path.clone(), self.json.clone());
        Paths { mbox, json, journal: contents.journal.path().to_owned() }
    }

    /// Cuts the mbox to `length`.
    fn cut(&mut self, length: u64) -> Result<()> {
        self.mbox.cut(length).map_err(|e| io_error(&self.path, e))
    }

    /// Writes the JSON of the stored messages, and cuts the mbox where its last message ends:
    /// imap-backup appends there.
    ///
    /// # Errors
    /// `Retry`, `Corrupt`: the JSON is unchanged then.
    pub fn publish(&mut self, contents: &Contents) -> Result<()> {
        let mut written = (0, 0);
        replace(&self.json, longer(&self.json, ".new"), |file| {
            written = write_json(file, self.uidvalidity, contents, |message| message)
                .map_err(|e| io_error(&self.json, e))??;
            Ok(())
        })?;
        let (messages, end) = written;
        if self.message.is_none() && end < self.mbox.length() {
            self.cut(end)?;
            self.sync()?;
        }
        (self.published, self.published_once) = (Some(messages), messages);
        Ok(())
    }
}

/// Writes the JSON, with what `change` makes of each message, under its flags; returns the number
/// of messages and where the last one ends.
pub fn write_json(
    out: impl Write,
    uidvalidity: u32,
    contents: &Contents,
    change: impl Fn(Message) -> Message,
) -> io::Result<Result<(u64, u64)>> {
    let mut writer = json::Writer::new(out, uidvalidity)?;
    let (mut messages, mut end) = (0, 0);
    let found = match contents.messages() {
        Ok(found) => found,
        Err(e) => return Ok(Err(e)),
    };
    let none = Flags::default();
    for message in found {
        let message = match message {
            Ok((_, message)) => message,
            Err(e) => return Ok(Err(e)),
        };
        let flags = contents.known.flags(message.uid).unwrap_or(&none);
        let message = change(message);
        writer.message(message.uid, message.offset, message.length, flags)?;
        messages += 1;
        end = end.max(message.offset + message.length);
    }
    writer.finish()?.flush()?;
    Ok(Ok((messages, end)))
}

/// Whether the JSON at `path` is up to date; then its number of messages.
///
/// # Errors
/// `Retry`, `Corrupt` if the journal cannot be read.
pub fn is_published(path: &Path, uidvalidity: u32, contents: &Contents) -> Result<Option<u64>> {
    let file = match open_file(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(io_error(path, e)),
    };
    let mut same = Same { file: io::BufReader::with_capacity(64 * 1024, file), piece: Vec::new() };
    let out = io::BufWriter::with_capacity(64 * 1024, &mut same);
    match write_json(out, uidvalidity, contents, |message| message) {
        Ok(written) => {
            let (messages, _) = written?;
            let ends = same.file.read(&mut [0]).map_err(|e| io_error(path, e))? == 0;
            Ok(ends.then_some(messages))
        }
        Err(_) => Ok(None),
    }
}

/// Accepts only the bytes that the file has.
struct Same {
    file: io::BufReader<File>,
    piece: Vec<u8>,
}

impl Write for Same {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.resize(bytes.len(), 0);
        self.file.read_exact(&mut self.piece)?;
        if self.piece == bytes { Ok(bytes.len()) } else { Err(io::ErrorKind::InvalidData.into()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Files for MboxFiles {
    fn begin(&mut self) -> Result<()> {
        self.message = Some(Current {
            begins: self.mbox.length(),
            head: Some(Vec::new()),
            quoter: Quoter::default(),
            line_feeds: 0,
        });
        Ok(())
    }

    fn write(&mut self, text: &[u8]) -> Result<()> {
        match &mut self.message {
            Some(current) if !text.is_empty() => {
                current.write(text, &mut self.mbox).map_err(|e| io_error(&self.path, e))
            }
            _ => Ok(()),
        }
    }

    fn finish(&mut self, _arrived: &Arrived) -> Result<(u64, u64)> {
        let Some(current) = &mut self.message else { return Ok((self.mbox.length(), 0)) };
        // If that fails, the message is still current and can be undone.
        current.finish(&mut self.mbox).map_err(|e| io_error(&self.path, e))?;
        let begins = current.begins;
        self.message = None;
        self.published = None;
        Ok((begins, self.mbox.length() - begins))
    }

    fn abandon(&mut self) -> Result<()> {
        match self.message.take() {
            Some(current) => self.cut(current.begins),
            None => Ok(()),
        }
    }

    fn flags(&mut self, _uid: u32, _before: &Flags, _after: &Flags) -> Result<()> {
        self.published = None;
        Ok(())
    }

    fn remove(&mut self, _uid: u32, _flags: &Flags) -> Result<()> {
        self.published = None;
        Ok(())
    }

    fn renumber(&mut self, contents: &mut Contents, uids: &BTreeMap<u32, u32>) -> Result<u64> {
        renumber(&self.paths(contents), contents, uids)?;
        self.published = Some(contents.known.present() + contents.known.deleted_upstream());
        Ok(uids.len() as u64)
    }

    fn sync(&mut self) -> Result<u64> {
        self.mbox.sync().map_err(|e| io_error(&self.path, e))?;
        Ok(self.mbox.length())
    }

    fn committed(&mut self, contents: &Contents, _resume: &Resume) -> Result<()> {
        let messages = contents.known.present() + contents.known.deleted_upstream();
        if self.published.is_none() && messages >= 2 * self.published_once + PUBLISH_MESSAGES {
            self.publish(contents)?;
        }
        Ok(())
    }

    fn close(&mut self, contents: &Contents) -> Result<u64> {
        if self.published.is_none() {
            self.publish(contents)?;
        }
        length(&self.json)
    }

    fn tidy(&mut self, contents: &Contents) -> Result<()> {
        rewrite(&self.paths(contents), contents)
    }

    fn text(&self, message: &Message, _flags: &Flags) -> Result<Box<dyn Read + '_>> {
        let mut file = open_file(&self.path).map_err(|e| io_error(&self.path, e))?;
        file.seek(SeekFrom::Start(message.offset)).map_err(|e| io_error(&self.path, e))?;
        Ok(Box::new(Unquoting::new(file.take(message.length))))
    }

    fn notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }
}
