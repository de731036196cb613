//! Queues a message that an alias forwards to other servers, before the reply to the client.

use sealpost_base::Error;
use sealpost_directory::Outside;
use sealpost_smtp::types::{Body, Reply, ReversePath};
use sealpost_submission::forwarder::{Forwarder, Onward};
use sealpost_submission::outbox::Refusal;

use super::SmtpShared;
use super::replies;
use super::sink::Copies;
use super::transaction::Envelope;

/// The forwarded message, and the queue that takes it.
pub(super) struct Forward {
    forwarder: Forwarder,
    onward: Onward,
}

impl Forward {
    /// A forwarding to those addresses; `None` if there are none.
    pub(super) fn new(shared: &SmtpShared, from: &ReversePath, outside: Vec<Outside>) -> Option<Self> {
        let forwarder = shared.outbox.as_ref().filter(|_| !outside.is_empty())?.forwarder().clone();
        Some(Forward { forwarder, onward: Onward::plain(from.clone(), outside) })
    }

    /// Queues the message without its Return-Path, which belongs to the final delivery (RFC 5321 §4.4).
    ///
    /// # Errors
    /// Why the queue takes it for none of them.
    pub(super) async fn queue(self, message: &Copies) -> Result<(), Refusal> {
        let mut forwarding = self.forwarder.begin(self.onward).await;
        let (mut pieces, mut in_return_path) = (message.read(), true);
        while let Some(piece) = pieces.next().await? {
            let mut piece = &piece[..];
            if in_return_path {
                let end = memchr::memchr(b'\n', piece);
                in_return_path = end.is_none();
                piece = &piece[end.map_or(piece.len(), |end| end + 1)..];
            }
            forwarding.write(piece).await?;
        }
        forwarding.finish().await.map(drop)
    }
}

/// Refuses a recipient that leads to other servers if forwarding is not possible now.
///
/// # Errors
/// The reply.
pub(super) fn check(shared: &SmtpShared, envelope: &Envelope, outside: &[Outside]) -> Result<(), Reply> {
    if outside.is_empty() {
        return Ok(());
    }
    let Some(outbox) = &shared.outbox else { return Err(replies::forwarding_is_off()) };
    // A later server may need 7-bit content, and binary content cannot be converted.
    if envelope.mail.body == Some(Body::BinaryMime) {
        return Err(replies::binary_not_forwarded());
    }
    let all: Vec<Outside> = envelope.outside.iter().chain(outside).cloned().collect();
    outbox.forwarder().check(&all).map_err(|reached| replies::forwarding_limit(&reached))
}

/// The refusal to forward a message that streams to one account: a bug in Sealpost.
pub(super) fn not_copied() -> Refusal {
    Refusal::Store(Error::internal("a message for one account is forwarded"))
}
