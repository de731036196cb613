//! Reading ahead: while one message is sent, the next ones are read and opened by other threads.
//!
//! Messages that are wanted whole and are small are read a group at a time: one question to the store, one waking.
//!
//! Octets and structures draw from the account's share of the budget. A session waits for budget only while it holds none: reading ahead takes
//! what is free and otherwise does not happen, so that sessions never wait for each other in a circle.
//!
//! How large a structure is shows when it is opened: [`SMALL_STRUCTURE`] is drawn for each before, and what it takes beyond that at once, if it
//! is free. If it is not, the structure is let go of; when its message is next, everything that was read ahead is let go of too, and
//! it is read once more with as much as a request may have. What is drawn for large ones is a share of the share, so that those whose
//! clients do not read them leave room for what others read.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, MaybeDone, join_all, maybe_done};
use sealpost_account::{Account, PackReads};
use sealpost_base::{Budget, Permit, Result, limits};
use sealpost_imap::types::Code;
use sealpost_mailbox::memory::unless_pressed;
use sealpost_mime::Structure;
use sealpost_vault::message::{MessageReader, READER_BYTES};
use tokio::task::JoinHandle;

use super::FetchRow;
use super::items::Plan;
use super::octets::{Opened, Reads};
use crate::imap::connection::End;
use crate::imap::reply::{Failure, Reply};

/// Messages whose octets are read ahead, if they are small.
const AHEAD_OCTETS: usize = 12;
/// Memory for octets that are read ahead, in bytes.
const AHEAD_BYTES: usize = 3 * READER_BYTES;
/// Octets of messages that are read together, in bytes; one message at least.
const GROUP_OCTETS: u64 = 512 * 1024;
/// Where memory is scarce, the part of what the account may read that they are: beside them a pack has room.
const GROUP_PART: u64 = 16;
/// Memory for a structure and what is written of it, in bytes, drawn before it is read.
const SMALL_STRUCTURE: usize = 8 * 1024;
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

/// A message with what is needed to answer, as far as it could be read.
pub(super) struct Prepared {
    pub(super) row: FetchRow,
    /// Its structure, if the plan needs one.
    pub(super) structure: Option<Result<Arc<Structure>>>,
    /// The first octets that the plan asks for.
    pub(super) first: Option<Result<Opened>>,
    pub(super) reads: Reads,
    /// There was no memory for the structure, which has to be read again.
    crowded: bool,
    _permits: (Option<Arc<Permit>>, Option<Permit>),
}

/// Prepares messages in order.
pub(super) struct Pipeline {
    account: Arc<Account>,
    plan: Arc<Plan>,
    packs: Arc<PackReads>,
    budget: Budget,
    /// Octets of messages that are read together.
    group_octets: u64,
    waiting: VecDeque<FetchRow>,
    running: VecDeque<Running>,
    ready: VecDeque<Prepared>,
}

struct Running {
    work: Work,
    cost: usize,
    /// What it reads.
    rows: Vec<FetchRow>,
}

enum Work {
    /// Goes on by itself: several reads one after the other.
    Task(Task),
    /// One read that has begun.
    Read(Box<MaybeDone<BoxFuture<'static, Vec<Prepared>>>>),
}

/// A task that ends with whoever waits for it.
struct Task(JoinHandle<Vec<Prepared>>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Pipeline {
    pub(super) fn new(
        account: Arc<Account>,
        plan: Arc<Plan>,
        packs: Arc<PackReads>,
        rows: Vec<FetchRow>,
    ) -> Self {
        let budget = account.reading().clone();
        let (running, ready) = (VecDeque::new(), VecDeque::new());
        let group_octets = GROUP_OCTETS.min(budget.total() as u64 / GROUP_PART);
        Pipeline { account, plan, packs, budget, group_octets, waiting: rows.into(), running, ready }
    }

    /// The next message. Drop it before asking for another one.
    ///
    /// # Errors
    /// `NO [UNAVAILABLE]` if there is no memory to read it with while others wait for the account's room.
    pub(super) async fn next(&mut self) -> Result<Option<Prepared>, Failure> {
        loop {
            self.read_ahead();
            if let Some(prepared) = self.ready.pop_front() {
                return Ok(Some(if prepared.crowded { self.again(prepared).await? } else { prepared }));
            }
            let prepared = match self.running.pop_front() {
                Some(Running { work: Work::Task(mut task), .. }) => match (&mut task.0).await {
                    Ok(prepared) => prepared,
                    Err(error) => {
                        tracing::error!(%error, "a task that reads messages ended");
                        return Err(End::Broken.into());
                    }
                },
                Some(Running { work: Work::Read(mut read), .. }) => {
                    (&mut *read).await;
                    Pin::new(&mut *read).take_output().unwrap_or_default()
                }
                None => {
                    let Some(next) = self.waiting.front() else { return Ok(None) };
                    let (next, len) = (next.number, self.group_len());
                    let cost = self.cost(len);
                    let permit = self.budget.try_acquire(cost);
                    self.packs.make_room(next);
                    if permit.is_none() && !self.plan.reads_octets() {
                        // A small structure is had at once, whatever others of the account hold.
                        let one = self.waiting.pop_front().into_iter().collect();
                        self.prepare(one, None, true).await
                    } else {
                        let permit = match permit {
                            Some(permit) => permit,
                            None => {
                                // Nobody waits for memory who holds some.
                                self.packs.release();
                                draw(&self.account, &self.budget, cost).await?
                            }
                        };
                        let group = self.group(len);
                        self.prepare(group, Some(permit), true).await
                    }
                }
            };
            self.ready.extend(prepared);
        }
    }

    fn read_ahead(&mut self) {
        let most = if self.plan.reads_octets() { AHEAD_OCTETS } else { AHEAD_GROUPS };
        while self.running.len() < most && !self.waiting.is_empty() {
            let len = self.group_len();
            let cost = self.cost(len);
            let ahead: usize = self.running.iter().map(|running| running.cost).sum();
            if self.plan.reads_octets() && ahead + cost > AHEAD_BYTES {
                return;
            }
            let Some(permit) = self.budget.try_acquire(cost) else { return };
            if self.waiting.front().is_some_and(|next| !self.packs.has_room(next.number)) {
                // There will be when what was read of another pack is sent.
                return;
            }
            let group = self.group(len);
            let rows = group.clone();
            let prepared = self.prepare(group, Some(permit), true);
            let work = if self.plan.begins_with_all() {
                let mut read = Box::new(maybe_done(prepared.boxed()));
                // Asks the store. Nobody is woken for the answer before it is waited for.
                let _ = (&mut *read).now_or_never();
                Work::Read(read)
            } else {
                Work::Task(Task(tokio::spawn(prepared)))
            };
            self.running.push_back(Running { work, cost, rows });
        }
    }

    /// How many of the next messages are prepared together: small ones of one pack that are wanted whole, or some whose
    /// structures are read; else one.
    fn group_len(&self) -> usize {
        let (mut len, mut bytes) = (0, 0);
        let Some(first) = self.waiting.front().map(|row| row.number) else { return 0 };
        for row in &self.waiting {
            let (more, most) = match self.plan.reads_octets() {
                false => (u64::from(row.message.layout.sealed_structure), GROUP_BYTES),
                true if self.plan.begins_with_all() => (row.message.size(), self.group_octets),
                true => return 1,
            };
            bytes += more;
            let full = len >= GROUP_MESSAGES || bytes > most || !self.packs.are_together(first, row.number);
            if len > 0 && full {
                break;
            }
            len += 1;
        }
        len
    }

    fn group(&mut self, len: usize) -> Vec<FetchRow> {
        self.waiting.drain(..len).collect()
    }

    /// Memory that reading the next so many messages takes, if their structures are small.
    fn cost(&self, len: usize) -> usize {
        let structure = if self.plan.reads_structure() { SMALL_STRUCTURE } else { 0 };
        let octets = |row: &FetchRow| match self.plan.reads_octets() {
            true => {
                let small = row.message.size().saturating_mul(2).saturating_add(4096);
                usize::try_from(small).unwrap_or(READER_BYTES).min(READER_BYTES)
            }
            false => 0,
        };
        self.waiting.iter().take(len).map(|row| structure + octets(row)).sum()
    }

    /// Reads a message again, with memory for its structure: everything that was read ahead is let go of, and read again later.
    async fn again(&mut self, first: Prepared) -> Result<Prepared, Failure> {
        let mut rows = vec![first.row];
        drop((first.structure, first.first, first._permits));
        rows.extend(self.ready.drain(..).map(|prepared| prepared.row));
        rows.extend(self.running.drain(..).flat_map(|running| running.rows));
        for row in rows.into_iter().rev() {
            self.waiting.push_front(row);
        }
        self.packs.release();
        let permit =
            draw(&self.account, self.account.reading_much(), LARGEST_STRUCTURE + READER_BYTES).await?;
        let group = self.waiting.pop_front().into_iter().collect();
        Ok(self.prepare(group, Some(permit), false).await.pop().ok_or(End::Broken)?)
    }

    /// Reads a group, with memory for it; if `weighed`, without structures that take more.
    fn prepare(
        &self,
        group: Vec<FetchRow>,
        permit: Option<Permit>,
        weighed: bool,
    ) -> impl Future<Output = Vec<Prepared>> + Send + use<> {
        let budget = weighed.then(|| self.account.reading_much().clone());
        prepare(self.account.clone(), self.plan.clone(), self.packs.clone(), group, permit, budget)
    }
}

/// Waits for memory, and not for long while others wait for the room of accounts, of which this session holds one.
async fn draw(account: &Account, budget: &Budget, bytes: usize) -> Result<Permit, Reply> {
    let drawn = unless_pressed(|| account.is_pressed(), budget.acquire(bytes)).await;
    drawn.ok_or_else(|| Reply::no(Code::Unavailable, "not enough memory to read messages; retry later"))
}

/// The memory that a structure takes beside what was drawn for it; `None` if there is none, which is never so if nobody counts.
fn weigh(structure: &Structure, budget: Option<&Budget>) -> Option<Option<Permit>> {
    let more = (STRUCTURE_FACTOR * structure.weight()).saturating_sub(SMALL_STRUCTURE);
    match budget {
        Some(budget) if more > 0 => budget.try_acquire(more).map(Some),
        _ => Some(None),
    }
}

async fn prepare(
    account: Arc<Account>,
    plan: Arc<Plan>,
    packs: Arc<PackReads>,
    group: Vec<FetchRow>,
    permit: Option<Permit>,
    budget: Option<Budget>,
) -> Vec<Prepared> {
    let permit = permit.map(Arc::new);
    let mut readers = Vec::with_capacity(group.len());
    for row in &group {
        readers.push(packs.reader(row.number, &row.message).await);
    }
    let mut whole = match plan.begins_with_all() && readers.iter().all(MessageReader::is_small) {
        true => MessageReader::whole(readers.clone()).await.into_iter(),
        false => Vec::new().into_iter(),
    };
    // The store answers several questions at once more quickly than one after the other.
    let structures = join_all(group.iter().zip(&readers).map(|(row, reader)| async {
        if !plan.reads_structure() {
            return (None, Some(None));
        }
        let structure = account.structure_by(reader, &row.message).await;
        // At once, so that it does not wait uncounted for those of the others.
        let weighed = structure.as_ref().map_or(Some(None), |structure| weigh(structure, budget.as_ref()));
        (weighed.is_some().then_some(structure), weighed)
    }));
    let structures = structures.await;
    let mut prepared = Vec::with_capacity(group.len());
    for ((row, (structure, weighed)), reader) in group.into_iter().zip(structures).zip(readers) {
        let reads = Reads { reader, account: account.clone(), message: row.message.clone() };
        let crowded = weighed.is_none();
        let first = match (whole.next(), plan.first_octets().filter(|_| !crowded)) {
            (Some(Ok(pieces)), _) => Some(Ok(Opened::all(&reads.reader, pieces))),
            // What is damaged in it may not be its beginning.
            (_, Some(wanted)) => Some(reads.open(wanted, structure.as_ref()).await),
            (_, None) => None,
        };
        let _permits = (permit.clone(), weighed.flatten());
        prepared.push(Prepared { row, structure, first, reads, crowded, _permits });
    }
    prepared
}
