//! [`UidMap`]: which message of the source got which UID at the destination. A file of lines of JSON, only ever added to.
//!
//! Nothing depends on it being complete: a message that was put there and is not in the map is recognized by its key, and
//! counts as the owner's own. A line that cannot be read, the last one of a run that was killed for example, is passed over.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use sealpost_base::{Result, Uid, UidSet};
use serde::{Deserialize, Serialize};

use crate::io_error;
use crate::keep::claim::lock;

/// The map between two accounts.
#[derive(Debug, Default)]
pub struct UidMap {
    file: Option<File>,
    folders: HashMap<(String, String), Known>,
    /// Into these folders something was put, and the run ended before all of it was answered.
    unfinished: HashSet<String>,
    /// Why the last line could not be written.
    failed: Option<String>,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    /// A message.
    Message { folder: String, from_uidvalidity: u32, uid: u32, to: String, uidvalidity: u32, there: u32 },
    /// Something is being put into this folder; or all of it was answered.
    State { folder_there: String, unanswered: bool },
    /// What follows is of these accounts.
    Accounts { from: String, to: String },
}

/// A message that was put there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Put {
    /// The source's UIDVALIDITY.
    pub uidvalidity: u32,
    /// Its UID at the source.
    pub uid: u32,
    /// UIDVALIDITY and UID at the destination.
    pub there: (u32, u32),
}

/// What was put from one folder into another.
#[derive(Debug, Default)]
pub(super) struct Known(Vec<Put>);

impl Known {
    /// One more.
    pub(super) fn add(&mut self, put: Put) {
        self.0.push(put);
    }

    /// UIDs at both ends, while the UIDVALIDITY of neither has changed.
    pub(super) fn pairs(&self, from: u32, to: u32) -> impl Iterator<Item = (u32, u32)> {
        let same = move |put: &&Put| put.uidvalidity == from && put.there.0 == to;
        self.0.iter().filter(same).map(|put| (put.uid, put.there.1))
    }

    /// UIDs at the destination of what was put there, while its UIDVALIDITY has not changed.
    pub(super) fn ours(&self, to: u32) -> UidSet {
        let ours = self.0.iter().filter(|put| put.there.0 == to);
        ours.filter_map(|put| Uid::new(put.there.1)).collect()
    }
}

impl UidMap {
    /// Reads the map in `path`, as far as it is of the accounts called so; `write`: it is begun if it is not there, and added
    /// to. Then it is this run's until it is dropped: two runs at once would put everything there twice.
    ///
    /// # Errors
    /// If the file cannot be read, or written; `Conflict` if another run has it.
    pub fn open(path: &Path, from: &str, to: &str, write: bool) -> Result<Self> {
        let failed = |e| io_error(path, e);
        let mut file = match File::options().read(true).append(write).create(write).open(path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(UidMap::default()),
            file => file.map_err(failed)?,
        };
        if write {
            lock(&file, path, || {
                format!(
                    "{}: another sealpost is putting messages there: wait until it is done",
                    path.display()
                )
            })?;
        }
        let mut map = UidMap::default();
        let mut ours = false;
        let mut line = Vec::new();
        let mut reader = BufReader::new(&mut file);
        while (&mut reader).take(64 * 1024).read_until(b'\n', &mut line).map_err(failed)? > 0 {
            match serde_json::from_slice(&line) {
                Ok(Line::Accounts { from: f, to: t }) => ours = f == from && t == to,
                Ok(Line::Message { folder, from_uidvalidity, uid, to, uidvalidity, there }) if ours => {
                    let put = Put { uidvalidity: from_uidvalidity, uid, there: (uidvalidity, there) };
                    map.folders.entry((folder, to)).or_default().add(put);
                }
                Ok(Line::State { folder_there, unanswered }) if ours => match unanswered {
                    true => drop(map.unfinished.insert(folder_there)),
                    false => drop(map.unfinished.remove(&folder_there)),
                },
                _ => {}
            }
            line.clear();
        }
        if write {
            let length = file.metadata().map_err(failed)?.len();
            let mut end = [b'\n'];
            if length > 0 {
                file.seek(SeekFrom::Start(length - 1))
                    .and_then(|_| file.read_exact(&mut end))
                    .map_err(failed)?;
            }
            let line = Line::Accounts { from: from.to_owned(), to: to.to_owned() };
            let line = serde_json::to_string(&line).unwrap_or_default();
            // A run was killed while it wrote a line.
            let gap = if end == *b"\n" { "" } else { "\n" };
            file.write_all(format!("{gap}{line}\n").as_bytes()).map_err(failed)?;
            map.file = Some(file);
        }
        Ok(map)
    }

    /// Whether a run ended before all that was put into the folder was answered: the server may be at work on it still. Without
    /// a file it is not known.
    pub(super) fn is_unfinished(&self, to: &str) -> bool {
        self.file.is_none() || self.unfinished.contains(to)
    }

    /// Something is being put into the folder; or all of it was answered.
    pub(super) fn set_unfinished(&mut self, to: &str, unanswered: bool) {
        self.write(&Line::State { folder_there: to.to_owned(), unanswered });
    }

    /// What was put from `folder` into the folder `to`.
    pub(super) fn known(&self, folder: &str, to: &str) -> Option<&Known> {
        self.folders.get(&(folder.to_owned(), to.to_owned()))
    }

    /// From which folders into which something was put.
    pub(super) fn folders(&self) -> impl Iterator<Item = &(String, String)> {
        self.folders.keys()
    }

    /// A message was put there.
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

    /// At once: a run may be killed at any moment.
    fn write(&mut self, line: &Line) {
        let Some(file) = &mut self.file else { return };
        let line = serde_json::to_string(line).unwrap_or_default() + "\n";
        if let Err(e) = file.write_all(line.as_bytes()) {
            self.failed = Some(e.to_string());
        }
    }

    /// Makes it durable; why it is not complete, if it is not.
    pub(super) fn sync(&mut self) -> Option<String> {
        if let Some(file) = &self.file
            && let Err(e) = file.sync_data()
        {
            self.failed = Some(e.to_string());
        }
        self.failed.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_again_whatever_ended_the_run() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a-b.uids");
        let put = |uid| Put { uidvalidity: 3, uid, there: (4, uid + 100) };
        let mut map = UidMap::open(&path, "a", "b", true).unwrap();
        map.put("INBOX", "Old/INBOX", put(1));
        drop(map);
        File::options().append(true).open(&path).unwrap().write_all(b"{\"folder\":\"IN").unwrap();
        let mut map = UidMap::open(&path, "a", "b", true).unwrap();
        map.put("INBOX", "Old/INBOX", put(2));
        assert_eq!(map.sync(), None);
        let pairs = |map: &UidMap| -> Vec<_> {
            map.known("INBOX", "Old/INBOX").map(|known| known.pairs(3, 4).collect()).unwrap_or_default()
        };
        assert_eq!(pairs(&UidMap::open(&path, "a", "b", false).unwrap()), [(1, 101), (2, 102)]);
        // One run at a time.
        let second = UidMap::open(&path, "a", "b", true).map(drop);
        assert_eq!(second.unwrap_err().kind(), sealpost_base::Kind::Conflict);
        drop(map);
        // Whether what was put there was answered.
        for unanswered in [true, false] {
            let mut map = UidMap::open(&path, "a", "b", true).unwrap();
            map.set_unfinished("Old/INBOX", unanswered);
            drop(map);
            assert_eq!(UidMap::open(&path, "a", "b", true).unwrap().is_unfinished("Old/INBOX"), unanswered);
        }
        // Of other accounts nothing is known, whatever UIDs they have.
        assert_eq!(pairs(&UidMap::open(&path, "a", "c", false).unwrap()), []);
        assert!(UidMap::open(&dir.path().join("none"), "a", "b", false).unwrap().folders.is_empty());
    }

    #[test]
    fn uids_mean_nothing_after_another_uidvalidity() {
        let mut known = Known::default();
        known.add(Put { uidvalidity: 1, uid: 5, there: (2, 6) });
        assert_eq!(
            (known.pairs(1, 2).count(), known.pairs(1, 3).count(), known.pairs(2, 2).count()),
            (1, 0, 0)
        );
    }
}
