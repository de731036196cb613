//! A message that is arriving: counts it, checks it, and hands it on.
//!
//! A message that cannot be accepted is still read to its end, because only there can the session refuse
//! it (RFC 5321 §4.1.1.4, RFC 3030 §2). Its bytes are dropped from then on.

use sealpost_base::{Error, Result, limits};
use sealpost_smtp::types::Reply;
use sealpost_submission::vacation::responder::Scanning;

use super::SmtpShared;
use super::hops::Hops;
use super::replies;
use super::sink::{Sink, Source};
use super::transaction::Envelope;

/// One message. Dropping it leaves nothing behind.
pub(super) struct Incoming {
    /// The id of the message in its trace field, in replies and in the log.
    pub(super) id: String,
    bytes: u64,
    hops: Hops,
    /// The trace fields, and the message until it is too large to be held without a reservation. So
    /// a client that sends little and then nothing does not make other sessions wait.
    head: Vec<u8>,
    sink: Option<Sink>,
    failure: Option<Reply>,
    /// What a vacation response depends on, if an account of the message may have one.
    vacation: Option<Scanning>,
}

impl Incoming {
    /// A message that begins with `trace`.
    pub(super) fn new(id: String, trace: Vec<u8>, vacation: Option<Scanning>) -> Self {
        Incoming { id, bytes: 0, hops: Hops::default(), head: trace, sink: None, failure: None, vacation }
    }

    /// What a vacation response depends on; once.
    pub(super) fn take_vacation(&mut self) -> Option<Scanning> {
        self.vacation.take()
    }

    /// Bytes so far, without the trace fields.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Why the session will refuse the message, if that is known already.
    pub(super) fn failure(&self) -> Option<&Reply> {
        self.failure.as_ref()
    }

    /// Whether other sessions may have to wait for memory that this message holds.
    pub(super) fn holds_budget(&self) -> bool {
        self.sink.is_some()
    }

    /// Refuses the message; the first reason stays.
    pub(super) fn refuse(&mut self, reply: Reply) {
        self.failure.get_or_insert(reply);
        self.vacation = None;
        self.sink = None;
        self.head = Vec::new();
    }

    /// Takes the next bytes.
    pub(super) async fn push(&mut self, shared: &SmtpShared, envelope: &Envelope, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        if self.failure.is_some() {
            return;
        }
        self.hops.push(bytes);
        if let Some(scanning) = &mut self.vacation {
            scanning.push(bytes);
        }
        if self.bytes > shared.ctx.settings.message_size {
            return self.refuse(replies::too_large(shared.ctx.settings.message_size));
        }
        if self.hops.count() >= limits::RECEIVED_FIELDS {
            return self.refuse(replies::loops());
        }
        if self.sink.is_none() && self.head.len() + bytes.len() <= limits::SMTP_HEAD_BYTES {
            // Keep no more than that: thousands of sessions may wait for memory with so much.
            self.head.reserve_exact(bytes.len());
            return self.head.extend_from_slice(bytes);
        }
        if let Err(error) = self.write(shared, envelope, bytes).await {
            self.fail(&error);
        }
    }

    /// Completes the message, up to storing it for the accounts.
    pub(super) async fn finish(mut self, shared: &SmtpShared, envelope: &Envelope) -> Result<Source, Reply> {
        if self.failure.is_none()
            && let Err(error) = self.write(shared, envelope, &[]).await
        {
            self.fail(&error);
        }
        match (self.failure, self.sink) {
            (Some(reply), _) => Err(reply),
            (None, Some(sink)) => sink.finish().await.map_err(|error| failed(&self.id, &error)),
            (None, None) => Err(failed(&self.id, &Error::internal("a message without a sink"))),
        }
    }

    async fn write(&mut self, shared: &SmtpShared, envelope: &Envelope, bytes: &[u8]) -> Result<()> {
        let mut sink = match self.sink.take() {
            Some(sink) => sink,
            None => {
                let sink = Sink::open(shared, envelope).await?;
                sink.write(&shared.ctx, &std::mem::take(&mut self.head)).await?
            }
        };
        sink = sink.write(&shared.ctx, bytes).await?;
        self.sink = Some(sink);
        Ok(())
    }

    fn fail(&mut self, error: &Error) {
        let reply = failed(&self.id, error);
        self.refuse(reply);
    }
}

/// Logs the error and returns a temporary reply.
pub(super) fn failed(id: &str, error: &Error) -> Reply {
    tracing::warn!(id, %error, "a message could not be stored");
    replies::storage(error)
}
