//! The outcome of an attempt: for each recipient the status and the reason, and facts about the
//! connection.
//!
//! All text of a server is bounded and printable. Types that the queue stores have
//! numbered CBOR fields; numbers are never reused.

mod failure;
mod reason;
mod reply;
mod tls_use;

use std::net::IpAddr;
use std::time::Duration;

use minicbor::{Decode, Encode};

pub use failure::{Failure, Scope};
pub use reason::{Reason, Step};
pub use reply::{PeerReply, REPLY_TEXT_CHARS};
pub use tls_use::{TlsMode, TlsUse};

/// One attempt to send one envelope over one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// One outcome for each recipient of the envelope, in its order.
    pub recipients: Vec<Outcome>,
    /// The server spoken to; `None` if none could be reached.
    pub server: Option<ServerSeen>,
    /// How the connection was secured.
    pub tls: TlsUse,
    /// Extensions that this mail could have used and the server lacks.
    pub lacking: Lacking,
    /// How long each part took.
    pub timing: Timing,
}

impl Attempt {
    /// The same failure for each of `recipients` recipients, before any server was reached.
    pub fn failed(recipients: usize, failure: &Failure) -> Self {
        Attempt {
            recipients: vec![failure.clone().outcome(); recipients],
            server: None,
            tls: TlsUse::default(),
            lacking: Lacking::default(),
            timing: Timing::default(),
        }
    }
}

/// The server at the other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSeen {
    /// Its name by MX, or the address literal.
    pub host: String,
    /// Its address.
    pub address: IpAddr,
}

/// The outcome for one recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The server has taken responsibility.
    Delivered(Delivered),
    /// Not delivered now; the queue tries again.
    Deferred(Failure),
    /// Refused permanently.
    Failed(Failure),
}

impl Outcome {
    /// The failure, if it is one.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Outcome::Delivered(_) => None,
            Outcome::Deferred(failure) | Outcome::Failed(failure) => Some(failure),
        }
    }
}

/// A delivery, and which server reports its success.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Delivered {
    /// The server's reply to the end of the message.
    #[n(0)]
    pub reply: PeerReply,
    /// Which server reports success.
    #[n(1)]
    pub reports: SuccessReports,
}

/// The server that reports success to a sender that asked for it (RFC 3461 §5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum SuccessReports {
    /// The next server: it offers DSN and got the parameters (RFC 3461 §5.2.1).
    #[n(0)]
    NextServer,
    /// This one, with the action `relayed`, if NOTIFY has SUCCESS: the next server has no DSN (RFC
    /// 3461 §5.2.2).
    #[n(1)]
    Relayed,
    /// This one, with the action `delivered`, if NOTIFY has SUCCESS: the mail is in its mailbox
    /// (RFC 3461 §5.2.3).
    #[n(2)]
    DeliveredHere,
    /// This one, with the action `expanded`, if NOTIFY has SUCCESS: an alias sent the mail to several
    /// addresses, which report failures but no success (RFC 3461 §5.2.7.3 (c)).
    #[n(3)]
    Expanded,
}

/// Extensions that a mail could have used and the server does not offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lacking {
    /// SMTPUTF8 (RFC 6531).
    pub smtputf8: bool,
    /// 8BITMIME (RFC 6152); the mail went in [`crate::envelope::BodyForm::SevenBit`].
    pub eight_bit_mime: bool,
    /// DSN (RFC 3461).
    pub dsn: bool,
    /// REQUIRETLS (RFC 8689).
    pub require_tls: bool,
}

/// How long the parts of an attempt took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timing {
    /// Opening the connection, greeting and TLS included; zero for a connection that was open.
    pub connect: Duration,
    /// From MAIL to the reply to the end of the message.
    pub transaction: Duration,
}
