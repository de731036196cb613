//! RCPT: who gets the message.

use sealpost_account::directory::Resolved;
use sealpost_base::Kind;
use sealpost_smtp::types::{ForwardPath, Rcpt, Reply};

use super::replies;
use super::room;
use super::session::Session;
use crate::context::Context;

impl Session {
    pub(super) async fn rcpt(&mut self, rcpt: Rcpt) {
        let Some(transaction) = &self.transaction else { return self.out_of_order("Say MAIL first") };
        // RFC 3030 §2: the message has begun.
        if transaction.incoming.is_some() {
            return self.out_of_order("The message has begun");
        }
        if !transaction.envelope.mail.utf8 && !rcpt.to.is_ascii() {
            return self.refuse(replies::recipient_needs_utf8());
        }
        if transaction.envelope.recipients.len() >= self.ctx.settings.recipients {
            return self.refuse(replies::too_many_recipients());
        }
        match self.add_recipient(rcpt.to).await {
            Ok(()) => {
                if let Some(stream) = self.connection.stream() {
                    stream.sends();
                }
                self.reply(replies::recipient_ok());
            }
            // A queue in front of us does not choose its recipients; a stranger who guesses addresses does.
            Err(reply) if self.is_lmtp() => self.reply(reply),
            Err(reply) => self.refuse(reply),
        }
    }

    async fn add_recipient(&mut self, to: ForwardPath) -> Result<(), Reply> {
        let address = match &to {
            // RFC 5321 §4.5.1
            ForwardPath::Postmaster => "postmaster".to_owned(),
            ForwardPath::Mailbox(mailbox) => mailbox.to_string(),
        };
        let resolved = self.ctx.directory.resolve(&address).await.map_err(|error| {
            if !matches!(error.kind(), Kind::NotFound | Kind::Invalid) {
                tracing::warn!(%error, "a recipient could not be looked up");
            }
            replies::recipient(&error)
        })?;
        let declared = self.transaction.as_ref().and_then(|transaction| transaction.envelope.mail.size);
        check_room(&self.ctx, &to, &resolved, declared).await?;
        match &mut self.transaction {
            Some(transaction) => transaction.envelope.add(to, resolved, &self.ctx.envelopes),
            None => Err(replies::out_of_order("Say MAIL first")),
        }
    }
}

/// Refuses a recipient that has no room for a message of the size that MAIL said, as far as it said one. An alias is
/// refused if any of its accounts has none: the sender tries again, and nobody gets it twice.
async fn check_room(
    ctx: &Context,
    to: &ForwardPath,
    resolved: &Resolved,
    declared: Option<u64>,
) -> Result<(), Reply> {
    // RFC 5321 §4.5.1: mail for the postmaster is always taken.
    if *to == ForwardPath::Postmaster {
        return Ok(());
    }
    let octets = declared.unwrap_or(0).max(1);
    for recipient in &resolved.recipients {
        if let Some(reply) = room::lacking(ctx, recipient.id, recipient.quotas, octets).await {
            return Err(reply);
        }
    }
    Ok(())
}
