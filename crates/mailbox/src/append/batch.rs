//! The stored messages of one append that are not placed yet, and the memory for their records.
//!
//! A client may slowly send a thousand messages with tens of keywords each. Memory for their records comes in
//! steps from a share of the budget that only records use. So an append that holds records may wait for other
//! memory, which records never exhaust. An append that needs more records waits for a bounded time, since
//! other waiting appends may hold the whole share.
//!
//! From the second message on, small messages become durable together ([`Later`]), if memory for that is
//! free.

use std::sync::Arc;
use std::time::Duration;

use sealpost_account::{Account, Flags, Ingest, Later, NewMessage, Stored, Unplaced};
use sealpost_base::{Budget, Error, Permit, Result, limits};
use tokio::time::timeout;

use crate::refusal::Refusal;

/// The records of all appends together may take the common budget divided by this.
const SHARE: usize = 8;
/// The records of one append may take the share divided by this.
const APPEND_SHARE: usize = 2;
/// How long an append waits for the share: longer than a stalled client may hold memory while others wait.
const TIMEOUT: Duration = Duration::from_secs(20);
/// How many earlier flag sets a new message is compared with.
const SETS_BEFORE: usize = 8;
/// Small messages that become durable together may take the share divided by this.
const LATER_SHARE: usize = 2;

/// The memory for the records of all appends. Clones share it.
#[derive(Clone)]
pub struct AppendMemory {
    records: Budget,
    later: Budget,
}

/// The messages of one append, in order.
pub(super) struct AppendBatch {
    share: Budget,
    messages: Unplaced,
    /// Memory of their records, in bytes.
    weight: usize,
    acquired: Vec<Permit>,
    later_share: Budget,
    /// Small messages that are not durable yet, and the memory for them.
    later: Option<(Later, Permit)>,
}

impl AppendMemory {
    /// The memory of a server with that budget.
    pub fn of(budget: &Budget) -> Self {
        let records = budget.share(budget.common() / SHARE);
        AppendMemory { later: records.share(records.total() / LATER_SHARE), records }
    }

    /// Starts an append to the log of that account.
    pub(super) fn begin(&self, account: &Arc<Account>) -> AppendBatch {
        AppendBatch {
            share: self.records.clone(),
            messages: Unplaced::of(account.clone()),
            weight: 0,
            acquired: Vec::new(),
            later_share: self.later.clone(),
            later: None,
        }
    }
}

impl AppendBatch {
    /// The number of messages.
    pub(super) fn len(&self) -> usize {
        self.messages.messages().len()
    }

    /// The bytes of all messages.
    pub(super) fn bytes(&self) -> u64 {
        self.messages.messages().iter().map(|new| new.stored.size()).sum()
    }

    /// The flags, shared with an earlier message that has the same set.
    pub(super) fn shared(&self, flags: Flags) -> Arc<Flags> {
        let mut before = self.messages.messages().iter().rev().take(SETS_BEFORE);
        match before.find(|new| *new.flags == flags) {
            Some(new) => new.flags.clone(),
            None => Arc::new(flags),
        }
    }

    /// Stores a complete message: it is durable after [`AppendBatch::store`].
    ///
    /// # Errors
    /// Store errors.
    pub(super) async fn finish(&mut self, account: &Account, ingest: Ingest) -> Result<Stored> {
        if self.later.is_none() && self.len() > 0 {
            let acquired = self.later_share.try_acquire(Later::BYTES);
            let acquired = acquired.filter(|permit| permit.bytes() == Later::BYTES);
            self.later = acquired.map(|permit| (account.later(), permit));
        }
        match &mut self.later {
            Some((later, _)) => ingest.finish_later(later).await,
            None => ingest.finish().await,
        }
    }

    /// Makes all messages durable.
    ///
    /// # Errors
    /// Store errors.
    pub(super) async fn store(&mut self) -> Result<()> {
        match self.later.take() {
            Some((mut later, _memory)) => later.store().await,
            None => Ok(()),
        }
    }

    /// Adds a message, with memory for its record.
    ///
    /// # Errors
    /// `Limit` if the append would take too much of it, `NoMemory` if others hold it for too long.
    pub(super) async fn push(&mut self, new: NewMessage) -> Result<(), Refusal> {
        // Twice, since a growing vector may hold twice its length.
        self.weight += 2 * size_of::<NewMessage>();
        if Arc::strong_count(&new.flags) == 1 {
            self.weight += weight(&new.flags);
        }
        // Pushed before a refusal is possible, so that it is removed with the others.
        self.messages.push(new);
        if self.weight > limits::APPEND_FREE_BYTES + self.share.total() / APPEND_SHARE {
            return Err(Error::limit("too many messages or keywords in one command").into());
        }
        while self.weight > limits::APPEND_FREE_BYTES + self.acquired_bytes() {
            self.acquire().await?;
        }
        Ok(())
    }

    /// Acquires another step. Before waiting, it frees memory that others may wait for.
    async fn acquire(&mut self) -> Result<(), Refusal> {
        let step = limits::APPEND_STEP_BYTES;
        let acquired = match self.share.try_acquire(step) {
            Some(acquired) => acquired,
            None => {
                self.store().await?;
                timeout(TIMEOUT, self.share.acquire(step)).await.map_err(|_| Refusal::NoMemory)?
            }
        };
        self.acquired.push(acquired);
        Ok(())
    }

    /// The messages, and the memory for their records.
    pub(super) fn into_messages(self) -> (Unplaced, Vec<Permit>) {
        (self.messages, self.acquired)
    }

    fn acquired_bytes(&self) -> usize {
        self.acquired.iter().map(Permit::bytes).sum()
    }
}

/// Memory of a set of flags, in bytes.
fn weight(flags: &Flags) -> usize {
    /// Overhead of an allocation, in bytes.
    const ALLOCATION: usize = 16;
    let keywords = flags.keywords.iter().map(|name| size_of::<String>() + name.len() + ALLOCATION);
    size_of::<Flags>() + keywords.sum::<usize>()
}
