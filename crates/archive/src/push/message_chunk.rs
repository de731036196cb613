//! A message on its way from the source to the destination.

use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use sealpost_imap::types::DateTime;

use super::map::{Put, UidMap};
use super::report::{FolderReport, Observer};
use crate::backup::Flags;

/// A message in transfer: its head, its bytes, its end. Without an end it did not arrive.
pub(super) enum MessageChunk {
    Begin(MessageMeta),
    Bytes(Bytes),
    End,
    /// This one cannot be read.
    Failed(u32, String),
}

/// The data of a message that precedes its bytes.
#[derive(Debug, Clone)]
pub(super) struct MessageMeta {
    pub(super) uid: u32,
    pub(super) flags: Flags,
    pub(super) date: Option<DateTime>,
    pub(super) size: u64,
}

/// Receives each message that the destination has now.
pub(super) struct ProgressSink<'a> {
    pub(super) observer: &'a dyn Observer,
    pub(super) map: &'a Mutex<UidMap>,
    pub(super) report: &'a mut FolderReport,
    /// The source's UIDVALIDITY.
    pub(super) uidvalidity: u32,
    /// The folder's name at the destination.
    pub(super) to: String,
}

impl ProgressSink<'_> {
    /// The destination has a message, under a UID if the server reports it.
    pub(super) fn put(&mut self, put: Option<Put>) {
        self.report.put += 1;
        self.observer.put();
        if let Some(put) = put {
            locked(self.map).put(&self.report.name, &self.to, put);
        }
    }
}

pub(super) fn locked(map: &Mutex<UidMap>) -> MutexGuard<'_, UidMap> {
    map.lock().unwrap_or_else(|e| e.into_inner())
}
