//! What can be read of a journal that is damaged before its end, in a new one.
//!
//! A run that was killed leaves an end that is not valid, and nothing is lost by cutting it off. If the last transaction is valid, and one
//! before it is not, the disk or somebody else changed the file, and everything behind that place is true still.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use sealpost_base::{Error, Result};

use super::reader::{self, next_frame, one};
use super::{Again, Commit, MAGIC, Record, Records, TRAILER_BYTES};
use crate::io_error;
use crate::keep::digest::CHECK_BYTES;
use crate::keep::files::copy_aside;

/// A journal was damaged, and what can be read of it is in a new one.
#[derive(Debug)]
pub struct Salvaged {
    /// The damaged one, as it was.
    pub aside: PathBuf,
    /// Places where something cannot be read.
    pub unread: u64,
}

/// Puts a journal with all that can be read of the one at `path`, whose last transaction is valid, in its place. What it
/// says of what came last is at its defaults, so that the next pull looks what is missing. The damaged one is there until then.
///
/// # Errors
/// `Corrupt` if the last transaction is not valid; `Retry` if it cannot be read, or the new one written.
pub(super) fn salvage(path: &Path) -> Result<Salvaged> {
    let file = File::open(path).map_err(|e| io_error(path, e))?;
    let damaged = || Error::corrupt(format!("{}: the journal is damaged at both ends", path.display()));
    let (header, _) = reader::last(&file, path)?.ok_or_else(damaged)?;
    let mut again = Again::begin(path, header)?;
    let (mut data, mut unread) = (0, 0);
    let mut take = |record| {
        if let Record::Commit(commit) = &record {
            data = commit.data;
        }
        again.add(record)
    };
    let valid = reader::scan(&file, path).map_or(MAGIC.len() as u64, |found| found.end);
    for record in Records::of(&file, path, valid)? {
        take(record?.1)?;
    }
    rest(&file, path, valid, |record| match record {
        Some(record) => take(record),
        None => {
            unread += 1;
            take(Record::Abandoned)
        }
    })?;
    let aside = copy_aside(path)?;
    again.put_in_place(path, &Commit { data, ..Commit::default() })?;
    Ok(Salvaged { aside, unread })
}

/// Gives the records that begin at `from` or behind it to `each`, commits and headers included. Where something cannot be
/// read, `each` gets `None`: what is next is the first record of a later transaction, or a record behind the one that is no good.
fn rest(
    file: &File,
    path: &Path,
    from: u64,
    mut each: impl FnMut(Option<Record>) -> Result<()>,
) -> Result<()> {
    let begins = beginnings(file, path, from)?;
    let end = file.metadata().map_err(|e| io_error(path, e))?.len();
    let (mut at, mut frame) = (from, Vec::new());
    while at < end {
        let next = begins.range(at + 1..).next().copied().unwrap_or(end);
        let mut input = reader::reader(file, path, at)?;
        // Frames up to where the next transaction begins; its own are read after another look at where it ends.
        loop {
            let bytes = next_frame(&mut input, &mut frame).map_err(|e| io_error(path, e))?;
            let Some(bytes) = bytes.filter(|bytes| at + *bytes as u64 <= next) else {
                each(None)?;
                break;
            };
            at += bytes as u64;
            let record = minicbor::decode::<Record>(&frame[4..]).ok();
            let is_commit = matches!(record, Some(Record::Commit(_)));
            each(record)?;
            if is_commit || at >= next {
                break;
            }
        }
        at = next;
    }
    Ok(())
}

/// Where transactions begin, from the end of the journal back to `from` or the first one whose end is not to be found.
fn beginnings(file: &File, path: &Path, from: u64) -> Result<BTreeSet<u64>> {
    let mut begins = BTreeSet::new();
    let mut end = file.metadata().map_err(|e| io_error(path, e))?.len();
    while let Some(trailer_at) = end.checked_sub(TRAILER_BYTES as u64).filter(|at| *at > from) {
        let mut trailer = [0; TRAILER_BYTES];
        let mut input = reader::reader(file, path, trailer_at)?;
        input.read_exact(&mut trailer).map_err(|e| io_error(path, e))?;
        let back = trailer[CHECK_BYTES..].iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte));
        let Some(commit_at) = end.checked_sub(back).filter(|at| *at < trailer_at) else { break };
        match one(file, path, commit_at) {
            Ok(Record::Commit(commit)) if commit.from <= commit_at && commit.from > from => {
                begins.insert(commit.from);
                end = commit.from;
            }
            _ => break,
        }
    }
    Ok(begins)
}
