//! DATA and BDAT: the message, and its delivery or submission.

use futures::StreamExt;
use sealpost_smtp::data::End as DataEnd;
use sealpost_smtp::types::{Body, Chunk, Reply};
use sealpost_submission::outbox::{Accepted, Refusal};
use sealpost_submission::vacation::responder::Scanning;

use super::connection::End;
use super::deliver;
use super::forward::Forward;
use super::incoming::{Incoming, failed};
use super::quota_check;
use super::replies;
use super::session::{CurrentChunk, Session};
use super::sink::Source;
use super::submitting::{self, Submitting};
use super::trace::{self, Trace};
use super::transaction::{Envelope, Message, Recipient, Transaction};
use super::vacation;

impl Session {
    /// DATA. A refusal leaves the transaction as it was (RFC 5321 §4.1.4).
    pub(super) fn data(&mut self) {
        let Some(transaction) = &self.transaction else { return self.out_of_order("Say MAIL first") };
        // RFC 3030 §2: "DATA and BDAT commands cannot be used in the same transaction".
        if transaction.message.is_some() {
            return self.out_of_order("The message has begun with BDAT");
        }
        // RFC 3030 §3: "BINARYMIME cannot be used with the DATA command".
        if transaction.envelope.mail.body == Some(Body::BinaryMime) {
            return self.out_of_order("BODY=BINARYMIME needs BDAT");
        }
        // RFC 5321 §3.3, RFC 2033 §4.2.
        if transaction.envelope.recipients.is_empty() {
            return self.refuse(replies::no_recipients());
        }
        self.begin_message();
        self.reply(replies::go_ahead());
        self.connection.begin_data();
    }

    /// BDAT. Its bytes follow even if it is refused.
    pub(super) fn bdat(&mut self, chunk: Chunk) {
        let refused = match &self.transaction {
            None => Some(replies::out_of_order("Say MAIL first")),
            Some(transaction) if transaction.envelope.recipients.is_empty() => Some(replies::no_recipients()),
            Some(_) => None,
        };
        if refused.is_none() {
            self.begin_message();
        }
        self.chunk = Some(CurrentChunk { chunk, refused });
    }

    /// Begins the message, unless it has begun.
    pub(super) fn begin_message(&mut self) {
        let (Some(transaction), Some(hello)) = (&mut self.transaction, &self.hello) else { return };
        if transaction.message.is_some() {
            return;
        }
        let id = format!("{:016x}", self.shared.ctx.random.next_u64());
        let stream = self.connection.stream();
        let tls = stream.and_then(|stream| stream.tls_info());
        let (hostname, at) = (&self.shared.ctx.hostname, self.shared.ctx.clock.now());
        if let (Some(sender), Some(outbox)) = (&transaction.sender, &self.shared.outbox) {
            let utf8 = transaction.envelope.mail.utf8;
            let with = trace::With { tls: tls.is_some(), login: sender.account.is_some() };
            let trace = trace::submission_field(hostname, with, utf8, &id, at);
            let order = submitting::order(&transaction.envelope, sender, trace, hostname);
            let submitting = Submitting::new(id, sender.account.clone(), outbox.begin(order));
            transaction.message = Some(Message::Submission(Box::new(submitting)));
            return;
        }
        let trace = Trace {
            from: &transaction.envelope.mail.from,
            verb: hello.verb,
            name: &hello.name,
            peer: stream.and_then(|stream| stream.peer()),
            tls: tls.as_ref(),
            hostname,
            utf8: transaction.envelope.mail.utf8,
            id: &id,
            recipient: match transaction.envelope.recipients.as_slice() {
                [only] => Some(&only.path),
                _ => None,
            },
            at,
        };
        let trace = trace.fields();
        let vacation = vacation::begin(&self.shared, &transaction.envelope);
        transaction.message = Some(Message::Delivery(Box::new(Incoming::new(id, trace, vacation))));
    }

    /// Bytes of the message.
    pub(super) async fn receive(&mut self, bytes: &[u8]) {
        if self.chunk.as_ref().is_some_and(|current| current.refused.is_some()) {
            return;
        }
        let Some(Transaction { message: Some(message), envelope, .. }) = &mut self.transaction else {
            return;
        };
        let held = message.holds_budget();
        match message {
            Message::Delivery(incoming) => incoming.push(&self.shared, envelope, bytes).await,
            Message::Submission(submitting) => submitting.push(bytes).await,
        }
        if !held && message.holds_budget() {
            self.connection.begin_window();
        }
    }

    /// `<CRLF>.<CRLF>`
    pub(super) async fn end_data(&mut self, end: DataEnd) -> Result<(), End> {
        if let Some(Transaction { message: Some(message), .. }) = &mut self.transaction
            && end.lookalike
        {
            message.refuse(replies::lookalike());
        }
        self.end_message().await
    }

    /// Ends a BDAT chunk.
    pub(super) async fn end_chunk(&mut self) -> Result<(), End> {
        let Some(CurrentChunk { chunk, refused }) = self.chunk.take() else { return Ok(()) };
        if let Some(reply) = refused {
            // RFC 2033 §4.3: "then the BDAT LAST command returns zero replies".
            let silent = self.is_lmtp() && chunk.last && self.transaction.is_some();
            if chunk.last {
                self.transaction = None;
            }
            if !silent {
                self.refuse(reply);
            }
            return Ok(());
        }
        if chunk.last {
            return self.end_message().await;
        }
        let message = self.transaction.as_ref().and_then(|transaction| transaction.message.as_ref());
        // RFC 3030 §2: report a failure now, and again for each chunk that is in the pipeline already.
        let failure = message.and_then(|message| message.failure()).cloned();
        self.reply(failure.unwrap_or_else(|| replies::chunk_ok(chunk.size)));
        Ok(())
    }

    /// Ends the message. The transaction is over in any case (RFC 5321 §4.1.1.4).
    pub(super) async fn end_message(&mut self) -> Result<(), End> {
        let Some(Transaction { envelope, message: Some(message), .. }) = self.transaction.take() else {
            return Ok(());
        };
        match message {
            Message::Delivery(incoming) => self.deliver(envelope, *incoming).await,
            Message::Submission(submitting) => self.submit(envelope, *submitting).await,
        }
    }

    /// Submits the message to the queue, with one reply for all recipients.
    async fn submit(&mut self, envelope: Envelope, submitting: Submitting) -> Result<(), End> {
        let (id, bytes, sender) = (submitting.id.clone(), submitting.bytes(), submitting.sender.clone());
        match submitting.finish().await {
            Ok(Accepted { id: mail, message_id, size }) => {
                let recipients = envelope.recipients.len() as u64;
                tracing::info!(%mail, id, message_id, account = sender.as_ref().map(|account| tracing::field::display(&account.name)), recipients, size, "queued a message");
                self.reply(replies::queued(mail));
                self.forgive();
                self.log.delivered(recipients, bytes);
            }
            Err(reply) => drop(self.refuse_message(&envelope, &reply).await?),
        }
        self.flush().await
    }

    /// Into the accounts of the recipients, and into the queue for what they lead to elsewhere.
    async fn deliver(&mut self, envelope: Envelope, mut incoming: Incoming) -> Result<(), End> {
        let (id, bytes, vacation) = (incoming.id.clone(), incoming.bytes(), incoming.take_vacation());
        let over_quota = quota_check::over_quota_each(&self.shared.ctx, &envelope.accounts, bytes).await;
        // SMTP has one reply for all recipients. If only some accounts are over quota, which RCPT could not
        // know, all get the message: it is one beyond the limit, and the next is refused at RCPT.
        let nobody = envelope.outside.is_empty() && over_quota.iter().all(Option::is_some);
        let delivered = match incoming.finish(&self.shared, &envelope).await {
            Err(reply) => self.refuse_message(&envelope, &reply).await?,
            Ok(source) if self.is_lmtp() => {
                self.deliver_to_each(&envelope, source, &id, over_quota, vacation).await?
            }
            Ok(source) => match over_quota.into_iter().flatten().next().filter(|_| nobody) {
                Some(reply) => self.refuse_message(&envelope, &reply).await?,
                None => self.deliver_together(&envelope, source, &id, vacation).await?,
            },
        };
        if delivered > 0 {
            self.forgive();
            self.log.delivered(delivered, bytes);
        }
        self.flush().await
    }

    /// One reply for SMTP, one for each recipient for LMTP (RFC 2033 §4.2).
    async fn refuse_message(&mut self, envelope: &Envelope, reply: &Reply) -> Result<u64, End> {
        self.log.message_refused();
        for _ in 0..if self.is_lmtp() { envelope.recipients.len() } else { 1 } {
            self.reply_to_one(reply.clone()).await?;
        }
        Ok(0)
    }

    /// Sends one of perhaps a thousand replies. Replies that the client does not read are not kept in memory.
    async fn reply_to_one(&mut self, reply: Reply) -> Result<(), End> {
        self.reply(reply);
        if self.connection.is_full() { self.flush().await } else { Ok(()) }
    }

    async fn deliver_together(
        &mut self,
        envelope: &Envelope,
        source: Source,
        id: &str,
        vacation: Option<Scanning>,
    ) -> Result<u64, End> {
        let forward = Forward::new(&self.shared, &envelope.mail.from, envelope.outside.clone());
        match deliver::together(&self.shared.ctx, source, envelope.accounts.clone(), forward).await {
            Ok(()) => {
                self.reply(replies::stored(id));
                vacation::delivered(&self.shared, envelope, vacation, |_| true);
                Ok(envelope.recipients.len() as u64)
            }
            Err(Refusal::Store(error)) => self.refuse_message(envelope, &failed(id, &error)).await,
            Err(refusal) => self.refuse_message(envelope, &replies::forwarding(&refusal, id)).await,
        }
    }

    /// Replies in the order of the RCPTs, each as soon as its accounts are done (RFC 2033 §4.2, §5).
    async fn deliver_to_each(
        &mut self,
        envelope: &Envelope,
        source: Source,
        id: &str,
        over_quota: Vec<Option<Reply>>,
        vacation: Option<Scanning>,
    ) -> Result<u64, End> {
        let ctx = self.shared.ctx.clone();
        let has_room = |recipient: &&Recipient| {
            recipient.accounts.iter().all(|account| over_quota.get(*account).is_none_or(Option::is_none))
        };
        let mut outside: Vec<usize> = Vec::new();
        envelope.recipients.iter().filter(has_room).for_each(|recipient| outside.extend(&recipient.outside));
        outside.sort_unstable();
        outside.dedup();
        let outside = outside.into_iter().filter_map(|at| envelope.outside.get(at).cloned()).collect();
        let forward = Forward::new(&self.shared, &envelope.mail.from, outside);
        let (source, forwarded) = deliver::forward_first(source, forward).await;
        let unforwarded = forwarded.err().map(|refusal| replies::forwarding(&refusal, id));
        let roomy = envelope.accounts.iter().zip(&over_quota).filter(|(_, reply)| reply.is_none());
        let roomy: Vec<_> = roomy.map(|(account, _)| *account).collect();
        let mut results = match roomy.is_empty() {
            true => futures::stream::empty().boxed(),
            false => deliver::each(&ctx, source, roomy),
        };
        let mut over_quota = over_quota.into_iter();
        let mut done: Vec<Result<(), Reply>> = Vec::new();
        let mut delivered = 0;
        for recipient in &envelope.recipients {
            let needed = recipient.accounts.iter().max().map_or(0, |last| last + 1);
            while done.len() < needed {
                // Send the replies that are ready before waiting for the next one.
                self.flush().await?;
                if let Some(Some(reply)) = over_quota.next() {
                    done.push(Err(reply));
                    continue;
                }
                let Some(result) = results.next().await else { break };
                done.push(result.map_err(|error| failed(id, &error)));
            }
            let failure = recipient.accounts.iter().find_map(|&account| match done.get(account) {
                Some(Ok(())) => None,
                Some(Err(reply)) => Some(reply.clone()),
                None => Some(replies::unfinished()),
            });
            let failure = failure.or_else(|| unforwarded.clone().filter(|_| !recipient.outside.is_empty()));
            delivered += u64::from(failure.is_none());
            self.reply_to_one(failure.unwrap_or_else(|| replies::stored(id))).await?;
        }
        let is_done = |account: usize| done.get(account).is_some_and(Result::is_ok);
        vacation::delivered(&self.shared, envelope, vacation, is_done);
        Ok(delivered)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt;
    use sealpost_base::{SeededRandom, SystemClock};
    use sealpost_smtp::types::{ForwardPath, Mail, ReversePath};
    use sealpost_vault::Store;
    use sealpost_vault::server_key::ServerKeys;

    use super::super::connection::REPLY_BYTES;
    use super::super::{Service, SmtpShared};
    use super::*;
    use sealpost_session::Context;
    use sealpost_session::Settings;
    use sealpost_session::net::Stream;

    #[tokio::test]
    async fn replies_to_a_stalled_client_are_not_buffered() {
        let random = Arc::new(SeededRandom::new(1));
        let (key, clock) = (ServerKeys::generate(&*random), Arc::new(SystemClock::new()));
        let ctx = Context::new(Settings::default(), Store::memory(), key, None, clock, random).unwrap();
        let (ours, _theirs) = Stream::pair().unwrap();
        let mut session = Session::new(ours, Arc::new(SmtpShared::new(Arc::new(ctx), None)), Service::Lmtp);
        let mut envelope = Transaction::new(Mail::new(ReversePath::Null), None).envelope;
        // Many more replies than the system keeps for a connection.
        let recipient = || Recipient {
            path: ForwardPath::Postmaster,
            notify: None,
            orcpt: None,
            accounts: Vec::new(),
            outside: Vec::new(),
        };
        envelope.recipients.extend(std::iter::repeat_with(recipient).take(100_000));
        let reply = replies::no_memory();
        assert!(session.refuse_message(&envelope, &reply).now_or_never().is_none(), "nobody reads them");
        let waiting = session.connection.waiting();
        assert!((1..2 * REPLY_BYTES).contains(&waiting), "{waiting} bytes wait");
    }
}
