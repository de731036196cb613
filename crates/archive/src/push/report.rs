//! The options and the report of a push.

use std::sync::{Arc, Mutex};

use sealpost_base::Random;
use tokio::sync::watch;

use super::map::UidMap;
use crate::restored::Restored;

/// The options.
#[derive(Clone)]
pub struct Options {
    /// Which folders, by their names.
    pub wanted: Arc<dyn Fn(&str) -> bool + Send + Sync>,
    /// Of a backup: also its superseded folders, into their original folders.
    pub include_superseded: bool,
    /// Put everything below this folder, in levels; empty: keep the original levels.
    pub below: Vec<String>,
    /// Report what would be done, and change nothing.
    pub dry_run: bool,
    /// The map of UIDs: read, and added to.
    pub map: Arc<Mutex<UidMap>>,
    /// Of a backup: what restores put back into its account.
    pub restored: Arc<Restored>,
    /// Randomness, for waiting.
    pub random: Arc<dyn Random>,
    /// Becomes true when the run is to stop.
    pub stop: watch::Receiver<bool>,
}

/// Receives the progress of a push.
pub trait Observer: Send + Sync {
    /// The folder is being compared, at both ends.
    fn comparing(&self, _folder: &str) {}
    /// So many messages of the folder will be appended.
    fn begins(&self, folder: &str, messages: u64);
    /// A message was appended.
    fn put(&self);
    /// Why there is no progress for a while.
    fn waits(&self, text: &str) {
        self.note(text);
    }
    /// A note for the user, not an error.
    fn note(&self, text: &str);
    /// Nothing more is done in this folder.
    fn ended(&self, folder: &FolderReport);
}

/// What was done.
#[derive(Debug, Default)]
pub struct Report {
    /// By folder.
    pub folders: Vec<FolderReport>,
    /// It was stopped before it was done.
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
    /// Messages that were appended without their keywords, as the server refused them with these.
    pub without_keywords: u64,
    /// Messages that were removed there.
    pub removed: u64,
    /// Messages that could not be appended, and why; at most some thousands. UID 0: not known
    /// which.
    pub failed: Vec<(u32, String)>,
    /// How many these are in all.
    pub failures: u64,
    /// Why the folder is not complete.
    pub error: Option<String>,
}
