//! An open connection: sends mails one after another, and reports for each recipient.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sealpost_base::Clock;
use sealpost_smtp::client::Sent;
use sealpost_smtp::types::{Command, Reply};
use tokio::time::Instant;

use crate::body::{self, Broken};
use crate::envelope::{Envelope, MessageReader, MessageSource};
use crate::outcome::{
    Attempt, Delivered, Failure, Outcome, PeerReply, Reason, Scope, ServerSeen, Step, SuccessReports, Timing,
    TlsUse,
};
use crate::plan::{self, Plan};
use crate::timeouts::Timeouts;
use crate::transport::Connection;
use crate::wire::Wire;

/// Commands that are sent before their replies are read. More could fill the buffers of both sides, each
/// waiting for the other to read.
const WINDOW: usize = 64;

/// A connection past EHLO, TLS and AUTH.
pub(crate) struct OpenConnection {
    /// `None` once it is broken.
    wire: Option<Wire>,
    server: ServerSeen,
    tls: TlsUse,
    timeouts: Timeouts,
    clock: Arc<dyn Clock>,
    /// The time to open it, reported with its first mail.
    connect_time: Duration,
    /// Mails that may still be sent.
    mails_left: u32,
    /// Whether a transaction was begun and not ended.
    dirty: bool,
}

impl OpenConnection {
    /// `wire` to `server`, ready for MAIL, for `mails` mails at most.
    pub fn new(
        wire: Wire,
        server: ServerSeen,
        tls: TlsUse,
        timeouts: Timeouts,
        clock: Arc<dyn Clock>,
        mails: u32,
    ) -> Self {
        OpenConnection {
            wire: Some(wire),
            server,
            tls,
            timeouts,
            clock,
            connect_time: Duration::ZERO,
            mails_left: mails,
            dirty: false,
        }
    }

    /// Notes how long opening it took.
    pub fn opened_in(mut self, time: Duration) -> Self {
        self.connect_time = time;
        self
    }

    async fn attempt(&mut self, envelope: &Envelope, message: &dyn MessageSource) -> Attempt {
        let count = envelope.recipients.len();
        let Some(wire) = &self.wire else {
            return Attempt::failed(count, &self.failure(Reason::WrongConnection));
        };
        let (lacking, planned) = plan::plan(envelope, message, wire.client.extensions(), &self.server.host);
        // RFC 8689 §4.2.1: only over TLS with a verified server.
        let unverified = plan::requires_tls(envelope) && !self.tls.verified;
        let outcomes = match planned {
            _ if unverified => vec![self.failure(Reason::WrongConnection).outcome(); count],
            Err(failure) => vec![failure.outcome(); count],
            Ok(plan) => match message.open(plan.form).await {
                Ok(reader) => self.transact(&plan, reader).await,
                Err(_) => vec![self.failure(Reason::LocalFailure).outcome(); count],
            },
        };
        Attempt {
            recipients: outcomes,
            server: Some(self.server.clone()),
            tls: self.tls.clone(),
            lacking,
            timing: Timing::default(),
        }
    }

    async fn transact(&mut self, plan: &Plan, mut reader: Box<dyn MessageReader>) -> Vec<Outcome> {
        let Some(mut wire) = self.wire.take() else { return Vec::new() };
        wire.set_deadline(Instant::now() + self.timeouts.of_mail(plan.size));
        let mut transaction = Transaction::new(plan, &self.server.host);
        let result = transaction.run(&mut wire, self.dirty, reader.as_mut()).await;
        self.mails_left = self.mails_left.saturating_sub(1);
        match result {
            Ok(()) => {
                self.dirty = transaction.begun;
                self.wire = Some(wire);
            }
            Err(broken) => transaction.break_off(broken),
        }
        transaction.outcomes()
    }

    fn failure(&self, reason: Reason) -> Failure {
        Failure::new(reason, self.server.host.clone())
    }
}

#[async_trait]
impl Connection for OpenConnection {
    async fn send(&mut self, envelope: &Envelope, message: &dyn MessageSource) -> Attempt {
        let begun = self.clock.monotonic();
        let mut attempt = self.attempt(envelope, message).await;
        attempt.timing = Timing {
            connect: std::mem::take(&mut self.connect_time),
            transaction: self.clock.monotonic().saturating_sub(begun),
        };
        attempt
    }

    fn is_reusable(&self) -> bool {
        self.wire.is_some() && self.mails_left > 0
    }

    async fn disturbed(&mut self) {
        if let Some(wire) = &mut self.wire {
            wire.disturbed().await;
        }
    }

    async fn quit(mut self: Box<Self>) {
        let Some(mut wire) = self.wire.take() else { return };
        wire.set_deadline(Instant::now() + self.timeouts.quit);
        wire.client.command(Command::Quit, &mut wire.out);
        // RFC 5321 §4.1.1.10: the client waits for the reply, which changes nothing.
        let _ = wire.answer(Step::Reset).await;
        wire.shut_down().await;
    }
}

/// A command of a transaction.
#[derive(Debug, Clone, Copy)]
enum Next {
    Reset,
    Mail,
    Rcpt(usize),
    Data,
}

impl Next {
    fn step(self) -> Step {
        match self {
            Next::Reset => Step::Reset,
            Next::Mail => Step::Mail,
            Next::Rcpt(_) => Step::Rcpt,
            Next::Data => Step::Data,
        }
    }
}

/// One transaction and its outcomes so far.
struct Transaction<'a> {
    plan: &'a Plan,
    host: &'a str,
    /// `None` while open; for a recipient that was accepted, until the message is.
    outcomes: Vec<Option<Outcome>>,
    accepted: Vec<bool>,
    mail_refused: bool,
    /// Whether the server waits for the message.
    data_agreed: bool,
    /// Whether MAIL was accepted and the transaction has not ended.
    begun: bool,
}

impl<'a> Transaction<'a> {
    fn new(plan: &'a Plan, host: &'a str) -> Self {
        let refused =
            |rcpt: &Result<_, Failure>| rcpt.as_ref().err().map(|failure| failure.clone().outcome());
        Transaction {
            plan,
            host,
            outcomes: plan.recipients.iter().map(refused).collect(),
            accepted: vec![false; plan.recipients.len()],
            mail_refused: false,
            data_agreed: false,
            begun: false,
        }
    }

    async fn run(
        &mut self,
        wire: &mut Wire,
        reset: bool,
        message: &mut dyn MessageReader,
    ) -> Result<(), Broken> {
        let open = (0..self.outcomes.len()).filter(|&i| self.outcomes[i].is_none());
        let recipients: Vec<Next> = open.map(Next::Rcpt).collect();
        if recipients.is_empty() {
            return Ok(());
        }
        let mut commands = Vec::with_capacity(recipients.len() + 3);
        commands.extend(reset.then_some(Next::Reset));
        commands.push(Next::Mail);
        commands.extend(recipients);
        commands.extend((!self.plan.chunking).then_some(Next::Data));
        let window = if self.plan.pipelining { WINDOW } else { 1 };
        for batch in commands.chunks(window) {
            self.exchange(wire, batch).await?;
        }
        let wanted = self.accepted.contains(&true);
        let reply = match (self.data_agreed, wanted) {
            (true, true) => body::by_data(wire, message).await?,
            (true, false) => {
                body::empty_data(wire).await?;
                self.begun = false;
                return Ok(());
            }
            (false, true) if self.plan.chunking => body::by_chunks(wire, message).await?,
            (false, _) => return Ok(()),
        };
        self.end(&reply)
    }

    /// Sends a batch of commands and takes its replies.
    async fn exchange(&mut self, wire: &mut Wire, batch: &[Next]) -> Result<(), Broken> {
        let mut sent = Vec::with_capacity(batch.len());
        for &next in batch {
            if self.put(wire, next, !sent.is_empty()) {
                sent.push(next);
            }
        }
        for next in sent {
            let answer = wire.answer(next.step()).await?;
            debug_assert!(matches!(answer.to, Sent::Command(_)));
            // RFC 5321 §3.8: the server is about to close; none of its replies to this mail counts.
            if answer.reply.code == 421 {
                let reply = Some(PeerReply::new(&answer.reply));
                return Err(Broken { reason: Reason::ConnectionLost(next.step()), reply });
            }
            self.take(next, &answer.reply)?;
        }
        Ok(())
    }

    /// Writes a command unless replies so far make it pointless. `unanswered`: commands of this batch wait
    /// for their replies.
    fn put(&self, wire: &mut Wire, next: Next, unanswered: bool) -> bool {
        let command = match next {
            Next::Reset => Command::Rset,
            Next::Mail => Command::Mail(self.plan.mail.clone()),
            Next::Rcpt(_) if self.mail_refused => return false,
            Next::Rcpt(i) => match &self.plan.recipients[i] {
                Ok(rcpt) => Command::Rcpt(rcpt.clone()),
                Err(_) => return false,
            },
            Next::Data if !unanswered && !self.accepted.contains(&true) => return false,
            Next::Data => Command::Data,
        };
        wire.client.command(command, &mut wire.out);
        true
    }

    fn take(&mut self, next: Next, reply: &Reply) -> Result<(), Broken> {
        match next {
            Next::Reset if !reply.is_positive() => return Err(Reason::ProtocolViolation(Step::Reset).into()),
            Next::Reset => {}
            Next::Mail if reply.is_positive() => self.begun = true,
            Next::Mail => {
                self.mail_refused = true;
                self.refuse_open(&self.refusal(Reason::SenderRefused, reply));
            }
            Next::Rcpt(i) if reply.is_positive() && !self.mail_refused => self.accepted[i] = true,
            Next::Rcpt(_) if self.mail_refused => {}
            Next::Rcpt(i) => {
                let mut failure = self.refusal(Reason::RecipientRefused, reply);
                // RFC 5321 §4.5.3.1.10: 552 means too many recipients here, as 452 does.
                failure.permanent &= reply.code != 552;
                self.outcomes[i] = Some(failure.outcome());
            }
            Next::Data if reply.is_intermediate() => self.data_agreed = true,
            Next::Data => self.refuse_open(&self.refusal(Reason::MessageRefused, reply)),
        }
        Ok(())
    }

    /// Takes the reply to the end of the message.
    fn end(&mut self, reply: &Reply) -> Result<(), Broken> {
        if reply.code == 421 {
            let reply = Some(PeerReply::new(reply));
            return Err(Broken { reason: Reason::ConnectionLost(Step::MessageEnd), reply });
        }
        if !reply.is_positive() {
            // A refused chunk leaves the transaction open (RFC 3030 §2).
            self.begun = self.plan.chunking;
            self.refuse_open(&self.refusal(Reason::MessageRefused, reply));
            return Ok(());
        }
        self.begun = false;
        let reports: SuccessReports = self.plan.reports;
        let delivered = Delivered { reply: PeerReply::new(reply), reports };
        for outcome in self.outcomes.iter_mut().filter(|outcome| outcome.is_none()) {
            *outcome = Some(Outcome::Delivered(delivered.clone()));
        }
        Ok(())
    }

    fn refusal(&self, reason: Reason, reply: &Reply) -> Failure {
        if !reply.is_error() {
            // 2xx or 3xx out of place is not a refusal, which could be permanent.
            return Failure::new(Reason::ProtocolViolation(Step::Message), self.host)
                .with_scope(Scope::Connection);
        }
        Failure::new(reason, self.host).with_reply(PeerReply::new(reply))
    }

    fn refuse_open(&mut self, failure: &Failure) {
        for outcome in self.outcomes.iter_mut().filter(|outcome| outcome.is_none()) {
            *outcome = Some(failure.clone().outcome());
        }
    }

    /// Gives recipients without an outcome the failure of the broken connection. It is temporary unless
    /// the last reply of the server says otherwise.
    fn break_off(&mut self, broken: Broken) {
        let mut failure = Failure::new(broken.reason, self.host);
        if let Some(reply) = broken.reply {
            failure = failure.with_reply(reply);
        }
        self.refuse_open(&failure);
    }

    fn outcomes(self) -> Vec<Outcome> {
        let missing = Failure::new(Reason::LocalFailure, self.host);
        self.outcomes.into_iter().map(|o| o.unwrap_or_else(|| missing.clone().outcome())).collect()
    }
}
