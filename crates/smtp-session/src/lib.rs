//! SMTP (RFC 5321), LMTP (RFC 2033) and submission (RFC 6409) sessions. [`Service`] says which: mail
//! from other servers, mail from a server in front of this one, or mail from users.
//!
//! What a session promises:
//! - **Durable before 250.** A message is acknowledged after every account it goes to has it in its
//!   log; a submitted one, and one that an alias leads to other servers, after the queue has it too.
//! - **Nothing is relayed for strangers.** SMTP and LMTP refuse a recipient that
//!   [`sealpost_directory::Directory`] does not know. Where an alias leads, its operator decided. Submission takes mail to anywhere, after AUTH
//!   (RFC 4954), from addresses that the account may send as.
//! - **Byte-exact.** A delivered message is stored as it came, behind one `Return-Path` and one
//!   `Received` field. Long lines, NUL, 8-bit headers and broken MIME are not refused; a look-alike
//!   of the end of data is ([`sealpost_smtp::data`]). A submitted message is completed instead
//!   ([`sealpost_submission::outbox`]): its Received field says nothing of the client.
//! - **Bounded memory**, whatever the size of a message: a session holds 16 KiB of it, and what
//!   more it needs is drawn from the budget and let go of soon; a client that holds it and does not
//!   send is cut off when others wait.
//!
//! Several recipients in SMTP share one reply. All copies are stored before the first log entry is
//! appended, so that a store that fails while storing leaves nothing delivered, and the client's
//! next attempt makes no duplicates. Only if appending itself fails for some accounts is the
//! message in some mailboxes and the reply still 451: the next attempt delivers it there again.
//! Losing it is not an option, and without a queue RFC 5321 §6.1 leaves no third one. LMTP has one
//! reply for each recipient and no such case.
//!
//! DSN (RFC 3461) is offered for submission, where the queue reports. For delivery its parameters
//! are parsed but the extension is not offered: offering it promises reports of success that
//! deliveries do not send, and a client that is not offered it sends them itself (RFC 3461 §5.2.2).

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

/// What a session is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// SMTP: mail from other servers, for local accounts.
    Smtp,
    /// LMTP: the same from a server in front of this one.
    Lmtp,
    /// Submission: mail from users, for everyone.
    Submission,
}

/// What all SMTP, LMTP and submission sessions of a server share.
pub struct SmtpShared {
    pub(crate) ctx: Arc<Context>,
    /// Where submitted messages go; without it nothing can be submitted.
    outbox: Option<Outbox>,
    /// What part of the budget messages with several recipients may hold while they wait for more.
    fanout: Fanout,
    /// What part of it the recipients of messages that come may take.
    envelopes: Budget,
    /// The queue of all that name recipients.
    recipients: QueueHandle,
    /// What BURL is resolved by; without it BURL is not offered.
    content_urls: Option<Arc<dyn ContentUrls>>,
}

impl SmtpShared {
    /// That of a server.
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

/// Serves one connection until it ends. TLS from the first byte is the listener's business.
///
/// Returns when the client has left, was sent away, or the server stops (421 within moments; RFC 5321 §3.8).
pub async fn serve(stream: Stream, shared: Arc<SmtpShared>, service: Service) {
    // In a box, so that the task is as small as what it waits for.
    Box::new(session::Session::new(stream, shared, service)).run().await;
}

/// The part of the memory budget that messages with several recipients may hold while they wait for more.
///
/// Such a message is held in memory (or read back from the spool) while copies of it are written,
/// which draw from the budget themselves. If those that hold could use up the budget, all would
/// wait for each other; with a quarter of it, somebody can always go on.
#[derive(Clone)]
struct Fanout(Budget);

impl Fanout {
    /// A quarter of `budget`.
    fn of(budget: &Budget) -> Self {
        Fanout(Budget::new(budget.common() / 4))
    }
}
