//! SMTP (RFC 5321), LMTP (RFC 2033) and submission (RFC 6409) sessions. [`Service`] is the kind: mail from
//! other servers, mail from a server in front of this one, or mail from users.
//!
//! What a session promises:
//! - **Durable before 250.** The session acknowledges a message after all its accounts have it in their
//!   logs. If it is submitted, or an alias forwards it, the queue has it as well by then.
//! - **No relaying for strangers.** SMTP and LMTP refuse a recipient that
//!   [`sealpost_directory::Directory`] does not know. An alias leads where its operator decided. Submission
//!   takes mail to any address, after AUTH (RFC 4954), from addresses that the account may send as.
//! - **Byte-exact.** A delivered message is stored as it arrived, behind one `Return-Path` and one `Received`
//!   field. Long lines, NUL, 8-bit headers and broken MIME are accepted; a look-alike of the end of data is
//!   refused ([`sealpost_smtp::data`]). A submitted message is completed
//!   ([`sealpost_submission::outbox`]); its Received field does not name the client.
//! - **Bounded memory**, whatever the size of a message: a session holds 16 KiB of it. For more it acquires a
//!   permit of the budget for a short time. A client that holds a permit and does not send is disconnected
//!   when other sessions wait.
//!
//! In SMTP several recipients share one reply. All copies are stored before the first log entry is
//! appended. So if the store fails while storing, no account has the message, and the client's next attempt
//! makes no duplicates. If appending fails for some accounts only, the reply is 451 although other accounts
//! have the message; the next attempt delivers it there again. Losing it is the only alternative without a
//! queue (RFC 5321 §6.1). LMTP has one reply for each recipient and no such case.
//!
//! Submission offers DSN (RFC 3461), since the queue sends the reports. SMTP and LMTP parse its parameters
//! but do not offer it: that would promise reports of success, which deliveries do not send. A client that
//! finds no DSN sends them itself (RFC 3461 §5.2.2).

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod auth;
mod burl;
mod command;
mod connection;
mod data;
mod deliver;
mod forward;
mod hops;
mod incoming;
mod mail;
mod quota_check;
mod rcpt;
mod replies;
mod session;
mod sink;
mod submitting;
mod trace;
mod transaction;
mod vacation;

use std::sync::Arc;

use sealpost_base::Budget;

use sealpost_auth::fair_scheduler::QueueHandle;
use sealpost_session::Context;
use sealpost_session::content_urls::ContentUrls;
use sealpost_session::net::Stream;
use sealpost_submission::outbox::Outbox;

/// The kind of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// SMTP: mail from other servers, for local accounts.
    Smtp,
    /// LMTP: the same from a server in front of this one.
    Lmtp,
    /// Submission: mail from users, for any address.
    Submission,
}

/// The parts that all SMTP, LMTP and submission sessions of a server share.
pub struct SmtpShared {
    pub(crate) ctx: Arc<Context>,
    /// Takes submitted messages; `None` if there is no submission.
    outbox: Option<Outbox>,
    /// The part of the budget that messages with several recipients may hold while they wait for more.
    fanout: Fanout,
    /// The part of the budget for the recipients of arriving messages.
    envelopes: Budget,
    /// The place of all RCPT commands in the fair scheduler.
    recipients: QueueHandle,
    /// Resolves URLs of BURL; `None` if BURL is not offered.
    content_urls: Option<Arc<dyn ContentUrls>>,
}

impl SmtpShared {
    /// The shared parts of a server.
    pub fn new(ctx: Arc<Context>, outbox: Option<Outbox>) -> Self {
        SmtpShared {
            outbox,
            fanout: Fanout::of(&ctx.budget),
            envelopes: transaction::envelopes(&ctx.budget),
            recipients: QueueHandle::shared(),
            content_urls: None,
            ctx,
        }
    }

    /// Offers BURL (RFC 4468) for submission, with URLs that `urls` resolves.
    #[must_use]
    pub fn with_content_urls(self, urls: Arc<dyn ContentUrls>) -> Self {
        SmtpShared { content_urls: Some(urls), ..self }
    }
}

/// Serves one connection until it ends. The listener handles TLS from the first byte.
///
/// Returns when the client or the session has ended the connection, or the server stops (421 within moments;
/// RFC 5321 §3.8).
pub async fn serve(stream: Stream, shared: Arc<SmtpShared>, service: Service) {
    // In a box, so that a waiting task is small.
    Box::new(session::Session::new(stream, shared, service)).run().await;
}

/// The part of the memory budget that messages with several recipients may hold while they wait for more.
///
/// Such a message is in memory (or read back from the spool) while copies of it are written, which need
/// permits of the budget themselves. If such messages could use up the budget, all would wait for each other.
/// They may hold a quarter, so that a copy can always continue.
#[derive(Clone)]
struct Fanout(Budget);

impl Fanout {
    /// A quarter of `budget`.
    fn of(budget: &Budget) -> Self {
        Fanout(Budget::new(budget.common() / 4))
    }
}
