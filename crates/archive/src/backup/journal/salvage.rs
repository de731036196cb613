//! What can be read of a journal that is damaged before its end, in a new one.
//!
//! A run that was killed leaves an end that is not valid, and nothing is lost by cutting it off. If
//! the last transaction is valid, and one before it is not, the disk or somebody else changed the
//! file, and everything behind that place is true still.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use sealpost_base::Result;
use sealpost_files::{io_error, open_file};

use super::reader::{self, Ended, next_frame, one};
use super::{Again, Commit, MAGIC, Record, Records, TRAILER_BYTES, read_exactly};
use crate::backup::damaged::link_aside;
use crate::backup::digest::CHECK_BYTES;

/// A journal was damaged, and what can be read of it is in a new one.
#[derive(Debug)]
pub struct Salvaged {
    /// The damaged one, as it was.
    pub aside: PathBuf,
    /// Places where something cannot be read.
    pub unread: u64,
}

impl Salvaged {
    /// What the user is told of it.
    pub fn notice(&self, folder: &str) -> String {
        let Salvaged { aside, unread } = self;
        format!(
            "{folder}: its journal is damaged: all readable records are kept, {unread} places are unreadable; \
             `archive verify --all --repair` fetches their messages again; the damaged journal is in {}",
            aside.display()
        )
    }
}

/// Where the last transaction ends, if one is behind `valid`, where those that are valid end: then
/// something is damaged before it.
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
            // What was not synced when the power went is no transaction, though its end may be there.
            if reader::ended_at(file, path, at)?.is_some() {
                end = Some(at);
            }
            // That has read elsewhere in the same file.
            input = reader::reader(file, path, at)?;
        }
    }
    Ok(end)
}

/// Puts a journal with all that can be read of the one at `path` in its place. What it says of what
/// came last is at its defaults, so that the next pull looks what is missing. The damaged one is
/// there until then.
///
/// # Errors
/// `Corrupt` if it says nowhere whose it is; `Retry` if it cannot be read, or the new one written.
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
    // What the data file has behind that may be of messages whose records cannot be read: it is
    // looked at as if another program had put it there since a run was done with it, and kept.
    let (data, shown) = (known.min(last.data), Some(0));
    again.commit(&Commit { data, present: last.present, gone: last.gone, shown, ..Commit::default() })?;
    let aside = link_aside(path)?;
    again.put_in_place(path)?;
    Ok(Salvaged { aside, unread })
}

/// Gives the records of that part of a journal to `each`, commits and headers included. Where
/// something cannot be read, `each` gets `None`: what is next is the first record of a later
/// transaction, or a record behind the one that is no good.
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
                // Where this one is no commit, what is behind it is no record either.
                at += TRAILER_BYTES as u64;
                input = reader::reader(file, path, at)?;
            }
            each(record)?;
        }
        at = next;
    }
    Ok(())
}

/// Where transactions begin, from the end of that part back to its beginning or the first one whose
/// end is not to be found.
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

/// How far before its end a trailer says that its commit begins.
fn back(trailer: &[u8; TRAILER_BYTES]) -> u64 {
    trailer[CHECK_BYTES..].iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte))
}
