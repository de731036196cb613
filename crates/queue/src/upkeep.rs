//! Keeps a log short: carries mail that stays into segments, writes checkpoints, writes history, and
//! trims entries that are not needed any more.
//!
//! Most mail has left the queue before its entry is trimmed, and is never written again. Mail that is
//! still queued then is written once more, together with other mail, into a segment. It is written
//! again only when most of the mail in its segment has left the queue.
//!
//! Another process may adopt the queue at any moment, and this process may be suspended for hours between
//! two lines here. So each removal rests on facts that stay true for every later writer:
//!
//! - Entries are trimmed below the position up to which this process has carried the mail, and never up to
//!   a checkpoint because it is there: another process may have written that. An entry with a queued
//!   mail that cannot be read stays, and all behind it.
//! - Segments and bodies are listed first. Then an [append](Queue::confirm_owner) shows that no other
//!   process had the queue when they were listed, so that the state knows every mail in them. An
//!   object that the state does not need then is never needed again: a later writer refers only to objects
//!   that it writes itself.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures::TryStreamExt;
use sealpost_base::{Kind, ObjectId, Position, Result, Timestamp, limits};
use sealpost_vault::message::MessageKey;
use sealpost_vault::queue::QueueObject;

use crate::MailId;
use crate::body::HEADER_MARGIN_BYTES;
use crate::envelope::{Body, Mail};
use crate::event::{Carried, Event};
use crate::history;
use crate::log::{Inner, Queue};
use crate::state::{Place, State};

/// A checkpoint is written after so many entries, or one for each hundred mails.
const ENTRIES: u64 = 1024;
/// Or after so many bytes of entries, or half of what the mails take in a checkpoint.
const BYTES: u64 = 16 * 1024 * 1024;
/// About what a mail takes in a checkpoint.
const ROW_BYTES: u64 = 160;
/// Bytes of a segment.
const SEGMENT_BYTES: usize = 4 * 1024 * 1024;
/// Mails of a segment.
const SEGMENT_MAILS: usize = 4096;
/// An object that no mail has is removed when it is so old: before, its mail may be about to be accepted.
const ORPHAN_AGE: Duration = Duration::from_secs(24 * 3600);

/// Starts upkeep if enough was appended since the last time.
pub(crate) fn begin_if_due(inner: &Arc<Inner>, (entries, bytes): (u64, u64)) {
    let mails = inner.state.read().unwrap_or_else(PoisonError::into_inner).len() as u64;
    let is_due = entries >= ENTRIES.max(mails / 100) || bytes >= BYTES.max(mails * ROW_BYTES / 2);
    if !is_due {
        return;
    }
    let Ok(round) = inner.upkeep.clone().try_lock_owned() else { return };
    let queue = Queue::of(inner.clone());
    tokio::spawn(async move {
        if let Err(e) = queue.shorten().await {
            tracing::warn!(error = %e, "the queue's log was not made shorter; this is tried again");
        }
        drop(round);
    });
}

impl Queue {
    /// Carries mail that stays, writes a checkpoint and removes superfluous entries and objects. The queue
    /// continues meanwhile.
    ///
    /// # Errors
    /// Errors of the store, and `Retry` if another process has adopted the queue. The next call does the
    /// rest.
    pub async fn upkeep(&self) -> Result<()> {
        // One at a time: it would remove a segment that another one has not recorded yet.
        let _round = self.inner().upkeep.lock().await;
        self.shorten().await
    }

    async fn shorten(&self) -> Result<()> {
        let inner = self.inner();
        let older = inner.work.lock().await.checkpoint;
        let needed = self.carry(older).await?;
        let (snapshot, tail) = {
            let mut work = inner.work.lock().await;
            work.since = (0, 0);
            let snapshot = self.state().clone();
            (snapshot, work.replay.tail())
        };
        if tail.position > older {
            let names = snapshot.chunk_names();
            let chunk = |name: &str| snapshot.chunk(name);
            inner.journal.write_checkpoint(&inner.keys, tail, names, chunk).await?;
            inner.work.lock().await.checkpoint = tail.position;
        }
        drop(snapshot);
        match history::keep(inner, older).await {
            // Trimming frees disk space, and must not wait for history.
            Err(e) if inner.store.is_disk_full() => {
                tracing::error!(error = %e, "the history of the queue has a gap: the disk is full");
            }
            kept => kept?,
        }
        inner.journal.trim_below(needed).await?;
        self.remove_segments().await?;
        if !inner.swept.swap(true, Ordering::AcqRel) {
            self.remove_bodies(ORPHAN_AGE).await?;
        }
        Ok(())
    }

    /// Writes the mail of entries before `position`, and of segments that are mostly empty, into
    /// new segments; the first entry that is still needed, `position` or one before it. A mail that
    /// cannot be read keeps its entry: the store may answer wrongly for a while, and the schedule decides
    /// when the mail fails.
    async fn carry(&self, position: Position) -> Result<Position> {
        let staying = staying(&self.state(), position);
        let (mut mails, mut bytes, mut needed) = (Vec::new(), Vec::new(), position);
        let mut is_owner = false;
        for id in staying {
            let mail = match self.read(id).await {
                Ok(mail) => mail,
                Err(e) if e.kind() == Kind::NotFound && self.state().rows().get(id).is_none() => continue,
                Err(e) if matches!(e.kind(), Kind::Corrupt | Kind::NotFound) => {
                    // Another process may have carried it since.
                    if !is_owner {
                        self.confirm_owner().await?;
                        is_owner = true;
                    }
                    tracing::error!(mail = %id, error = %e, "a queued mail is damaged; the log keeps its entry");
                    if let Some(Place::Entry(at, _)) = self.state().rows().get(id).map(|row| row.place) {
                        needed = needed.min(at);
                    }
                    continue;
                }
                Err(e) => return Err(e),
            };
            let start = bytes.len();
            minicbor::encode(&*mail, &mut bytes).expect("a vector takes everything");
            mails.push((id, start as u32, (bytes.len() - start) as u32));
            if bytes.len() >= SEGMENT_BYTES || mails.len() >= SEGMENT_MAILS {
                self.write_segment(std::mem::take(&mut mails), std::mem::take(&mut bytes)).await?;
            }
        }
        if !mails.is_empty() {
            self.write_segment(mails, bytes).await?;
        }
        Ok(needed)
    }

    async fn write_segment(&self, mails: Vec<(MailId, u32, u32)>, bytes: Vec<u8>) -> Result<()> {
        let inner = self.inner();
        let (object, key) = (ObjectId::random(&*inner.random), MessageKey::generate(&*inner.random));
        let segment = QueueObject::Segment;
        let mut writer = segment.write(&inner.store, inner.node, object, &key, &inner.budget).await?;
        writer.write(&bytes).await?;
        let layout = writer.finish().await?;
        self.commit(vec![Event::Carried(Carried { object, key, layout, mails })]).await?;
        Ok(())
    }

    /// Removes segments that hold no mail any more.
    async fn remove_segments(&self) -> Result<()> {
        let inner = self.inner();
        let folder = QueueObject::Segment.folder(inner.node);
        let listed: Vec<_> = inner.store.list(&folder, None).try_collect().await?;
        let mut superfluous: HashSet<String> = listed.into_iter().map(|object| object.path).collect();
        self.retain_unheld(&mut superfluous);
        if superfluous.is_empty() {
            return Ok(());
        }
        self.confirm_owner().await?;
        self.retain_unheld(&mut superfluous);
        for path in superfluous {
            inner.store.delete(&path).await?;
        }
        Ok(())
    }

    /// Drops the paths of segments that hold mail.
    fn retain_unheld(&self, paths: &mut HashSet<String>) {
        let node = self.inner().node;
        for (_, segment) in self.state().segments() {
            paths.remove(&QueueObject::Segment.path(node, segment.object));
        }
    }

    /// Removes bodies of at least that age that no mail has: a crash came between a body and its mail,
    /// or between the last outcome and the removal. How old one is, the store says: the time here may be
    /// wrong by more than that.
    pub(crate) async fn remove_bodies(&self, age: Duration) -> Result<()> {
        let inner = self.inner();
        // It was just now if this follows a checkpoint.
        let Some(store_time) = inner.journal.last_checkpoint_written().await? else { return Ok(()) };
        let before = Timestamp(store_time.0.saturating_sub(age.as_millis() as i64));
        let listed = inner.store.list(&QueueObject::Body.folder(inner.node), None);
        let listed: Vec<_> = listed.try_collect().await?;
        let mut old: HashSet<String> =
            listed.into_iter().filter(|o| o.modified <= before).map(|object| object.path).collect();
        if old.is_empty() {
            return Ok(());
        }
        self.confirm_owner().await?;
        let large: Vec<MailId> = {
            let state = self.state();
            let large = state.rows().from(MailId(0));
            large
                .filter(|(_, row)| row.size as usize > limits::QUEUE_INLINE_BYTES - HEADER_MARGIN_BYTES)
                .map(|(id, _)| id)
                .collect()
        };
        for id in large {
            match self.read(id).await {
                Ok(mail) => drop(self.body_path(&mail).map(|path| old.remove(&path))),
                Err(e) if e.kind() == Kind::NotFound && self.state().rows().get(id).is_none() => {}
                // Whichever body it has must stay.
                Err(e) => return Err(e),
            }
        }
        for path in old {
            inner.store.delete(&path).await?;
        }
        Ok(())
    }

    /// Removes the body of a mail that is queued no more: the log says so already.
    ///
    /// # Errors
    /// Errors of the store; a later start removes it.
    pub async fn remove_body(&self, mail: &Mail) -> Result<()> {
        match self.body_path(mail) {
            Some(path) => self.inner().store.delete(&path).await,
            None => Ok(()),
        }
    }

    /// Where the body of a mail is, if it is an object of its own.
    pub(crate) fn body_path(&self, mail: &Mail) -> Option<String> {
        match &mail.body {
            Body::Inline(_) => None,
            Body::Object(body) => Some(QueueObject::Body.path(self.inner().node, body.object)),
        }
    }
}

/// The mails that are to be written again.
fn staying(state: &State, position: Position) -> Vec<MailId> {
    let sparse: HashSet<u32> = state
        .segments()
        .filter(|(_, segment)| segment.bytes * 4 < segment.layout.raw_bytes)
        .map(|(number, _)| number)
        .collect();
    let stays = |place: &Place| match place {
        Place::Entry(at, _) => *at < position,
        Place::Segment(number, ..) => sparse.contains(number),
    };
    state.rows().from(MailId(0)).filter(|(_, row)| stays(&row.place)).map(|(id, _)| id).collect()
}
