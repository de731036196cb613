//! Segments that are being read: the next few at once, on all processors, while the caller looks at the one before.

use std::sync::Arc;

use sealpost_base::Permit;
use tokio::task::JoinHandle;

use super::Parts;
use super::build::BUILD_BYTES;
use super::content::Content;
use super::segment::{Segment, SegmentName};
use super::stream::WINDOW_BYTES;
use crate::account::Account;

/// However much memory there is, not more of them are read at once.
const MOST: usize = 4;
/// A window, where memory is scarce.
const LEAST_WINDOW_BYTES: usize = 256 * 1024;

/// The memory of a stream, and the segments in it: on their way, or read and not used up.
pub(super) struct Reads {
    permit: Permit,
    /// What the permit is for while no segments are made, in bytes.
    usual: usize,
    /// Summaries of one window, in bytes; there are two windows.
    pub(super) window: usize,
    /// How many segments there may be.
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
    /// For segments of that content, as many at once as there is room for; waits until there is some for one. Whoever asks holds
    /// nothing of the budget.
    pub(super) async fn new(account: &Account, content: Content) -> Self {
        // What is sealed, and what is in it.
        let segment = 2 * content.segment_bytes();
        let budget = account.budget();
        let wanted = budget.fair_part().min(BUILD_BYTES + 2 * WINDOW_BYTES);
        let permit = budget.acquire_large(wanted.max(segment + 2 * LEAST_WINDOW_BYTES)).await;
        let window = (permit.bytes().saturating_sub(segment) / 2).clamp(LEAST_WINDOW_BYTES, WINDOW_BYTES);
        let room = (permit.bytes().saturating_sub(2 * window) / segment).clamp(1, MOST);
        Reads { usual: permit.bytes(), permit, window, room, reads: Vec::new() }
    }

    /// Waits until there is room to make segments, and forgets those that were read. It is given back with
    /// [`Reads::end_building`].
    pub(super) async fn begin_building(&mut self, account: &Account) {
        self.keep(&[]);
        let bytes = BUILD_BYTES + 2 * self.window;
        if self.permit.bytes() >= bytes {
            return;
        }
        // Those that hold some and wait for more would wait for each other.
        self.permit.shrink(0);
        self.permit = account.budget().acquire_whole(bytes).await;
    }

    /// No segments are made any more.
    pub(super) fn end_building(&mut self) {
        self.permit.shrink(self.usual);
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
