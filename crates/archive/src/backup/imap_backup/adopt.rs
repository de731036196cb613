//! Takes over what imap-backup wrote, or changed: every message is looked for where the JSON lists
//! it, or where it must be if killed runs left bytes that the JSON does not list; then it is read
//! once, and a new journal replaces the old one.
//!
//! The old journal's data about an unchanged message is kept: its date, its line ends, its digest.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use sealpost_base::{Error, Result, counted};
use sealpost_files::{io_error, length, longer, open_file, replace};

use super::align::align;
use super::files::MboxFiles;
use super::json::{self, Entry};
use super::quote::Unquoting;
use super::segments::segments;
use crate::backup::contents::Contents;
use crate::backup::damaged::rename_damaged;
use crate::backup::digest::Digesting;
use crate::backup::journal::{FlagsRecord, Header, Journal, Message, Record};
use crate::backup::line_ends::ToBytes;
use crate::backup::stored_message::StoredMessage;
use crate::backup::{Flags, Resume};

/// The files of a folder.
pub struct Paths {
    pub mbox: PathBuf,
    pub json: PathBuf,
    pub journal: PathBuf,
}

/// Creates a journal from the JSON and the mbox. `old`: the previous journal, of the same
/// UIDVALIDITY.
///
/// # Errors
/// `Corrupt` if the JSON cannot be read: nothing was changed then. `Retry`.
pub fn adopt(paths: &Paths, header: Header, old: Option<Contents>) -> Result<(MboxFiles, Contents)> {
    let listed = listed(paths, false)?;
    let Adopted { contents: mut new, end, moved, lost } = adopt_all(paths, &header, listed, old.as_ref())?;
    let taken = new.known.present();
    new.commit(end, &Resume::default())?;
    let orphans = save_orphans(paths, end, old.is_none())?;
    new.journal.put_in_place(&paths.journal, true)?;
    let mut files = MboxFiles::open(paths.mbox.clone(), paths.json.clone(), header.uidvalidity, end, None)?;
    if taken > 0 {
        files.notice(format!(
            "{}: adopted {} of imap-backup",
            header.folder,
            counted(taken, "message", "messages")
        ));
    }
    if moved > 0 {
        files.notice(format!(
            "{}: {} not at the offset in imap-backup's metadata, because a run of it was killed; repaired",
            header.folder,
            counted(moved, "message was", "messages were")
        ));
    }
    if lost > 0 {
        files.notice(format!(
            "{}: the mbox has no position for {}; fetching again",
            header.folder,
            counted(lost, "message", "messages")
        ));
    }
    if let Some(orphans) = orphans {
        files.notice(format!(
            "{}: bytes that belong to no message are in {}",
            header.folder,
            orphans.display()
        ));
    }
    files.publish(&new)?;
    Ok((files, new))
}

/// As [`adopt`], for a reader: only the journal is written, elsewhere. Of a truncated JSON the
/// readable part is taken. Returns the notices.
///
/// # Errors
/// `Corrupt` if nothing is readable; `Retry`.
pub fn adopt_to_read(
    paths: &Paths,
    header: Header,
    old: Option<&Contents>,
) -> Result<(Contents, Vec<String>)> {
    let listed = listed(paths, true)?;
    let damaged = listed.damaged.clone();
    let Adopted { contents: mut new, end, moved, lost } = adopt_all(paths, &header, listed, old)?;
    let folder = &header.folder;
    // How many messages a truncated JSON lacks is unknown; at least one.
    new.misses(lost + u64::from(damaged.is_some()));
    new.commit(end, &Resume::default())?;
    new.journal.put_in_place(&paths.journal, true)?;
    let mut notices = Vec::new();
    if let Some(why) = damaged {
        notices.push(format!(
            "{folder}: {}: {why}; later messages are unknown; `sealpost import` can read them from the mbox",
            paths.json.display()
        ));
    }
    if moved > 0 {
        notices.push(format!(
            "{folder}: {} found elsewhere than imap-backup's metadata says",
            counted(moved, "message was", "messages were")
        ));
    }
    if lost > 0 {
        notices
            .push(format!("{folder}: the mbox has no position for {}", counted(lost, "message", "messages")));
    }
    Ok((new, notices))
}

/// The contents of the JSON.
struct Listing {
    /// UID, where the message begins in the mbox, and its length.
    entries: Vec<(u32, u64, u64)>,
    flags: HashMap<u32, Flags>,
    head: json::JsonHeader,
    /// Why it cannot be read to its end.
    damaged: Option<String>,
}

/// Reads the JSON; with `in_part`, a truncated one as far as it goes.
fn listed(paths: &Paths, in_part: bool) -> Result<Listing> {
    let mut entries: Vec<(u32, u64, u64)> = Vec::new();
    let mut flags: HashMap<u32, Flags> = HashMap::new();
    let file = || open_file(&paths.json).map_err(|e| io_error(&paths.json, e));
    let read = json::read(file()?, |entry: Entry| {
        entries.push((entry.uid, entry.offset, entry.length));
        if !entry.flags.is_empty() {
            flags.insert(entry.uid, json::flags(&entry.flags));
        }
    });
    match read {
        Ok(head) => Ok(Listing { entries, flags, head, damaged: None }),
        Err(e) => match json::head(file()?).filter(|head| in_part && head.version == 3) {
            Some(head) => Ok(Listing { entries, flags, head, damaged: Some(e.to_string()) }),
            None => Err(corrupt(paths, "the metadata cannot be read").with_source(e)),
        },
    }
}

fn corrupt(paths: &Paths, why: &str) -> Error {
    Error::corrupt(format!("{}: {why}", paths.json.display()))
}

/// The result of taking over.
struct Adopted {
    contents: Contents,
    /// Where the last message ends.
    end: u64,
    /// Messages that were not where the JSON lists them, and those that were not found.
    moved: usize,
    lost: u64,
}

fn adopt_all(paths: &Paths, header: &Header, listed: Listing, old: Option<&Contents>) -> Result<Adopted> {
    let Listing { mut entries, flags, head, .. } = listed;
    if head.uid_validity != header.uidvalidity {
        return Err(corrupt(paths, "the metadata is of another UIDVALIDITY"));
    }
    let mut mbox = open_file(&paths.mbox).map_err(|e| io_error(&paths.mbox, e))?;
    let error = |e| io_error(&paths.mbox, e);
    if head.version == 2 {
        match segments(&mut mbox).map_err(error)? {
            Some(found) if found.len() == entries.len() => {
                for (entry, (offset, length)) in entries.iter_mut().zip(found) {
                    (entry.1, entry.2) = (offset, length);
                }
            }
            _ => return Err(corrupt(paths, "the mbox has fewer messages than the metadata")),
        }
    }
    let listed: Vec<(u64, u64)> = entries.iter().map(|(_, offset, length)| (*offset, *length)).collect();
    let places = align(&mut mbox, &listed).map_err(error)?;
    let mut new = Contents::new(Journal::begin(&paths.journal, header.clone())?);
    let (mut end, mut moved) = (0, 0);
    for ((uid, said, length), place) in entries.iter().zip(&places) {
        let Some(offset) = place.filter(|_| *uid > 0 && !new.known.contains(*uid)) else { continue };
        moved += usize::from(offset != *said);
        let flags = flags.get(uid).cloned().unwrap_or_default();
        take_over(paths, &mut new, old, *uid, flags, (offset, *length))?;
        end = end.max(offset + length);
    }
    let lost = entries.len() as u64 - new.known.present();
    Ok(Adopted { contents: new, end, moved, lost })
}

/// Adds a message to the new journal: with the old one's data if it is the same message, else as it
/// reads.
fn take_over(
    paths: &Paths,
    new: &mut Contents,
    old: Option<&Contents>,
    uid: u32,
    flags: Flags,
    (offset, length): (u64, u64),
) -> Result<()> {
    let mut record = Message {
        uid,
        flags: FlagsRecord::of(&flags),
        received: None,
        zone: 0,
        bytes: 0,
        digest: Digesting::default().finish(),
        foreign: true,
        offset,
        length,
        line_ends: 0,
    };
    if let Some(old) = old.filter(|old| old.known.contains(uid)) {
        let before = Message { offset, length, ..old.message(uid)? };
        (record.received, record.zone) = (before.received, before.zone);
        let mut all = flags;
        if let Some(was) = old.known.flags(uid) {
            all.labels = was.labels.clone();
            record.flags = FlagsRecord::of(&all);
        }
        if reads_back(paths, old, &before)? {
            let at = new.add_line_ends(Some(old), before.line_ends)?;
            return new.push(Record::Message(Message { flags: record.flags, line_ends: at, ..before }));
        }
    }
    // The line that the format added is not part of the message: with it, two LF end the text.
    let mut text = text(&paths.mbox, offset, length)?;
    let (mut to_bytes, mut piece, mut bytes) = (ToBytes::default(), vec![0; 32 * 1024], Vec::new());
    let (mut digesting, mut held) = (Digesting::default(), Vec::new());
    loop {
        let n = text.read(&mut piece).map_err(|e| io_error(&paths.mbox, e))?;
        if n == 0 {
            break;
        }
        bytes.append(&mut held);
        let _ = to_bytes.push(&piece[..n], &mut bytes, || Ok::<_, std::convert::Infallible>(None));
        let keep = bytes.len().saturating_sub(4);
        held.extend_from_slice(&bytes[keep..]);
        bytes.truncate(keep);
        digesting.push(&bytes);
        record.bytes += bytes.len() as u64;
        bytes.clear();
    }
    let rest = held.strip_suffix(b"\r\n").filter(|rest| rest.ends_with(b"\r\n")).unwrap_or(&held);
    digesting.push(rest);
    record.bytes += rest.len() as u64;
    record.digest = digesting.finish();
    new.push(Record::Message(record))
}

/// The text of the message that begins at `offset` in an mbox.
///
/// # Errors
/// `Retry` if it cannot be opened.
pub fn text(mbox: &Path, offset: u64, length: u64) -> Result<Unquoting<std::io::Take<File>>> {
    let mut file = open_file(mbox).map_err(|e| io_error(mbox, e))?;
    file.seek(SeekFrom::Start(offset)).map_err(|e| io_error(mbox, e))?;
    Ok(Unquoting::new(file.take(length)))
}

/// Whether the message of the old journal is still there.
///
/// # Errors
/// `Retry` if the files cannot be opened.
pub fn reads_back(paths: &Paths, old: &Contents, message: &Message) -> Result<bool> {
    let text = Box::new(text(&paths.mbox, message.offset, message.length)?);
    let mut bytes = StoredMessage::new(text, &old.journal, message)?;
    Ok(std::io::copy(&mut bytes, &mut std::io::sink()).is_ok())
}

/// The bytes of the mbox from `end` on: copied to a separate file if they may be another program's;
/// returns its path.
///
/// # Errors
/// `Retry` if that fails.
pub fn save_orphans(paths: &Paths, end: u64, foreign: bool) -> Result<Option<PathBuf>> {
    if !foreign || length(&paths.mbox)? <= end {
        return Ok(None);
    }
    let mut mbox = open_file(&paths.mbox).map_err(|e| io_error(&paths.mbox, e))?;
    let orphans = longer(&paths.mbox, ".orphans");
    rename_damaged(&orphans)?;
    mbox.seek(SeekFrom::Start(end)).map_err(|e| io_error(&paths.mbox, e))?;
    replace(&orphans, longer(&orphans, ".new"), |out| {
        std::io::copy(&mut mbox, out).map(|_| ()).map_err(|e| io_error(&orphans, e))
    })?;
    Ok(Some(orphans))
}

/// Whether the JSON has nothing that the journal does not have, with every message where the
/// journal has it: it is of an earlier commit. `None` if it cannot be read.
///
/// # Errors
/// `Retry`, `Corrupt` if the journal cannot be read.
pub fn is_earlier(json: &Path, contents: &Contents) -> Result<Option<bool>> {
    let Ok(file) = open_file(json) else { return Ok(None) };
    let mut records = contents.journal.records()?;
    let (mut earlier, mut failed) = (true, None);
    let read = json::read(file, |entry| {
        while earlier {
            match records.next() {
                Some(Ok((_, Record::Message(m)))) if m.uid == entry.uid => {
                    earlier = (m.offset, m.length) == (entry.offset, entry.length);
                    return;
                }
                Some(Ok((_, Record::Message(m)))) => {
                    // The JSON may leave out removed messages.
                    earlier = !contents.known.contains(m.uid) || contents.has_several_records(m.uid);
                }
                Some(Ok(_)) => {}
                Some(Err(e)) => (earlier, failed) = (false, Some(e)),
                None => earlier = false,
            }
        }
    });
    match (failed, read) {
        (Some(e), _) => Err(e),
        (None, Ok(head)) => Ok(Some(earlier && head.uid_validity == contents.journal.header().uidvalidity)),
        (None, Err(_)) => Ok(None),
    }
}
