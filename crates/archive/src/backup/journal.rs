//! The journal beside a folder's files: data that the file formats cannot store, and how much of
//! the data file is valid.
//!
//! Append-only. Records follow each other; a [`Commit`] and its checksum make those before it
//! valid. The checksum covers all bytes since the previous commit and that commit's checksum, so an
//! omitted, exchanged or half-written part is detected. A journal's end records where its last
//! transaction begins, so that reading this one alone gives the state of the folder: every
//! transaction has the header. The data file is on disk before a commit is written, so a valid
//! commit describes valid data. Bytes after the last valid commit do not count: they are cut off
//! when the journal is opened.
//!
//! Nothing here is held in memory but one buffer, whatever the journal's length.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use sealpost_base::{Error, Result, limits};
use sealpost_files::{in_place_of, io_error, longer, open_file, open_file_with, sync_directory_of};

pub use self::again::Again;
use self::reader::Ended;
pub use self::reader::Records;
pub use self::record::{Commit, FlagsRecord, Header, Message, Record};
pub use self::salvage::Salvaged;
use super::digest::{CHECK_BYTES, Check, Checking};
use super::reading::Scratch;

mod again;
mod reader;
mod record;
mod salvage;
#[cfg(test)]
mod tests;

/// The first bytes of a journal: its name and version.
const MAGIC: &[u8; 8] = b"SPKEEP\x01\n";
/// The bytes after a commit: its checksum, and the distance back to its beginning.
const TRAILER_BYTES: usize = CHECK_BYTES + 4;
/// Records are collected up to here before they are written.
const BUFFER_BYTES: usize = 64 * 1024;

/// A journal that is open for writing. The backup's lock ensures that there is only one.
pub struct Journal {
    path: PathBuf,
    file: File,
    header: Header,
    last: Commit,
    /// Where the last header begins.
    header_at: u64,
    /// Bytes up to the end of the last commit.
    committed: u64,
    /// Bytes up to the end of the last record, `buffer` included.
    length: u64,
    buffer: Vec<u8>,
    check: Check,
    checking: Checking,
    /// A write failed: the contents of the file are unknown.
    broken: bool,
    /// Bytes that followed the last commit when it was opened.
    cut: u64,
    /// It was damaged when it was opened, and not only cut.
    salvaged: Option<Salvaged>,
}

/// The result of reading a journal's end.
pub struct Peeked {
    /// The last header.
    pub header: Header,
    /// The last valid commit.
    pub last: Commit,
    /// Nothing follows that commit: no run was killed, and the file was not cut.
    pub whole: bool,
}

impl Journal {
    /// Creates a journal with nothing but `header` in it, completely or not at all.
    ///
    /// # Errors
    /// `Conflict` if there is one; `Retry` if it cannot be written.
    pub fn create(path: &Path, header: Header) -> Result<Self> {
        let mut new = Self::begin(path, header)?;
        new.commit(&Commit::default())?;
        new.put_in_place(path, false)?;
        Ok(new)
    }

    /// Begins a journal that is to replace the one at `path`; [`Journal::put_in_place`] does it.
    ///
    /// # Errors
    /// `Retry` if it cannot be written.
    pub fn begin(path: &Path, header: Header) -> Result<Self> {
        let temporary = longer(path, ".new");
        let file = in_place_of(path, &temporary).map_err(|e| io_error(&temporary, e))?;
        let checking = seeded_at(0, &Check::default());
        let mut journal = Journal {
            path: temporary,
            file,
            header: header.clone(),
            last: Commit::default(),
            header_at: MAGIC.len() as u64,
            committed: 0,
            length: MAGIC.len() as u64,
            buffer: MAGIC.to_vec(),
            check: Check::default(),
            checking,
            broken: false,
            cut: 0,
            salvaged: None,
        };
        journal.push(&Record::Header(header))?;
        Ok(journal)
    }

    /// Gives a new journal its name; if the name is taken, replaces that journal only with
    /// `replace`.
    ///
    /// # Errors
    /// `Conflict` if the name is taken and `replace` is false; `Retry` if it cannot be done.
    pub fn put_in_place(&mut self, path: &Path, replace: bool) -> Result<()> {
        if !replace && path.exists() {
            return Err(Error::conflict(format!("{}: there is a journal already", path.display())));
        }
        std::fs::rename(&self.path, path).map_err(|e| io_error(path, e))?;
        self.path = path.to_owned();
        sync_directory_of(path)
    }

    /// Opens a journal: passes every valid record to `each`, with its offset, and cuts off what
    /// follows the last commit. If that part ends in a valid transaction, it is not the rest of a
    /// killed run: the journal is damaged, and its readable records are in a new one then
    /// ([`Journal::take_salvaged`]).
    ///
    /// # Errors
    /// `NotFound` if there is none; `Corrupt` if its beginning is not valid; the errors of `each`;
    /// `Retry` if it cannot be read.
    pub fn open(path: &Path, mut each: impl FnMut(u64, Record) -> Result<()>) -> Result<Self> {
        if let Some(journal) = Self::open_sound(path, &mut each)? {
            return Ok(journal);
        }
        let salvaged = Some(salvage::salvage(path)?);
        let again = || Error::corrupt(format!("{}: the journal is damaged again", path.display()));
        let journal = Self::open_sound(path, each)?.ok_or_else(again)?;
        Ok(Journal { salvaged, ..journal })
    }

    /// As [`Journal::open`], changing nothing: the readable records of a damaged journal are in a
    /// new one in `scratch`.
    ///
    /// # Errors
    /// As [`Journal::open`].
    pub fn open_to_read(
        path: &Path,
        scratch: &Scratch,
        mut each: impl FnMut(u64, Record) -> Result<()>,
    ) -> Result<Self> {
        let file = open_file(path).map_err(|e| io_error(path, e))?;
        if let Some(journal) = Self::of_sound(file, path, &mut each)? {
            return Ok(journal);
        }
        let mut journal = Self::open(&scratch.copy(path)?, each)?;
        if let Some(salvaged) = &mut journal.salvaged {
            salvaged.damaged_copy = path.to_owned();
        }
        Ok(journal)
    }

    /// Opens a journal that is undamaged, or damaged only at its end; `None`, leaving it alone, if
    /// it is damaged before that.
    fn open_sound(path: &Path, mut each: impl FnMut(u64, Record) -> Result<()>) -> Result<Option<Self>> {
        let file = open_file_with(OpenOptions::new().read(true).write(true), path);
        let file = file.map_err(|e| io_error(path, e))?;
        let journal = Self::of_sound(file, path, &mut each)?;
        if let Some(journal) = &journal
            && journal.cut > 0
        {
            journal.file.set_len(journal.committed).map_err(|e| io_error(path, e))?;
        }
        Ok(journal)
    }

    fn of_sound(
        file: File,
        path: &Path,
        each: &mut dyn FnMut(u64, Record) -> Result<()>,
    ) -> Result<Option<Self>> {
        let length = file.metadata().map_err(|e| io_error(path, e))?.len();
        let found = reader::scan(&file, path);
        let valid = found.as_ref().map_or(MAGIC.len() as u64, |found| found.end);
        if valid < length && salvage::end_of_damaged(&file, path, valid)?.is_some() {
            return Ok(None);
        }
        let found = found?;
        for record in Records::of(&file, path, found.end)? {
            let (offset, record) = record?;
            each(offset, record)?;
        }
        Ok(Some(Journal {
            path: path.to_owned(),
            file,
            header: found.header,
            last: found.last,
            header_at: found.last.header,
            committed: found.end,
            length: found.end,
            buffer: Vec::new(),
            check: found.check,
            checking: Checking::new(&found.check),
            broken: false,
            cut: length.saturating_sub(found.end),
            salvaged: None,
        }))
    }

    /// The header of a journal and its last commit, without changing anything. Only the last
    /// transaction is read, unless it is not valid.
    ///
    /// # Errors
    /// As [`Journal::open`].
    pub fn peek(path: &Path) -> Result<Peeked> {
        let file = open_file(path).map_err(|e| io_error(path, e))?;
        let ended = reader::last(&file, path)?;
        if let Some(Ended { header: Some(header), last }) = ended {
            return Ok(Peeked { header, last, whole: true });
        }
        let found = reader::scan(&file, path)?;
        let last = ended.map_or(found.last, |ended| ended.last);
        Ok(Peeked { header: found.header, last, whole: false })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Which mailbox it belongs to.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The last commit.
    pub fn last(&self) -> &Commit {
        &self.last
    }

    /// Bytes that followed the last commit when it was opened, and are cut off.
    pub fn cut(&self) -> u64 {
        self.cut
    }

    /// The damage before a valid end that was found at opening; returned once.
    pub fn take_salvaged(&mut self) -> Option<Salvaged> {
        self.salvaged.take()
    }

    /// Whether there are records that are not committed.
    pub fn is_dirty(&self) -> bool {
        self.length > self.committed
    }

    /// Adds a record; returns where it begins. Valid after the next [`Journal::commit`].
    ///
    /// # Errors
    /// `Limit` if it is too large; `Retry` if it cannot be written.
    pub fn push(&mut self, record: &Record) -> Result<u64> {
        let at = self.length;
        let from = self.buffer.len();
        self.buffer.extend_from_slice(&[0; 4]);
        minicbor::encode(record, &mut self.buffer)
            .map_err(|e| Error::internal("a record cannot be encoded").with_source(e))?;
        let bytes = self.buffer.len() - from - 4;
        if bytes > limits::ARCHIVE_RECORD_BYTES {
            self.buffer.truncate(from);
            return Err(Error::limit(format!("{}: a record of {bytes} bytes", self.path.display())));
        }
        let length = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.buffer[from..from + 4].copy_from_slice(&length.to_le_bytes());
        self.checking.push(&self.buffer[from..]);
        self.length += bytes as u64 + 4;
        if let Record::Header(header) = record {
            (self.header, self.header_at) = (header.clone(), at);
        }
        if self.buffer.len() >= BUFFER_BYTES {
            self.write_out()?;
        }
        Ok(at)
    }

    /// Makes everything up to here valid: on disk on return. Fills in the offsets, and repeats the
    /// header, so that the last transaction's checksum covers it and every commit has a copy.
    ///
    /// # Errors
    /// `Retry` if it cannot be written; the journal must be opened again before further writes.
    pub fn commit(&mut self, commit: &Commit) -> Result<()> {
        if self.header_at < self.committed {
            self.push(&Record::Header(self.header.clone()))?;
        }
        self.end_transaction(commit)
    }

    /// Changes the header and commits, with all else as before.
    ///
    /// # Errors
    /// As [`Journal::commit`].
    pub fn set_header(&mut self, header: Header) -> Result<()> {
        let last = self.last;
        self.push(&Record::Header(header))?;
        self.commit(&last)
    }

    fn end_transaction(&mut self, commit: &Commit) -> Result<()> {
        let from = self.committed.max(MAGIC.len() as u64);
        let commit = Commit { header: self.header_at, from, before: self.check, ..*commit };
        let at = self.push(&Record::Commit(commit))?;
        let check = self.checking.finish();
        self.buffer.extend_from_slice(&check);
        self.length += TRAILER_BYTES as u64;
        let back = u32::try_from(self.length - at).unwrap_or(u32::MAX);
        self.buffer.extend_from_slice(&back.to_le_bytes());
        self.write_out()?;
        if let Err(e) = self.file.sync_data() {
            self.broken = true;
            return Err(io_error(&self.path, e));
        }
        self.checking = Checking::new(&check);
        (self.check, self.last, self.committed) = (check, commit, self.length);
        Ok(())
    }

    /// The valid records, from the first one on.
    ///
    /// # Errors
    /// `Retry` if it cannot be read.
    pub fn records(&self) -> Result<Records> {
        let file = open_file(&self.path).map_err(|e| io_error(&self.path, e))?;
        Records::of(&file, &self.path, self.committed)
    }

    /// As [`Journal::records`], those from `offset` on, at which one begins.
    ///
    /// # Errors
    /// `Retry` if it cannot be read.
    pub fn records_from(&self, offset: u64) -> Result<Records> {
        let file = open_file(&self.path).map_err(|e| io_error(&self.path, e))?;
        Records::from(&file, &self.path, offset, self.committed)
    }

    /// The record that begins at `offset`.
    ///
    /// # Errors
    /// `Corrupt` if none does; `Retry` if it cannot be read.
    pub fn record_at(&self, offset: u64) -> Result<Record> {
        let file = open_file(&self.path).map_err(|e| io_error(&self.path, e))?;
        reader::one(&file, &self.path, offset)
    }

    fn write_out(&mut self) -> Result<()> {
        if self.broken {
            let why = "an earlier write failed; open the folder again to find the state on disk";
            return Err(Error::retry(format!("{}: {why}", self.path.display())));
        }
        let at = self.length - self.buffer.len() as u64;
        let write = |file: &mut File, buffer: &[u8]| {
            file.seek(SeekFrom::Start(at))?;
            file.write_all(buffer)
        };
        if let Err(e) = write(&mut self.file, &self.buffer) {
            self.broken = true;
            return Err(io_error(&self.path, e));
        }
        self.buffer.clear();
        Ok(())
    }
}

/// Before the first commit there is no checksum, and the name and version of the journal take its
/// place.
fn seeded_at(from: u64, before: &Check) -> Checking {
    if from > MAGIC.len() as u64 { Checking::new(before) } else { Checking::new(MAGIC) }
}

/// Reads exactly `out.len()` bytes; false if the file ends early.
fn read_exactly(from: &mut impl Read, out: &mut [u8]) -> std::io::Result<bool> {
    match from.read_exact(out) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    }
}
