//! Segments that are being read: the next few at once, on all processors, while the caller uses the
//! one before.

use std::collections::VecDeque;
use std::sync::Arc;

use sealpost_base::Permit;
use tokio::task::JoinHandle;

use super::content::Content;
use super::segment::{Segment, SegmentName};
use super::segment_writer::BUILD_BYTES;
use super::stream::{WINDOW_BYTES, WINDOW_MESSAGES};
use super::{Block, Parts};
use crate::Index;

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
    /// Messages of the next window: as many as will probably fit, so that few are read for a window
    /// that cannot hold them.
    pub(super) messages: usize,
    /// How many segments there may be.
    room: usize,
    reads: Vec<(SegmentName, Read)>,
    /// The last window is larger than it should be, and the next one is not to be read before it is gone.
    pub(super) alone: bool,
    /// The blocks of the last windows. Holders of those summaries release them at some time.
    blocks: VecDeque<Arc<Block>>,
}

/// What a window is expected to have of a message, in bytes.
const USUAL_BYTES: usize = 512;
/// Windows at once: the caller has one, and one is read ahead.
const WINDOWS: usize = 2;

enum Read {
    UnderWay(Task<Option<Segment>>),
    Done(Segment),
}

/// A task that ends when no caller waits for it any more.
pub(super) struct Task<T>(pub(super) JoinHandle<T>);

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Reads {
    /// For segments of that content, as many at once as memory permits; waits until there is enough
    /// for one. The caller holds nothing of the budget.
    pub(super) async fn new(account: &Index, content: Content) -> Self {
        // What is sealed, and what is in it.
        let segment = 2 * content.segment_bytes();
        let budget = account.budget();
        let wanted = budget.fair_part().min(BUILD_BYTES + WINDOWS * WINDOW_BYTES);
        let permit = budget.acquire_large(wanted.max(segment + WINDOWS * LEAST_WINDOW_BYTES)).await;
        let window =
            (permit.bytes().saturating_sub(segment) / WINDOWS).clamp(LEAST_WINDOW_BYTES, WINDOW_BYTES);
        let room = (permit.bytes().saturating_sub(WINDOWS * window) / segment).clamp(1, MOST);
        let usual = permit.bytes();
        let (reads, blocks) = (Vec::new(), VecDeque::new());
        Reads { permit, usual, window, messages: WINDOW_MESSAGES, room, alone: false, reads, blocks }
    }

    /// An empty block for a window of so many messages, in the memory of an earlier one that is no
    /// longer in use: fresh memory costs more than the copies into it.
    pub(super) fn block(&mut self, parts: Parts, messages: usize) -> Block {
        let free = self.blocks.iter_mut().position(|block| Arc::get_mut(block).is_some());
        let block = free.and_then(|at| self.blocks.remove(at)).and_then(Arc::into_inner);
        let mut block = block.unwrap_or_default();
        block.parts = parts;
        block.entries.clear();
        block.text.clear();
        block.text.reserve(self.window.min(messages * USUAL_BYTES));
        block
    }

    /// Records how many summaries were read for a window, how many of them it held, and their
    /// bytes. In the order of UIDs a segment may be read for messages that only a later window has.
    pub(super) fn learn(&mut self, read: usize, had: usize, bytes: usize) {
        if had < read {
            self.messages = (read * 3 / 4).max(1);
        } else if bytes < self.window / 2 {
            self.messages = (self.messages * 2).min(WINDOW_MESSAGES);
        }
    }

    /// A window's block, for the holders of its summaries. A summary larger than the memory of a
    /// block comes alone.
    pub(super) fn share(&mut self, block: Block) -> Arc<Block> {
        self.alone = block.text.len() > self.window;
        let block = Arc::new(block);
        if self.alone {
            self.blocks.clear();
            return block;
        }
        self.blocks.push_back(block.clone());
        if self.blocks.len() > WINDOWS {
            self.blocks.pop_front();
        }
        block
    }

    /// Waits for memory to make segments, and forgets those that were read. [`Reads::end_building`]
    /// releases it.
    pub(super) async fn begin_building(&mut self, account: &Index) {
        self.keep(&[]);
        self.blocks.clear();
        let bytes = BUILD_BYTES + WINDOWS * self.window;
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

    /// Begins to read the first of these, as many as memory permits.
    pub(super) fn begin(&mut self, account: &Index, content: Content, parts: Parts, next: &[SegmentName]) {
        for &name in next.iter().take(self.room) {
            if self.reads.iter().any(|(known, _)| *known == name) {
                continue;
            }
            if self.reads.len() >= self.room {
                if Some(&name) != next.first() {
                    return;
                }
                // That one is needed now.
                self.reads.pop();
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

    /// Keeps a segment that is not used up, if there is memory.
    pub(super) fn put_back(&mut self, name: SegmentName, segment: Segment) {
        if self.reads.len() < self.room {
            self.reads.push((name, Read::Done(segment)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::segment::SegmentWriter;
    use super::*;
    use sealpost_base::Budget;

    #[test]
    fn no_more_segments_are_kept_than_there_is_room_for() {
        let permit = Budget::new(8).try_acquire(1).unwrap();
        let (reads, blocks) = (Vec::new(), VecDeque::new());
        let mut reads =
            Reads { permit, usual: 1, window: 1, messages: 1, room: 2, alone: false, reads, blocks };
        for first in 0..9 {
            let [directory, ..] = SegmentWriter::new(Content::Summaries).sections().unwrap();
            let segment = Segment::decode(Content::Summaries, &directory, [None, None, None]).unwrap();
            reads.put_back(SegmentName { first, last: first, entries: 0 }, segment);
        }
        assert_eq!(reads.reads.len(), 2);
    }
}
