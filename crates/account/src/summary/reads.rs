//! Segments that are being read: the next few at once, on all processors, while the caller looks at the one before.

use std::sync::Arc;

use tokio::task::JoinHandle;

use super::Parts;
use super::content::Content;
use super::segment::{Segment, SegmentName};
use crate::account::Account;

/// However much memory there is, not more of them are read at once.
const MOST: usize = 4;

/// Segments on their way, or read and not used up.
pub(super) struct Reads {
    /// How many there may be.
    room: usize,
    reads: Vec<(SegmentName, Read)>,
}

enum Read {
    UnderWay(Task<Option<Segment>>),
    Done(Segment),
}

/// A task that ends when nobody waits for it any more.
pub(super) struct Task<T>(pub(super) JoinHandle<T>);

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Reads {
    /// Reads of segments of that content, as many at once as there is room for in so many bytes; one at least.
    pub(super) fn new(content: Content, bytes: usize) -> Self {
        // What is sealed, and what is in it.
        let room = (bytes / (2 * content.segment_bytes())).clamp(1, MOST);
        Reads { room, reads: Vec::new() }
    }

    /// Forgets all but these.
    pub(super) fn keep(&mut self, wanted: &[SegmentName]) {
        self.reads.retain(|(name, _)| wanted.contains(name));
    }

    /// Begins to read the first of these, as many as there is room for.
    pub(super) fn begin(
        &mut self,
        account: &Arc<Account>,
        content: Content,
        parts: Parts,
        next: &[SegmentName],
    ) {
        for &name in next.iter().take(self.room) {
            if self.reads.len() >= self.room && Some(&name) != next.first() {
                return;
            }
            if self.reads.iter().any(|(known, _)| *known == name) {
                continue;
            }
            let account = account.clone();
            let read = tokio::spawn(async move {
                let read = account.read_segment(content, name, parts).await;
                read.unwrap_or_else(|e| {
                    tracing::debug!(account = %account.id(), error = %e, "summaries cannot be read");
                    None
                })
            });
            self.reads.push((name, Read::UnderWay(Task(read))));
        }
    }

    /// The segment of that name, if it was begun to be read and can be.
    pub(super) async fn take(&mut self, name: SegmentName) -> Option<Segment> {
        let at = self.reads.iter().position(|(known, _)| *known == name)?;
        match self.reads.swap_remove(at).1 {
            Read::Done(segment) => Some(segment),
            Read::UnderWay(mut task) => (&mut task.0).await.unwrap_or_else(|e| {
                tracing::error!(error = %e, "reading summaries panicked");
                None
            }),
        }
    }

    /// Keeps a segment that is not used up.
    pub(super) fn put_back(&mut self, name: SegmentName, segment: Segment) {
        self.reads.push((name, Read::Done(segment)));
    }
}
