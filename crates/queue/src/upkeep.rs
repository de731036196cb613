//! What keeps a log short: mail that stays is carried into segments, checkpoints are written, what
//! they make superfluous is noted for history and goes.
//!
//! Most mail is gone before the entry that accepted it is trimmed, and is never written again. What
//! is still there then is written once more, together with others, into a segment, and again only
//! when most of its segment's mail is gone.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures::TryStreamExt;
use sealpost_base::{Kind, ObjectId, Position, Result, Timestamp, limits};
use sealpost_vault::message::MessageKey;
use sealpost_vault::queue::QueueObject;

use crate::MailId;
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

/// Begins it if enough was appended since the last time.
pub(crate) fn begin_if_due(inner: &Arc<Inner>, (entries, bytes): (u64, u64)) {
    let mails = inner.state.read().unwrap_or_else(PoisonError::into_inner).len() as u64;
    let is_due = entries >= ENTRIES.max(mails / 100) || bytes >= BYTES.max(mails * ROW_BYTES / 2);
    if !is_due || inner.upkeep.swap(true, Ordering::AcqRel) {
        return;
    }
    let inner = inner.clone();
    tokio::spawn(async move {
        if let Err(e) = Queue::of(inner.clone()).upkeep().await {
            tracing::warn!(error = %e, "the queue's log was not made shorter; this is tried again");
        }
        inner.upkeep.store(false, Ordering::Release);
    });
}

impl Queue {
    /// Carries what stays, writes a checkpoint and removes what is superfluous. Others append meanwhile.
    ///
    /// # Errors
    /// What the store says; what is left is done the next time.
    pub async fn upkeep(&self) -> Result<()> {
        let inner = self.inner();
        let older = inner.work.lock().await.checkpoint;
        self.carry(older).await?;
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
            // What is to be removed frees room; history may not.
            Err(e) if inner.store.is_disk_full() => {
                tracing::error!(error = %e, "the history of the queue has a gap: the disk is full");
            }
            kept => kept?,
        }
        inner.journal.trim().await?;
        self.remove_segments().await?;
        if !inner.swept.swap(true, Ordering::AcqRel) {
            self.remove_bodies().await?;
        }
        Ok(())
    }

    /// Writes the mail of entries before `position`, and of segments that are mostly empty, into
    /// new segments.
    async fn carry(&self, position: Position) -> Result<()> {
        let staying = staying(&self.state(), position);
        let (mut mails, mut bytes) = (Vec::new(), Vec::new());
        for id in staying {
            let mail = match self.read(id).await {
                Ok(mail) => mail,
                Err(e) if e.kind() == Kind::NotFound && self.state().rows().get(id).is_none() => continue,
                Err(e) if matches!(e.kind(), Kind::Corrupt | Kind::NotFound) => {
                    // It can never be sent; the entry is removed, and the operator is notified when
                    // it is due.
                    tracing::error!(mail = %id, error = %e, "a queued mail is damaged");
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
        Ok(())
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
        let held: HashSet<String> = {
            let state = self.state();
            state
                .segments()
                .map(|(_, segment)| QueueObject::Segment.path(inner.node, segment.object))
                .collect()
        };
        for object in listed.into_iter().filter(|object| !held.contains(&object.path)) {
            inner.store.delete(&object.path).await?;
        }
        Ok(())
    }

    /// Removes bodies that no mail has: a crash came between a body and its mail, or between the
    /// last outcome and the removal.
    async fn remove_bodies(&self) -> Result<()> {
        let inner = self.inner();
        let before = Timestamp(inner.clock.now().0.saturating_sub(ORPHAN_AGE.as_millis() as i64));
        let listed = inner.store.list(&QueueObject::Body.folder(inner.node), None);
        let listed: Vec<_> = listed.try_collect().await?;
        let mut old: BTreeMap<String, ()> =
            listed.into_iter().filter(|o| o.modified < before).map(|object| (object.path, ())).collect();
        if old.is_empty() {
            return Ok(());
        }
        let large: Vec<MailId> = {
            let state = self.state();
            let large = state.rows().from(MailId(0));
            large
                .filter(|(_, row)| row.size as usize > limits::QUEUE_INLINE_BYTES)
                .map(|(id, _)| id)
                .collect()
        };
        for id in large {
            match self.read(id).await {
                Ok(mail) => drop(body_path(inner, &mail).and_then(|path| old.remove(&path))),
                Err(e) if e.kind() == Kind::NotFound => {}
                // Whichever body it has must stay.
                Err(e) => return Err(e),
            }
        }
        for path in old.into_keys() {
            inner.store.delete(&path).await?;
        }
        Ok(())
    }

    /// Removes the body of a mail that is queued no more.
    ///
    /// # Errors
    /// What the store says; a later start removes it.
    pub async fn remove_body(&self, mail: &Mail) -> Result<()> {
        match body_path(self.inner(), mail) {
            Some(path) => self.inner().store.delete(&path).await,
            None => Ok(()),
        }
    }
}

fn body_path(inner: &Inner, mail: &Mail) -> Option<String> {
    match &mail.body {
        Body::Inline(_) => None,
        Body::Object(body) => Some(QueueObject::Body.path(inner.node, body.object)),
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
