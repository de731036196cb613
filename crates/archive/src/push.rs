//! Putting messages into an account of a server: those of a copy ([`restore`]), or of another server ([`migrate`]).
//!
//! Nothing is put there twice. Which messages are there already is found out from the server, each time anew and after each
//! lost connection: by the map of UIDs ([`UidMap`]) if there is one, by Message-ID, or where there is none by date and other
//! fields ([`key`]), and by how often. So there is no state that could be lost or disagree, whatever ended the run before, and
//! a message that its owner put there by other means counts too.
//!
//! A lost connection, at either end, is made again ([`Backoff`]). What was on its way then comes last, after another look: the
//! server may still be at work on it ([`tried`]).

mod contents;
mod deliver;
mod key;
mod local;
mod map;
mod mirror;
mod origin;
mod pairs;
mod places;
mod remote;
mod run;
mod target;
mod tried;

#[cfg(test)]
pub(crate) mod tests;

use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use sealpost_base::{Random, Result};
use sealpost_imap::types::DateTime;
use tokio::sync::watch;

use crate::client::Server;
use crate::keep::{Copy, Flags};
use crate::restored::Restored;
use origin::Origin;
use run::{Run, unless};

pub(crate) use key::{MARK_FIELDS, Mark};
pub(crate) use local::header;
pub use map::{MapFile, Put, UidMap};
pub use mirror::{Removal, mirror};

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
    /// Of a copy: what restores put back into the account that it is of.
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
    /// Messages that could not be put there, and why; not more than some thousands. UID 0: it is not known which.
    pub failed: Vec<(u32, String)>,
    /// How many these are in all.
    pub failures: u64,
    /// What kept the folder from being complete.
    pub error: Option<String>,
}

/// A message on its way: its head, its octets, its end. Without an end it did not arrive.
enum Item {
    Begin(Head),
    Octets(Bytes),
    End,
    /// This one cannot be had.
    Failed(u32, String),
}

/// What is known of a message before its octets.
#[derive(Debug, Clone)]
struct Head {
    uid: u32,
    flags: Flags,
    date: Option<DateTime>,
    size: u64,
}

/// Puts a copy's messages into the account of `server`, those that are not there.
///
/// # Errors
/// What keeps it from beginning, or from going on: `Retry` if no connection can be had any more; then it can be run again.
pub async fn restore(
    copy: Arc<dyn Copy>,
    server: &Server,
    options: &Options,
    observer: Arc<dyn Observer>,
) -> Result<Report> {
    let mut run = Run::new(Origin::Copy(copy, options.include_superseded), server, options, observer);
    run.all().await?;
    Ok(run.end().await)
}

/// Puts the messages of the account of `from` into the account of `to`, those that are not there. Messages stream from one
/// to the other.
///
/// # Errors
/// As [`restore`].
pub async fn migrate(
    from: &Server,
    to: &Server,
    options: &Options,
    observer: Arc<dyn Observer>,
) -> Result<Report> {
    let mut run = Run::new(Origin::server(from), to, options, observer);
    run.all().await?;
    Ok(run.end().await)
}

/// Who is told of a message that is there now.
struct Told<'a> {
    observer: &'a dyn Observer,
    map: &'a Mutex<UidMap>,
    report: &'a mut FolderReport,
    /// The source's UIDVALIDITY.
    uidvalidity: u32,
    /// The folder's name at the destination.
    to: String,
}

impl Told<'_> {
    /// A message is there now, under a UID if the server says so.
    fn put(&mut self, put: Option<Put>) {
        self.report.put += 1;
        self.observer.put();
        if let Some(put) = put {
            locked(self.map).put(&self.report.name, &self.to, put);
        }
    }
}

fn locked(map: &Mutex<UidMap>) -> MutexGuard<'_, UidMap> {
    map.lock().unwrap_or_else(|e| e.into_inner())
}
