//! The messages of one APPEND that are stored and not placed yet, and the memory that their records take.
//!
//! A command may bring a thousand messages with tens of keywords each, and its client may take its time: what is kept of them
//! is drawn from a share of the budget that is for this alone, in steps. Whoever holds some of it may wait for other memory, for
//! there always is some that is not records; nobody waits for more of it for long, since all of it may be held by those who wait.
//!
//! From the second message on small ones become durable together ([`Later`]), if there is memory for that at once.

use std::sync::Arc;
use std::time::Duration;

use sealpost_account::{Account, Flags, Ingest, Later, NewMessage, Stored, Unplaced};
use sealpost_base::{Budget, Permit, limits};
use sealpost_imap::types::Code;
use tokio::time::timeout;

use crate::imap::reply::Reply;

/// What all records that are held together may take: what is common, divided by this.
const SHARE: usize = 8;
/// The records of one command: at most the share divided by this.
const COMMAND_SHARE: usize = 2;
/// How long a command waits for the share: longer than a client may stand still while others wait for memory.
const PATIENCE: Duration = Duration::from_secs(20);
/// Sets of flags that a new message is compared with: those of the messages before it.
const SETS_BEFORE: usize = 8;

/// Messages that wait to be stored may take the share divided by this.
const LATER_SHARE: usize = 2;

/// Where the memory for these records comes from. Cloning shares it.
#[derive(Clone)]
pub struct Appends {
    records: Budget,
    later: Budget,
}

/// The messages of one command, in their order.
pub(in crate::imap) struct Kept {
    share: Budget,
    messages: Unplaced,
    /// What they take, in bytes.
    weight: usize,
    drawn: Vec<Permit>,
    later_share: Budget,
    /// Where small messages wait, and the memory for that.
    later: Option<(Later, Permit)>,
}

impl Appends {
    /// Of a server with that budget.
    pub fn of(budget: &Budget) -> Self {
        let records = budget.share(budget.common() / SHARE);
        Appends { later: records.share(records.total() / LATER_SHARE), records }
    }

    /// Those of a command that begins, for the log of that account.
    pub(super) fn begin(&self, account: &Arc<Account>) -> Kept {
        Kept {
            share: self.records.clone(),
            messages: Unplaced::of(account.clone()),
            weight: 0,
            drawn: Vec::new(),
            later_share: self.later.clone(),
            later: None,
        }
    }
}

impl Kept {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.messages.messages().len()
    }

    /// Octets of all of them.
    pub(super) fn octets(&self) -> u64 {
        self.messages.messages().iter().map(|new| new.stored.size()).sum()
    }

    /// Those flags, shared with a message that has the same.
    pub(super) fn shared(&self, flags: Flags) -> Arc<Flags> {
        let mut before = self.messages.messages().iter().rev().take(SETS_BEFORE);
        match before.find(|new| *new.flags == flags) {
            Some(new) => new.flags.clone(),
            None => Arc::new(flags),
        }
    }

    /// Stores a message that is all there: it is durable when [`Kept::store`] has been called.
    ///
    /// # Errors
    /// What the store says.
    pub(super) async fn finish(
        &mut self,
        account: &Account,
        ingest: Ingest,
    ) -> sealpost_base::Result<Stored> {
        if self.later.is_none() && self.len() > 0 {
            let drawn = self.later_share.try_acquire(Later::BYTES);
            let drawn = drawn.filter(|permit| permit.bytes() == Later::BYTES);
            self.later = drawn.map(|permit| (account.later(), permit));
        }
        match &mut self.later {
            Some((later, _)) => ingest.finish_later(later).await,
            None => ingest.finish().await,
        }
    }

    /// Makes all of them durable.
    ///
    /// # Errors
    /// What the store says.
    pub(super) async fn store(&mut self) -> sealpost_base::Result<()> {
        match self.later.take() {
            Some((mut later, _drawn)) => later.store().await,
            None => Ok(()),
        }
    }

    /// Adds one, with memory for it.
    ///
    /// # Errors
    /// `NO [LIMIT]` if the command would take too much of it, `NO [UNAVAILABLE]` if others have it for too long.
    pub(super) async fn push(&mut self, new: NewMessage) -> Result<(), Reply> {
        // Twice: a vector that grows.
        self.weight += 2 * size_of::<NewMessage>();
        if Arc::strong_count(&new.flags) == 1 {
            self.weight += weight(&new.flags);
        }
        // Before it may be refused: then it is removed with the others.
        self.messages.push(new);
        if self.weight > limits::IMAP_APPEND_FREE_BYTES + self.share.total() / COMMAND_SHARE {
            return Err(Reply::no(Code::Limit, "too many messages or keywords in one command"));
        }
        while self.weight > limits::IMAP_APPEND_FREE_BYTES + self.bytes() {
            self.draw().await?;
        }
        Ok(())
    }

    /// One step more. Who has to wait gives back first what others may wait for.
    async fn draw(&mut self) -> Result<(), Reply> {
        let step = limits::IMAP_APPEND_STEP_BYTES;
        let drawn = match self.share.try_acquire(step) {
            Some(drawn) => drawn,
            None => {
                self.store().await.map_err(|error| Reply::from_error(&error))?;
                timeout(PATIENCE, self.share.acquire(step)).await.map_err(|_| {
                    Reply::no(
                        Code::Unavailable,
                        "not enough memory for so many messages; retry \
                        with fewer messages",
                    )
                })?
            }
        };
        self.drawn.push(drawn);
        Ok(())
    }

    /// The messages, and their memory, which is drawn for as long as it is held.
    pub(in crate::imap) fn into_messages(self) -> (Unplaced, Vec<Permit>) {
        (self.messages, self.drawn)
    }

    fn bytes(&self) -> usize {
        self.drawn.iter().map(Permit::bytes).sum()
    }
}

/// What a set of flags takes, in bytes.
fn weight(flags: &Flags) -> usize {
    /// What an allocation takes beside what was asked for.
    const ALLOCATION: usize = 16;
    let keywords = flags.keywords.iter().map(|name| size_of::<String>() + name.len() + ALLOCATION);
    size_of::<Flags>() + keywords.sum::<usize>()
}
