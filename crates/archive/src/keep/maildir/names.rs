//! The files of a folder by their names: what is called what in `cur`, and how a message gets there.

use std::fs;
use std::path::{Path, PathBuf};

use sealpost_base::Result;

use super::name;
use crate::io_error;
use crate::keep::Flags;

/// The names of one folder.
#[derive(Clone)]
pub struct Names {
    /// Where `cur`, `new` and `tmp` are.
    pub directory: PathBuf,
    /// What is in each name.
    pub uidvalidity: u32,
}

/// What changes in `cur`.
pub enum Change {
    /// Letters.
    Flags {
        /// Whose.
        uid: u32,
        /// What they were.
        before: Flags,
        /// What they are.
        after: Flags,
    },
    /// It goes.
    Vanished {
        /// Which.
        uid: u32,
        /// Its flags.
        flags: Flags,
    },
}

impl Names {
    /// Where messages are that are complete.
    pub fn cur(&self) -> PathBuf {
        self.directory.join("cur")
    }

    /// Where they are before.
    pub fn tmp(&self) -> PathBuf {
        self.directory.join("tmp")
    }

    /// What a message that arrives is called in `staging`.
    pub fn arriving(&self, staging: &Path, uid: u32) -> PathBuf {
        staging.join(name::stem(self.uidvalidity, uid))
    }

    /// What it is called in `cur`, unless another program thought otherwise.
    pub fn expected(&self, uid: u32, flags: &Flags) -> PathBuf {
        self.cur().join(name::file(self.uidvalidity, uid, flags))
    }

    /// A message that arrived in `staging`, and that the journal has, gets its name; if it came `again`, what it replaces goes.
    ///
    /// # Errors
    /// `Retry` if that fails.
    pub fn place(&self, staging: &Path, uid: u32, flags: &Flags, again: bool) -> Result<()> {
        let (from, to) = (self.arriving(staging, uid), self.expected(uid, flags));
        if again && let Some(old) = self.find(uid, flags)?.filter(|old| *old != to) {
            fs::remove_file(&old).map_err(|e| io_error(old, e))?;
        }
        fs::rename(&from, &to).map_err(|e| io_error(from, e))
    }

    /// Where a message is: under the name that its flags give it, or one that another program gave it.
    ///
    /// # Errors
    /// `Retry` if that cannot be known.
    pub fn find(&self, uid: u32, flags: &Flags) -> Result<Option<PathBuf>> {
        let expected = self.expected(uid, flags);
        if expected.exists() {
            return Ok(Some(expected));
        }
        for part in ["cur", "new"] {
            let part = self.directory.join(part);
            for entry in fs::read_dir(&part).map_err(|e| io_error(&part, e))? {
                let entry = entry.map_err(|e| io_error(&part, e))?;
                if entry.file_name().to_str().and_then(|n| name::uid(n, self.uidvalidity)) == Some(uid) {
                    return Ok(Some(entry.path()));
                }
            }
        }
        Ok(None)
    }

    /// Does what is to be done.
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
                    Some(path) => fs::rename(&path, wanted).map_err(|e| io_error(path, e)),
                    None => Ok(()),
                }
            }
            Change::Vanished { uid, flags } => match self.find(*uid, flags)? {
                Some(path) => fs::remove_file(&path).map_err(|e| io_error(path, e)),
                None => Ok(()),
            },
        }
    }
}
