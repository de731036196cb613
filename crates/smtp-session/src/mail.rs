//! MAIL: begins a transaction, if the sender may send.

use std::sync::Arc;

use sealpost_smtp::types::{Body, Mail, Misuse, Reply, ReversePath};

use super::connection::End;
use super::session::Session;
use super::submitting::{self, Sender};
use super::transaction::Transaction;
use super::{Service, replies};

/// Why MAIL is refused.
enum Failure {
    Reply(Reply),
    End(End),
}

impl From<Reply> for Failure {
    fn from(reply: Reply) -> Self {
        Failure::Reply(reply)
    }
}

impl Session {
    pub(super) async fn mail(&mut self, mail: Mail) -> Result<(), End> {
        match self.begin_transaction(mail).await {
            Ok(transaction) => {
                self.transaction = Some(transaction);
                self.reply(replies::sender_ok());
            }
            Err(Failure::Reply(reply)) => self.refuse(reply),
            Err(Failure::End(end)) => return Err(end),
        }
        Ok(())
    }

    async fn begin_transaction(&mut self, mail: Mail) -> Result<Transaction, Failure> {
        let is_submission = self.service == Service::Submission;
        if self.hello.is_none() {
            let hello = if self.is_lmtp() { "Say LHLO first" } else { "Say EHLO first" };
            return Err(replies::out_of_order(hello).into());
        }
        // RFC 4954 §6.
        if is_submission && self.user.is_none() && !self.is_trusted() {
            return Err(replies::authentication_required().into());
        }
        if self.transaction.is_some() {
            return Err(replies::out_of_order("A transaction is open already; send RSET first").into());
        }
        if !mail.utf8 && !mail.from.is_ascii() {
            return Err(replies::sender_needs_utf8().into());
        }
        if !self.are_offered(&mail) {
            return Err(Misuse::Parameter.reply().into());
        }
        let limit = self.shared.ctx.settings.message_size;
        if mail.size.is_some_and(|size| size > limit) {
            return Err(replies::too_large(limit).into());
        }
        let sender = if is_submission { Some(self.sender(&mail).await?) } else { None };
        Ok(Transaction::new(mail, sender))
    }

    /// Whether all parameters of MAIL were offered (RFC 5321 §4.1.1.11). AUTH counts as `<>` here, as RFC
    /// 4954 §5 demands for senders that are not trusted.
    fn are_offered(&self, mail: &Mail) -> bool {
        if self.service != Service::Submission {
            return !mail.require_tls && mail.hold.is_none();
        }
        let is_tls = self.connection.stream().is_some_and(|stream| stream.is_tls());
        // A later server may need 7-bit content, and binary content cannot be converted.
        (is_tls || !mail.require_tls) && mail.body != Some(Body::BinaryMime)
    }

    /// The submitting account as it is now, which must be allowed to send as the reverse-path (RFC
    /// 6409 §6.1).
    async fn sender(&mut self, mail: &Mail) -> Result<Sender, Failure> {
        let ctx = &self.shared.ctx;
        let release = submitting::release(mail.hold, ctx.clock.now())?;
        let Some(outbox) = &self.shared.outbox else { return Err(replies::unfinished().into()) };
        let Some(user) = &self.user else { return Ok(Sender { account: None, release }) };
        let account = match ctx.directory.find(&user.name).await {
            Ok(Some(account)) if account.id == user.id && account.lets_in() => Arc::new(account),
            Ok(_) => return Err(Failure::End(End::Revoked)),
            Err(error) => {
                tracing::warn!(%error, "the account of a session could not be read");
                return Err(replies::storage(&error).into());
            }
        };
        // RFC 5321 §4.5.5: notifications have the null sender; their From is checked all the same.
        if let ReversePath::Mailbox(mailbox) = &mail.from
            && let Err(refusal) = outbox.check_sender(&account, &mailbox.to_string()).await
        {
            return Err(replies::submission(&refusal, Some(&account), "MAIL").into());
        }
        Ok(Sender { account: Some(account), release })
    }

    /// Whether the client may submit without a login.
    fn is_trusted(&self) -> bool {
        let peer = self.connection.stream().and_then(|stream| stream.peer());
        let trusted = &self.shared.ctx.settings.sending.trusted_clients;
        peer.is_some_and(|peer| trusted.iter().any(|range| range.contains(peer)))
    }
}
