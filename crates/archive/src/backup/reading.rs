//! [`Reading`]: the files of a folder that is opened to be read only, with nothing in the backup
//! changed.
//!
//! A backup that is opened to be read ([`super::Backup::folders`] and [`super::Backup::open_to_read`],
//! nothing else) may be damaged, on a read-only medium, or another program's. Repairs that other
//! runs make in place go to a directory of this run's own, [`Scratch`]: journals are built there
//! from `.imap` files, and damaged ones are salvaged into it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use sealpost_base::{Error, Result};
use sealpost_files::{io_error, open_file, owner};

use super::contents::Contents;
use super::folder::Files;
use super::journal::Message;
use super::{Arrived, Flags, Resume};

/// The directory for repaired files of a backup, while it is read.
pub struct Scratch {
    directory: tempfile::TempDir,
    files: AtomicU64,
}

impl Scratch {
    /// An empty one, in the system's directory for temporary files.
    ///
    /// # Errors
    /// `Retry` if it cannot be made.
    pub fn new() -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("sealpost-").tempdir();
        let directory = directory.map_err(|e| io_error(std::env::temp_dir(), e))?;
        Ok(Scratch { directory, files: AtomicU64::new(0) })
    }

    /// A new path.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join(format!("{}.sealpost", self.files.fetch_add(1, Ordering::Relaxed)))
    }

    /// A copy of the file at `path`.
    ///
    /// # Errors
    /// `Retry` if it cannot be read or written.
    pub fn copy(&self, path: &Path) -> Result<PathBuf> {
        let to = self.path();
        let copy = || io::copy(&mut open_file(path)?, &mut owner::create(&to)?);
        copy().map_err(|e| io_error(path, e))?;
        Ok(to)
    }
}

/// Opens the text of a message.
type Text = Box<dyn Fn(&Message, &Flags) -> Result<Box<dyn Read>> + Send>;

/// The files of a folder that is read.
pub struct Reading {
    text: Text,
    notices: Vec<String>,
}

impl Reading {
    /// Reads messages by `text`; `notices`: problems of the folder.
    pub fn new(text: Text, notices: Vec<String>) -> Self {
        Reading { text, notices }
    }
}

fn refused<T>() -> Result<T> {
    Err(Error::internal("the backup is open read-only"))
}

impl Files for Reading {
    fn begin(&mut self) -> Result<()> {
        refused()
    }

    fn write(&mut self, _text: &[u8]) -> Result<()> {
        refused()
    }

    fn finish(&mut self, _arrived: &Arrived) -> Result<(u64, u64)> {
        refused()
    }

    fn abandon(&mut self) -> Result<()> {
        Ok(())
    }

    fn flags(&mut self, _uid: u32, _before: &Flags, _after: &Flags) -> Result<()> {
        refused()
    }

    fn remove(&mut self, _uid: u32, _flags: &Flags) -> Result<()> {
        refused()
    }

    fn renumber(&mut self, _contents: &mut Contents, _uids: &BTreeMap<u32, u32>) -> Result<u64> {
        refused()
    }

    fn sync(&mut self) -> Result<u64> {
        refused()
    }

    fn committed(&mut self, _contents: &Contents, _resume: &Resume) -> Result<()> {
        refused()
    }

    fn close(&mut self, _contents: &Contents) -> Result<u64> {
        refused()
    }

    fn text(&self, message: &Message, flags: &Flags) -> Result<Box<dyn Read + '_>> {
        (self.text)(message, flags)
    }

    fn notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }
}

/// The first of these paths that exists; the first one if none does.
pub fn first_existing(paths: [PathBuf; 2]) -> PathBuf {
    let [first, second] = paths;
    let is_there = |path: &Path| fs::symlink_metadata(path).is_ok();
    if !is_there(&first) && is_there(&second) { second } else { first }
}

#[cfg(test)]
mod tests;
