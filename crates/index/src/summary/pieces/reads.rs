//! Reading headers or structures of many messages: from segments, where one has several of them.
//!
//! An open segment is memory of the budget, taken only if it is free: a reader of segments never
//! waits for memory because of them. Segments that were read stay in a cache, which all sessions of
//! the process share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sealpost_account::MessageNumber;
use sealpost_base::{Budget, ObjectId, Permit};
use tokio::runtime::Handle;
use tokio::sync::Mutex as AsyncMutex;

use super::super::content::Content;
use super::super::known::Known;
use super::super::segment::SegmentName;
use super::super::segment_writer::WORTH_MESSAGES;
use super::segment::PieceSegment;
use crate::Index;

/// Segments that one reader has open.
const OPEN_SEGMENTS: usize = 2;
/// Messages requested at once for which opening a segment takes less time than reading each of
/// them.
const WORTH_OPENING: usize = 16;
/// The same where each message is a request to a store that is far away.
const WORTH_REQUEST: usize = 2;
/// Memory for a segment while it is opened, in sizes of the segment: as it is sealed, and what
/// comes out of it.
const OPENING_FACTOR: usize = 2;

/// What of messages is in segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pieces {
    /// Their headers, as they are.
    Headers,
    /// Their structures, as they are stored.
    Structures,
}

impl Pieces {
    fn content(self) -> Content {
        match self {
            Pieces::Headers => Content::Headers,
            Pieces::Structures => Content::Structures,
        }
    }
}

/// Segments for one command.
pub struct PieceReads {
    index: Index,
    content: Content,
    memory: Budget,
    state: Mutex<State>,
    /// Held while a segment is opened, so that it is opened once.
    opening: AsyncMutex<()>,
}

#[derive(Default)]
struct State {
    known: Arc<Known>,
    /// Of the segments that are worth reading: their sizes.
    worth: HashMap<SegmentName, u64>,
    /// The one that was opened last is last.
    open: Vec<Opened>,
    /// Requested messages that no segment covers.
    uncovered: usize,
}

/// A segment, and nothing in place of one that cannot be opened.
type Opened = (SegmentName, Option<Arc<Open>>);

/// A segment that was opened, and the memory it is in.
struct Open {
    segment: Arc<PieceSegment>,
    _permit: Permit,
}

impl PieceReads {
    /// Reads nothing yet. Segments are opened in that memory.
    pub fn new(index: &Index, kind: Pieces, memory: &Budget) -> Arc<Self> {
        Arc::new(PieceReads {
            index: index.clone(),
            content: kind.content(),
            memory: memory.clone(),
            state: Mutex::default(),
            opening: AsyncMutex::default(),
        })
    }

    /// Announces the next messages: it decides which segments are worth reading.
    pub async fn expect(&self, numbers: impl IntoIterator<Item = MessageNumber>) {
        let numbers: Vec<MessageNumber> = numbers.into_iter().collect();
        let least = if self.index.store().wants_packs() { WORTH_REQUEST } else { WORTH_OPENING };
        if numbers.len() < least {
            self.lock().worth.clear();
            return;
        }
        let known = match self.index.segments(self.content).await {
            Ok(known) => known,
            Err(e) => {
                tracing::debug!(account = %self.index.id(), error = %e, "header segments cannot be listed");
                return;
            }
        };
        let (mut wanted, mut uncovered) = (HashMap::<SegmentName, usize>::new(), 0);
        let mut last: Option<SegmentName> = None;
        for number in numbers {
            if !last.is_some_and(|segment| segment.covers(number.0)) {
                last = known.covering(number.0);
            }
            match last {
                Some(name) => *wanted.entry(name).or_default() += 1,
                None => uncovered += 1,
            }
        }
        let sizes = known.segments().iter();
        let worth = sizes.filter(|stored| wanted.get(&stored.name).is_some_and(|wanted| *wanted >= least));
        let worth = worth.map(|stored| (stored.name, stored.bytes)).collect();
        let mut state = self.lock();
        state.uncovered += uncovered;
        state.known = known;
        state.worth = worth;
    }

    /// Whether [`PieceReads::get`] answers at once, because the segment of that message is open, or
    /// there is none.
    pub fn is_ready(&self, number: MessageNumber) -> bool {
        let state = self.lock();
        state.segment_of(number.0).is_none_or(|(name, _)| state.open.iter().any(|(open, _)| *open == name))
    }

    /// Whether the segment of that message is open.
    pub fn is_open(&self, number: MessageNumber) -> bool {
        self.lock().opened(number.0).is_some_and(|(_, open)| open.is_some())
    }

    /// Appends the piece of that message to `out`; whether a segment has it.
    pub async fn get(&self, number: MessageNumber, object: ObjectId, out: &mut Vec<u8>) -> bool {
        self.get_with(number, object, &mut Vec::new(), out).await
    }

    /// The same, for many messages in a row: `scratch` is memory that is used again.
    pub async fn get_with(
        &self,
        number: MessageNumber,
        object: ObjectId,
        scratch: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some((name, open)) = self.open(number.0).await else { return false };
        let start = out.len();
        let Some(piece) = open.segment.find(number.0, object) else { return false };
        match piece.read(self.content, scratch, out) {
            Ok(found) => found,
            Err(e) => {
                out.truncate(start);
                tracing::warn!(
                    account = %self.index.id(), segment = %name, error = %e,
                    "a damaged header segment; it is made again"
                );
                // If it stays, others will notice.
                let _ = self.index.remove_segment(self.content, name).await;
                self.index.derived.pieces.remove(&(self.index.id(), self.content, name));
                let mut state = self.lock();
                state.open.retain(|(open, _)| *open != name);
                state.worth.remove(&name);
                false
            }
        }
    }

    /// Releases all open segments.
    pub fn release(&self) {
        self.lock().open.clear();
    }

    /// The segment with that message, opened if it is worth it and there is memory.
    async fn open(&self, number: u32) -> Option<(SegmentName, Arc<Open>)> {
        let opened = self.lock().opened(number);
        if let Some((name, open)) = opened {
            return Some((name, open?));
        }
        let _opening = self.opening.lock().await;
        let (name, bytes) = {
            let state = self.lock();
            if let Some((name, open)) = state.opened(number) {
                return Some((name, open?));
            }
            state.segment_of(number)?
        };
        // Messages mostly come in order: the first one frees memory before the next one needs it.
        {
            let mut state = self.lock();
            let over = (state.open.len() + 1).saturating_sub(OPEN_SEGMENTS);
            state.open.drain(..over);
        }
        let mut opened = self.open_segment(name, bytes).await;
        if opened.is_none() && !self.lock().open.is_empty() {
            // There may be memory without the other one.
            self.release();
            opened = self.open_segment(name, bytes).await;
        }
        let opened = opened.map(Arc::new);
        let mut state = self.lock();
        state.open.push((name, opened.clone()));
        Some((name, opened?))
    }

    async fn open_segment(&self, name: SegmentName, bytes: u64) -> Option<Open> {
        let bytes = usize::try_from(bytes).ok()?;
        let acquire =
            |wanted| self.memory.try_acquire_large(wanted).filter(|permit| permit.bytes() >= wanted);
        let (cache, key) = (&self.index.derived.pieces, (self.index.id(), self.content, name));
        if let Some(segment) = cache.get(&key) {
            return Some(Open { _permit: acquire(segment.memory())?, segment });
        }
        let wanted = OPENING_FACTOR * bytes;
        let mut permit = acquire(wanted)?;
        let read = self.index.read_pieces(self.content, name).await.unwrap_or_else(|e| {
            tracing::debug!(account = %self.index.id(), error = %e, "a header segment was not read");
            None
        });
        let segment = Arc::new(read?);
        cache.put(self.index.id(), key, segment.clone(), segment.memory());
        permit.shrink(segment.memory().min(wanted));
        Some(Open { segment, _permit: permit })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The segment with that message, and its size, if it is worth reading.
    fn segment_of(&self, number: u32) -> Option<(SegmentName, u64)> {
        // Mostly it is the most recently used one.
        let open = self.open.iter().rev().map(|(name, _)| *name).find(|name| name.covers(number));
        let name =
            open.filter(|name| self.worth.contains_key(name)).or_else(|| self.known.covering(number))?;
        Some((name, *self.worth.get(&name)?))
    }

    /// The segment with that message, if it was opened, or could not be.
    fn opened(&self, number: u32) -> Option<Opened> {
        let (name, _) = self.segment_of(number)?;
        self.open.iter().find(|(open, _)| *open == name).cloned()
    }
}

impl Drop for PieceReads {
    /// A client that requested many uncovered messages does so again, or another one does.
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if state.uncovered >= WORTH_MESSAGES && Handle::try_current().is_ok() {
            self.index.extend_in_background(self.content);
        }
    }
}
