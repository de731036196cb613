//! BURL (RFC 4468): content of a submitted message that is in a mailbox of the user, at a URL.
//!
//! The content streams from the mailbox into the queue; chunks of BDAT may come before and after
//! it. The session asks [`sealpost_session::content_urls`] for it and knows nothing of IMAP.

use std::pin::pin;

use futures::StreamExt;
use sealpost_auth::fair_scheduler::{self, QueueHandle};
use sealpost_base::limits;
use sealpost_session::content_urls::{Content, ContentUser};
use sealpost_smtp::types::{Burl, Reply};

use super::Service;
use super::connection::End;
use super::replies;
use super::session::Session;
use super::submitting::Submitting;
use super::transaction::{Message, Transaction};

impl Session {
    /// Whether EHLO lists BURL: on submission ports, if IMAP is served and the user can log in.
    pub(super) fn offers_burl(&self) -> bool {
        // RFC 4468 §3.1 (1): never on port 25.
        self.service == Service::Submission
            && self.shared.content_urls.is_some()
            && (self.user.is_some() || self.mechanisms().is_some())
    }

    /// BURL, scheduled by the fair scheduler with the commands of the user's account.
    pub(super) async fn scheduled_burl(&mut self, burl: Burl) -> Result<(), End> {
        let queue = QueueHandle::default();
        if let Some(user) = &self.user {
            queue.take(self.shared.ctx.scheduler.of(user.id));
        }
        fair_scheduler::run(&queue, pin!(self.burl(burl))).await
    }

    async fn burl(&mut self, burl: Burl) -> Result<(), End> {
        if !self.offers_burl() {
            self.refuse(replies::not_implemented());
            return Ok(());
        }
        let Some(transaction) = &self.transaction else {
            self.out_of_order("Say MAIL first");
            return Ok(());
        };
        // RFC 4468 §3.2: without a valid recipient "the BURL command will simply fail, and no resolution of
        // the BURL URL argument will be performed".
        if transaction.envelope.recipients.is_empty() {
            if burl.last {
                self.transaction = None;
            }
            self.refuse(replies::no_recipients());
            return Ok(());
        }
        self.begin_message();
        let taken = self.take_content(&burl.url).await?;
        let message = self.transaction.as_mut().and_then(|transaction| transaction.message.as_mut());
        if let (Err(reply), Some(message)) = (&taken, message) {
            // RFC 4468 §3.2: "If the URL fetch fails, the server will fail the entire transaction."
            message.refuse(reply.clone());
        }
        if burl.last {
            return self.end_message().await;
        }
        match taken {
            Ok(bytes) => self.reply(replies::content_ok(bytes)),
            Err(reply) => self.refuse(reply),
        }
        Ok(())
    }

    /// Appends the content at the URL to the message. Returns its bytes, or why the message is refused.
    async fn take_content(&mut self, url: &str) -> Result<Result<u64, Reply>, End> {
        let Session { shared, user, transaction, connection, .. } = self;
        let Some(urls) = &shared.content_urls else { return Ok(Err(replies::not_implemented())) };
        let root = user.as_ref().and_then(|user| user.root.as_ref().map(|root| (user, root)));
        // A client that the operator trusts may send without a login. It has no mailbox then.
        let Some((user, root)) = root else { return Ok(Err(replies::authentication_required())) };
        let Some(Transaction { message: Some(Message::Submission(submitting)), .. }) = transaction else {
            return Ok(Err(replies::unfinished()));
        };
        let held = submitting.holds_budget();
        // Acquire memory for the message before that for its content: a submission that waits for the first
        // holds none of the second.
        if let Err(reply) = submitting.begin_content().await {
            return Ok(Err(reply));
        }
        if !held {
            connection.begin_window();
        }
        let owner = ContentUser { id: user.id, name: user.name.as_str(), root };
        let Content { size, mut pieces } = match urls.open(url, owner).await {
            Ok(content) => content,
            Err(refusal) => {
                tracing::info!(account = %user.name, ?refusal, "a URL of BURL was refused");
                return Ok(Err(replies::content_url(&refusal)));
            }
        };
        let limit = shared.ctx.settings.message_size;
        if submitting.bytes().saturating_add(size) > limit {
            return Ok(Err(replies::too_large(limit)));
        }
        while let Some(piece) = pieces.next().await {
            if shared.ctx.shutdown.is_stopping() {
                return Err(End::Stopping);
            }
            match piece {
                Ok(piece) => submitting.push(&piece).await,
                Err(error) => return Ok(Err(replies::content_url(&error.into()))),
            }
            if let Some(reply) = submitting.failure() {
                return Ok(Err(reply.clone()));
            }
        }
        Ok(Ok(size))
    }
}

impl Submitting {
    /// Acquires the memory of the message, before content from a URL.
    ///
    /// # Errors
    /// Why the message is refused; the first reason counts.
    async fn begin_content(&mut self) -> Result<(), Reply> {
        self.urls += 1;
        if self.urls > limits::SUBMISSION_URLS {
            return Err(replies::too_many_urls());
        }
        self.draw_memory().await;
        match self.failure() {
            Some(reply) => Err(reply.clone()),
            None => Ok(()),
        }
    }
}
