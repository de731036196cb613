//! Bringing the summaries of some messages together, in one block: from segments, each opened once,
//! and for the rest from what is stored with each message. Where much is missing, segments are made
//! on the way.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use sealpost_base::{Error, Result};
use tokio::sync::Semaphore;

use super::content::Content;
use super::known::Known;
use super::read_ahead::Reads;
use super::segment::{Found, Segment, SegmentName};
use super::segment_writer::{self, WORTH_MESSAGES};
use super::stream::Wanted;
use super::{Block, Entry, Parts, Sent, Summary};
use crate::Index;
use sealpost_account::Message;
use sealpost_account::MessageNumber;

/// Messages whose structure and text are read at once.
const AT_ONCE: usize = 8;
/// Sealed bytes of these; one message at least.
const AT_ONCE_BYTES: u64 = 256 * 1024;
/// A segment is made during a request if it needs at least this part of its messages.
const WANTED_PART: usize = 4;

/// Whether segments are to be made first: enough of the requested messages are in none.
pub(super) async fn builds(account: &Index, content: Content, wanted: &[Wanted]) -> bool {
    uncovered(&*known(account, content).await, wanted) * WANTED_PART >= WORTH_MESSAGES
}

/// The summaries of `wanted`, in order; as many as fit into a window, at least one if there is one.
/// Texts that no segment has are errors. If it `builds`, the memory for that is reserved
/// ([`Reads::begin_building`]), and released when segments are made.
pub(super) async fn gather(
    account: &Index,
    content: Content,
    wanted: &[Wanted],
    parts: Parts,
    builds: bool,
    reads: &mut Reads,
) -> Vec<Result<Summary>> {
    // Whether a segment is worth making depends on all that it would have.
    let wanted = if builds { wanted } else { &wanted[..wanted.len().min(reads.messages)] };
    let mut gathered = Gathered::new(content, wanted, reads.block(parts, wanted.len()), reads.window);
    let known = match builds {
        false => known(account, content).await,
        true => {
            // In this order, as everywhere: the holder of the lock waits for no memory.
            let _change = account.segment_list(content).change.lock().await;
            // Also what others made while this waited.
            let known = known(account, content).await;
            gathered.build_missing(account, &known).await;
            reads.end_building();
            known
        }
    };
    gathered.read_segments(account, &known, reads).await;
    if content == Content::Summaries {
        gathered.read_messages(account, reads).await;
    }
    gathered.finish(reads)
}

async fn known(account: &Index, content: Content) -> Arc<Known> {
    account.segments(content).await.unwrap_or_else(|e| {
        tracing::debug!(account = %account.id(), error = %e, "the segments of summaries cannot be listed");
        Arc::default()
    })
}

/// How many of them no segment covers.
fn uncovered(known: &Known, wanted: &[Wanted]) -> usize {
    let mut cover = Cover::new(known);
    wanted.iter().filter(|wanted| cover.of(wanted.number).is_none()).count()
}

/// Finds the segments of messages one after the other: mostly it is that of the one before.
struct Cover<'a> {
    known: &'a Known,
    last: Option<SegmentName>,
}

impl<'a> Cover<'a> {
    fn new(known: &'a Known) -> Self {
        Cover { known, last: None }
    }

    fn of(&mut self, number: MessageNumber) -> Option<SegmentName> {
        if !self.last.is_some_and(|segment| segment.covers(number.0)) {
            self.last = self.known.covering(number.0);
        }
        self.last
    }
}

/// What was found so far.
struct Gathered<'a> {
    content: Content,
    wanted: &'a [Wanted],
    /// The index in the block of each requested summary, if it was found.
    places: Vec<Option<Result<u32>>>,
    block: Block,
    bytes: usize,
    /// Those from here on are left for another window: there is no memory for them.
    end: usize,
}

impl<'a> Gathered<'a> {
    fn new(content: Content, wanted: &'a [Wanted], block: Block, bytes: usize) -> Self {
        let places = wanted.iter().map(|_| None).collect();
        Gathered { content, wanted, places, block, bytes, end: wanted.len() }
    }

    fn note(&mut self, at: usize, sent: Option<Sent>, complete: bool, parts: [&str; 3]) {
        if at > 0 && self.block.text.len() + self.block.bytes_of(parts) > self.bytes {
            self.end = self.end.min(at);
        }
        if at < self.end {
            self.places[at] = Some(Ok(self.block.entries.len() as u32));
            self.block.push(sent, complete, parts);
        }
    }

    fn note_entry(&mut self, at: usize, entry: Result<&Entry>) {
        match entry {
            Ok(entry) => self.note(at, entry.sent, entry.headers_complete, entry.parts()),
            Err(e) => self.places[at] = Some(Err(e)),
        }
    }

    /// Those that were not found yet and that fit into memory.
    fn missing(&self) -> impl Iterator<Item = (usize, Wanted)> + '_ {
        let places = self.places[..self.end].iter().enumerate();
        places.filter(|(_, place)| place.is_none()).map(|(at, _)| (at, self.wanted[at]))
    }

    /// Opens each segment that covers something missing, in the order in which they are first
    /// needed, and the next ones while the summaries of one are taken out.
    async fn read_segments(&mut self, account: &Index, known: &Known, reads: &mut Reads) {
        let mut members: HashMap<SegmentName, Vec<usize>> = HashMap::new();
        let mut order = Vec::new();
        let mut cover = Cover::new(known);
        for (at, wanted) in self.missing() {
            let Some(segment) = cover.of(wanted.number) else { continue };
            let members = members.entry(segment).or_insert_with(|| {
                order.push(segment);
                Vec::new()
            });
            members.push(at);
        }
        reads.keep(&order);
        for (at, name) in order.iter().enumerate() {
            let members = members.remove(name).unwrap_or_default();
            if members.first().is_none_or(|first| *first >= self.end) {
                continue;
            }
            reads.begin(account, self.content, self.block.parts, &order[at..]);
            if let Some(segment) = reads.take(*name).await {
                self.take(&segment, &members);
                if members.last().is_some_and(|last| *last >= self.end) {
                    // The next window begins within it.
                    reads.put_back(*name, segment);
                }
            }
        }
    }

    fn take(&mut self, segment: &Segment, members: &[usize]) {
        for &at in members {
            if at >= self.end {
                return;
            }
            let Wanted { number, object, .. } = self.wanted[at];
            match segment.find(number.0, object) {
                Some(Found::Summary(sent, complete, parts)) => self.note(at, sent, complete, parts),
                Some(Found::Elsewhere(signature))
                    if self.content == Content::Texts && !signature.is_empty() =>
                {
                    self.note(at, None, false, ["", "", signature]);
                }
                _ => {}
            }
        }
    }

    /// Makes segments where the request needs most of their messages anyway.
    async fn build_missing(&mut self, account: &Index, known: &Known) {
        let mut missing: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        let mut cover = Cover::new(known);
        for (at, wanted) in self.missing() {
            if cover.of(wanted.number).is_none() {
                missing.entry(wanted.number.0).or_default().push(at);
            }
        }
        while let Some((&first, _)) = missing.first_key_value() {
            let (messages, worth) = segment_writer::uncovered(&account.state(), known, first);
            let (Some(&(from, _)), Some(&(to, _))) = (messages.first(), messages.last()) else { return };
            let after = to.checked_add(1).map(|after| missing.split_off(&after)).unwrap_or_default();
            let here = std::mem::replace(&mut missing, after);
            let asked = here.range(from..).count();
            // Copies of few messages cost as much as many messages, in every request.
            let placements: usize = here.range(from..).map(|(_, places)| places.len()).sum();
            let worth = worth || placements >= WORTH_MESSAGES;
            if !worth || asked * WANTED_PART < messages.len() {
                continue;
            }
            let built = account.build(self.content, messages, |number, object, entry| {
                let entry = entry.as_ref().map_err(again);
                for &at in here.get(&number).into_iter().flatten() {
                    if self.wanted[at].object == object && at < self.end {
                        self.note_entry(at, entry.as_ref().copied().map_err(again));
                    }
                }
            });
            if let Err(e) = built.await {
                tracing::debug!(account = %account.id(), error = %e, "summaries were not stored");
            }
        }
    }

    /// Reads what is left from what is stored with each message: several at once, but what comes
    /// out of them one at a time, in the memory of the segments. A header may be a thousand times
    /// as long as what is stored of it.
    async fn read_messages(&mut self, account: &Index, reads: &mut Reads) {
        let missing: Vec<_> = self.missing().collect();
        if !missing.is_empty() {
            reads.keep(&[]);
        }
        let mut missing = missing.into_iter().map(|(at, wanted)| (at, message(account, wanted))).peekable();
        let limit = &Semaphore::new(1);
        while missing.peek().is_some_and(|(at, _)| *at < self.end) {
            let (mut entries, mut bytes) = (FuturesUnordered::new(), 0);
            while let Some((at, message)) = missing.next_if(|(_, message)| {
                bytes += message.as_ref().map_or(0, |m| m.layout.structure_and_text_bytes());
                entries.is_empty() || entries.len() < AT_ONCE && bytes <= AT_ONCE_BYTES
            }) {
                entries.push(async move {
                    match message {
                        Ok(message) => (at, account.make_summary(&message, limit).await),
                        Err(e) => (at, (Err(e), None)),
                    }
                });
            }
            while let Some((at, (entry, _turn))) = entries.next().await {
                if at < self.end {
                    self.note_entry(at, entry.as_deref().map_err(again));
                }
            }
        }
    }

    fn finish(self, reads: &mut Reads) -> Vec<Result<Summary>> {
        reads.learn(self.block.entries.len(), self.end, self.block.text.len());
        let block = reads.share(self.block);
        let missing = || Err(Error::not_found("no segment has it"));
        let places = self.places.into_iter().take(self.end).map(|place| place.unwrap_or_else(missing));
        places.map(|at| at.map(|at| Summary { block: block.clone(), at })).collect()
    }
}

fn message(account: &Index, wanted: Wanted) -> Result<Message> {
    let message = account.state().message(wanted.number).filter(|m| m.object == wanted.object);
    message.ok_or_else(|| Error::not_found("the message is gone"))
}

/// The same error for another caller.
fn again(e: &Error) -> Error {
    Error::new(e.kind(), e.to_string())
}
