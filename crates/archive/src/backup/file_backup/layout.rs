//! The arrangement of files that a format of backups provides.

use std::path::{Path, PathBuf};

use sealpost_base::Result;

use crate::backup::FolderName;
use crate::backup::contents::Contents;
use crate::backup::folder::Files;
use crate::backup::journal::{Commit, Header};
use crate::backup::reading::{Reading, Scratch};

/// How a format arranges its files.
pub(in crate::backup) trait Layout: Send + Sync + 'static {
    /// How it stores messages.
    type Files: Files + 'static;

    /// Where a folder's files are put: a path below the backup's directory, without extension.
    /// Safe, but it may be taken.
    fn place(&self, folder: &FolderName) -> String;

    /// The directory that these files are in, below the backup's.
    fn directory<'a>(&self, place: &'a str) -> &'a str;

    /// The files of a folder at `place`, the journal last.
    fn parts(&self, root: &Path, place: &str) -> Vec<PathBuf>;

    /// All places below `root` with a folder: with a journal, or as another program left it, then
    /// with its name and UIDVALIDITY.
    fn find(&self, root: &Path) -> Result<Vec<FoundFolder>>;

    /// The prefix of the place of a superseded folder.
    fn superseded_prefix(&self, place: &str) -> String {
        place.to_owned()
    }

    /// All parts have left this place.
    fn moved(&self, _root: &Path, _from: &str) -> Result<()> {
        Ok(())
    }

    /// A rewritten file, with so many bytes according to the journal, takes its place.
    fn put_in_place(&self, _root: &Path, _place: &str, _bytes: u64) -> Result<()> {
        Ok(())
    }

    /// Whether a folder's files are as its last commit left them, as far as a stat of each shows.
    fn is_as_left(&self, root: &Path, place: &str, last: &Commit) -> Result<bool>;

    /// Messages, and bytes on disk, that another program left at a place; `None`: unreadable.
    fn foreign_size(&self, _root: &Path, _place: &str) -> Result<Option<(u64, u64)>> {
        Ok(None)
    }

    /// Creates what has to exist before a folder's journal is made.
    fn prepare(&self, root: &Path, place: &str) -> Result<()>;

    /// Name and UIDVALIDITY of the folder at a place according to another program, where there is
    /// no readable journal.
    fn foreign(&self, root: &Path, place: &str) -> Result<Option<(FolderName, u32)>>;

    /// Opens the files of a folder as they are, and changes nothing. `header` has an interrupted
    /// move.
    fn read(
        &self,
        root: &Path,
        place: &str,
        header: Header,
        scratch: &Scratch,
    ) -> Result<(Reading, Contents)>;

    /// Opens the files of a folder and brings them in step with its journal. Without a journal
    /// (`header`), another program left the files.
    fn open(
        &self,
        root: &Path,
        place: &str,
        header: Header,
        purpose: Purpose,
    ) -> Result<(Self::Files, Contents)>;
}

/// What a folder is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::backup) enum Purpose {
    /// For an update: messages that are missing in its files are forgotten, and so fetched again.
    Change,
    /// For reading: missing messages cannot be read, and the files may be put back.
    Read,
}

/// A folder that was found.
pub(in crate::backup) struct FoundFolder {
    /// Its place.
    pub place: String,
    /// The name and UIDVALIDITY that another program recorded; with a journal, that counts.
    pub foreign: Option<(FolderName, u32)>,
}
