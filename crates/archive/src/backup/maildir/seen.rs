//! [`FileNames`]: where files are that another program renamed, from one look at all of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::name;

/// When names in `cur` and `new` changed last.
pub type Changed = [SystemTime; 2];

/// The names of the files of a folder when they were looked at: eight bytes for each, since many
/// share the end of their names.
#[derive(Default)]
pub struct FileNames {
    /// UIDs, and the index of the end, by UID.
    files: Vec<(u32, u32)>,
    /// Directories, and the part of a name after its stem.
    ends: Vec<(&'static str, String)>,
    /// The look was complete if names did not change since.
    whole: Option<Changed>,
}

impl FileNames {
    /// The path of the message, if it was seen.
    pub fn path(&self, directory: &Path, uidvalidity: u32, uid: u32) -> Option<PathBuf> {
        let at = self.files.binary_search_by_key(&uid, |(uid, _)| *uid).ok()?;
        let (part, end) = self.ends.get(self.files[at].1 as usize)?;
        Some(directory.join(part).join(format!("{}{end}", name::stem(uidvalidity, uid))))
    }

    /// The look was complete, unless names change.
    pub fn is_whole(&mut self, since: Changed) {
        self.whole = Some(since);
    }

    /// Whether a message that was not seen has no file, if names changed last at `changed`.
    pub fn has_no(&self, uid: u32, changed: Changed) -> bool {
        self.whole == Some(changed) && self.files.binary_search_by_key(&uid, |(uid, _)| *uid).is_err()
    }
}

/// Makes a [`FileNames`].
#[derive(Default)]
pub struct Looking {
    seen: FileNames,
    ends: BTreeMap<(&'static str, String), u32>,
}

impl Looking {
    /// Adds a file of this name in `part` for the message.
    pub fn add(&mut self, uid: u32, part: &'static str, name: &str, uidvalidity: u32) {
        let Some(end) = name.strip_prefix(&name::stem(uidvalidity, uid)) else { return };
        let next = self.ends.len() as u32;
        let end = *self.ends.entry((part, end.to_owned())).or_insert(next);
        self.seen.files.push((uid, end));
    }

    /// The names; of two files of one message the one that was seen first.
    pub fn done(self) -> FileNames {
        let Looking { mut seen, ends } = self;
        seen.files.sort_by_key(|(uid, _)| *uid);
        seen.files.dedup_by_key(|(uid, _)| *uid);
        let mut ends: Vec<_> = ends.into_iter().collect();
        ends.sort_by_key(|(_, number)| *number);
        seen.ends = ends.into_iter().map(|(end, _)| end).collect();
        seen
    }
}
