//! An mbox without what is not kept any more, and messages of an mbox under other UIDs.
//!
//! A message that is removed, or that another one took the place of, stays in the mbox where it
//! was, and a mail program that opens the mbox shows it. So when a run is done with the folder, the
//! mbox is written anew without such messages; everything else stays, in its order, also what no
//! record names.
//!
//! Journal and JSON say where messages are, so they are written anew too. All three are there,
//! whole, before the journal takes its place: it says then that the other two are about to take
//! theirs ([`Header::rewritten`]), and whoever opens the backup after a crash goes on with that.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use sealpost_base::{Result, limits};
use sealpost_files::{io_error, length, longer, open_file, replace, sync_directory_of};

use super::adopt::Paths;
use super::files::write_json;
use crate::backup::contents::Contents;
use crate::backup::direct_writer::Appending;
use crate::backup::journal::{Again, Commit, FlagsRecord, Header, Message, Record};
use crate::backup::ranges::Ranges;

/// An mbox up to this size is written anew as soon as it has something that is not kept.
const SMALL_BYTES: u64 = 16 * 1024 * 1024;
/// A larger one when a share of 1 / so much of it is not kept, so that what is written anew is in
/// proportion to what was removed.
const SHARE: u64 = 8;

/// Writes the mbox anew if there is enough in it that is not kept. The folder is to be closed, and
/// nothing is to be written to it any more.
///
/// # Errors
/// `Retry`, `Corrupt`: what is in place then is whole, or is put in its place when the backup is opened.
pub fn rewrite(paths: &Paths, contents: &Contents) -> Result<()> {
    let most = limits::ARCHIVE_REWRITE_RANGES;
    let prepared = prepare(paths, contents, most).inspect_err(|_| remove_unfinished(paths))?;
    let Some((journal, bytes)) = prepared else { return Ok(()) };
    let mut journal = journal.put_in_place(&paths.journal)?;
    put_in_place(paths, bytes)?;
    journal.set_header(contents.journal.header().clone())
}

/// Writes all three anew, under other names, if there is enough that is not kept, and in no more
/// parts than `most`; the journal, and how many bytes the mbox has.
pub(super) fn prepare(paths: &Paths, contents: &Contents, most: usize) -> Result<Option<(Again, u64)>> {
    if !contents.may_have_dead() {
        return Ok(None);
    }
    let last = *contents.journal.last();
    let dead = dead(contents, most)?;
    let bytes = dead.bytes();
    // What a record is left out for has to go: nobody would know of it any more.
    if dead.is_full() || bytes == 0 || (last.data > SMALL_BYTES && bytes < last.data / SHARE) {
        return Ok(None);
    }
    let (moved, data) = (dead.moved(), last.data - bytes);
    copy_without(paths, &dead, last.data)?;
    let place = |message: Message| Message { offset: moved.to(message.offset), ..message };
    let shown = write_changed_json(paths, contents, place)?;
    let header = Header { rewritten: Some(data), ..contents.journal.header().clone() };
    let mut journal = contents.write_anew(header, |at, record| match record {
        Record::Message(message) if !contents.is_live(&message, at) => None,
        Record::Message(mut message) => {
            message.offset = moved.to(message.offset);
            Some(Record::Message(message))
        }
        // All of what they are about is left out.
        Record::Vanished { .. } => None,
        record => Some(record),
    })?;
    journal.commit(&Commit { data, shown: Some(shown), ..last })?;
    Ok(Some((journal, data)))
}

/// Puts what was written anew, with so many bytes, in its place, as far as that is not done.
///
/// # Errors
/// `Retry` if it cannot be done.
pub fn put_in_place(paths: &Paths, bytes: u64) -> Result<()> {
    let mbox = rewritten(&paths.mbox);
    // One of another length was never whole.
    if mbox.exists() && length(&mbox)? == bytes {
        fs::rename(&mbox, &paths.mbox).map_err(|e| io_error(&paths.mbox, e))?;
    }
    let json = rewritten(&paths.json);
    if json.exists() {
        fs::rename(&json, &paths.json).map_err(|e| io_error(&paths.json, e))?;
    }
    sync_directory_of(&paths.mbox)
}

/// Removes what an attempt left that did not come to its end. What is said to take its place has taken it.
pub fn remove_unfinished(paths: &Paths) {
    for path in [&paths.mbox, &paths.json] {
        // What cannot be removed is written over by the next attempt.
        let _ = fs::remove_file(rewritten(path));
    }
}

/// What is written anew is here until it takes its place.
pub fn rewritten(path: &Path) -> PathBuf {
    longer(path, ".rewritten")
}

/// Where the mbox has messages that are not kept.
fn dead(contents: &Contents, most: usize) -> Result<Ranges> {
    let mut dead = Ranges::new(most);
    for record in contents.journal.records()? {
        match record? {
            (at, Record::Message(message)) if !contents.is_live(&message, at) => {
                dead.add(message.offset, message.offset + message.length);
            }
            // What was behind that was cut off: what is there now is something else.
            (_, Record::Commit(commit)) => dead.remove(commit.data, u64::MAX),
            _ => {}
        }
        if dead.is_full() {
            return Ok(dead);
        }
    }
    for message in contents.messages()? {
        let (_, message) = message?;
        dead.remove(message.offset, message.offset + message.length);
    }
    Ok(dead)
}

/// Writes the mbox without these, as far as `end`.
fn copy_without(paths: &Paths, dead: &Ranges, end: u64) -> Result<()> {
    let path = rewritten(&paths.mbox);
    let copy = || -> io::Result<()> {
        let mut from = open_file(&paths.mbox)?;
        let mut to = Appending::open(&path, 0)?;
        let mut piece = vec![0; 128 * 1024];
        for (begins, ends) in dead.gaps(end) {
            from.seek(SeekFrom::Start(begins))?;
            let mut left = ends - begins;
            while left > 0 {
                let room = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
                from.read_exact(&mut piece[..room])?;
                to.write_all(&piece[..room])?;
                left -= room as u64;
            }
        }
        to.sync()
    };
    copy().map_err(|e| io_error(&path, e))
}

/// Gives messages other UIDs, and says that they are on the server: journal and JSON are written
/// anew, the mbox stays. The folder is to be closed or just opened.
///
/// # Errors
/// As [`rewrite`].
pub fn renumber(paths: &Paths, contents: &mut Contents, uids: &BTreeMap<u32, u32>) -> Result<()> {
    remove_unfinished(paths);
    let journal = prepare_renumbered(paths, contents, uids).inspect_err(|_| remove_unfinished(paths))?;
    let header = contents.journal.header().clone();
    let mut journal = journal.put_in_place(&paths.journal)?;
    put_in_place(paths, contents.journal.last().data)?;
    journal.set_header(header)?;
    let unread = contents.unread;
    *contents = Contents::read(&paths.journal, |_, _| {})?;
    contents.misses(unread);
    Ok(())
}

/// As [`prepare`], of messages that get other UIDs.
pub(super) fn prepare_renumbered(
    paths: &Paths,
    contents: &Contents,
    uids: &BTreeMap<u32, u32>,
) -> Result<Again> {
    let last = *contents.journal.last();
    let to = |uid: u32| uids.get(&uid).copied();
    let shown = write_changed_json(paths, contents, |message| Message {
        uid: to(message.uid).unwrap_or(message.uid),
        ..message
    })?;
    let mut done = BTreeSet::new();
    let header = Header { rewritten: Some(last.data), ..contents.journal.header().clone() };
    let mut journal = contents.write_anew(header, |at, record| match record {
        Record::Message(message) if contents.is_live(&message, at) && uids.contains_key(&message.uid) => {
            done.insert(message.uid);
            let flags = contents.known.flags(message.uid).cloned().unwrap_or_default();
            let uid = to(message.uid).unwrap_or(message.uid);
            Some(Record::Message(Message { uid, flags: FlagsRecord::of(&flags), ..message }))
        }
        // What came to it later is in the record that it has now.
        Record::Flags { uid, .. } | Record::Gone { uid } if done.contains(&uid) => None,
        record => Some(record),
    })?;
    let back = uids.keys().filter(|uid| contents.known.is_gone(**uid)).count() as u64;
    let (present, gone) = (last.present + back, last.gone.saturating_sub(back));
    journal.commit(&Commit { present, gone, shown: Some(shown), ..last })?;
    Ok(journal)
}

/// Writes the JSON of what is kept, with what `change` makes of every message; its bytes.
fn write_changed_json(
    paths: &Paths,
    contents: &Contents,
    change: impl Fn(Message) -> Message,
) -> Result<u64> {
    let path = rewritten(&paths.json);
    replace(&path, longer(&path, ".new"), |file| {
        let uidvalidity = contents.journal.header().uidvalidity;
        write_json(file, uidvalidity, contents, change).map_err(|e| io_error(&path, e))??;
        Ok(())
    })?;
    length(&path)
}
