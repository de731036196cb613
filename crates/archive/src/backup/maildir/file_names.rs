//! [`FileNames`]: where files are that another program renamed, read at once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::name;

/// When names in `cur` and `new` changed last.
pub type Changed = [SystemTime; 2];

/// The names of the files of a folder when they were read: eight bytes for each, since many
/// share the end of their names.
#[derive(Default)]
pub struct FileNames {
    /// UIDs, and the index of the end, by UID.
    files: Vec<(u32, u32)>,
    /// Directories, and the part of a name after its stem.
    ends: Vec<(&'static str, String)>,
    /// The names are complete if names did not change since.
    complete_since: Option<Changed>,
}

impl FileNames {
    /// The path of the message, if its file was found.
    pub fn path(&self, directory: &Path, uidvalidity: u32, uid: u32) -> Option<PathBuf> {
        let at = self.files.binary_search_by_key(&uid, |(uid, _)| *uid).ok()?;
        let (part, end) = self.ends.get(self.files[at].1 as usize)?;
        Some(directory.join(part).join(format!("{}{end}", name::stem(uidvalidity, uid))))
    }

    /// The names are complete, unless names change.
    pub fn set_complete(&mut self, since: Changed) {
        self.complete_since = Some(since);
    }

    /// Whether a message without a name here has no file, if names changed last at `changed`.
    pub fn has_no(&self, uid: u32, changed: Changed) -> bool {
        self.complete_since == Some(changed)
            && self.files.binary_search_by_key(&uid, |(uid, _)| *uid).is_err()
    }
}

/// Makes a [`FileNames`].
#[derive(Default)]
pub struct FileNamesBuilder {
    names: FileNames,
    ends: BTreeMap<(&'static str, String), u32>,
}

impl FileNamesBuilder {
    /// Adds a file of this name in `part` for the message.
    pub fn add(&mut self, uid: u32, part: &'static str, name: &str, uidvalidity: u32) {
        let Some(end) = name.strip_prefix(&name::stem(uidvalidity, uid)) else { return };
        let next = self.ends.len() as u32;
        let end = *self.ends.entry((part, end.to_owned())).or_insert(next);
        self.names.files.push((uid, end));
    }

    /// The names; of two files of one message the first one.
    pub fn done(self) -> FileNames {
        let FileNamesBuilder { mut names, ends } = self;
        names.files.sort_by_key(|(uid, _)| *uid);
        names.files.dedup_by_key(|(uid, _)| *uid);
        let mut ends: Vec<_> = ends.into_iter().collect();
        ends.sort_by_key(|(_, number)| *number);
        names.ends = ends.into_iter().map(|(end, _)| end).collect();
        names
    }
}
