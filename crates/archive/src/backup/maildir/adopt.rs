//! Files of messages that the journal does not name: it was damaged, or they were away for a while.

use std::convert::Infallible;
use std::io::Read;
use std::path::Path;
use std::time::UNIX_EPOCH;

use sealpost_base::Result;
use sealpost_files::{io_error, open_file};
use sealpost_mailformat::maildir::name;

use super::names::Names;
use crate::backup::contents::Contents;
use crate::backup::digest::Digesting;
use crate::backup::journal::{FlagsRecord, Header, Journal, Message, Record};
use crate::backup::line_ends::ToBytes;
use crate::backup::{Flags, Resume};

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// Takes them over as they are, with CRLF at their line ends, and the letters and the time of their
/// files; returns how many. The caller commits so that the next pull compares all UIDs with the
/// server.
///
/// # Errors
/// `Retry` if one cannot be read, or the journal not written.
pub fn take_over(names: &Names, contents: &mut Contents) -> Result<u64> {
    let unknown = names.unknown(&contents.known)?;
    for (uid, path) in &unknown {
        let message = message(*uid, path).map_err(|e| io_error(path, e))?;
        contents.push(Record::Message(message))?;
    }
    contents.found_again(unknown.len() as u64);
    Ok(unknown.len() as u64)
}

/// Creates a journal at `path` where there is none, from the files.
///
/// # Errors
/// As [`take_over`].
pub fn rebuild(names: &Names, path: &Path, header: Header) -> Result<()> {
    let mut contents = Contents::new(Journal::begin(path, header)?);
    take_over(names, &mut contents)?;
    contents.commit(0, &Resume::default())?;
    contents.journal.put_in_place(path, false)
}

fn message(uid: u32, path: &Path) -> std::io::Result<Message> {
    let mut file = open_file(path)?;
    let modified = file.metadata()?.modified()?;
    let received = match modified.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_secs()).ok(),
        Err(before) => i64::try_from(before.duration().as_secs()).ok().map(|seconds| -seconds),
    };
    let (mut piece, mut bytes, mut to_bytes) = (vec![0; PIECE_BYTES], Vec::new(), ToBytes::default());
    let (mut digesting, mut length, mut size) = (Digesting::default(), 0, 0);
    loop {
        let n = file.read(&mut piece)?;
        if n == 0 {
            break;
        }
        bytes.clear();
        let _ = to_bytes.push(&piece[..n], &mut bytes, || Ok::<_, Infallible>(None));
        digesting.push(&bytes);
        length += n as u64;
        size += bytes.len() as u64;
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let flags = Flags::from_names(name::flags(name, &[]).iter().map(String::as_str));
    Ok(Message {
        uid,
        flags: FlagsRecord::of(&flags),
        received,
        zone: 0,
        bytes: size,
        digest: digesting.finish(),
        foreign: true,
        offset: 0,
        length,
        line_ends: 0,
    })
}
