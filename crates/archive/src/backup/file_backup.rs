//! A backup in files: the places of folders, and folders that are renamed or put aside.
//!
//! The journal of a folder says which folder it is, not the file name: names only decide where
//! files are put first. A name never leads out of the backup's directory, and two names never to
//! one file, also where the file system ignores case.
//!
//! Moving a folder's files takes several renames. The journal records the move first and is moved
//! last, so that the next process that opens the backup after a crash completes it.

mod layout;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sealpost_base::{Error, Result};
use sealpost_files::{io_error, leads_elsewhere, make_directory, open_file, replace, sync_directory_of};
use sealpost_mailformat::mark;

use super::claim::{Claim, Claims};
use super::folder::FileFolder;
use super::journal::{Commit, Header, Journal, Peeked, Record};
use super::reading::Scratch;
use super::{
    Backup, BackupFolder, Folder, FolderName, Identity, Resume, Source, check_identity, is_another,
    name_superseded, superseded_notice,
};
use crate::backup::damaged::rename_damaged;
pub(super) use layout::{FoundFolder, Layout, Purpose};

/// A backup in files.
pub(super) struct FileBackup<L> {
    layout: L,
    root: PathBuf,
    claims: Claims,
    index: Mutex<Index>,
    /// Notices of folders that were opened.
    unreported: Mutex<Vec<String>>,
    /// Set if the backup is only read, with nothing changed in it.
    scratch: Option<Scratch>,
    /// Parts of it that cannot be read at all.
    unreadable: Vec<String>,
}

/// The places of folders.
#[derive(Default)]
struct Index {
    /// By name.
    folders: BTreeMap<String, Entry>,
    /// Superseded folders whose mailbox may come back under some name: their headers, by place.
    superseded: BTreeMap<Arc<str>, Header>,
    /// All places in lower case, those of superseded folders too.
    places_in_use: BTreeMap<String, Arc<str>>,
}

impl Index {
    /// The superseded folders, by name.
    fn superseded_by_name(&self) -> BTreeMap<String, (&Arc<str>, &Header)> {
        let superseded = self.superseded.iter();
        let superseded =
            superseded.map(|(place, header)| (header.folder.clone(), header.uidvalidity, (place, header)));
        name_superseded(superseded, |name| self.folders.contains_key(name))
    }

    /// Removes the place where the mailbox was kept so far: under another name, or put aside when
    /// another one took its name.
    fn take(&mut self, server: &Identity) -> Option<Arc<str>> {
        let id = server.mailboxid.as_ref()?;
        let same = |header: &Header| {
            header.mailboxid.as_ref() == Some(id) && header.uidvalidity == server.uidvalidity
        };
        if let Some((name, _)) = self.folders.iter().find(|(_, entry)| same(&entry.header)) {
            let name = name.clone();
            return self.folders.remove(&name).map(|entry| entry.place);
        }
        let place = self.superseded.iter().find(|(_, header)| same(header))?.0.clone();
        self.superseded.remove(&place);
        Some(place)
    }
}

struct Entry {
    place: Arc<str>,
    header: Header,
    /// It has a journal.
    ours: bool,
}

impl<L: Layout> FileBackup<L> {
    /// Opens the backup in the directory `root`, and creates it if it does not exist. It is locked
    /// until it is dropped.
    ///
    /// # Errors
    /// `Conflict` if another process has it; `Retry` if it cannot be read or made.
    pub fn new(root: &Path, layout: L) -> Result<Self> {
        make_directory(root)?;
        let claims = Claims::new(root)?;
        let (root, index, unreported) = (root.to_owned(), Mutex::default(), Mutex::default());
        let (scratch, unreadable) = (None, Vec::new());
        let mut backup = FileBackup { layout, root, claims, index, unreported, scratch, unreadable };
        backup.find_all()?;
        Ok(backup)
    }

    /// Opens the backup in the directory `root` to read it: nothing in it is changed, whatever its
    /// state.
    ///
    /// # Errors
    /// `Conflict` if another process is writing to it; `Retry` if it cannot be read.
    pub fn to_read(root: &Path, layout: L) -> Result<Self> {
        let claims = Claims::to_read(root)?;
        let (root, index, unreported) = (root.to_owned(), Mutex::default(), Mutex::default());
        let (scratch, unreadable) = (Some(Scratch::new()?), Vec::new());
        let mut backup = FileBackup { layout, root, claims, index, unreported, scratch, unreadable };
        backup.find_all_to_read()?;
        Ok(backup)
    }

    /// As [`FileBackup::find_all`]; nothing is repaired.
    fn find_all_to_read(&mut self) -> Result<()> {
        let mut index = Index::default();
        for found in self.layout.find(&self.root)? {
            let place: Arc<str> = found.place.into();
            let foreign = match found.foreign {
                Some(foreign) => Some(foreign),
                None => match Journal::peek(&self.journal(&place)) {
                    Ok(Peeked { header, .. }) if header.superseded => {
                        index.superseded.insert(place, header);
                        continue;
                    }
                    Ok(Peeked { header, .. }) => {
                        index.folders.insert(header.folder.clone(), Entry { place, header, ours: true });
                        continue;
                    }
                    Err(e) => {
                        self.unreadable.push(format!(
                            "{}: its journal cannot be read: {e}",
                            self.root.join(&*place).display()
                        ));
                        self.layout.foreign(&self.root, &place)?
                    }
                },
            };
            match foreign {
                Some((name, uidvalidity)) if uidvalidity > 0 => {
                    let header = header(&name, &Identity { uidvalidity, mailboxid: None });
                    index.folders.insert(header.folder.clone(), Entry { place, header, ours: false });
                }
                _ => self.unreadable.push(format!(
                    "{}: the folder's name is unknown; `sealpost import` can read its messages",
                    self.root.join(&*place).display()
                )),
            }
        }
        self.index = Mutex::new(index);
        Ok(())
    }

    fn refuse_to_change(&self) -> Result<()> {
        match self.scratch {
            Some(_) => Err(Error::internal("the backup is open read-only")),
            None => Ok(()),
        }
    }

    fn find_all(&mut self) -> Result<()> {
        let mut index = Index::default();
        let mut damaged = false;
        for found in self.layout.find(&self.root)? {
            let mut place: Arc<str> = found.place.into();
            let (header, ours) = match found.foreign {
                Some((name, uidvalidity)) => {
                    (header(&name, &Identity { uidvalidity, mailboxid: None }), false)
                }
                None => match Journal::peek(&self.journal(&place)) {
                    Ok(peeked) => (peeked.header, true),
                    // Another program's files beside it may give name and UIDVALIDITY.
                    Err(e) if e.kind() == sealpost_base::Kind::Corrupt => {
                        if let Some(renamed) = rename_damaged(&self.journal(&place))? {
                            self.report(vec![format!(
                                "{}: the journal of a folder cannot be read; files beside it are adopted if \
                                 possible, and always stay in their place",
                                renamed.display()
                            )]);
                        }
                        damaged = true;
                        continue;
                    }
                    Err(e) => return Err(e),
                },
            };
            let mut header = header;
            if let Some(bytes) = header.rewritten.take() {
                self.layout.put_in_place(&self.root, &place, bytes)?;
                self.settle(&place, &header)?;
            }
            if header
                .moving_to
                .as_ref()
                .is_some_and(|to| leads_elsewhere(&self.root, self.layout.directory(to)))
            {
                // No journal says so.
                return Err(Error::corrupt(format!(
                    "{}: its journal names a path outside of the backup",
                    header.folder
                )));
            }
            if let Some(to) = header.moving_to.take() {
                self.move_parts(&place, &to)?;
                place = to.into();
                self.settle(&place, &header)?;
            }
            index.places_in_use.insert(place.to_lowercase(), place.clone());
            if header.superseded {
                index.superseded.insert(place, header);
            } else {
                index.folders.insert(header.folder.clone(), Entry { place, header, ours });
            }
        }
        if damaged {
            return self.find_all();
        }
        self.index = Mutex::new(index);
        Ok(())
    }

    fn report(&self, notices: Vec<String>) {
        self.unreported.lock().unwrap_or_else(PoisonError::into_inner).extend(notices);
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn journal(&self, place: &str) -> PathBuf {
        self.layout.parts(&self.root, place).pop().unwrap_or_default()
    }

    /// The state of a folder from its journal, and a stat of its files.
    fn kept(&self, place: &str) -> Result<BackupFolder> {
        let Peeked { header, last, whole } = Journal::peek(&self.journal(place))?;
        let as_left = whole && self.layout.is_as_left(&self.root, place, &last)?;
        Ok(kept(header, &last, as_left, last.shown.is_some()))
    }

    /// A free place, derived from `wanted`.
    fn free(&self, index: &Index, wanted: &str, name: &str) -> String {
        // A user put a link where the directory would be.
        let leads_elsewhere = leads_elsewhere(&self.root, self.layout.directory(wanted));
        let wanted =
            &*if leads_elsewhere { Cow::Owned(wanted.replace('/', "_")) } else { Cow::Borrowed(wanted) };
        let is_free = |place: &str| {
            !index.places_in_use.contains_key(&place.to_lowercase())
                && !self::leads_elsewhere(&self.root, self.layout.directory(place))
                && self.layout.parts(&self.root, place).iter().all(|part| fs::symlink_metadata(part).is_err())
        };
        let mark = format!("{wanted}~{}", &mark(name)[..8]);
        let numbered = (1u32..).map(|n| format!("{mark}-{n}"));
        let mut places = [wanted.to_owned(), mark.clone()].into_iter().chain(numbered);
        places.find(|place| is_free(place)).unwrap_or(mark)
    }

    fn open_journal(&self, place: &str) -> Result<Journal> {
        let mut journal = Journal::open(&self.journal(place), |_, _| Ok(()))?;
        let salvaged = journal.take_salvaged();
        self.report(salvaged.into_iter().map(|salvaged| salvaged.notice(&journal.header().folder)).collect());
        Ok(journal)
    }

    /// Records that a folder's files are at `to` now, with this header, and moves them there.
    fn relocate(&self, from: &str, to: &str, header: Header) -> Result<()> {
        let mut journal = self.open_journal(from)?;
        journal.set_header(Header { moving_to: Some(to.to_owned()), ..header.clone() })?;
        drop(journal);
        self.move_parts(from, to)?;
        self.settle(to, &header)
    }

    fn move_parts(&self, from: &str, to: &str) -> Result<()> {
        self.layout.prepare(&self.root, to)?;
        for (from, to) in self.layout.parts(&self.root, from).iter().zip(self.layout.parts(&self.root, to)) {
            match fs::rename(from, &to) {
                Ok(()) => {
                    sync_directory_of(&to)?;
                    sync_directory_of(from)?;
                }
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => return Err(io_error(to, e)),
            }
        }
        self.layout.moved(&self.root, from)
    }

    /// What the journal recorded as pending is done: this is its header.
    fn settle(&self, place: &str, header: &Header) -> Result<()> {
        self.open_journal(place)?.set_header(header.clone())
    }

    /// Opens the folder at `place`.
    fn enter(&self, place: &str, header: Header, claim: Claim) -> Result<Box<dyn Folder>> {
        if let Some(scratch) = &self.scratch {
            let (files, contents) = self.layout.read(&self.root, place, header, scratch)?;
            return Ok(Box::new(FileFolder::new(files, contents, claim)));
        }
        let (files, contents) = self.layout.open(&self.root, place, header, Purpose::Read)?;
        Ok(Box::new(FileFolder::new(files, contents, claim)))
    }

    /// The files of another program were taken over.
    fn has_journal(&self, name: &str) {
        if let Some(entry) = self.index().folders.get_mut(name) {
            entry.ours = true;
        }
    }

    /// Makes sure that the folder is in the index with the server's identity; a different one is
    /// put aside or renamed. Returns the notice.
    fn identify(&self, index: &mut Index, folder: &FolderName, server: &Identity) -> Result<Option<String>> {
        let name = folder.as_str();
        let mut notice = None;
        if let Some(entry) = index.folders.get_mut(name)
            && entry.header.uidvalidity == 0
        {
            // Another program's, and unreadable: it is put aside when it is opened.
            entry.header = header(folder, server);
        }
        if let Some(entry) = index.folders.get(name)
            && is_another(entry.header.uidvalidity, entry.header.mailboxid.as_deref(), server)
        {
            self.own(entry)?;
            let old = entry.header.uidvalidity;
            let to: Arc<str> = self.free_superseded(index, &entry.place, old).into();
            let header = Header { superseded: true, ..entry.header.clone() };
            self.relocate(&entry.place, &to, header.clone())?;
            notice = Some(superseded_notice(folder, old, server.uidvalidity, &to));
            index.places_in_use.insert(to.to_lowercase(), to.clone());
            index.superseded.insert(to, header);
            if let Some(entry) = index.folders.remove(name) {
                index.places_in_use.remove(&entry.place.to_lowercase());
            }
        }
        if !index.folders.contains_key(name)
            && let Some(from) = index.take(server)
        {
            let to = self.free(index, &self.layout.place(folder), name);
            self.relocate(&from, &to, header(folder, server))?;
            let place: Arc<str> = to.into();
            index.places_in_use.remove(&from.to_lowercase());
            index.places_in_use.insert(place.to_lowercase(), place.clone());
            index
                .folders
                .insert(name.to_owned(), Entry { place, header: header(folder, server), ours: true });
        }
        Ok(notice)
    }

    /// Named as imap-backup does: with the UIDVALIDITY, and a number if that name is taken.
    fn free_superseded(&self, index: &Index, place: &str, uidvalidity: u32) -> String {
        let plain = format!("{}-{uidvalidity}", self.layout.superseded_prefix(place));
        let numbered = (1u32..).map(|n| format!("{plain}-{n}"));
        let mut all = std::iter::once(plain.clone()).chain(numbered);
        let is_free = |place: &String| {
            !index.places_in_use.contains_key(&place.to_lowercase())
                && self.layout.parts(&self.root, place).iter().all(|part| fs::symlink_metadata(part).is_err())
        };
        all.find(is_free).unwrap_or(plain)
    }

    /// Creates a journal for another program's files, so that they can be moved.
    fn own(&self, entry: &Entry) -> Result<()> {
        if !entry.ours {
            self.layout.open(&self.root, &entry.place, entry.header.clone(), Purpose::Change)?;
        }
        Ok(())
    }
}

/// The file with the account whose mail is in a backup, at its top.
const SOURCE_FILE: &str = "sealpost.source";
/// Bytes of it that are read.
const SOURCE_BYTES: u64 = 64 * 1024;

impl<L: Layout> Backup for FileBackup<L> {
    fn source(&self) -> Result<Option<Source>> {
        let path = self.root.join(SOURCE_FILE);
        let mut text = Vec::new();
        let read = open_file(&path).and_then(|file| file.take(SOURCE_BYTES).read_to_end(&mut text));
        match read {
            // A file that cannot be parsed counts as absent.
            Ok(_) => Ok(serde_json::from_slice(&text).ok()),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(io_error(path, e)),
        }
    }

    fn set_source(&self, source: &Source) -> Result<()> {
        self.refuse_to_change()?;
        let path = self.root.join(SOURCE_FILE);
        let text = serde_json::to_string(source)
            .map_err(|e| Error::internal("a source that cannot be written down").with_source(e))?;
        replace(&path, self.root.join("sealpost.source.new"), |out| {
            writeln!(out, "{text}").map_err(|e| io_error(&path, e))
        })
    }

    fn folders(&self) -> Result<Vec<BackupFolder>> {
        let index = self.index();
        let mut folders = Vec::with_capacity(index.folders.len());
        for entry in index.folders.values() {
            if entry.ours {
                folders.push(self.kept(&entry.place)?);
            } else if entry.header.uidvalidity != 0 {
                let foreign_size = self.layout.foreign_size(&self.root, &entry.place)?;
                folders.push(kept(entry.header.clone(), &Commit::default(), foreign_size.is_some(), true));
            }
        }
        Ok(folders)
    }

    fn superseded(&self) -> Result<Vec<BackupFolder>> {
        let index = self.index();
        let kept = index.superseded_by_name().into_iter().map(|(name, (place, header))| {
            let kept = self.kept(place)?;
            Ok(BackupFolder { name: FolderName::new(name, header.delimiter), was: Some(kept.name), ..kept })
        });
        kept.filter(|kept| !kept.as_ref().is_ok_and(|kept| kept.messages + kept.gone == 0)).collect()
    }

    fn foreign_size(&self, folder: &FolderName) -> Result<Option<(u64, u64)>> {
        let index = self.index();
        match index.folders.get(folder.as_str()).filter(|entry| !entry.ours) {
            Some(entry) => self.layout.foreign_size(&self.root, &entry.place),
            None => Ok(None),
        }
    }

    fn open(&self, folder: &FolderName, server: &Identity) -> Result<Box<dyn Folder>> {
        self.refuse_to_change()?;
        let name = folder.as_str();
        check_identity(folder, server)?;
        let claim = self.claims.claim(name)?;
        let mut index = self.index();
        let notice = self.identify(&mut index, folder, server)?;
        if !index.folders.contains_key(name) {
            let place: Arc<str> = self.free(&index, &self.layout.place(folder), name).into();
            self.layout.prepare(&self.root, &place)?;
            let header = header(folder, server);
            Journal::create(&self.journal(&place), header.clone())?;
            index.places_in_use.insert(place.to_lowercase(), place.clone());
            index.folders.insert(name.to_owned(), Entry { place, header, ours: true });
        }
        let Some(entry) = index.folders.get_mut(name) else {
            return Err(Error::internal("a folder that was just put into the index"));
        };
        // A folder that another program began has no MAILBOXID; that of a mailbox does not change.
        let late = entry.header.mailboxid.is_none() && server.mailboxid.is_some();
        entry.header.mailboxid = entry.header.mailboxid.take().or_else(|| server.mailboxid.clone());
        let (place, header) = (entry.place.clone(), entry.header.clone());
        drop(index);
        let (files, mut contents) = self.layout.open(&self.root, &place, header.clone(), Purpose::Change)?;
        self.has_journal(name);
        if late {
            let resume: Resume = contents.journal.last().resume();
            let data = contents.journal.last().data;
            contents.push(Record::Header(header))?;
            contents.commit(data, &resume)?;
        }
        let mut folder = FileFolder::new(files, contents, claim);
        folder.notice(notice);
        Ok(Box::new(folder))
    }

    fn open_to_read(&self, folder: &FolderName) -> Result<Box<dyn Folder>> {
        let name = folder.as_str();
        let claim = self.claims.claim(name)?;
        let index = self.index();
        let missing = || Error::not_found(format!("the backup has no folder {name}"));
        let entry = index.folders.get(name).map(|entry| (&entry.place, &entry.header));
        let (place, header) =
            entry.or_else(|| index.superseded_by_name().remove(name)).ok_or_else(missing)?;
        let (place, header) = (place.clone(), header.clone());
        drop(index);
        if header.uidvalidity == 0 {
            let why = "the metadata of another program cannot be read; the next pull supersedes the folder";
            return Err(Error::corrupt(format!("{name}: {why}")));
        }
        let mut folder = self.enter(&place, header, claim)?;
        if self.scratch.is_none() {
            self.has_journal(name);
        }
        self.report(folder.notices());
        Ok(folder)
    }

    fn open_superseded(&self, folder: &FolderName) -> Result<Box<dyn Folder>> {
        self.refuse_to_change()?;
        let name = folder.as_str();
        let claim = self.claims.claim(name)?;
        let index = self.index();
        let superseded =
            index.superseded_by_name().remove(name).map(|(place, header)| (place.clone(), header.clone()));
        drop(index);
        let missing = || Error::not_found(format!("no superseded folder {name}"));
        let (place, header) = superseded.ok_or_else(missing)?;
        let (files, contents) = self.layout.open(&self.root, &place, header, Purpose::Change)?;
        Ok(Box::new(FileFolder::new(files, contents, claim)))
    }

    fn unreadable(&self) -> Vec<String> {
        self.unreadable.clone()
    }

    fn unreported(&self) -> Vec<String> {
        std::mem::take(&mut *self.unreported.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn kept(header: Header, last: &Commit, as_left: bool, closed: bool) -> BackupFolder {
    BackupFolder {
        name: FolderName::new(header.folder, header.delimiter),
        was: None,
        identity: Identity { uidvalidity: header.uidvalidity, mailboxid: header.mailboxid },
        messages: last.present,
        gone: last.gone,
        resume: last.resume(),
        as_left,
        closed,
    }
}

fn header(folder: &FolderName, server: &Identity) -> Header {
    Header {
        folder: folder.as_str().to_owned(),
        delimiter: folder.delimiter(),
        uidvalidity: server.uidvalidity,
        mailboxid: server.mailboxid.clone(),
        moving_to: None,
        superseded: false,
        rewritten: None,
    }
}
