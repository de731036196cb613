//! What can be read of a journal that is damaged before its end.
//!
//! A run that was killed leaves an end that is not valid, and nothing is lost by cutting it off. If the last transaction is valid, and one
//! before it is not, the disk or somebody else changed the file, and everything behind that place is true still.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

use sealpost_base::Result;

use super::reader::{next_frame, one, reader};
use super::{MAGIC, Record, TRAILER_BYTES};
use crate::io_error;
use crate::keep::digest::CHECK_BYTES;

/// Gives the records of the journal that begin at `from` or behind it to `each`, commits and headers included. Where something cannot be
/// read, `each` gets `None`: what is next is the first record of a later transaction, or a record behind the one that is no good.
///
/// # Errors
/// `Retry` if it cannot be read; what `each` says.
pub fn salvage(path: &Path, from: u64, mut each: impl FnMut(Option<Record>) -> Result<()>) -> Result<()> {
    let file = File::open(path).map_err(|e| io_error(path, e))?;
    let from = from.max(MAGIC.len() as u64);
    let begins = beginnings(&file, path, from)?;
    let end = file.metadata().map_err(|e| io_error(path, e))?.len();
    let (mut at, mut frame) = (from, Vec::new());
    while at < end {
        let next = begins.range(at + 1..).next().copied().unwrap_or(end);
        let mut input = reader(&file, path, at)?;
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
        let mut input = reader(file, path, trailer_at)?;
        std::io::Read::read_exact(&mut input, &mut trailer).map_err(|e| io_error(path, e))?;
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
