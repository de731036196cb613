//! Segments that this process knows of.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Mutex as AsyncMutex;

use super::content::Content;
use super::segment::SegmentName;

/// The indexes of a loaded account, one of each kind of segments.
#[derive(Default)]
pub(crate) struct SegmentLists {
    summaries: SegmentList,
    texts: SegmentList,
    long_texts: SegmentList,
    headers: SegmentList,
    structures: SegmentList,
}

impl SegmentLists {
    pub(super) fn of(&self, content: Content) -> &SegmentList {
        match content {
            Content::Summaries => &self.summaries,
            Content::Texts => &self.texts,
            Content::LongTexts => &self.long_texts,
            Content::Headers => &self.headers,
            Content::Structures => &self.structures,
        }
    }
}

/// An index of a loaded account.
#[derive(Default)]
pub(super) struct SegmentList {
    known: Mutex<Arc<Known>>,
    /// Held while segments are made or removed, so that one process does not do it twice at once.
    pub(super) change: AsyncMutex<()>,
    /// A task that makes segments is under way.
    pub(super) extending: AtomicBool,
}

/// A segment, and its size on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stored {
    pub(crate) name: SegmentName,
    pub(crate) bytes: u64,
}

/// Segments by their first message.
#[derive(Default)]
pub(crate) struct Known {
    /// They were listed since the account was loaded.
    pub(crate) listed: bool,
    segments: Vec<Stored>,
    /// The largest last number up to each of them.
    reach: Vec<u32>,
}

impl Known {
    pub(crate) fn new(listed: bool, mut segments: Vec<Stored>) -> Self {
        segments.sort_unstable();
        segments.dedup_by_key(|segment| segment.name);
        let mut most = 0;
        let reach = segments.iter().map(|segment| {
            most = most.max(segment.name.last);
            most
        });
        Known { listed, reach: reach.collect(), segments }
    }

    /// A segment that should know the message of that number.
    pub(crate) fn covering(&self, number: u32) -> Option<SegmentName> {
        let end = self.segments.partition_point(|segment| segment.name.first <= number);
        let reaching = (0..end).rev().take_while(|at| self.reach[*at] >= number);
        reaching.map(|at| self.segments[at].name).find(|segment| segment.covers(number))
    }

    /// The first number from `number` on that no segment covers.
    pub(super) fn next_uncovered(&self, mut number: u32) -> Option<u32> {
        while let Some(segment) = self.covering(number) {
            number = segment.last.checked_add(1)?;
        }
        Some(number)
    }

    pub(crate) fn segments(&self) -> &[Stored] {
        &self.segments
    }
}

impl SegmentList {
    pub(super) fn lock(&self) -> MutexGuard<'_, Arc<Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number after those that segments cover; `None` if no segment is known.
    pub(super) fn covered(&self) -> Option<u32> {
        self.lock().reach.last().map(|last| last.saturating_add(1))
    }

    pub(super) fn add(&self, segment: Stored) {
        let mut known = self.lock();
        let segments = known.segments.iter().copied().chain([segment]).collect();
        *known = Arc::new(Known::new(known.listed, segments));
    }

    pub(super) fn forget(&self, segment: SegmentName) {
        let mut known = self.lock();
        let segments = known.segments.iter().copied().filter(|other| other.name != segment).collect();
        *known = Arc::new(Known::new(known.listed, segments));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(first: u32, last: u32) -> Stored {
        Stored { name: SegmentName { first, last, entries: 1 }, bytes: 1 }
    }

    #[test]
    fn segments_that_overlap_are_found() {
        let known = Known::new(true, vec![name(20, 29), name(0, 9), name(5, 25), name(6, 7), name(40, 40)]);
        for number in 0..50 {
            let covered = number <= 29 || number == 40;
            assert_eq!(known.covering(number).is_some(), covered, "{number}");
            let next = (number..50).find(|n| *n > 29 && *n != 40);
            assert_eq!(known.next_uncovered(number).filter(|n| *n < 50), next, "{number}");
        }
        assert_eq!(Known::new(true, vec![name(0, u32::MAX)]).next_uncovered(3), None);
    }
}
