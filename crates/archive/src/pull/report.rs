//! The report of a pull, and the observer of its progress.

use std::time::Duration;

use sealpost_base::Error;

use super::plan::{Plan, Reason};
use crate::backup::BodyCounts;

/// What a pull did.
#[derive(Debug, Default)]
pub struct Report {
    /// Folders that can be selected, and were looked at.
    pub folders: u64,
    /// Those of them in which something was to be done.
    pub of: Vec<FolderReport>,
    /// Bytes received, as they came over the network.
    pub received: u64,
    /// Connections that were made again.
    pub reconnects: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// It was stopped before it was done.
    pub interrupted: bool,
    /// The backup's bodies, if it does not keep all.
    pub bodies: Option<BodyCounts>,
    /// The backup could not be written any more, so the pull ended; why.
    pub broken: Option<Error>,
}

/// What was done in one folder.
#[derive(Debug, Default, Clone)]
pub struct FolderReport {
    /// Its name.
    pub name: String,
    /// Why it was looked into.
    pub reason: Option<Reason>,
    /// Messages that were to be fetched.
    pub planned: u64,
    /// Messages that are in the backup now and were not before.
    pub new: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Messages of the backup that the server has under other UIDs now, since they were put back there.
    pub recognized: u64,
    /// Messages that were in the backup twice, since they were put back at the server.
    pub doubles: u64,
    /// Messages whose flags changed.
    pub flags: u64,
    /// Messages that the server no longer has.
    pub gone: u64,
    /// Messages with evicted bodies that the server no longer has, or has in another mailbox of the
    /// same name: these bodies are lost.
    pub lost: u64,
    /// The UIDs of some of these.
    pub lost_of: Vec<u32>,
    /// Messages that could not be fetched, and will be tried again next time.
    pub failed: Vec<Failure>,
    /// How many more there are of these.
    pub failed_more: u64,
    /// Messages that are stored without some of their flags, or their date, which cannot be parsed:
    /// some of them, and why.
    pub unread: Vec<Failure>,
    /// How many messages those are.
    pub unread_all: u64,
    /// Why the folder is not complete.
    pub error: Option<String>,
}

/// A message that could not be fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Its UID.
    pub uid: u32,
    /// Why.
    pub reason: String,
}

/// Most failures of a folder that are reported one by one.
const FAILURES_REPORTED: usize = 1000;
/// Most messages without some of their flags that are reported one by one.
pub(super) const UNREAD_REPORTED: usize = 20;

impl FolderReport {
    /// What would be done.
    pub(super) fn planned(plan: &Plan) -> Self {
        FolderReport {
            name: plan.found.name.as_str().to_owned(),
            reason: Some(plan.reason),
            planned: plan.estimate,
            ..FolderReport::default()
        }
    }

    /// A mailbox that the server lists and that is not pulled.
    pub(super) fn left_out((name, why): (String, String)) -> Self {
        FolderReport { name, error: Some(why), ..FolderReport::default() }
    }

    /// Adds a failure, up to [`FAILURES_REPORTED`].
    pub(super) fn fail(&mut self, failure: Failure) {
        if self.failed.len() < FAILURES_REPORTED {
            self.failed.push(failure);
        } else {
            self.failed_more += 1;
        }
    }

    /// Whether everything that was to be done was done.
    pub fn is_complete(&self) -> bool {
        self.failed.is_empty() && self.error.is_none()
    }
}

impl Report {
    /// New messages, and their bytes.
    pub fn new_messages(&self) -> (u64, u64) {
        self.of.iter().fold((0, 0), |(n, bytes), folder| (n + folder.new, bytes + folder.bytes))
    }

    /// Whether the backup is what the server has.
    pub fn is_complete(&self) -> bool {
        !self.interrupted && self.broken.is_none() && self.of.iter().all(FolderReport::is_complete)
    }
}

/// Receives the progress of a pull.
pub trait Observer: Send + Sync {
    /// So many messages of the folder will be fetched.
    fn begins(&self, folder: &str, messages: u64);
    /// So many more are in the backup.
    fn stored(&self, folder: &str, messages: u64, bytes: u64);
    /// Nothing more will be done in the folder.
    fn ended(&self, folder: &FolderReport);
    /// Bodies were evicted, with so many bytes on disk.
    fn evicted(&self, _messages: u64, _bytes: u64) {}
    /// A connection was lost, and when the next one is tried.
    fn waits(&self, text: &str) {
        self.note(text);
    }
    /// A note for the user.
    fn note(&self, text: &str);
}

/// An observer that ignores everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn begins(&self, _: &str, _: u64) {}
    fn stored(&self, _: &str, _: u64, _: u64) {}
    fn ended(&self, _: &FolderReport) {}
    fn note(&self, _: &str) {}
}
