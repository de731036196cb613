//! Reading ahead: while one message is sent, the next ones are read and opened by other tasks.
//!
//! Octets draw from the budget. A session waits for budget only while it holds none: reading ahead takes what is free
//! and otherwise does not happen, so that sessions never wait for each other in a circle.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::future::join_all;
use sealpost_account::Account;
use sealpost_base::{Budget, Permit, Result};
use sealpost_mime::Structure;
use sealpost_vault::message::READER_BYTES;
use tokio::task::JoinHandle;

use super::FetchRow;
use super::items::Plan;
use super::octets::{Opened, Reads};
use crate::imap::connection::End;

/// Messages whose octets are read ahead, if they are small.
const AHEAD_OCTETS: usize = 12;
/// Memory for octets that are read ahead, in bytes.
const AHEAD_BYTES: usize = 3 * READER_BYTES;
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
    _permit: Option<Permit>,
}

/// Prepares messages in order.
pub(super) struct Pipeline {
    account: Arc<Account>,
    plan: Arc<Plan>,
    budget: Budget,
    waiting: VecDeque<FetchRow>,
    running: VecDeque<Running>,
    ready: VecDeque<Prepared>,
}

/// A task that ends with whoever waits for it.
struct Running {
    task: JoinHandle<Vec<Prepared>>,
    cost: usize,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Pipeline {
    pub(super) fn new(account: Arc<Account>, plan: Arc<Plan>, budget: Budget, rows: Vec<FetchRow>) -> Self {
        let (running, ready) = (VecDeque::new(), VecDeque::new());
        Pipeline { account, plan, budget, waiting: rows.into(), running, ready }
    }

    /// The next message. Drop it before asking for another one.
    pub(super) async fn next(&mut self) -> Result<Option<Prepared>, End> {
        loop {
            self.read_ahead();
            if let Some(prepared) = self.ready.pop_front() {
                return Ok(Some(prepared));
            }
            let prepared = match self.running.pop_front() {
                Some(mut running) => match (&mut running.task).await {
                    Ok(prepared) => prepared,
                    Err(error) => {
                        tracing::error!(%error, "a task that reads messages ended");
                        return Err(End::Broken);
                    }
                },
                None => {
                    let group = self.group();
                    let Some(first) = group.first() else { return Ok(None) };
                    let cost = self.cost(first);
                    let permit =
                        if self.plan.reads_octets() { Some(self.budget.acquire(cost).await) } else { None };
                    prepare(self.account.clone(), self.plan.clone(), group, permit).await
                }
            };
            self.ready.extend(prepared);
        }
    }

    fn read_ahead(&mut self) {
        let most = if self.plan.reads_octets() { AHEAD_OCTETS } else { AHEAD_GROUPS };
        while self.running.len() < most
            && let Some(first) = self.waiting.front()
        {
            let permit = if self.plan.reads_octets() {
                let cost = self.cost(first);
                let ahead: usize = self.running.iter().map(|running| running.cost).sum();
                if ahead + cost > AHEAD_BYTES {
                    return;
                }
                match self.budget.try_acquire(cost) {
                    Some(permit) => Some(permit),
                    None => return,
                }
            } else {
                None
            };
            let cost = permit.as_ref().map_or(0, Permit::bytes);
            let group = self.group();
            let task = prepare(self.account.clone(), self.plan.clone(), group, permit);
            self.running.push_back(Running { task: tokio::spawn(task), cost });
        }
    }

    /// The next messages that are prepared together: one if octets are read, else a few.
    fn group(&mut self) -> Vec<FetchRow> {
        let mut group = Vec::new();
        let mut bytes = 0;
        while let Some(row) = self.waiting.front() {
            bytes += u64::from(row.message.layout.sealed_structure);
            let full = self.plan.reads_octets() || group.len() >= GROUP_MESSAGES || bytes > GROUP_BYTES;
            if full && !group.is_empty() {
                break;
            }
            group.extend(self.waiting.pop_front());
        }
        group
    }

    /// Memory that reading a message's octets takes.
    fn cost(&self, row: &FetchRow) -> usize {
        let small = row.message.size().saturating_mul(2).saturating_add(4096);
        usize::try_from(small).unwrap_or(READER_BYTES).min(READER_BYTES)
    }
}

async fn prepare(
    account: Arc<Account>,
    plan: Arc<Plan>,
    group: Vec<FetchRow>,
    mut permit: Option<Permit>,
) -> Vec<Prepared> {
    // The store answers several questions at once more quickly than one after the other.
    let structures = join_all(group.iter().map(|row| async {
        if plan.reads_structure() { Some(account.structure(&row.message).await) } else { None }
    }));
    let structures = structures.await;
    let mut prepared = Vec::with_capacity(group.len());
    for (row, structure) in group.into_iter().zip(structures) {
        let reads = Reads {
            reader: account.reader(&row.message),
            account: account.clone(),
            message: row.message.clone(),
        };
        let first = match plan.first_octets() {
            Some(wanted) => Some(reads.open(wanted, structure.as_ref()).await),
            None => None,
        };
        prepared.push(Prepared { row, structure, first, reads, _permit: permit.take() });
    }
    prepared
}
