//! The envelope of a queued mail: its sender, recipients, and requested reports.
//!
//! It never changes while the mail is queued; the outcomes of its recipients are in the
//! [state](crate::State). Encoded as CBOR maps whose keys are never reused: `docs/format/queue.md`.

use minicbor::{Decode, Encode};
use sealpost_base::{AccountId, ObjectId, SubmissionId, Timestamp, limits};
use sealpost_vault::message::{Layout, MessageKey};

/// A mail that the queue takes responsibility for.
#[derive(Clone, Encode, Decode)]
#[cbor(map)]
pub struct Mail {
    /// When it was accepted.
    #[n(0)]
    pub accepted: Timestamp,
    /// The account that sent it; `None` for mail of this server, such as a report.
    #[n(1)]
    pub account: Option<AccountId>,
    /// The reverse-path; empty for the null sender (RFC 5321 §4.5.5).
    #[n(2)]
    pub from: String,
    /// The recipients, at least one and at most [`limits::QUEUE_RECIPIENTS`]. Their places in this
    /// list never change.
    #[n(3)]
    pub recipients: Vec<Recipient>,
    /// RET (RFC 3461 §4.3).
    #[n(4)]
    pub ret: Option<Ret>,
    /// ENVID (RFC 3461 §4.4), decoded.
    #[n(5)]
    pub envid: Option<String>,
    /// Facts about the message.
    #[n(6)]
    pub facts: Facts,
    /// What the sender asks of TLS (RFC 8689).
    #[n(7)]
    pub tls: TlsDemand,
    /// Not to be sent before this time (RFC 4865), [`crate::retry::MAX_HOLD`] after it was accepted at most.
    #[n(8)]
    pub release: Option<Timestamp>,
    /// Header fields that go before the body: trace and signatures.
    #[cbor(n(9), with = "minicbor::bytes")]
    pub header: Vec<u8>,
    /// The message behind them.
    #[n(10)]
    pub body: Body,
    /// The Message-ID, for tracing.
    #[n(11)]
    pub message_id: Option<String>,
    /// Where it comes from.
    #[n(12)]
    pub source: Source,
    /// The submission that its account has a record of.
    #[n(13)]
    pub submission: Option<MailSubmission>,
    /// Of a report: the submission that it is about.
    #[n(14)]
    pub report_on: Option<MailSubmission>,
}

/// A submission that the account of a mail has a record of: the queue reports to it what becomes of the
/// mail.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct MailSubmission {
    /// Its id in the account's log.
    #[n(0)]
    pub id: SubmissionId,
    /// The account's name, by which its public key is found.
    #[n(1)]
    pub account: String,
}

/// One recipient and what its sender asked for.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Recipient {
    /// The address, as RCPT has it between the angle brackets.
    #[n(0)]
    pub address: String,
    /// NOTIFY (RFC 3461 §4.1).
    #[n(1)]
    pub notify: Option<Notify>,
    /// ORCPT (RFC 3461 §4.2): `addr-type;address`, decoded.
    #[n(2)]
    pub orcpt: Option<String>,
}

impl Recipient {
    /// One without special requests.
    pub fn new(address: impl Into<String>) -> Self {
        Recipient { address: address.into(), notify: None, orcpt: None }
    }

    /// The domain or address literal behind the last `@`, lower case; empty if there is none.
    pub fn domain(&self) -> String {
        self.address.rsplit_once('@').map_or(String::new(), |(_, domain)| domain.to_lowercase())
    }
}

/// NOTIFY (RFC 3461 §4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
pub struct Notify(#[n(0)] u8);

impl Notify {
    /// No report of anything.
    pub const NEVER: Notify = Notify(0);
    /// A report of success.
    pub const SUCCESS: Notify = Notify(1);
    /// A report of failure.
    pub const FAILURE: Notify = Notify(2);
    /// A report of delay.
    pub const DELAY: Notify = Notify(4);

    /// Both.
    #[must_use]
    pub fn and(self, other: Notify) -> Self {
        Notify(self.0 | other.0)
    }

    /// Whether it asks for all that `other` does.
    pub fn has(self, other: Notify) -> bool {
        self.0 & other.0 == other.0
    }
}

/// RET (RFC 3461 §4.3): how much of the message a report of failure returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Ret {
    /// All of it.
    #[n(0)]
    Full,
    /// Its header.
    #[n(1)]
    Headers,
}

/// Facts about a message that decide how it can be sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Facts {
    /// Bytes of header and body together.
    #[n(0)]
    pub size: u64,
    /// Whether the body has bytes above 127.
    #[n(1)]
    pub eight_bit: bool,
    /// Whether the header has.
    #[n(2)]
    pub utf8_header: bool,
    /// Received fields in it, the one that this server adds included (RFC 5321 §6.3).
    #[n(3)]
    pub received: u32,
}

/// What the sender asks of TLS (RFC 8689).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum TlsDemand {
    /// The policies of the destination decide.
    #[default]
    #[n(0)]
    Policy,
    /// REQUIRETLS (RFC 8689 §2).
    #[n(1)]
    Require,
    /// `TLS-Required: No` (RFC 8689 §5).
    #[n(2)]
    Waive,
}

/// The bytes of a message.
#[derive(Clone, Encode, Decode)]
pub enum Body {
    /// At most [`limits::QUEUE_INLINE_BYTES`], in the log itself.
    #[n(0)]
    Inline(#[cbor(n(0), with = "minicbor::bytes")] Vec<u8>),
    /// An object under `queue/{node}/body/`.
    #[n(1)]
    Object(#[n(0)] BodyRef),
}

/// A body that is an object of its own.
#[derive(Clone, Encode, Decode)]
pub struct BodyRef {
    /// Its name.
    #[n(0)]
    pub object: ObjectId,
    /// Its key.
    #[n(1)]
    pub key: MessageKey,
    /// The sizes of its parts.
    #[n(2)]
    pub layout: Layout,
}

/// The origin of a mail.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Source {
    /// A user of this server submitted it.
    #[default]
    #[n(0)]
    Submission,
    /// Another server sent it to an alias that leads to another server.
    #[n(1)]
    Forward,
    /// This server made it: a report.
    #[n(2)]
    Report,
    /// This server made it: a vacation response.
    #[n(3)]
    Vacation,
}

impl Mail {
    /// Whether failures are not reported (RFC 5321 §4.5.5).
    pub fn is_from_null(&self) -> bool {
        self.from.is_empty()
    }

    /// When it may be sent first.
    pub fn released(&self) -> Timestamp {
        let latest = self.accepted.after(crate::retry::MAX_HOLD);
        self.release.map_or(self.accepted, |release| release.clamp(self.accepted, latest))
    }

    /// Whether it keeps to the limits of the queue.
    pub fn is_within_limits(&self) -> bool {
        let inline = match &self.body {
            Body::Inline(bytes) => bytes.len(),
            Body::Object(_) => 0,
        };
        !self.recipients.is_empty()
            && self.recipients.len() <= limits::QUEUE_RECIPIENTS
            && self.header.len() + inline <= limits::QUEUE_INLINE_BYTES
            && crate::recent::weight(self) <= limits::QUEUE_ENVELOPE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_behind_the_last_at() {
        for (address, domain) in [
            ("jane@Example.ORG", "example.org"),
            ("\"a@b\"@example.org", "example.org"),
            ("jane@[192.0.2.1]", "[192.0.2.1]"),
            ("postmaster", ""),
        ] {
            assert_eq!(Recipient::new(address).domain(), domain);
        }
    }

    #[test]
    fn notify_is_a_set() {
        let both = Notify::FAILURE.and(Notify::DELAY);
        assert!(both.has(Notify::FAILURE) && both.has(both) && !both.has(Notify::SUCCESS));
        assert!(!Notify::NEVER.has(Notify::FAILURE));
    }
}
