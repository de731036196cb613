//! The files of one folder, being written.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sealpost_base::{Error, Kind, Result, Uid, UidSet};
use sealpost_files::{io_error, make_directory_in, open_file, owner, replace, sync_directory};

use super::background_task::BackgroundTask;
use super::disk::{Disk, TOGETHER};
use super::name;
use super::names::{Change, Names};
use crate::backup::contents::Contents;
use crate::backup::folder::Files;
use crate::backup::journal::{FlagsRecord, Message, Record};
use crate::backup::stored_message::StoredMessage;
use crate::backup::{Arrived, Flags, KnownMessages, Resume};

/// Bytes of a message that are collected before its file is written: smaller ones are complete
/// before they have a file.
const BUFFER_BYTES: usize = 64 * 1024;
/// From so many messages of a transaction on, they are named while the next ones arrive.
pub(super) const BACKGROUND_MESSAGES: usize = 64;
/// Messages that get other UIDs in one transaction.
const RENUMBER: usize = 4096;
/// Recorded instead of the time when names in `cur` last changed, so that the next run sees a
/// difference.
const TOUCHED: u64 = 0;
/// A second directory for arriving messages, in `tmp`, while those in the first one are named.
pub(super) const OTHER: &str = "sealpost.next";

/// The files of an open folder.
pub struct MaildirFiles {
    names: Names,
    disk: Disk,
    /// Names the messages of the last transaction. Meanwhile arriving messages go to another
    /// directory: creating files and renaming them block each other in the same one.
    naming: BackgroundTask,
    /// Where arriving messages are until they have a name: `tmp`, or [`OTHER`] in it.
    staging: PathBuf,
    buffer: Vec<u8>,
    /// The arriving message: its file, if it did not fit into the buffer, and the bytes in it.
    message: Option<(PathBuf, File, u64)>,
    /// Written to `staging` since the last commit: UID and flags.
    arrived: Vec<(u32, Flags)>,
    /// To be done when the transaction is committed.
    changes: Vec<Change>,
    /// Some names in `cur` may not be on disk. After a crash the messages of the last transaction
    /// are named again, so the names have to be on disk before the next one.
    named: bool,
    /// The UID in `.uidvalidity`.
    last_uid: u32,
    numbered: u64,
    notices: Vec<String>,
}

impl MaildirFiles {
    /// Opens the folder in `directory`, which exists, and moves what a crash left in `tmp`.
    ///
    /// # Errors
    /// `Retry` if that fails.
    pub fn open(directory: PathBuf, uidvalidity: u32, contents: &Contents) -> Result<Self> {
        let names = Names::new(directory, uidvalidity);
        let mut files = MaildirFiles {
            disk: Disk::of(&names.directory)?,
            naming: BackgroundTask::default(),
            staging: names.tmp(),
            names,
            buffer: Vec::new(),
            message: None,
            arrived: Vec::new(),
            changes: Vec::new(),
            named: false,
            last_uid: contents.known.uids().last().map_or(0, Uid::get),
            numbered: 0,
            notices: Vec::new(),
        };
        files.settle(contents)?;
        files.number()?;
        Ok(files)
    }

    /// Adds a notice for the user.
    pub fn notice(&mut self, text: String) {
        self.notices.push(text);
    }

    fn other(&self) -> PathBuf {
        self.names.tmp().join(OTHER)
    }

    /// Moves messages in `tmp` that the journal has to `cur`; our other files there are of a run
    /// that did not commit, also those that were to replace a message.
    fn settle(&mut self, contents: &Contents) -> Result<()> {
        self.settle_in(&self.names.tmp(), contents)?;
        if self.other().exists() {
            self.settle_in(&self.other(), contents)?;
            self.remove_other()?;
        }
        // Also what the last run did and did not sync.
        sync_directory(&self.names.cur())
    }

    fn settle_in(&self, staging: &Path, contents: &Contents) -> Result<()> {
        for entry in fs::read_dir(staging).map_err(|e| io_error(staging, e))? {
            let entry = entry.map_err(|e| io_error(staging, e))?;
            let Ok(found) = entry.file_name().into_string() else { continue };
            if found.starts_with("sealpost.") && found != OTHER {
                fs::remove_file(entry.path()).map_err(|e| io_error(entry.path(), e))?;
            }
            let Some(uid) = name::uid(&found, self.names.uidvalidity) else { continue };
            match contents.known.flags(uid) {
                Some(flags)
                    if is_recorded_message(&entry.path(), uid, contents)?
                        || self.names.find(uid, flags)?.is_none() =>
                {
                    self.names.place(staging, uid, flags, contents.has_several_records(uid))?;
                }
                _ => fs::remove_file(entry.path()).map_err(|e| io_error(entry.path(), e))?,
            }
        }
        Ok(())
    }

    /// Removes the second directory, if it exists and has no other files.
    fn remove_other(&self) -> Result<()> {
        match fs::remove_dir(self.other()) {
            Err(e) if !matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) => {
                Err(io_error(self.other(), e))
            }
            _ => Ok(()),
        }
    }

    /// Redoes what the last transaction was to do in `cur`; completed steps stay.
    ///
    /// # Errors
    /// `Retry` if that fails.
    pub fn redo(&mut self, changed: &[u32], vanished: &[u32], known: &KnownMessages) -> Result<()> {
        for uid in changed {
            if let Some(flags) = known.flags(*uid) {
                self.names.rename(*uid, flags)?;
            }
        }
        let mut vanished: Vec<u32> = vanished.iter().copied().filter(|uid| !known.contains(*uid)).collect();
        vanished.sort_unstable();
        let vanished: UidSet = vanished.into_iter().filter_map(Uid::new).collect();
        if !vanished.is_empty() {
            self.names.remove(&vanished)?;
        }
        if changed.is_empty() && vanished.is_empty() { Ok(()) } else { sync_directory(&self.names.cur()) }
    }

    /// Writes `.uidvalidity`: the UIDVALIDITY, and the highest UID.
    fn number(&mut self) -> Result<()> {
        let wanted = u64::from(self.last_uid) + 1;
        if self.numbered == wanted {
            return Ok(());
        }
        let path = self.names.directory.join(".uidvalidity");
        let text = format!("{}\n{}\n", self.names.uidvalidity, self.last_uid);
        if read_small(&path).as_deref() != Some(text.as_bytes()) {
            replace(&path, self.names.tmp().join("sealpost.uidvalidity"), |out| {
                out.write_all(text.as_bytes()).map_err(|e| io_error(&path, e))
            })?;
        }
        self.numbered = wanted;
        Ok(())
    }

    /// Writes the collected bytes to the file of an incomplete message.
    fn write_out(&mut self) -> Result<()> {
        let (path, mut file, length) = match self.message.take() {
            Some(message) => message,
            None => {
                let path = self.names.tmp().join("sealpost.arriving");
                let file = owner::create_anew(&path).map_err(|e| io_error(&path, e))?;
                (path, file, 0)
            }
        };
        file.write_all(&self.buffer).map_err(|e| io_error(&path, e))?;
        self.message = Some((path, file, length + self.buffer.len() as u64));
        self.buffer.clear();
        Ok(())
    }

    /// Makes the message whose record is at `at` arrive again, as `to`, and removes it under its
    /// present UID: only names are written. Returns whether its file exists.
    fn renumber_one(&mut self, contents: &mut Contents, (from, at): (u32, u64), to: u32) -> Result<bool> {
        let flags = contents.known.flags(from).cloned().unwrap_or_default();
        let Record::Message(message) = contents.journal.record_at(at)? else { return Ok(false) };
        let Some(path) = self.names.find(from, &flags)? else { return Ok(false) };
        let arriving = self.names.arriving(&self.staging, to);
        link(&path, &arriving).map_err(|e| io_error(&arriving, e))?;
        self.arrived.push((to, flags.clone()));
        self.last_uid = self.last_uid.max(to);
        let line_ends = contents.add_line_ends(None, message.line_ends)?;
        let record = Message { uid: to, flags: FlagsRecord::of(&flags), line_ends, ..message };
        contents.push(Record::Message(record))?;
        contents.push(Record::Vanished { uid: from })?;
        self.changes.push(Change::Vanished { uid: from, flags });
        Ok(true)
    }

    /// Makes the arrived message the file `to`, with its time; returns its length.
    fn complete(&mut self, to: &Path, arrived: &Arrived) -> Result<u64> {
        if self.message.is_some() {
            self.write_out()?;
        }
        let (file, length) = match self.message.take() {
            Some((path, file, length)) => {
                fs::rename(&path, to).map_err(|e| io_error(path, e))?;
                (file, length)
            }
            None => {
                let mut file = owner::create_anew(to).map_err(|e| io_error(to, e))?;
                file.write_all(&self.buffer).map_err(|e| io_error(to, e))?;
                (file, self.buffer.len() as u64)
            }
        };
        if let Some(time) = arrived.internaldate.and_then(|date| system_time(date.timestamp().seconds())) {
            file.set_modified(time).map_err(|e| io_error(to, e))?;
        }
        Ok(length)
    }
}

impl Files for MaildirFiles {
    fn begin(&mut self) -> Result<()> {
        self.buffer.clear();
        self.message = None;
        Ok(())
    }

    fn write(&mut self, text: &[u8]) -> Result<()> {
        self.buffer.extend_from_slice(text);
        if self.buffer.len() >= BUFFER_BYTES { self.write_out() } else { Ok(()) }
    }

    fn finish(&mut self, arrived: &Arrived) -> Result<(u64, u64)> {
        let to = self.names.arriving(&self.staging, arrived.uid);
        let length = self.complete(&to, arrived).inspect_err(|_| {
            // A leftover is removed when the folder is opened next.
            let _ = fs::remove_file(&to);
        })?;
        self.arrived.push((arrived.uid, arrived.flags.clone()));
        self.last_uid = self.last_uid.max(arrived.uid);
        self.disk.wrote(length)?;
        Ok((0, length))
    }

    fn abandon(&mut self) -> Result<()> {
        match self.message.take() {
            Some((path, ..)) => fs::remove_file(&path).map_err(|e| io_error(path, e)),
            None => Ok(()),
        }
    }

    fn flags(&mut self, uid: u32, before: &Flags, after: &Flags) -> Result<()> {
        if let Some(message) = self.arrived.iter_mut().find(|(arrived, _)| *arrived == uid) {
            message.1 = after.clone();
        } else {
            self.changes.push(Change::Flags { uid, before: before.clone(), after: after.clone() });
        }
        Ok(())
    }

    fn remove(&mut self, uid: u32, flags: &Flags) -> Result<()> {
        if let Some(at) = self.arrived.iter().position(|(arrived, _)| *arrived == uid) {
            // It may come once more before the commit.
            self.arrived.remove(at);
            let path = self.names.arriving(&self.staging, uid);
            fs::remove_file(&path).map_err(|e| io_error(path, e))?;
            if self.names.find(uid, flags)?.is_none() {
                return Ok(());
            }
        }
        self.changes.push(Change::Vanished { uid, flags: flags.clone() });
        Ok(())
    }

    fn renumber(&mut self, contents: &mut Contents, uids: &BTreeMap<u32, u32>) -> Result<u64> {
        let places = contents.places(|uid| uids.contains_key(&uid))?;
        let resume = contents.journal.last().resume();
        let mut done = 0;
        for places in places.chunks(RENUMBER) {
            for (from, at) in places {
                if let Some(to) = uids.get(from) {
                    done += u64::from(self.renumber_one(contents, (*from, *at), *to)?);
                }
            }
            self.sync()?;
            contents.commit(0, &resume)?;
            self.committed(contents, &resume)?;
        }
        Ok(done)
    }

    fn sync(&mut self) -> Result<u64> {
        self.naming.wait()?;
        if self.arrived.len() >= TOGETHER {
            self.disk.sync()?;
        } else if !self.arrived.is_empty() {
            for (uid, _) in &self.arrived {
                let path = self.names.arriving(&self.staging, *uid);
                open_file(&path).and_then(|file| file.sync_all()).map_err(|e| io_error(path, e))?;
            }
            sync_directory(&self.staging)?;
        }
        // Cheap where the whole file system was just synced.
        if std::mem::take(&mut self.named) {
            sync_directory(&self.names.cur())?;
        }
        Ok(0)
    }

    fn committed(&mut self, contents: &Contents, _resume: &Resume) -> Result<()> {
        let (arrived, changes) = (std::mem::take(&mut self.arrived), std::mem::take(&mut self.changes));
        self.named |= !(arrived.is_empty() && changes.is_empty());
        let in_background = arrived.len() >= BACKGROUND_MESSAGES && changes.is_empty();
        let again: UidSet = arrived
            .iter()
            .filter(|(uid, _)| contents.has_several_records(*uid))
            .filter_map(|(uid, _)| Uid::new(*uid))
            .collect();
        let (names, staging) = (self.names.clone(), self.staging.clone());
        let give_names = move || {
            let is_again = |uid| Uid::new(uid).is_some_and(|uid| again.contains(uid));
            arrived.iter().try_for_each(|(uid, flags)| names.place(&staging, *uid, flags, is_again(*uid)))
        };
        if in_background {
            self.naming.begin(give_names)?;
            let other = self.other();
            self.staging = if self.staging == other { self.names.tmp() } else { other };
            if self.staging != self.names.tmp() {
                make_directory_in(&self.names.tmp(), Path::new(OTHER))?;
            }
        } else {
            give_names()?;
        }
        for change in &changes {
            self.names.change(change)?;
        }
        self.number()
    }

    fn close(&mut self, contents: &Contents) -> Result<u64> {
        self.naming.wait()?;
        self.remove_other()?;
        let changed = changed(&self.names.directory)?.unwrap_or_default();
        if contents.journal.last().shown == Some(changed) {
            return Ok(changed);
        }
        // The next run is to notice, and fetch, what another program removed meanwhile.
        let is_all_there = self.names.compare(&contents.known).is_ok_and(|(missing, _)| missing.is_empty());
        Ok(if is_all_there { changed } else { TOUCHED })
    }

    fn text(&self, message: &Message, flags: &Flags) -> Result<Box<dyn Read + '_>> {
        self.naming.wait()?;
        match self.names.find(message.uid, flags)? {
            Some(path) => Ok(Box::new(open(&path, message)?)),
            None => Err(io_error(self.names.expected(message.uid, flags), io::ErrorKind::NotFound.into())),
        }
    }

    fn notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }
}

/// The contents of a short file.
fn read_small(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    open_file(path).ok()?.take(64).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Another name for a file; a run that did not commit may have left one there.
fn link(path: &Path, to: &Path) -> io::Result<()> {
    match fs::remove_file(to) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    // Not every file system has links.
    fs::hard_link(path, to).or_else(|_| {
        let mut from = open_file(path)?;
        let mut copy = owner::create(to)?;
        io::copy(&mut from, &mut copy)?;
        copy.set_modified(from.metadata()?.modified()?)
    })
}

/// When a name in `cur` changed last, in nanoseconds since 1970: a message came, went or was
/// marked. `None`: there is no `cur`.
///
/// # Errors
/// `Retry` if that cannot be known.
pub fn changed(directory: &Path) -> Result<Option<u64>> {
    let cur = directory.join("cur");
    match fs::metadata(&cur).and_then(|metadata| metadata.modified()) {
        Ok(time) => {
            let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
            Ok(Some(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(io_error(cur, e)),
    }
}

/// So many seconds after the beginning of 1970; before it, if negative.
fn system_time(seconds: i64) -> Option<SystemTime> {
    let distance = Duration::from_secs(seconds.unsigned_abs());
    if seconds < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) }
}

/// Whether a file is the message that the journal has under this UID.
fn is_recorded_message(path: &Path, uid: u32, contents: &Contents) -> Result<bool> {
    let message = contents.message(uid)?;
    let file = match open(path, &message) {
        Err(e) if e.kind() == Kind::Corrupt => return Ok(false),
        file => file?,
    };
    let mut bytes = StoredMessage::new(Box::new(file), &contents.journal, &message)?;
    Ok(io::copy(&mut bytes, &mut io::sink()).is_ok())
}

/// The file of a message, with nothing behind it: readers stop at its end.
pub fn open(path: &Path, message: &Message) -> Result<File> {
    let file = open_file(path).map_err(|e| io_error(path, e))?;
    let length = file.metadata().map_err(|e| io_error(path, e))?.len();
    if length > message.length {
        let (path, more) = (path.display(), length - message.length);
        return Err(Error::corrupt(format!("{path}: {more} bytes were added to the message")));
    }
    Ok(file)
}
