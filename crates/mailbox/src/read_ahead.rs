//! Reads many messages in order: while a protocol responds with one, other tasks read and open the next ones.
//!
//! Small messages are read in groups: one store request, one wake-up. Of a message in one chunk every part is
//! read as the whole, since a chunk can only be opened as a whole.
//!
//! Bytes and structures acquire memory from the account's share of the budget. A session waits for budget
//! only while it holds none: read-ahead takes free memory or does not happen. So sessions never deadlock.
//!
//! The size of a structure is unknown until it is opened. The reader acquires [`SMALL_STRUCTURE`] for each
//! beforehand, and any excess afterwards without waiting. If the excess is not free, it drops the structure.
//! When that message is next, the reader also drops everything that it has read ahead, and reads the message
//! again with the most memory that a request may have. Large structures use only a part of the share, so that
//! stalled clients leave memory for others.

mod prepare;

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, MaybeDone, maybe_done};
use sealpost_account::{Account, Message, MessageNumber};
use sealpost_base::{Budget, Permit, Result, limits};
use sealpost_index::{PackReads, PieceReads};
use sealpost_mime::Outline;
use sealpost_vault::message::{MessageReader, READER_BYTES};
use tokio::task::JoinHandle;

use crate::memory::unless_pressed;
use prepare::{Sources, prepare};

pub use prepare::FoundStructure;

/// Small messages whose bytes are read ahead, at most.
const AHEAD_MESSAGES: usize = 12;
/// Memory for bytes that are read ahead, in bytes.
const AHEAD_BYTES: usize = 3 * READER_BYTES;
/// Messages of a local store whose bytes are read together: one request, one search in an index of the store,
/// and one wake-up for so many.
const LOCAL_GROUP_MESSAGES: usize = 32;
/// Total size of messages that are read together, in bytes; at least one message.
const MESSAGE_GROUP_BYTES: u64 = 512 * 1024;
/// If memory is scarce, the divisor of the account's read memory for one group; a pack fits beside it.
const GROUP_PART: u64 = 16;
/// Memory acquired for a structure and its output before it is read, in bytes.
const SMALL_STRUCTURE: usize = 8 * 1024;
/// The same if only the places of sections are needed.
const SMALL_OUTLINE: usize = 1024;
/// Memory for a structure and its output, per byte of the structure.
const STRUCTURE_FACTOR: usize = 2;
/// Memory for the largest structure, opened and written, in bytes.
const LARGEST_STRUCTURE: usize = 8 * limits::STRUCTURE_BYTES;
/// Groups of messages whose structures are read ahead.
const AHEAD_GROUPS: usize = 4;
/// Messages of one group.
const GROUP_MESSAGES: usize = 16;
/// Sealed structures of one group, in bytes; at least one message.
const GROUP_BYTES: u64 = 16 * 1024;

/// What to read of messages, and how a protocol opens them.
pub trait ReadPlan: Send + Sync + 'static {
    /// The opened form of a message, such as its first bytes.
    type Opened: Send + 'static;

    /// Whether it reads structures for their content.
    fn reads_structure(&self) -> bool;

    /// Whether it must locate sections of messages.
    fn reads_outline(&self) -> bool;

    /// Whether all sections that it must locate are the header or the body of the message itself. They are
    /// located in the bytes of a message that is read whole, and its structure is not read for them.
    fn locates_in_bytes(&self) -> bool;

    /// Whether it reads bytes of messages.
    fn reads_bytes(&self) -> bool;

    /// Whether the first read of a message is its whole content, without a structure.
    fn begins_with_all(&self) -> bool;

    /// Whether it reads bytes of a message with that outline without decoding.
    fn reads_bytes_of(&self, outline: &Outline) -> bool;

    /// Whether it decodes transfer encodings, which reads a message more than once.
    fn decodes(&self) -> bool;

    /// Opens a message. `whole` is its content if the group has read it; `outline` is present if the plan
    /// needs it.
    fn open(
        &self,
        source: MessageSource,
        whole: Option<Vec<Bytes>>,
        outline: Option<Result<Outline>>,
    ) -> impl Future<Output = Self::Opened> + Send;
}

/// Memory that a plan acquires for the structure of a message before reading it.
fn drawn_for_structure(plan: &impl ReadPlan) -> usize {
    match (plan.reads_structure(), plan.reads_outline()) {
        (true, _) => SMALL_STRUCTURE,
        (false, true) => SMALL_OUTLINE,
        (false, false) => 0,
    }
}

/// A message to read, with the protocol's data about it.
pub trait MessageRow: Clone + Send + Sync + 'static {
    /// Its number in the account.
    fn number(&self) -> MessageNumber;

    /// Where it is stored.
    fn message(&self) -> &Message;
}

/// Access to a message.
pub struct MessageSource {
    /// The account that has it.
    pub account: Arc<Account>,
    /// Its bytes.
    pub reader: MessageReader,
    /// Where it is stored.
    pub message: Message,
}

/// A message with everything that the response needs, as far as it could be read.
pub struct Prepared<R, T> {
    /// The message.
    pub row: R,
    /// Its structure, if the plan reads it.
    pub structure: Option<Result<FoundStructure>>,
    /// The opened form, from the plan.
    pub opened: T,
    _permits: (Option<Arc<Permit>>, Option<Permit>),
}

/// Why a message could not be prepared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadError {
    /// There is no memory to read it, and others wait for account memory.
    NoMemory,
    /// The task that read it ended: the server stops, or there is a bug in Sealpost.
    Ended,
}

/// Reads messages in order.
pub struct ReadAhead<R, P: ReadPlan> {
    account: Arc<Account>,
    plan: Arc<P>,
    packs: Arc<PackReads>,
    structures: Arc<PieceReads>,
    budget: Budget,
    /// Total size of messages that are read together, in bytes.
    group_bytes: u64,
    waiting: VecDeque<R>,
    running: VecDeque<Running<R, P>>,
    ready: VecDeque<Outcome<R, P>>,
}

/// A message that was read, or whose structure did not fit into memory.
enum Outcome<R, P: ReadPlan> {
    Prepared(Prepared<R, P::Opened>),
    Crowded(R),
}

type Outcomes<R, P> = Vec<Outcome<R, P>>;

struct Running<R, P: ReadPlan> {
    work: Work<R, P>,
    cost: usize,
    /// The messages that it reads.
    rows: Vec<R>,
}

enum Work<R, P: ReadPlan> {
    /// A task of its own: several reads in sequence.
    Task(Task<R, P>),
    /// A single read in progress.
    Read(Box<MaybeDone<BoxFuture<'static, Outcomes<R, P>>>>),
}

/// A task that ends when its reader is dropped.
struct Task<R, P: ReadPlan>(JoinHandle<Outcomes<R, P>>);

impl<R, P: ReadPlan> Drop for Task<R, P> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<R: MessageRow, P: ReadPlan> ReadAhead<R, P> {
    /// A reader for that account and plan. It reads nothing before messages are added ([`ReadAhead::push`]).
    pub fn new(
        account: Arc<Account>,
        plan: Arc<P>,
        packs: Arc<PackReads>,
        structures: Arc<PieceReads>,
    ) -> Self {
        let budget = account.reading().clone();
        let (waiting, running, ready) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
        let group_bytes = MESSAGE_GROUP_BYTES.min(budget.total() as u64 / GROUP_PART);
        ReadAhead { account, plan, packs, structures, budget, group_bytes, waiting, running, ready }
    }

    /// Adds messages behind those not yet read.
    pub fn push(&mut self, rows: Vec<R>) {
        self.waiting.extend(rows);
    }

    /// The number of messages that were added and not taken.
    pub fn len(&self) -> usize {
        let running = self.running.iter().map(|running| running.rows.len());
        self.waiting.len() + running.sum::<usize>() + self.ready.len()
    }

    /// Whether all messages were taken.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The added messages whose reading has not begun.
    pub fn waiting(&self) -> impl Iterator<Item = &R> {
        self.waiting.iter()
    }

    /// The next message. Drop it before the next call.
    ///
    /// # Errors
    /// [`ReadError`]; an unreadable message carries its own error.
    pub async fn next(&mut self) -> Result<Option<Prepared<R, P::Opened>>, ReadError> {
        loop {
            self.read_ahead();
            match self.ready.pop_front() {
                Some(Outcome::Prepared(prepared)) => return Ok(Some(prepared)),
                Some(Outcome::Crowded(row)) => return self.again(row).await.map(Some),
                None => {}
            }
            let prepared = match self.running.pop_front() {
                Some(Running { work: Work::Task(mut task), .. }) => match (&mut task.0).await {
                    Ok(prepared) => prepared,
                    Err(error) => {
                        tracing::error!(%error, "a task that reads messages ended");
                        return Err(ReadError::Ended);
                    }
                },
                Some(Running { work: Work::Read(mut read), .. }) => {
                    (&mut *read).await;
                    Pin::new(&mut *read).take_output().unwrap_or_default()
                }
                None => {
                    let Some(next) = self.waiting.front() else { return Ok(None) };
                    let (next, mut len) = (next.number(), self.group_len());
                    let mut permit = self.budget.try_acquire(self.cost(len));
                    // Read fewer messages together rather than close open packs and segments.
                    while permit.is_none() && len > 1 {
                        len /= 2;
                        permit = self.budget.try_acquire(self.cost(len));
                    }
                    if !self.packs.has_memory(next) {
                        // Without its pack each message is a request of its own; a segment is one or two.
                        self.structures.release();
                    }
                    self.packs.free_memory(next);
                    if permit.is_none() && !self.plan.reads_bytes() {
                        // A small structure is always available, whatever memory other readers of the account
                        // hold.
                        let one = self.waiting.pop_front().into_iter().collect();
                        self.prepare(one, None, true).await
                    } else {
                        let permit = match permit {
                            Some(permit) => permit,
                            None => self.acquire(self.cost(len)).await?,
                        };
                        let group = self.group(len);
                        self.prepare(group, Some(permit), true).await
                    }
                }
            };
            self.ready.extend(prepared);
        }
    }

    /// Acquires memory for the next message. If necessary closes open segments and packs, segments first:
    /// they take fewer requests to open again.
    async fn acquire(&mut self, cost: usize) -> Result<Permit, ReadError> {
        self.structures.release();
        if let Some(permit) = self.budget.try_acquire(cost) {
            return Ok(permit);
        }
        // A reader that holds memory must not wait for more.
        self.packs.release();
        acquire(&self.account, &self.budget, cost).await
    }

    fn read_ahead(&mut self) {
        let most = if self.plan.reads_bytes() { AHEAD_MESSAGES } else { AHEAD_GROUPS };
        while self.running.len() < most && !self.waiting.is_empty() {
            let len = self.group_len();
            let cost = self.cost(len);
            let ahead: usize = self.running.iter().map(|running| running.cost).sum();
            if self.plan.reads_bytes() && ahead + cost > AHEAD_BYTES {
                return;
            }
            let Some(permit) = self.budget.try_acquire(cost) else { return };
            if self.waiting.front().is_some_and(|next| !self.packs.has_memory(next.number())) {
                // Memory becomes free when the messages from another pack have been sent.
                return;
            }
            let group = self.group(len);
            let is_one_read = self.plan.begins_with_all() || self.is_one_read(&group);
            let rows = group.clone();
            let prepared = self.prepare(group, Some(permit), true);
            let work = if is_one_read {
                let mut read = Box::new(maybe_done(prepared.boxed()));
                // Sends the request to the store. No task is woken for the reply until one waits for it.
                let _ = (&mut *read).now_or_never();
                Work::Read(read)
            } else {
                Work::Task(Task(tokio::spawn(prepared)))
            };
            self.running.push_back(Running { work, cost, rows });
        }
    }

    /// How many of the next messages to prepare together: small ones of one pack that are needed whole, or
    /// several whose structures are read; otherwise one.
    fn group_len(&self) -> usize {
        let (mut len, mut bytes) = (0, 0);
        let together = match self.plan.reads_bytes() && !self.account.store().wants_packs() {
            true => LOCAL_GROUP_MESSAGES,
            false => GROUP_MESSAGES,
        };
        let Some(first) = self.waiting.front().map(MessageRow::number) else { return 0 };
        for row in &self.waiting {
            let (more, most) = match self.plan.reads_bytes() {
                false => (u64::from(row.message().layout.sealed_structure), GROUP_BYTES),
                true if self.plan.begins_with_all() => (row.message().size(), self.group_bytes),
                true if is_one_chunk(row.message()) => (row.message().size(), self.group_bytes),
                true => return len.max(1),
            };
            bytes += more;
            let full = len >= together || bytes > most || !self.packs.are_together(first, row.number());
            if len > 0 && full {
                break;
            }
            len += 1;
        }
        len
    }

    /// Whether one store request returns the parts of these messages: everything that it depends on is in
    /// memory.
    fn is_one_read(&self, group: &[R]) -> bool {
        let is_ready = |row: &R| {
            let open = !reads_stored(&*self.plan, row.message()) || self.structures.is_open(row.number());
            is_one_chunk(row.message()) && open
        };
        self.plan.reads_bytes()
            && !self.plan.decodes()
            && !self.account.store().wants_packs()
            && group.iter().all(is_ready)
    }

    fn group(&mut self, len: usize) -> Vec<R> {
        self.waiting.drain(..len).collect()
    }

    /// Memory for reading the next `len` messages, if their structures are small.
    fn cost(&self, len: usize) -> usize {
        let structure = drawn_for_structure(&*self.plan);
        let bytes = |row: &R| match self.plan.reads_bytes() {
            true => {
                let small = row.message().size().saturating_mul(2).saturating_add(4096);
                usize::try_from(small).unwrap_or(READER_BYTES).min(READER_BYTES)
            }
            false => 0,
        };
        self.waiting.iter().take(len).map(|row| structure + bytes(row)).sum()
    }

    /// Reads a message again, with memory for its structure. Drops everything that was read ahead, to be read
    /// again later.
    async fn again(&mut self, first: R) -> Result<Prepared<R, P::Opened>, ReadError> {
        let mut rows = vec![first];
        rows.extend(self.ready.drain(..).map(|outcome| match outcome {
            Outcome::Prepared(Prepared { row, .. }) | Outcome::Crowded(row) => row,
        }));
        rows.extend(self.running.drain(..).flat_map(|running| running.rows));
        for row in rows.into_iter().rev() {
            self.waiting.push_front(row);
        }
        self.packs.release();
        self.structures.release();
        let most = LARGEST_STRUCTURE + READER_BYTES;
        let permit = acquire(&self.account, self.account.reading_much(), most).await?;
        let group = self.waiting.pop_front().into_iter().collect();
        match self.prepare(group, Some(permit), false).await.pop() {
            Some(Outcome::Prepared(prepared)) => Ok(prepared),
            _ => Err(ReadError::Ended),
        }
    }

    /// Reads a group, with memory for it; if `weighed`, leaves out structures that need more.
    fn prepare(
        &self,
        group: Vec<R>,
        permit: Option<Permit>,
        weighed: bool,
    ) -> impl Future<Output = Outcomes<R, P>> + Send + use<R, P> {
        let budget = weighed.then(|| self.account.reading_much().clone());
        let sources = Sources { packs: self.packs.clone(), structures: self.structures.clone() };
        prepare(self.account.clone(), self.plan.clone(), sources, group, permit, budget)
    }
}

/// Waits for memory. Gives up soon if others wait for account memory, since this reader holds a loaded
/// account.
async fn acquire(account: &Account, budget: &Budget, bytes: usize) -> Result<Permit, ReadError> {
    unless_pressed(|| account.is_pressure_severe(), budget.acquire(bytes)).await.ok_or(ReadError::NoMemory)
}

/// Whether the plan reads the stored structure of the message, for its content or to locate sections.
pub fn reads_stored(plan: &impl ReadPlan, message: &Message) -> bool {
    plan.reads_structure() || locates_by_outline(plan, message)
}

/// Whether the plan locates sections of the message by its stored outline.
fn locates_by_outline(plan: &impl ReadPlan, message: &Message) -> bool {
    plan.reads_outline() && !(plan.locates_in_bytes() && is_one_chunk(message))
}

/// Whether a message is a single chunk, which every read opens as a whole.
fn is_one_chunk(message: &Message) -> bool {
    message.size() <= limits::CHUNK_BYTES as u64
}
