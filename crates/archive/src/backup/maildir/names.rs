//! The files of a folder by their names: the names in `cur`, and how a message gets there.

use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sealpost_base::{Error, Result, Uid, UidSet};
use sealpost_files::io_error;

use super::file_names::{Changed, FileNames, FileNamesBuilder};
use super::name;
use crate::backup::{Flags, KnownMessages};

/// How often a missing file is looked for while another program changes names, and the first pause,
/// which doubles: five seconds in all.
const FIND_ATTEMPTS: u32 = 10;
/// See [`FIND_ATTEMPTS`].
const PAUSE: Duration = Duration::from_millis(10);

/// The names of one folder.
#[derive(Clone)]
pub struct Names {
    /// The directory with `cur`, `new` and `tmp`.
    pub directory: PathBuf,
    /// The UIDVALIDITY in each name.
    pub uidvalidity: u32,
    /// Files with unexpected names, read when one is needed.
    file_names: Arc<Mutex<FileNames>>,
}

/// The UIDVALIDITY in the names of messages in the folder `directory`, if some have names of ours.
///
/// # Errors
/// `Retry` if they cannot be listed.
pub fn uidvalidity(directory: &Path) -> Result<Option<u32>> {
    for part in ["cur", "new"] {
        let part = directory.join(part);
        if !fs::symlink_metadata(&part).is_ok_and(|part| part.is_dir()) {
            continue;
        }
        let entries = match fs::read_dir(&part) {
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => continue,
            entries => entries.map_err(|e| io_error(&part, e))?,
        };
        for entry in entries {
            let found = entry.map_err(|e| io_error(&part, e))?.file_name();
            if let Some(uidvalidity) = found.to_str().and_then(name::uidvalidity) {
                return Ok(Some(uidvalidity));
            }
        }
    }
    Ok(None)
}

/// A change in `cur`.
pub enum Change {
    /// Other letters.
    Flags {
        /// The message.
        uid: u32,
        /// Its flags before.
        before: Flags,
        /// Its flags after.
        after: Flags,
    },
    /// A removal.
    Vanished {
        /// The message.
        uid: u32,
        /// Its flags.
        flags: Flags,
    },
}

impl Names {
    /// The names of the folder in `directory`.
    pub fn new(directory: PathBuf, uidvalidity: u32) -> Self {
        Names { directory, uidvalidity, file_names: Arc::default() }
    }

    /// The directory of complete messages.
    pub fn cur(&self) -> PathBuf {
        self.directory.join("cur")
    }

    /// The directory of incomplete messages.
    pub fn tmp(&self) -> PathBuf {
        self.directory.join("tmp")
    }

    /// The name of an arriving message in `staging`.
    pub fn arriving(&self, staging: &Path, uid: u32) -> PathBuf {
        staging.join(name::stem(self.uidvalidity, uid))
    }

    /// Its name in `cur`, unless another program renamed it.
    pub fn expected(&self, uid: u32, flags: &Flags) -> PathBuf {
        self.cur().join(name::file(self.uidvalidity, uid, flags))
    }

    /// Names a message that arrived in `staging` and is in the journal; if it came `again`, removes
    /// the one that it replaces.
    ///
    /// # Errors
    /// `Retry` if that fails.
    pub fn place(&self, staging: &Path, uid: u32, flags: &Flags, again: bool) -> Result<()> {
        let (from, to) = (self.arriving(staging, uid), self.expected(uid, flags));
        if again && let Some(old) = self.find(uid, flags)?.filter(|old| *old != to) {
            fs::remove_file(&old).map_err(|e| failed(old, e))?;
        }
        fs::rename(&from, &to).map_err(|e| failed(from, e))
    }

    /// The path of a message: under the name for its flags, or one that another program gave it.
    ///
    /// # Errors
    /// `Retry` if that cannot be known.
    pub fn find(&self, uid: u32, flags: &Flags) -> Result<Option<PathBuf>> {
        let expected = self.expected(uid, flags);
        if is_file(&expected) {
            return Ok(Some(expected));
        }
        let cached =
            || self.file_names().path(&self.directory, self.uidvalidity, uid).filter(|path| is_file(path));
        if let Some(path) = cached() {
            return Ok(Some(path));
        }
        if self.file_names().has_no(uid, self.changed()?) {
            return Ok(None);
        }
        let found = self.undisturbed(|| {
            self.read_file_names()?;
            Ok(cached().or_else(|| is_file(&expected).then(|| expected.clone())))
        })?;
        Ok(found.inspect_err(|since| self.file_names().set_complete(*since)).ok())
    }

    fn file_names(&self) -> MutexGuard<'_, FileNames> {
        self.file_names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the names of all files.
    fn read_file_names(&self) -> Result<()> {
        let mut builder = FileNamesBuilder::default();
        self.each(|uid, part, entry| {
            if let Some(name) = entry.file_name().to_str() {
                builder.add(uid, part, name, self.uidvalidity);
            }
        })?;
        *self.file_names() = builder.done();
        Ok(())
    }

    /// Removes the files of these messages, if they have any.
    ///
    /// # Errors
    /// `Retry` if that fails.
    pub fn remove(&self, uids: &UidSet) -> Result<()> {
        let mut files = Vec::new();
        self.each(|uid, _, entry| {
            if Uid::new(uid).is_some_and(|uid| uids.contains(uid)) {
                files.push(entry.path());
            }
        })?;
        files.into_iter().try_for_each(|path| fs::remove_file(&path).map_err(|e| failed(path, e)))
    }

    /// Those of these messages that have no file, and other messages that have one.
    ///
    /// # Errors
    /// `Retry` if that cannot be known.
    pub fn compare(&self, known: &KnownMessages) -> Result<(UidSet, UidSet)> {
        let known = known.uids();
        let (mut missing, mut unknown) = (known.clone(), UidSet::new());
        self.undisturbed(|| {
            let mut found = Vec::new();
            self.each(|uid, _, _| found.push(uid))?;
            found.sort_unstable();
            let found: UidSet = found.into_iter().filter_map(Uid::new).collect();
            unknown = found.difference(&known);
            missing = missing.difference(&found);
            Ok(missing.is_empty().then_some(()))
        })?
        .unwrap_or_default();
        Ok((missing, unknown))
    }

    /// Messages that have a file and are not known, with their files.
    ///
    /// # Errors
    /// `Retry` if they cannot be listed.
    pub fn unknown(&self, known: &KnownMessages) -> Result<Vec<(u32, PathBuf)>> {
        let mut unknown = Vec::new();
        self.each(|uid, _, entry| {
            if !known.contains(uid) {
                unknown.push((uid, entry.path()));
            }
        })?;
        unknown.sort();
        unknown.dedup_by_key(|(uid, _)| *uid);
        Ok(unknown)
    }

    /// Passes every file in `cur` and `new` with a name of ours: its message, and where it is.
    fn each(&self, mut take: impl FnMut(u32, &'static str, &DirEntry)) -> Result<()> {
        for part in ["cur", "new"] {
            let directory = self.directory.join(part);
            for entry in fs::read_dir(&directory).map_err(|e| io_error(&directory, e))? {
                let entry = entry.map_err(|e| io_error(&directory, e))?;
                let found = entry.file_name();
                // Symbolic links do not count as messages.
                if let Some(uid) = found.to_str().and_then(|name| name::uid(name, self.uidvalidity))
                    && entry.file_type().is_ok_and(|kind| kind.is_file())
                {
                    take(uid, part, &entry);
                }
            }
        }
        Ok(())
    }

    /// What `look` finds; or, if it finds nothing, when names last changed. A look at a directory
    /// can miss a file that another program is renaming, so a file counts as missing only if it is
    /// not found twice, the second time while no name changed.
    fn undisturbed<T>(
        &self,
        mut look: impl FnMut() -> Result<Option<T>>,
    ) -> Result<std::result::Result<T, Changed>> {
        for nth in 0..FIND_ATTEMPTS {
            let before = self.changed()?;
            if let Some(found) = look()? {
                return Ok(Ok(found));
            }
            if nth > 0 && self.changed()? == before {
                return Ok(Err(before));
            }
            if nth > 0 {
                pause(PAUSE * (1 << (nth - 1)));
            }
        }
        let directory = self.directory.display();
        Err(Error::retry(format!(
            "{directory}: another program keeps renaming files; retry when it has finished"
        )))
    }

    /// When names changed last.
    fn changed(&self) -> Result<Changed> {
        let changed = |part: PathBuf| {
            fs::metadata(&part).and_then(|part| part.modified()).map_err(|e| io_error(part, e))
        };
        Ok([changed(self.cur())?, changed(self.directory.join("new"))?])
    }

    /// Gives a message the name for its flags, if it has another one.
    ///
    /// # Errors
    /// `Retry` if that fails.
    pub fn rename(&self, uid: u32, flags: &Flags) -> Result<()> {
        let wanted = self.expected(uid, flags);
        match self.find(uid, flags)?.filter(|path| *path != wanted) {
            Some(path) => fs::rename(&path, wanted).map_err(|e| failed(path, e)),
            None => Ok(()),
        }
    }

    /// Makes the change.
    ///
    /// # Errors
    /// `Retry` if that fails.
    pub fn change(&self, change: &Change) -> Result<()> {
        match change {
            Change::Flags { uid, before, after } => {
                let wanted = self.expected(*uid, after);
                if self.expected(*uid, before) == wanted {
                    return Ok(());
                }
                match self.find(*uid, before)? {
                    Some(path) => fs::rename(&path, wanted).map_err(|e| failed(path, e)),
                    None => Ok(()),
                }
            }
            Change::Vanished { uid, flags } => match self.find(*uid, flags)? {
                Some(path) => fs::remove_file(&path).map_err(|e| failed(path, e)),
                None => Ok(()),
            },
        }
    }
}

/// Whether the path is a file, and not a symbolic link to one.
fn is_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file())
}

#[expect(clippy::disallowed_methods, reason = "nothing tells when another program has done what it does")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// The error for a file that has just disappeared, retried: another program renamed it.
fn failed(path: PathBuf, e: io::Error) -> Error {
    match e.kind() {
        io::ErrorKind::NotFound => Error::retry(path.display().to_string()).with_source(e),
        _ => io_error(path, e),
    }
}
