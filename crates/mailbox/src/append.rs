//! Appends by a client, of one message or several: stored while they arrive, then placed by one log entry,
//! all or none.
//!
//! Each check refuses as early as possible: rights and flags at the start of a message, size and quota before
//! its bytes arrive. No message is visible before all are complete. Objects of messages that were stored and
//! not placed are removed ([`Unplaced`]).

mod batch;

use std::sync::Arc;

use sealpost_account::account::Placed;
use sealpost_account::{Flags, Ingest, NewMessage, Unplaced, ops};
use sealpost_base::{AccountId, Error, Kind, Permit, Position, Result, Timestamp, Uid, limits};
use sealpost_directory::Usage;

pub use batch::AppendMemory;

use batch::AppendBatch;

use crate::flags::permitted;
use crate::opened::OpenedMailbox;
use crate::quota_headroom::{QuotaHeadroom, UserQuota};
use crate::refusal::Refusal;
use crate::resolve::ResolvedMailbox;

/// The messages of one command while they arrive; at most one is incomplete.
pub struct Append {
    to: ResolvedMailbox,
    batch: AppendBatch,
    current: Option<Incoming>,
    /// The most bytes that a message may have.
    message_size: u64,
    /// Bytes of all messages, including the incomplete one.
    bytes: u64,
    /// Bytes that the command frees: those of the message that it replaces.
    freed: u64,
    keyword_bytes: usize,
}

/// An incomplete message.
struct Incoming {
    flags: Flags,
    received: Timestamp,
    /// Memory that its source needs beside it.
    beside: usize,
    ingest: Option<Ingest>,
}

/// The result of an append that replaces a message.
#[derive(Debug)]
pub struct Replaced {
    /// The placement of the new message.
    pub placed: Placed,
    /// The entry that expunged the old message, as log and position, unless the same entry placed the new
    /// one.
    pub expunged: Option<(AccountId, Position)>,
}

impl Append {
    /// Starts an append to a mailbox. The command itself frees `freed` bytes.
    pub fn begin(memory: &AppendMemory, to: ResolvedMailbox, freed: u64, message_size: u64) -> Self {
        let batch = memory.begin(&to.account);
        Append { to, batch, current: None, message_size, bytes: 0, freed, keyword_bytes: 0 }
    }

    /// Starts a message with the flags among `flags` that the user may set (RFC 4314 §4). `beside` is memory
    /// to acquire together with the memory for storing it.
    ///
    /// # Errors
    /// `Limit` for too many messages or keywords.
    pub fn message(&mut self, flags: &Flags, received: Timestamp, beside: usize) -> Result<()> {
        if self.batch.len() >= limits::APPEND_MESSAGES {
            let text = format!("a command has at most {} messages", limits::APPEND_MESSAGES);
            return Err(Error::limit(text));
        }
        let flags = permitted(flags, self.to.rights);
        self.keyword_bytes += flags.keywords.iter().map(String::len).sum::<usize>();
        if self.keyword_bytes > limits::APPEND_KEYWORD_BYTES {
            return Err(Error::limit("too many keywords in one command"));
        }
        ops::check_flags(&self.to.account.state(), &flags)?;
        self.current = Some(Incoming { flags, received, beside, ingest: None });
        Ok(())
    }

    /// Whether a message is incomplete.
    pub fn has_message(&self) -> bool {
        self.current.is_some()
    }

    /// The number of complete messages.
    pub fn len(&self) -> usize {
        self.batch.len()
    }

    /// Whether no message is complete.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Announces `more` bytes of the message: checks the limits, and acquires memory to store them.
    ///
    /// # Errors
    /// `TooBig` for the message, `OverQuota` for the command.
    pub async fn expect(&mut self, quota: UserQuota<'_>, more: u64) -> Result<(), Refusal> {
        if self.size().saturating_add(more) > self.message_size {
            return Err(Refusal::TooBig(self.message_size));
        }
        self.bytes = self.bytes.saturating_add(more);
        self.check_quota(quota).await?;
        let incoming = self.current.as_mut().ok_or_else(no_message)?;
        if incoming.ingest.is_none() {
            incoming.ingest = Some(self.to.account.ingest_beside(incoming.beside).await?);
        }
        Ok(())
    }

    /// Writes the next announced bytes of the message.
    ///
    /// # Errors
    /// Store errors.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let ingest = self.current.as_mut().and_then(|incoming| incoming.ingest.as_mut());
        ingest.ok_or_else(no_message)?.write(bytes).await
    }

    /// Writes bytes that may exceed the announced ones: an encoding made them longer.
    ///
    /// # Errors
    /// `TooBig`; store errors.
    pub async fn write_longer(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        if self.size().saturating_add(bytes.len() as u64) > self.message_size {
            return Err(Refusal::TooBig(self.message_size));
        }
        Ok(self.write(bytes).await?)
    }

    /// Completes the message. Does nothing if none has begun.
    ///
    /// # Errors
    /// `Empty`; `OverQuota` if it became longer than announced; `Limit` or `NoMemory` for its record; store
    /// errors.
    pub async fn complete(&mut self, quota: UserQuota<'_>) -> Result<(), Refusal> {
        let Some(Incoming { flags, received, ingest, .. }) = self.current.take() else { return Ok(()) };
        let ingest = ingest.filter(|ingest| ingest.size() > 0).ok_or(Refusal::Empty)?;
        let stored = self.batch.finish(&self.to.account, ingest).await?;
        let flags = self.batch.shared(flags);
        self.batch.push(NewMessage { stored, flags, received }).await?;
        let bytes = self.batch.bytes();
        if bytes > self.bytes {
            self.bytes = bytes;
            self.check_quota(quota).await?;
        }
        Ok(())
    }

    /// Makes all messages durable; none may be incomplete. The caller can then place them, and must hold the
    /// memory for their records until that is done.
    ///
    /// # Errors
    /// Store errors.
    pub async fn finish(mut self) -> Result<(Unplaced, Vec<Permit>)> {
        self.batch.store().await?;
        Ok(self.batch.into_messages())
    }

    /// Bytes of the incomplete message.
    fn size(&self) -> u64 {
        self.current.as_ref().and_then(|incoming| incoming.ingest.as_ref()).map_or(0, Ingest::size)
    }

    /// Checks whether all received and announced bytes may be stored: only the net increase counts (RFC 8508
    /// §3.4).
    async fn check_quota(&mut self, quota: UserQuota<'_>) -> Result<(), Refusal> {
        match self.bytes.saturating_sub(self.freed) {
            0 => Ok(()),
            added => {
                let messages = (self.batch.len() + usize::from(self.current.is_some())) as u64;
                // A replaced message offsets one new message.
                let messages = messages.saturating_sub(u64::from(self.freed > 0));
                quota.check_at(&self.to, Usage::of_messages(messages, added)).await
            }
        }
    }
}

/// Places stored messages in a mailbox, if at the end of the log it still exists, may take them, and the
/// quota allows it. The command itself frees `freed`.
///
/// # Errors
/// `NoTarget`, `OverQuota`; store errors.
pub async fn place(
    quota: UserQuota<'_>,
    to: &ResolvedMailbox,
    messages: Unplaced,
    freed: Usage,
) -> Result<Placed, Refusal> {
    if !to.still_takes_messages() {
        return Err(Refusal::NoTarget);
    }
    let headroom = quota.headroom_at(to).await?;
    let more = usage_of(&messages).without(freed);
    let placed = to.account.append_noting(to.mailbox, messages, headroom.checking(freed)).await;
    placed.map_err(|error| not_placed(error, to, &headroom, more))
}

/// Places a stored message in a mailbox and expunges another one (RFC 8508 §3.4): as one change if both are
/// in one log, otherwise placement first. The command itself frees `freed` bytes.
///
/// # Errors
/// `MessagesGone` if the message to replace no longer exists, `NoTarget`, `OverQuota`; `Denied` without the
/// right to expunge it; `NotExpunged`; store errors.
pub async fn replace(
    quota: UserQuota<'_>,
    (opened, old): (&OpenedMailbox, Uid),
    to: &ResolvedMailbox,
    message: Unplaced,
    freed: u64,
) -> Result<Replaced, Refusal> {
    let freed = Usage::of_messages(u64::from(freed > 0), freed);
    if !to.still_takes_messages() {
        return Err(Refusal::NoTarget);
    }
    // The right may have been revoked, and the message expunged: check before any change.
    opened.check_may_take_out()?;
    size_of(opened, old).ok_or(Refusal::MessagesGone)?;
    if !Arc::ptr_eq(&opened.account, &to.account) {
        let placed = place(quota, to, message, freed).await?;
        let expunged = opened.expunge_copied(&[old].into_iter().collect()).await?;
        return Ok(Replaced { placed, expunged: expunged.map(|at| (opened.account.id(), at)) });
    }
    let headroom = quota.headroom_at(to).await?;
    let (more, check) = (usage_of(&message), headroom.checking(freed));
    let replacing = to.account.replace((opened.mailbox, old), to.mailbox, message, |state| {
        if state.mailbox(opened.mailbox).is_some_and(|mailbox| mailbox.uid_validity() != opened.uid_validity)
        {
            return Err(Error::not_found("the mailbox is another one now"));
        }
        check.as_ref().map_or(Ok(()), |check| check(state, more))
    });
    let placed = replacing.await.map_err(|error| not_placed(error, to, &headroom, more.without(freed)))?;
    Ok(Replaced { placed: placed.ok_or(Refusal::MessagesGone)?, expunged: None })
}

/// The size of a message in bytes; `None` if it no longer exists.
pub fn size_of(opened: &OpenedMailbox, uid: Uid) -> Option<u64> {
    let state = opened.account.state();
    let row = opened.mailbox_in(&state).ok()?.row(uid)?;
    Some(state.message_size(row.message))
}

fn usage_of(messages: &Unplaced) -> Usage {
    let messages = messages.messages();
    Usage::of_messages(messages.len() as u64, messages.iter().map(|new| new.stored.size()).sum())
}

/// Why messages could not be placed. An append in a group commit gets only the kind of the error.
fn not_placed(error: Error, to: &ResolvedMailbox, headroom: &QuotaHeadroom, more: Usage) -> Refusal {
    match error.kind() {
        // The mailbox was deleted while the messages arrived.
        Kind::NotFound => Refusal::NoTarget,
        Kind::Limit => match headroom.check(&to.account.state(), more) {
            Err(over) => over.into(),
            Ok(()) => error.into(),
        },
        _ => error.into(),
    }
}

fn no_message() -> Error {
    Error::internal("bytes of a message that has not begun")
}
