//! Takes the bytes of a message as they arrive, and makes its copies.
//!
//! For one account it streams them into its store, scanned and sealed on the way. For several accounts, or if
//! the message is forwarded to other servers, it keeps them once: in memory or, beyond
//! [`limits::SMTP_MEMORY_BYTES`], in the spool (sealed under a key that only this value knows). It stores them
//! account by account when the message is complete.

use std::borrow::Cow;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use sealpost_account::{Ingest, Stored};
use sealpost_base::{AccountId, Budget, Error, Permit, Result, limits};
use sealpost_vault::spool::{SpoolWriter, Spooled};
use tokio::runtime::Handle;

use super::Fanout;
use super::SmtpShared;
use super::transaction::Envelope;
use sealpost_session::Context;

/// A message that is arriving. Dropping it leaves nothing behind.
pub(super) enum Sink {
    /// For one account.
    Direct(Box<Ingest>),
    /// For several, small so far.
    Memory(Memory),
    /// For several.
    Spool(Box<SpoolWriter>, Gate),
}

/// A message in memory, with its permit of the budget.
pub(super) struct Memory {
    bytes: Vec<u8>,
    limit: usize,
    gate: Gate,
}

/// The right to hold part of the budget and wait for more of it; see [`Fanout`].
pub(super) struct Gate {
    /// For the buffer.
    memory: Permit,
    _right: Permit,
}

/// A complete message that is not stored for any account yet.
pub(super) enum Source {
    /// For one account: only its log entry is missing.
    Direct(Box<Ingest>),
    /// For several.
    Copies(Copies),
}

/// A complete message of which copies can be made.
pub(super) enum Copies {
    /// Small.
    Memory(Memory),
    /// Large.
    Spool(InSpool),
}

/// A spooled message; removed from the store when dropped.
pub(super) struct InSpool {
    /// `None` only while it is dropped.
    spooled: Option<Spooled>,
    _gate: Gate,
}

impl Sink {
    /// Begins a message. Waits for its permit.
    pub(super) async fn open(shared: &SmtpShared, envelope: &Envelope) -> Result<Self> {
        if let ([only], true) = (&envelope.accounts[..], envelope.outside.is_empty()) {
            return Ok(Sink::Direct(Box::new(shared.ctx.accounts.ingest(only.id).await?)));
        }
        let gate = Gate::enter(&shared.fanout, &shared.ctx.budget).await;
        let limit = gate.memory.bytes();
        Ok(Sink::Memory(Memory { bytes: Vec::with_capacity(limit), limit, gate }))
    }

    /// Takes the next bytes.
    pub(super) async fn write(self, ctx: &Context, bytes: &[u8]) -> Result<Self> {
        match self {
            Sink::Direct(mut ingest) => {
                ingest.write(bytes).await?;
                Ok(Sink::Direct(ingest))
            }
            Sink::Memory(mut memory) if memory.bytes.len() + bytes.len() <= memory.limit => {
                memory.bytes.extend_from_slice(bytes);
                Ok(Sink::Memory(memory))
            }
            Sink::Memory(memory) => {
                let mut writer = Box::new(SpoolWriter::new(&ctx.store, &ctx.budget, &*ctx.random).await?);
                writer.write(&memory.bytes).await?;
                writer.write(bytes).await?;
                Ok(Sink::Spool(writer, memory.gate))
            }
            Sink::Spool(mut writer, gate) => {
                writer.write(bytes).await?;
                Ok(Sink::Spool(writer, gate))
            }
        }
    }

    /// Completes the message.
    pub(super) async fn finish(self) -> Result<Source> {
        Ok(match self {
            Sink::Direct(ingest) => Source::Direct(ingest),
            Sink::Memory(memory) => Source::Copies(Copies::Memory(memory)),
            Sink::Spool(writer, gate) => {
                Source::Copies(Copies::Spool(InSpool { spooled: Some(writer.finish().await?), _gate: gate }))
            }
        })
    }
}

impl Copies {
    /// Stores a copy for `account`.
    pub(super) async fn store(&self, ctx: &Context, account: AccountId) -> Result<Stored> {
        let mut ingest = ctx.accounts.ingest(account).await?;
        let mut pieces = self.read();
        while let Some(piece) = pieces.next().await? {
            ingest.write(&piece).await?;
        }
        ingest.finish_to_deliver().await
    }

    /// Reads it from the beginning.
    pub(super) fn read(&self) -> Pieces<'_> {
        match self {
            Copies::Memory(memory) => Pieces::Memory(Some(&memory.bytes)),
            Copies::Spool(message) => Pieces::Spool(message.spooled.as_ref().map(|spooled| spooled.read())),
        }
    }
}

/// The bytes of a message, in order.
pub(super) enum Pieces<'a> {
    Memory(Option<&'a [u8]>),
    Spool(Option<BoxStream<'static, Result<Bytes>>>),
}

impl Pieces<'_> {
    /// The next piece; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Cow<'_, [u8]>>> {
        match self {
            Pieces::Memory(bytes) => Ok(bytes.take().map(Cow::Borrowed)),
            Pieces::Spool(Some(pieces)) => {
                Ok(pieces.next().await.transpose()?.map(|piece| Cow::Owned(piece.into())))
            }
            Pieces::Spool(None) => Err(Error::internal("a spooled message is gone before it was copied")),
        }
    }
}

impl Drop for InSpool {
    fn drop(&mut self) {
        // Without a runtime the process is about to end. The next start sweeps the spool.
        if let (Some(spooled), Ok(runtime)) = (self.spooled.take(), Handle::try_current()) {
            runtime.spawn(async move {
                if let Err(error) = spooled.remove().await {
                    tracing::warn!(%error, "a spooled message could not be removed");
                }
            });
        }
    }
}

impl Gate {
    /// Waits for the right to hold memory, then for the memory.
    async fn enter(fanout: &Fanout, budget: &Budget) -> Self {
        let right = fanout.0.acquire(limits::SMTP_MEMORY_BYTES).await;
        let memory = budget.acquire(right.bytes()).await;
        Gate { memory, _right: right }
    }
}
