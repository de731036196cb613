//! Reading journals: which part is valid, and its records one after the other.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use sealpost_base::{Error, Result, limits};
use sealpost_files::io_error;

use super::{BUFFER_BYTES, Commit, Header, MAGIC, Record, TRAILER_BYTES, read_exactly, seeded_at};
use crate::backup::digest::{CHECK_BYTES, Check, Checking};

/// The valid part of a journal.
pub(super) struct ValidCommit {
    /// The last header.
    pub header: Header,
    /// The last valid commit.
    pub last: Commit,
    /// Its checksum.
    pub check: Check,
    /// Where it ends.
    pub end: u64,
}

/// Looks through a whole journal for its last valid commit.
pub(super) fn scan(file: &File, path: &Path) -> Result<ValidCommit> {
    let mut input = reader(file, path, 0)?;
    let corrupt = |why: &str| Error::corrupt(format!("{}: {why}", path.display()));
    let mut magic = [0; MAGIC.len()];
    let whole = read_exactly(&mut input, &mut magic).map_err(|e| io_error(path, e))?;
    if !whole || magic != *MAGIC {
        return Err(corrupt("not a journal of an archive, or one of a later version"));
    }
    let mut checking = seeded_at(0, &Check::default());
    let (mut header, mut found) = (None, None);
    let mut at = MAGIC.len() as u64;
    let mut frame = Vec::new();
    while let Some(bytes) = next_frame(&mut input, &mut frame).map_err(|e| io_error(path, e))? {
        checking.push(&frame);
        at += bytes as u64;
        match minicbor::decode::<Record>(&frame[4..]) {
            Ok(Record::Header(new)) => header = Some(new),
            Ok(Record::Commit(last)) => {
                let mut trailer = [0; TRAILER_BYTES];
                if !read_exactly(&mut input, &mut trailer).map_err(|e| io_error(path, e))? {
                    break;
                }
                let check = checking.finish();
                let back = (bytes + TRAILER_BYTES) as u32;
                if trailer[..CHECK_BYTES] != check || trailer[CHECK_BYTES..] != back.to_le_bytes() {
                    break;
                }
                at += TRAILER_BYTES as u64;
                checking = Checking::new(&check);
                let Some(header) = header.clone() else { break };
                found = Some(ValidCommit { header, last, check, end: at });
            }
            Ok(_) => {}
            Err(_) => break,
        }
    }
    found.ok_or_else(|| corrupt("the journal is damaged from its beginning"))
}

/// The data at the end of a valid transaction.
pub(super) struct Ended {
    /// The last header; `None` if it was changed.
    pub header: Option<Header>,
    /// Its commit.
    pub last: Commit,
}

/// The last transaction's end, if that is valid and nothing follows it.
pub(super) fn last(file: &File, path: &Path) -> Result<Option<Ended>> {
    let length = file.metadata().map_err(|e| io_error(path, e))?.len();
    ended_at(file, path, length)
}

/// The data of the transaction that ends there, if it is valid.
pub(super) fn ended_at(file: &File, path: &Path, length: u64) -> Result<Option<Ended>> {
    let Some(last) = transaction_to(file, path, length)? else { return Ok(None) };
    // A header in another transaction is covered by that one's checksum.
    let whole = last.header >= last.from || is_in_valid(file, path, last.header)?;
    let header = match whole.then(|| one(file, path, last.header)) {
        Some(Ok(Record::Header(header))) => Some(header),
        _ => None,
    };
    Ok(Some(Ended { header, last }))
}

/// Whether the header that begins at `header` is in a valid transaction. Every commit has its own;
/// older versions wrote only changed ones.
fn is_in_valid(file: &File, path: &Path, header: u64) -> Result<bool> {
    let (mut input, mut frame, mut end) = (reader(file, path, header)?, Vec::new(), header);
    while let Some(bytes) = next_frame(&mut input, &mut frame).map_err(|e| io_error(path, e))? {
        end += bytes as u64;
        if let Ok(Record::Commit(_)) = minicbor::decode::<Record>(&frame[4..]) {
            let commit = transaction_to(file, path, end + TRAILER_BYTES as u64)?;
            return Ok(commit.is_some_and(|commit| commit.from <= header));
        }
    }
    Ok(false)
}

/// The commit of the transaction that ends there, if it is valid.
fn transaction_to(file: &File, path: &Path, length: u64) -> Result<Option<Commit>> {
    let Some(trailer_at) = length.checked_sub(TRAILER_BYTES as u64) else { return Ok(None) };
    let mut trailer = [0; TRAILER_BYTES];
    let mut input = reader(file, path, trailer_at)?;
    if !read_exactly(&mut input, &mut trailer).map_err(|e| io_error(path, e))? {
        return Ok(None);
    }
    let (check, back) = trailer.split_at(CHECK_BYTES);
    let back = u64::from(u32::from_le_bytes([back[0], back[1], back[2], back[3]]));
    let begins = length.checked_sub(back).filter(|at| *at >= MAGIC.len() as u64 && *at < trailer_at);
    let Some(begins) = begins else { return Ok(None) };
    let Ok(Record::Commit(last)) = one(file, path, begins) else { return Ok(None) };
    if last.from > begins || last.from < MAGIC.len() as u64 || last.header >= begins {
        return Ok(None);
    }
    let mut checking = seeded_at(last.from, &last.before);
    let mut rest = reader(file, path, last.from)?.take(trailer_at - last.from);
    let mut piece = vec![0; BUFFER_BYTES];
    loop {
        match rest.read(&mut piece) {
            Ok(0) => break,
            Ok(n) => checking.push(&piece[..n]),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(io_error(path, e)),
        }
    }
    Ok((checking.finish() == *check).then_some(last))
}

/// Reads a frame with its length; `None` if there is no complete one.
pub(super) fn next_frame(input: &mut impl Read, frame: &mut Vec<u8>) -> std::io::Result<Option<usize>> {
    frame.resize(4, 0);
    if !read_exactly(input, frame)? {
        return Ok(None);
    }
    let bytes = u32::from_le_bytes([frame[0], frame[1], frame[2], frame[3]]) as usize;
    if bytes > limits::ARCHIVE_RECORD_BYTES {
        return Ok(None);
    }
    frame.resize(4 + bytes, 0);
    Ok(read_exactly(input, &mut frame[4..])?.then_some(4 + bytes))
}

pub(super) fn reader(file: &File, path: &Path, at: u64) -> Result<BufReader<File>> {
    let mut file = file.try_clone().map_err(|e| io_error(path, e))?;
    file.seek(SeekFrom::Start(at)).map_err(|e| io_error(path, e))?;
    Ok(BufReader::with_capacity(BUFFER_BYTES, file))
}

/// The record at `offset`.
pub(super) fn one(file: &File, path: &Path, offset: u64) -> Result<Record> {
    let mut input = reader(file, path, offset)?;
    let mut frame = Vec::new();
    let corrupt = || Error::corrupt(format!("{}: no record at byte {offset}", path.display()));
    next_frame(&mut input, &mut frame).map_err(|e| io_error(path, e))?.ok_or_else(corrupt)?;
    minicbor::decode(&frame[4..]).map_err(|e| corrupt().with_source(e))
}

/// Records of a journal with the offset of each, commits included.
pub struct Records {
    input: BufReader<File>,
    path: PathBuf,
    frame: Vec<u8>,
    at: u64,
    end: u64,
}

impl Records {
    /// Those before `end`, which a scan found valid.
    pub(super) fn of(file: &File, path: &Path, end: u64) -> Result<Self> {
        Self::from(file, path, MAGIC.len() as u64, end)
    }

    /// Those from `at` on, where one begins.
    pub(super) fn from(file: &File, path: &Path, at: u64, end: u64) -> Result<Self> {
        Ok(Records { input: reader(file, path, at)?, path: path.to_owned(), frame: Vec::new(), at, end })
    }

    fn read(&mut self) -> Result<(u64, Record)> {
        let at = self.at;
        let corrupt = || Error::corrupt(format!("{}: no record at byte {at}", self.path.display()));
        let read = next_frame(&mut self.input, &mut self.frame).map_err(|e| io_error(&self.path, e))?;
        self.at += read.ok_or_else(corrupt)? as u64;
        let record = minicbor::decode(&self.frame[4..]).map_err(|e| corrupt().with_source(e))?;
        if let Record::Commit(_) = record {
            self.input.seek_relative(TRAILER_BYTES as i64).map_err(|e| io_error(&self.path, e))?;
            self.at += TRAILER_BYTES as u64;
        }
        Ok((at, record))
    }
}

impl Iterator for Records {
    type Item = Result<(u64, Record)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.end {
            return None;
        }
        let record = self.read();
        if record.is_err() {
            self.at = self.end;
        }
        Some(record)
    }
}
