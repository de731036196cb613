//! Reading many messages in order: while a protocol answers for one, the next ones are read and
//! opened by other tasks.
//!
//! Small messages are read a group at a time: one question to the store, one wake-up. Of a message
//! in one chunk, any part is read as the whole, since a chunk is opened whole.
//!
//! Bytes and structures draw from the account's share of the budget. A session waits for budget
//! only while it holds none: reading ahead takes what is free and otherwise does not happen, so
//! that sessions never wait for each other in a circle.
//!
//! How large a structure is shows when it is opened. [`SMALL_STRUCTURE`] is acquired for each
//! before, and what it takes beyond that at once, if it is free. If it is not, the structure is
//! dropped. When its message is next, everything that was read ahead is dropped too, and the
//! message is read once more with as much as a request may have. What large structures take is a
//! share of the share, so that clients that do not read leave memory for others.

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

/// Messages whose bytes are read ahead, if they are small.
const AHEAD_MESSAGES: usize = 12;
/// Memory for bytes that are read ahead, in bytes.
const AHEAD_BYTES: usize = 3 * READER_BYTES;
/// Bytes of messages that are read together, in bytes; one message at least.
const MESSAGE_GROUP_BYTES: u64 = 512 * 1024;
/// Where memory is scarce, the part of what the account may read that they are: beside them a pack has room.
const GROUP_PART: u64 = 16;
/// Memory for a structure and what is written of it, in bytes, drawn before it is read.
const SMALL_STRUCTURE: usize = 8 * 1024;
/// The same where only the places of sections are needed.
const SMALL_OUTLINE: usize = 1024;
/// Memory for a structure and what is written of it, for each byte of the structure.
const STRUCTURE_FACTOR: usize = 2;
/// Memory for the largest structure, as it is opened and written.
const LARGEST_STRUCTURE: usize = 8 * limits::STRUCTURE_BYTES;
/// Groups of messages whose structures are read ahead.
const AHEAD_GROUPS: usize = 4;
/// Messages of one group.
const GROUP_MESSAGES: usize = 16;
/// Sealed structures of one group, in bytes; one message at least.
const GROUP_BYTES: u64 = 16 * 1024;

/// What is read of messages, and as what a protocol opens them.
pub trait ReadPlan: Send + Sync + 'static {
    /// What a message is opened as: with its first bytes, say.
    type Opened: Send + 'static;

    /// Whether structures are read for what they say of messages.
    fn reads_structure(&self) -> bool;

    /// Whether sections of messages have to be found.
    fn reads_outline(&self) -> bool;

    /// Whether bytes of messages are read.
    fn reads_bytes(&self) -> bool;

    /// Whether the first thing that is read of a message is all of it, and no structure.
    fn begins_with_all(&self) -> bool;

    /// Whether bytes of a message with that outline are read as they are, whichever.
    fn reads_bytes_of(&self, outline: &Outline) -> bool;

    /// Whether transfer encodings are undone, for which a message is read more than once.
    fn decodes(&self) -> bool;

    /// Opens a message. `whole` is all of it, if it was read in a group; `outline` was read if the
    /// plan needs it.
    fn open(
        &self,
        source: MessageSource,
        whole: Option<Vec<Bytes>>,
        outline: Option<Result<Outline>>,
    ) -> impl Future<Output = Self::Opened> + Send;
}

/// Memory that is drawn for the structure of a message before it is read, by that plan.
fn drawn_for_structure(plan: &impl ReadPlan) -> usize {
    match (plan.reads_structure(), plan.reads_outline()) {
        (true, _) => SMALL_STRUCTURE,
        (false, true) => SMALL_OUTLINE,
        (false, false) => 0,
    }
}

/// A message that is to be read, with what a protocol knows of it.
pub trait MessageRow: Clone + Send + Sync + 'static {
    /// Its number in the account.
    fn number(&self) -> MessageNumber;

    /// Where it is stored.
    fn message(&self) -> &Message;
}

/// What a message is read from.
pub struct MessageSource {
    /// The account that it is in.
    pub account: Arc<Account>,
    /// Its bytes.
    pub reader: MessageReader,
    /// Where it is stored.
    pub message: Message,
}

/// A message with what is needed to answer, as far as it could be read.
pub struct Prepared<R, T> {
    /// The message.
    pub row: R,
    /// Its structure, if the plan reads it.
    pub structure: Option<Result<FoundStructure>>,
    /// What the plan opened it as.
    pub opened: T,
    _permits: (Option<Arc<Permit>>, Option<Permit>),
}

/// Why a message could not be prepared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadError {
    /// There is no memory to read it with, and others wait for the memory of accounts.
    NoMemory,
    /// The task that read it ended: the program stops, or has a mistake.
    Ended,
}

/// Reads messages in order.
pub struct ReadAhead<R, P: ReadPlan> {
    account: Arc<Account>,
    plan: Arc<P>,
    packs: Arc<PackReads>,
    structures: Arc<PieceReads>,
    budget: Budget,
    /// Bytes of messages that are read together.
    group_bytes: u64,
    waiting: VecDeque<R>,
    running: VecDeque<Running<R, P>>,
    ready: VecDeque<Outcome<R, P>>,
}

/// A message that was read, or for whose structure there was no memory.
enum Outcome<R, P: ReadPlan> {
    Prepared(Prepared<R, P::Opened>),
    Crowded(R),
}

type Outcomes<R, P> = Vec<Outcome<R, P>>;

struct Running<R, P: ReadPlan> {
    work: Work<R, P>,
    cost: usize,
    /// What it reads.
    rows: Vec<R>,
}

enum Work<R, P: ReadPlan> {
    /// Runs by itself: several reads one after the other.
    Task(Task<R, P>),
    /// One read that has begun.
    Read(Box<MaybeDone<BoxFuture<'static, Outcomes<R, P>>>>),
}

/// A task that ends with its reader.
struct Task<R, P: ReadPlan>(JoinHandle<Outcomes<R, P>>);

impl<R, P: ReadPlan> Drop for Task<R, P> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<R: MessageRow, P: ReadPlan> ReadAhead<R, P> {
    /// Of that account, by that plan. Reads nothing before there are messages
    /// ([`ReadAhead::push`]).
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

    /// These messages come behind those that are not read yet.
    pub fn push(&mut self, rows: Vec<R>) {
        self.waiting.extend(rows);
    }

    /// Messages that were pushed and not taken.
    pub fn len(&self) -> usize {
        let running = self.running.iter().map(|running| running.rows.len());
        self.waiting.len() + running.sum::<usize>() + self.ready.len()
    }

    /// Whether all messages were taken.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The numbers of the messages that were pushed and whose reading has not begun.
    pub fn waiting(&self) -> impl Iterator<Item = MessageNumber> {
        self.waiting.iter().map(MessageRow::number)
    }

    /// The next message. Drop it before asking for another one.
    ///
    /// # Errors
    /// [`ReadError`]; an unreadable message has an error of its own.
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
                    // Fewer at once rather than to open packs and segments again.
                    while permit.is_none() && len > 1 {
                        len /= 2;
                        permit = self.budget.try_acquire(self.cost(len));
                    }
                    if !self.packs.has_room(next) {
                        // Without its pack each message is a request of its own; a segment is one or two.
                        self.structures.release();
                    }
                    self.packs.make_room(next);
                    if permit.is_none() && !self.plan.reads_bytes() {
                        // A small structure is available at once, whatever memory others of the
                        // account hold.
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

    /// Memory for the next message. Open segments and packs make room for it, segments first: they
    /// take fewer requests to open again.
    async fn acquire(&mut self, cost: usize) -> Result<Permit, ReadError> {
        self.structures.release();
        if let Some(permit) = self.budget.try_acquire(cost) {
            return Ok(permit);
        }
        // A reader that holds memory never waits for more.
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
            if self.waiting.front().is_some_and(|next| !self.packs.has_room(next.number())) {
                // There will be when what was read of another pack is sent.
                return;
            }
            let group = self.group(len);
            let is_one_read = self.plan.begins_with_all() || self.is_one_read(&group);
            let rows = group.clone();
            let prepared = self.prepare(group, Some(permit), true);
            let work = if is_one_read {
                let mut read = Box::new(maybe_done(prepared.boxed()));
                // Sends the request to the store. No task is woken for the reply before it waits
                // for it.
                let _ = (&mut *read).now_or_never();
                Work::Read(read)
            } else {
                Work::Task(Task(tokio::spawn(prepared)))
            };
            self.running.push_back(Running { work, cost, rows });
        }
    }

    /// How many of the next messages are prepared together: small ones of one pack that are wanted
    /// whole, or some whose structures are read; else one.
    fn group_len(&self) -> usize {
        let (mut len, mut bytes) = (0, 0);
        let Some(first) = self.waiting.front().map(MessageRow::number) else { return 0 };
        for row in &self.waiting {
            let (more, most) = match self.plan.reads_bytes() {
                false => (u64::from(row.message().layout.sealed_structure), GROUP_BYTES),
                true if self.plan.begins_with_all() => (row.message().size(), self.group_bytes),
                true if is_one_chunk(row.message()) => (row.message().size(), self.group_bytes),
                true => return len.max(1),
            };
            bytes += more;
            let full = len >= GROUP_MESSAGES || bytes > most || !self.packs.are_together(first, row.number());
            if len > 0 && full {
                break;
            }
            len += 1;
        }
        len
    }

    /// Whether parts of those messages are had by one question to the store: what is in the way of
    /// it is in memory.
    fn is_one_read(&self, group: &[R]) -> bool {
        let is_ready = |row: &R| is_one_chunk(row.message()) && self.structures.is_open(row.number());
        self.plan.reads_bytes()
            && !self.plan.decodes()
            && !self.account.store().wants_packs()
            && group.iter().all(is_ready)
    }

    fn group(&mut self, len: usize) -> Vec<R> {
        self.waiting.drain(..len).collect()
    }

    /// Memory that reading the next so many messages takes, if their structures are small.
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

    /// Reads a message again, with memory for its structure. Everything that was read ahead is
    /// dropped, and read again later.
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

    /// Reads a group, with memory for it; if `weighed`, without structures that take more.
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

/// Waits for memory, and not for long while others wait for the memory of accounts, of which this
/// reader holds one.
async fn acquire(account: &Account, budget: &Budget, bytes: usize) -> Result<Permit, ReadError> {
    unless_pressed(|| account.is_pressure_severe(), budget.acquire(bytes)).await.ok_or(ReadError::NoMemory)
}

/// Whether a message is one chunk, which is opened whole for any request.
fn is_one_chunk(message: &Message) -> bool {
    message.size() <= limits::CHUNK_BYTES as u64
}
