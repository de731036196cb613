//! Rewrites an mbox without removed messages, or messages of an mbox under other UIDs.
//!
//! A removed or replaced message stays in the mbox where it was, and a mail program that opens the
//! mbox shows it. So when a run is done with the folder, the mbox is rewritten without such
//! messages; everything else stays, in its order, also parts that no record names.
//!
//! Journal and JSON have the positions of messages, so they are rewritten too. All three are
//! complete before the new journal takes its place: it records that the other two are about to take
//! theirs ([`Header::rewritten`]), and the next process that opens the backup after a crash
//! completes that.

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

/// An mbox up to this size is rewritten as soon as it has a removed message.
const SMALL_BYTES: u64 = 16 * 1024 * 1024;
/// A larger one is rewritten when 1 / this share of it is removed, so that the cost is in
/// proportion to what was removed.
const SHARE: u64 = 8;

/// Rewrites the mbox if enough of it is removed. The folder is about to be closed, and must not be
/// written to any more.
///
/// # Errors
/// `Retry`, `Corrupt`: the files in place stay complete, or are put in place when the backup is
/// opened.
pub fn rewrite(paths: &Paths, contents: &Contents) -> Result<()> {
    let most = limits::ARCHIVE_REWRITE_RANGES;
    let prepared = prepare(paths, contents, most).inspect_err(|_| remove_unfinished(paths))?;
    let Some((journal, bytes)) = prepared else { return Ok(()) };
    let mut journal = journal.put_in_place(&paths.journal)?;
    put_in_place(paths, bytes)?;
    journal.set_header(contents.journal.header().clone())
}

/// Rewrites all three, under other names, if enough is removed, and in no more parts than `most`;
/// returns the journal, and the mbox's size.
pub(super) fn prepare(paths: &Paths, contents: &Contents, most: usize) -> Result<Option<(Again, u64)>> {
    if !contents.may_have_dead() {
        return Ok(None);
    }
    let last = *contents.journal.last();
    let dead = dead(contents, most)?;
    let bytes = dead.bytes();
    // If a record is left out, its message has to go: no other record would name it.
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
        // The messages that it names are all left out.
        Record::Vanished { .. } => None,
        record => Some(record),
    })?;
    journal.commit(&Commit { data, shown: Some(shown), ..last })?;
    Ok(Some((journal, data)))
}

/// Puts the rewritten files, the mbox with so many bytes, in their places, as far as that is not
/// done.
///
/// # Errors
/// `Retry` if that fails.
pub fn put_in_place(paths: &Paths, bytes: u64) -> Result<()> {
    let mbox = rewritten(&paths.mbox);
    // A file of another length is incomplete.
    if mbox.exists() && length(&mbox)? == bytes {
        fs::rename(&mbox, &paths.mbox).map_err(|e| io_error(&paths.mbox, e))?;
    }
    let json = rewritten(&paths.json);
    if json.exists() {
        fs::rename(&json, &paths.json).map_err(|e| io_error(&paths.json, e))?;
    }
    sync_directory_of(&paths.mbox)
}

/// Removes the files of an incomplete attempt. Those recorded in the journal are in place already.
pub fn remove_unfinished(paths: &Paths) {
    for path in [&paths.mbox, &paths.json] {
        // A file that cannot be removed is overwritten by the next attempt.
        let _ = fs::remove_file(rewritten(path));
    }
}

/// The temporary path of a rewritten file.
pub fn rewritten(path: &Path) -> PathBuf {
    longer(path, ".rewritten")
}

/// The parts of the mbox with removed messages.
fn dead(contents: &Contents, most: usize) -> Result<Ranges> {
    let mut dead = Ranges::new(most);
    for record in contents.journal.records()? {
        match record? {
            (at, Record::Message(message)) if !contents.is_live(&message, at) => {
                dead.add(message.offset, message.offset + message.length);
            }
            // What followed was cut off: other data is there now.
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

/// Writes the mbox without these parts, as far as `end`.
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

/// Gives messages other UIDs, and marks them as on the server: journal and JSON are rewritten, the
/// mbox stays. The folder is about to be closed or just opened.
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
        // Later changes are in the record that it has now.
        Record::Flags { uid, .. } | Record::DeletedUpstream { uid } if done.contains(&uid) => None,
        record => Some(record),
    })?;
    let back = uids.keys().filter(|uid| contents.known.is_deleted_upstream(**uid)).count() as u64;
    let (present, gone) = (last.present + back, last.gone.saturating_sub(back));
    journal.commit(&Commit { present, gone, shown: Some(shown), ..last })?;
    Ok(journal)
}

/// Writes the JSON of the stored messages, with what `change` makes of each; returns its bytes.
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
