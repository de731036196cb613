//! One session: events in, replies out, in the same order (RFC 2920 §3.2 (1)).

use std::convert::Infallible;
use std::sync::Arc;

use sealpost_base::limits;
use sealpost_smtp::server::{Event, Fatal};
use sealpost_smtp::types::{Chunk, Hello, Reply};

use super::auth::{Exchange, User};
use super::connection::{Connection, End, Within};
use super::transaction::Transaction;
use super::{Service, SmtpShared, replies};
use sealpost_session::metrics::{self, Verdict};
use sealpost_session::net::Stream;
use sealpost_session::session_log::SessionLog;
use sealpost_session::sessions::SessionState;

/// The state of one connection. The commands are in `command`, `rcpt` and `data`.
pub(super) struct Session {
    pub(super) shared: Arc<SmtpShared>,
    pub(super) service: Service,
    pub(super) connection: Connection,
    pub(super) log: SessionLog,
    pub(super) hello: Option<Hello>,
    /// The login: for submission alone.
    pub(super) user: Option<Box<User>>,
    /// The AUTH that waits for the client's next message.
    pub(super) exchange: Option<Exchange>,
    pub(super) transaction: Option<Transaction>,
    /// The BDAT chunk whose bytes are coming.
    pub(super) chunk: Option<CurrentChunk>,
    /// Errors of the client since its last stored message.
    errors: usize,
}

/// A BDAT chunk.
pub(super) struct CurrentChunk {
    pub(super) chunk: Chunk,
    /// Why its bytes are dropped, if they are.
    pub(super) refused: Option<Reply>,
}

impl Session {
    pub(super) fn new(mut stream: Stream, shared: Arc<SmtpShared>, service: Service) -> Self {
        let measured = match service {
            Service::Smtp => metrics::Protocol::Smtp,
            Service::Lmtp => metrics::Protocol::Lmtp,
            Service::Submission => metrics::Protocol::Submission,
        };
        let log = SessionLog::begin(measured, &mut stream, &shared.ctx);
        Session {
            shared,
            service,
            connection: Connection::new(stream),
            log,
            hello: None,
            user: None,
            exchange: None,
            transaction: None,
            chunk: None,
            errors: 0,
        }
    }

    /// Runs from the greeting to the end.
    pub(super) async fn run(mut self: Box<Self>) {
        let Err(end) = self.converse().await;
        // Discard an unacknowledged message, and free its memory, before any other wait.
        self.transaction = None;
        self.user = None;
        self.log.end(end.name());
        if end == End::Http {
            self.log.spoke_http();
        }
        if let Some(reply) = end.reply(&self.shared.ctx.hostname) {
            self.connection.reply(&reply);
        }
        let Session { connection, shared, mut log, .. } = *self;
        Box::pin(connection.close(&shared.ctx, &mut log)).await;
    }

    async fn converse(&mut self) -> Result<Infallible, End> {
        let protocol = if self.is_lmtp() { "LMTP" } else { "ESMTP" };
        self.reply(Reply::new(220, format!("{} {protocol} Sealpost", self.shared.ctx.hostname)));
        loop {
            while let Some(event) = self.connection.next_event() {
                if self.user.as_ref().is_some_and(|user| !user.standing.holds()) {
                    return Err(End::Revoked);
                }
                self.handle(event).await?;
                if self.errors > limits::SMTP_ERRORS {
                    return Err(End::Errors);
                }
                if self.shared.ctx.shutdown.is_stopping() {
                    return Err(End::Stopping);
                }
                if self.connection.is_full() {
                    self.flush().await?;
                }
            }
            let within = self.within();
            let standing = self.user.as_ref().map(|user| &user.standing);
            self.connection.fill(&self.shared, within, standing).await?;
        }
    }

    async fn handle(&mut self, event: Event) -> Result<(), End> {
        match event {
            Event::Command(command) => Box::pin(self.command(command)).await,
            Event::Bad(misuse) => {
                match self.exchange {
                    None => self.refuse(misuse.reply()),
                    Some(_) => self.bad_auth_line(misuse),
                }
                // RFC 2920 §3.2 (6): send it at once.
                self.flush().await
            }
            Event::AuthLine(line) => Box::pin(self.auth_line(line)).await,
            Event::Data(bytes) => {
                Box::pin(self.receive(&bytes)).await;
                Ok(())
            }
            Event::DataEnd(end) => {
                self.log.begin_command("DATA");
                Box::pin(self.end_data(end)).await
            }
            Event::ChunkEnd => {
                self.log.begin_command("BDAT");
                Box::pin(self.end_chunk()).await
            }
            Event::Fatal(Fatal::Http) => Err(End::Http),
            Event::Fatal(Fatal::EndlessLine | Fatal::ChunkSize) => Err(End::Unintelligible),
        }
    }

    /// Whether the client is within a message or between commands.
    fn within(&self) -> Within {
        match self.transaction.as_ref().and_then(|transaction| transaction.message.as_ref()) {
            None => Within::Commands,
            Some(message) if message.holds_budget() => Within::LargeMessage,
            Some(_) => Within::Message,
        }
    }

    /// Queues a reply.
    pub(super) fn reply(&mut self, reply: Reply) {
        match reply.code / 100 {
            // The reply follows the message.
            3 => self.log.defer_command(),
            4 => self.log.end_command(Verdict::No),
            5 => self.log.end_command(Verdict::Bad),
            _ => self.log.end_command(Verdict::Ok),
        }
        self.connection.reply(&reply);
    }

    /// Queues a reply to an error of the client; too many of them end the session. Temporary replies (4xx) do
    /// not count.
    pub(super) fn refuse(&mut self, reply: Reply) {
        if !reply.is_transient() {
            self.errors += 1;
            self.log.count("errors", 1);
        }
        self.reply(reply);
    }

    /// Forgets earlier errors after a stored message.
    pub(super) fn forgive(&mut self) {
        self.errors = 0;
    }

    /// Sends the queued replies.
    pub(super) async fn flush(&mut self) -> Result<(), End> {
        self.connection.flush(&self.shared.ctx).await
    }

    /// Whether recipients have a reply each.
    pub(super) fn is_lmtp(&self) -> bool {
        self.service == Service::Lmtp
    }

    /// Resets the session to the state after the greeting (RFC 3207 §4.2).
    pub(super) fn reset(&mut self) {
        self.hello = None;
        self.user = None;
        self.exchange = None;
        self.log.state(SessionState::Anonymous);
        self.transaction = None;
        self.chunk = None;
    }

    /// Refuses a command out of order.
    pub(super) fn out_of_order(&mut self, text: &'static str) {
        self.refuse(replies::out_of_order(text));
    }
}
