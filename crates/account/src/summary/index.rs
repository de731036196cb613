//! Which segments an account has, as far as this process knows. Others may add and remove some at any time: one that is
//! not known is not used, one that is gone is forgotten.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures::TryStreamExt;
use sealpost_base::{Kind, Result};
use sealpost_vault::index::SegmentReader;
use tokio::sync::Mutex as AsyncMutex;

use super::Parts;
use super::content::Content;
use super::segment::{Segment, SegmentName, SegmentWriter, prefix};
use crate::account::Account;

/// The indexes of a loaded account, one of each kind of segments.
#[derive(Default)]
pub(crate) struct Indexes {
    summaries: Index,
    texts: Index,
    long_texts: Index,
}

/// An index of a loaded account.
#[derive(Default)]
pub(super) struct Index {
    known: Mutex<Arc<Known>>,
    /// Held by whoever makes or removes segments, so that one process does not do it twice at once.
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

impl Index {
    fn lock(&self) -> MutexGuard<'_, Arc<Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number after those that segments cover; `None` if no segment is known.
    pub(super) fn covered(&self) -> Option<u32> {
        self.lock().reach.last().map(|last| last.saturating_add(1))
    }

    fn add(&self, segment: Stored) {
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

impl Account {
    pub(super) fn index(&self, content: Content) -> &Index {
        match content {
            Content::Summaries => &self.indexes.summaries,
            Content::Texts => &self.indexes.texts,
            Content::LongTexts => &self.indexes.long_texts,
        }
    }

    /// The segments, listed if they never were.
    pub(super) async fn segments(&self, content: Content) -> Result<Arc<Known>> {
        let known = self.index(content).lock().clone();
        if known.listed { Ok(known) } else { self.list_segments(content).await }
    }

    /// The segments as they are in the store now.
    pub(super) async fn list_segments(&self, content: Content) -> Result<Arc<Known>> {
        let mut segments = Vec::new();
        let mut listed = self.store().list(&prefix(content, self.id()), None);
        while let Some(object) = listed.try_next().await? {
            let name = object.path.rsplit('/').next().and_then(|name| name.parse::<SegmentName>().ok());
            segments.extend(name.map(|name| Stored { name, bytes: object.size }));
        }
        let known = Arc::new(Known::new(true, segments));
        *self.index(content).lock() = known.clone();
        Ok(known)
    }

    /// Reads a segment. One that is gone is forgotten, one that is damaged is removed too: `None`, and it is made again
    /// when it is needed.
    pub(super) async fn read_segment(
        &self,
        content: Content,
        name: SegmentName,
        parts: Parts,
    ) -> Result<Option<Segment>> {
        let path = name.path(content, self.id());
        let open = |object: &Bytes| self.open_segment(content, &path, object, parts);
        let read = self.store().read_opened(&path, open).await;
        match read {
            Ok(segment) => Ok(Some(segment)),
            Err(e) if e.kind() == Kind::NotFound => {
                self.index(content).forget(name);
                Ok(None)
            }
            Err(e) if e.kind() == Kind::Corrupt => {
                tracing::warn!(account = %self.id(), path, error = %e, "damaged summaries; they are made again");
                self.index(content).forget(name);
                self.store().delete(&path).await?;
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    fn open_segment(&self, content: Content, path: &str, object: &Bytes, parts: Parts) -> Result<Segment> {
        Segment::open(content, &SegmentReader::new(self.keys(), self.id(), path, object)?, parts)
    }

    /// Writes a segment, unless it is empty. Whoever wrote one of the same name had the same to say.
    pub(super) async fn write_segment(&self, writer: SegmentWriter) -> Result<Option<SegmentName>> {
        let Some(name) = writer.name() else { return Ok(None) };
        let content = writer.content();
        let path = name.path(content, self.id());
        let sections = writer.sections()?;
        let sections = sections.each_ref().map(Vec::as_slice);
        let sealed = sealpost_vault::index::seal(self.keys(), self.id(), &path, &sections, self.random())?;
        let bytes = sealed.len() as u64;
        self.store().put_new(&path, sealed).await?;
        self.index(content).add(Stored { name, bytes });
        Ok(Some(name))
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
