//! Salvages the readable records of a journal that is damaged before its end into a new one.
//!
//! A killed run leaves an invalid end, and cutting it off loses nothing. If the last transaction is
//! valid and an earlier one is not, the disk or another program changed the file, and everything
//! after the damage is still valid.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use sealpost_base::Result;
use sealpost_files::{io_error, open_file};

use super::reader::{self, Ended, next_frame, one};
use super::{Again, Commit, MAGIC, Record, Records, TRAILER_BYTES, read_exactly};
use crate::backup::damaged::link_damaged;
use crate::backup::digest::CHECK_BYTES;

/// A journal was damaged, and its readable records are in a new one.
#[derive(Debug)]
pub struct Salvaged {
    /// The damaged one, unchanged.
    pub damaged_copy: PathBuf,
    /// Number of unreadable places.
    pub unread: u64,
}

impl Salvaged {
    /// The notice for the user.
    pub fn notice(&self, folder: &str) -> String {
        let Salvaged { damaged_copy, unread } = self;
        format!(
            "{folder}: its journal is damaged: all readable records are kept, {unread} places are unreadable; \
             `archive verify --all --repair` fetches their messages again; the damaged journal is in {}",
            damaged_copy.display()
        )
    }
}

/// Where the last transaction ends, if one follows `valid`, the end of the valid ones: then
/// something before it is damaged.
pub(super) fn end_of_damaged(file: &File, path: &Path, valid: u64) -> Result<Option<u64>> {
    let length = file.metadata().map_err(|e| io_error(path, e))?.len();
    if length > valid && reader::last(file, path)?.is_some() {
        return Ok(Some(length));
    }
    // A run may have been killed since, so that the end is not valid either.
    let (mut at, mut end, mut frame) = (valid, None, Vec::new());
    let mut input = reader::reader(file, path, at)?;
    while let Some(bytes) = next_frame(&mut input, &mut frame).map_err(|e| io_error(path, e))? {
        at += bytes as u64;
        if let Ok(Record::Commit(_)) = minicbor::decode::<Record>(&frame[4..]) {
            let mut trailer = [0; TRAILER_BYTES];
            if !read_exactly(&mut input, &mut trailer).map_err(|e| io_error(path, e))? {
                break;
            }
            at += TRAILER_BYTES as u64;
            // A transaction that was not synced before a power cut is invalid, even if its end is
            // there.
            if reader::ended_at(file, path, at)?.is_some() {
                end = Some(at);
            }
            // `ended_at` has moved the position of the same file.
            input = reader::reader(file, path, at)?;
        }
    }
    Ok(end)
}

/// Replaces the journal at `path` by one with all its readable records. The resume state is reset,
/// so that the next pull looks for missing messages. The damaged one stays in place until then.
///
/// # Errors
/// `Corrupt` if it has no readable header; `Retry` if it cannot be read, or the new one written.
pub(super) fn salvage(path: &Path) -> Result<Salvaged> {
    let file = open_file(path).map_err(|e| io_error(path, e))?;
    let found = reader::scan(&file, path);
    let valid = found.as_ref().map_or(MAGIC.len() as u64, |found| found.end);
    let end = end_of_damaged(&file, path, valid)?.unwrap_or(valid);
    let (header, last) = match reader::ended_at(&file, path, end)? {
        Some(Ended { header: Some(header), last }) => (header, last),
        Some(Ended { header: None, last }) => (found?.header, last),
        None => found.map(|found| (found.header, found.last))?,
    };
    let mut again = Again::begin(path, header)?;
    let (mut known, mut unread) = (0, 0);
    let mut take = |record| {
        if let Record::Message(message) = &record {
            known = known.max(message.offset + message.length);
        }
        again.add(record)
    };
    for record in Records::of(&file, path, valid)? {
        take(record?.1)?;
    }
    rest(&file, path, valid..end, |record| match record {
        Some(record) => take(record),
        None => {
            unread += 1;
            take(Record::Abandoned)
        }
    })?;
    // Data after that in the data file may be of messages whose records are unreadable: it is
    // treated as written by another program after the last run, and kept.
    let (data, shown) = (known.min(last.data), Some(0));
    again.commit(&Commit { data, present: last.present, gone: last.gone, shown, ..Commit::default() })?;
    let damaged_copy = link_damaged(path)?;
    again.put_in_place(path)?;
    Ok(Salvaged { damaged_copy, unread })
}

/// Passes the records of that part of a journal to `each`, commits and headers included. `each`
/// gets `None` for an unreadable place: the next record is the first one of a later transaction, or
/// one behind the unreadable record.
fn rest(
    file: &File,
    path: &Path,
    part: Range<u64>,
    mut each: impl FnMut(Option<Record>) -> Result<()>,
) -> Result<()> {
    let begins = beginnings(file, path, &part)?;
    let (mut at, mut frame) = (part.start, Vec::new());
    while at < part.end {
        let next = begins.range(at + 1..).next().copied().unwrap_or(part.end);
        let mut input = reader::reader(file, path, at)?;
        while at < next {
            let bytes = next_frame(&mut input, &mut frame).map_err(|e| io_error(path, e))?;
            let Some(bytes) = bytes.filter(|bytes| at + *bytes as u64 <= next) else {
                each(None)?;
                break;
            };
            at += bytes as u64;
            let record = minicbor::decode::<Record>(&frame[4..]).ok();
            if let Some(Record::Commit(_)) = record {
                // If this is no commit, what follows it is no record either.
                at += TRAILER_BYTES as u64;
                input = reader::reader(file, path, at)?;
            }
            each(record)?;
        }
        at = next;
    }
    Ok(())
}

/// Where transactions begin, from the end of that part back to its beginning or to the first one
/// whose end is not found.
fn beginnings(file: &File, path: &Path, part: &Range<u64>) -> Result<BTreeSet<u64>> {
    let mut begins = BTreeSet::new();
    let mut end = part.end;
    while let Some(trailer_at) = end.checked_sub(TRAILER_BYTES as u64).filter(|at| *at > part.start) {
        let mut trailer = [0; TRAILER_BYTES];
        let mut input = reader::reader(file, path, trailer_at)?;
        input.read_exact(&mut trailer).map_err(|e| io_error(path, e))?;
        let Some(commit_at) = end.checked_sub(back(&trailer)).filter(|at| *at < trailer_at) else { break };
        match one(file, path, commit_at) {
            Ok(Record::Commit(commit)) if commit.from <= commit_at && commit.from > part.start => {
                begins.insert(commit.from);
                end = commit.from;
            }
            _ => break,
        }
    }
    Ok(begins)
}

/// The distance from a trailer's end back to the beginning of its commit.
fn back(trailer: &[u8; TRAILER_BYTES]) -> u64 {
    trailer[CHECK_BYTES..].iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte))
}
