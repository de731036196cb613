//! What is to be put at the destination, and what was.

use std::sync::{Arc, Mutex};

use sealpost_base::Random;
use tokio::sync::watch;

use super::map::UidMap;
use crate::restored::Restored;

/// What is wanted.
#[derive(Clone)]
pub struct Options {
    /// Which folders, by their names.
    pub wanted: Arc<dyn Fn(&str) -> bool + Send + Sync>,
    /// Of a backup: also its superseded folders, into their original folders.
    pub include_superseded: bool,
    /// Put everything below this folder, in levels; empty: where it was.
    pub below: Vec<String>,
    /// Say what would be done, and do nothing.
    pub dry_run: bool,
    /// Which message got which UID: read, and added to.
    pub map: Arc<Mutex<UidMap>>,
    /// Of a backup: what restores put back into the account that it is of.
    pub restored: Arc<Restored>,
    /// Randomness, for waiting.
    pub random: Arc<dyn Random>,
    /// Becomes true when to stop.
    pub stop: watch::Receiver<bool>,
}

/// Who is told how it goes.
pub trait Observer: Send + Sync {
    /// The folder is looked at, at both ends.
    fn looking(&self, _folder: &str) {}
    /// So many messages of the folder are to be put there.
    fn begins(&self, folder: &str, messages: u64);
    /// A message is there now.
    fn put(&self);
    /// Why nothing happens for a while.
    fn waits(&self, text: &str) {
        self.note(text);
    }
    /// Something that is not an error, and that a person may want to know.
    fn note(&self, text: &str);
    /// Nothing more is done in this folder.
    fn ended(&self, folder: &FolderReport);
}

/// What was done.
#[derive(Debug, Default)]
pub struct Report {
    /// By folder.
    pub folders: Vec<FolderReport>,
    /// It was told to stop before it was done.
    pub interrupted: bool,
    /// Connections that were lost and made again.
    pub reconnects: u64,
}

/// What was done in one folder.
#[derive(Debug, Default, Clone)]
pub struct FolderReport {
    /// Its name at the source.
    pub name: String,
    /// Its name at the destination, once that is known.
    pub to: Option<String>,
    /// Messages that were put there.
    pub put: u64,
    /// Messages that were there already.
    pub there: u64,
    /// Messages there whose flags were changed.
    pub flags: u64,
    /// Messages that were put there without their keywords, with which they were refused.
    pub without_keywords: u64,
    /// Messages that were removed there.
    pub removed: u64,
    /// Messages that could not be put there, and why; not more than some thousands. UID 0: it is
    /// not known which.
    pub failed: Vec<(u32, String)>,
    /// How many these are in all.
    pub failures: u64,
    /// What kept the folder from being complete.
    pub error: Option<String>,
}
