//! [`UidMap`]: which message of the source got which UID at the destination. Files of lines of JSON, only ever added to.
//!
//! Nothing depends on its completeness: a message that was appended and is not in the map is
//! recognized by its key, and counts as the owner's own. Lines that cannot be parsed are skipped,
//! such as the last one of a killed run. For a backup it is also the record that pulls read
//! ([`crate::restored`]).

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use sealpost_base::{Result, Uid, UidSet};
use sealpost_files::{io_error, owner};

use super::contents::in_commands;
use crate::backup::claim::lock;
use crate::restored::{Line, Lines, uid_set};

/// The map between two accounts.
#[derive(Debug, Default)]
pub struct UidMap {
    files: Vec<File>,
    folders: HashMap<(String, String), FolderMap>,
    /// Folders into which messages were put by a run that ended before all of them were answered.
    unfinished: HashSet<String>,
    /// Why the last line could not be written.
    failed: Option<String>,
}

/// A file of the map.
#[derive(Debug, Clone)]
pub struct MapFile<'a> {
    /// Its path.
    pub path: &'a Path,
    /// The source's name in it.
    pub from: &'a str,
    /// It is created if it does not exist, and appended to.
    pub write: bool,
}

/// A message that was appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Put {
    /// The source's UIDVALIDITY.
    pub uidvalidity: u32,
    /// Its UID at the source.
    pub uid: u32,
    /// UIDVALIDITY and UID at the destination.
    pub there: (u32, u32),
}

/// Messages that are about to be appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Putting {
    /// The source's UIDVALIDITY.
    pub(super) uidvalidity: u32,
    /// Their UIDs at the source.
    pub(super) uids: UidSet,
    /// UIDVALIDITY of the destination, and a UID below which it assigns none any more.
    pub(super) there: (u32, u32),
    /// Below a folder that was named.
    pub(super) below: bool,
    /// Those that are known to be appended.
    pub(super) answered: HashSet<u32>,
}

impl Putting {
    /// Whether the message is one of them.
    fn is_of(&self, put: &Put) -> bool {
        let same = self.uidvalidity == put.uidvalidity && self.there.0 == put.there.0;
        same && Uid::new(put.uid).is_some_and(|uid| self.uids.contains(uid))
    }
}

/// What was put from one folder into another.
#[derive(Debug, Default)]
pub(super) struct FolderMap {
    put: Vec<Put>,
    /// Messages that were about to be appended.
    putting: Vec<Putting>,
}

impl FolderMap {
    /// Adds a message.
    pub(super) fn add(&mut self, put: Put) {
        for putting in &mut self.putting {
            if putting.is_of(&put) {
                putting.answered.insert(put.uid);
            }
        }
        self.put.push(put);
    }

    /// UIDs at both ends, while neither UIDVALIDITY has changed.
    pub(super) fn pairs(&self, from: u32, to: u32) -> impl Iterator<Item = (u32, u32)> {
        let same = move |put: &&Put| put.uidvalidity == from && put.there.0 == to;
        self.put.iter().filter(same).map(|put| (put.uid, put.there.1))
    }

    /// UIDs at the destination of appended messages, while its UIDVALIDITY has not changed.
    pub(super) fn ours(&self, to: u32) -> UidSet {
        let ours = self.put.iter().filter(|put| put.there.0 == to);
        ours.filter_map(|put| Uid::new(put.there.1)).collect()
    }

    /// Whether this may be a message that a run appended without seeing the answer.
    pub(super) fn expects(&self, put: &Put) -> bool {
        let is_open = |putting: &Putting| !putting.answered.contains(&put.uid);
        self.putting
            .iter()
            .any(|putting| putting.is_of(put) && put.there.1 >= putting.there.1 && is_open(putting))
    }
}

impl UidMap {
    /// Reads the map in these files, as far as it concerns the accounts of these names. Files
    /// opened for writing are locked until the map is dropped: two concurrent runs would append
    /// everything twice.
    ///
    /// # Errors
    /// If a file cannot be read, or written; `Conflict` if another run has it.
    pub fn open(files: &[MapFile<'_>], to: &str) -> Result<Self> {
        let mut map = UidMap::default();
        for file in files {
            map.read(file, to)?;
        }
        Ok(map)
    }

    fn read(&mut self, MapFile { path, from, write }: &MapFile<'_>, to: &str) -> Result<()> {
        let failed = |e| io_error(*path, e);
        let opened = if *write { owner::append_or_create(path) } else { File::open(path) };
        let mut file = match opened {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && !*write => return Ok(()),
            file => file.map_err(failed)?,
        };
        if *write {
            lock(&file, path, || {
                format!(
                    "{}: another sealpost process is copying messages there: wait until it exits",
                    path.display()
                )
            })?;
        }
        let (mut ours, mut lines) = (false, Lines::of(&mut file));
        while let Some(line) = lines.next().map_err(failed)? {
            match line {
                Line::Accounts { from: f, to: t } => ours = f == *from && t == to,
                line if ours => self.take(line),
                _ => {}
            }
        }
        if *write {
            begin(&mut file, from, to).map_err(failed)?;
            self.files.push(file);
        }
        Ok(())
    }

    fn take(&mut self, line: Line) {
        match line {
            Line::Message { folder, from_uidvalidity, uid, to, uidvalidity, there } => {
                let put = Put { uidvalidity: from_uidvalidity, uid, there: (uidvalidity, there) };
                self.folders.entry((folder, to)).or_default().add(put);
            }
            Line::Putting { folder, from_uidvalidity, putting, to, uidvalidity, uidnext, below } => {
                let (uids, there) = (uid_set(&putting), (uidvalidity, uidnext));
                let answered = HashSet::new();
                let putting = Putting { uidvalidity: from_uidvalidity, uids, there, below, answered };
                self.folders.entry((folder, to)).or_default().putting.push(putting);
            }
            Line::State { folder_there, unanswered } => match unanswered {
                true => drop(self.unfinished.insert(folder_there)),
                false => drop(self.unfinished.remove(&folder_there)),
            },
            Line::Accounts { .. } => {}
        }
    }

    /// Whether a run ended before all messages put into the folder were answered: the server may
    /// still process them. Not known without a file.
    pub(super) fn is_unfinished(&self, to: &str) -> bool {
        self.files.is_empty() || self.unfinished.contains(to)
    }

    /// Appends into the folder are in progress; or all of them were answered.
    pub(super) fn set_unfinished(&mut self, to: &str, unanswered: bool) {
        self.write(&Line::State { folder_there: to.to_owned(), unanswered });
    }

    /// These messages are being appended to the folder.
    pub(super) fn putting(&mut self, folder: &str, to: &str, putting: Putting) {
        for uids in in_commands(&putting.uids) {
            self.write(&Line::Putting {
                folder: folder.to_owned(),
                from_uidvalidity: putting.uidvalidity,
                putting: uids.to_string(),
                to: to.to_owned(),
                uidvalidity: putting.there.0,
                uidnext: putting.there.1,
                below: putting.below,
            });
        }
        self.folders.entry((folder.to_owned(), to.to_owned())).or_default().putting.push(putting);
        self.set_unfinished(to, true);
    }

    /// The messages put from `folder` into the folder `to`.
    pub(super) fn known(&self, folder: &str, to: &str) -> Option<&FolderMap> {
        self.folders.get(&(folder.to_owned(), to.to_owned()))
    }

    /// The pairs of folders from and into which messages were put.
    pub(super) fn folders(&self) -> impl Iterator<Item = &(String, String)> {
        self.folders.keys()
    }

    /// A message was appended.
    pub(super) fn put(&mut self, folder: &str, to: &str, put: Put) {
        self.folders.entry((folder.to_owned(), to.to_owned())).or_default().add(put);
        self.write(&Line::Message {
            folder: folder.to_owned(),
            from_uidvalidity: put.uidvalidity,
            uid: put.uid,
            to: to.to_owned(),
            uidvalidity: put.there.0,
            there: put.there.1,
        });
    }

    /// Written immediately: a run may be killed at any moment.
    fn write(&mut self, line: &Line) {
        let line = serde_json::to_string(line).unwrap_or_default() + "\n";
        for file in &mut self.files {
            if let Err(e) = file.write_all(line.as_bytes()) {
                self.failed = Some(e.to_string());
            }
        }
    }

    /// Makes the map durable; returns why it is not complete, if so.
    pub(super) fn sync(&mut self) -> Option<String> {
        for file in &self.files {
            if let Err(e) = file.sync_data() {
                self.failed = Some(e.to_string());
            }
        }
        self.failed.take()
    }
}

/// Writes the header line with the accounts that the next lines concern.
fn begin(file: &mut File, from: &str, to: &str) -> std::io::Result<()> {
    let mut end = [b'\n'];
    if file.metadata()?.len() > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut end)?;
    }
    // A run was killed while it wrote a line.
    let gap = if end == *b"\n" { "" } else { "\n" };
    let line = Line::Accounts { from: from.to_owned(), to: to.to_owned() };
    let line = serde_json::to_string(&line).unwrap_or_default();
    file.write_all(format!("{gap}{line}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &Path, from: &str, to: &str, write: bool) -> Result<UidMap> {
        UidMap::open(&[MapFile { path, from, write }], to)
    }

    #[test]
    fn the_map_is_read_however_the_run_ended() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a-b.uids");
        let put = |uid| Put { uidvalidity: 3, uid, there: (4, uid + 100) };
        let mut map = open(&path, "a", "b", true).unwrap();
        map.put("INBOX", "Old/INBOX", put(1));
        drop(map);
        File::options().append(true).open(&path).unwrap().write_all(b"{\"folder\":\"IN").unwrap();
        let mut map = open(&path, "a", "b", true).unwrap();
        map.put("INBOX", "Old/INBOX", put(2));
        assert_eq!(map.sync(), None);
        let pairs = |map: &UidMap| -> Vec<_> {
            map.known("INBOX", "Old/INBOX").map(|known| known.pairs(3, 4).collect()).unwrap_or_default()
        };
        assert_eq!(pairs(&open(&path, "a", "b", false).unwrap()), [(1, 101), (2, 102)]);
        // One run at a time.
        let second = open(&path, "a", "b", true).map(drop);
        assert_eq!(second.unwrap_err().kind(), sealpost_base::Kind::Conflict);
        drop(map);
        // Whether appended messages were answered.
        for unanswered in [true, false] {
            let mut map = open(&path, "a", "b", true).unwrap();
            map.set_unfinished("Old/INBOX", unanswered);
            drop(map);
            assert_eq!(open(&path, "a", "b", true).unwrap().is_unfinished("Old/INBOX"), unanswered);
        }
        // Private whatever the umask: it reveals what mail there is.
        let mode = std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
        // Other accounts have no entries, whatever their UIDs.
        assert_eq!(pairs(&open(&path, "a", "c", false).unwrap()), []);
        assert!(open(&dir.path().join("none"), "a", "b", false).unwrap().folders.is_empty());
    }

    #[test]
    fn uids_mean_nothing_after_another_uidvalidity() {
        let mut known = FolderMap::default();
        known.add(Put { uidvalidity: 1, uid: 5, there: (2, 6) });
        assert_eq!(
            (known.pairs(1, 2).count(), known.pairs(1, 3).count(), known.pairs(2, 2).count()),
            (1, 0, 0)
        );
    }

    #[test]
    fn pending_appends_are_expected_until_found() {
        let dir = tempfile::tempdir().unwrap();
        let paths = ["record", "also"].map(|name| dir.path().join(name));
        let files = paths.each_ref().map(|path| MapFile { path, from: "a", write: true });
        // More ranges than fit into a line.
        let uids: UidSet = (0..50_000).filter_map(|n| Uid::new(2 * n + 1)).collect();
        let putting =
            Putting { uidvalidity: 3, uids, there: (4, 100), below: false, answered: HashSet::new() };
        let put = |uid, there| Put { uidvalidity: 3, uid, there: (4, there) };
        let mut map = UidMap::open(&files, "b").unwrap();
        map.putting("INBOX", "INBOX", putting);
        map.put("INBOX", "INBOX", put(5, 100));
        drop(map);
        for path in &paths {
            let map = open(path, "a", "b", false).unwrap();
            assert!(map.unfinished.contains("INBOX"));
            let known = map.known("INBOX", "INBOX").unwrap();
            let expected = [put(99_999, 101), put(1, 200)];
            let others = [put(1, 99), put(2, 101), put(5, 101), Put { uidvalidity: 9, ..put(1, 101) }];
            assert!(
                expected.iter().all(|put| known.expects(put)) && !others.iter().any(|put| known.expects(put))
            );
        }
    }
}
