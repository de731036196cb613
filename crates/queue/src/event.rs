//! What the log of a queue says: an entry is a [`Batch`] of events.
//!
//! Encoded as CBOR; numbers are never reused (`docs/format/queue.md`). An event about a mail that
//! is not queued has no effect.

use std::fmt;

use minicbor::{Decode, Encode};
use sealpost_base::{Error, ObjectId, Position, Random, Result, Timestamp, limits};
use sealpost_vault::message::{Layout, MessageKey};

use crate::MailId;
use crate::envelope::Mail;

/// One entry.
#[derive(Clone, Encode, Decode)]
#[cbor(map)]
pub struct Batch {
    /// The writer's time.
    #[n(0)]
    pub at: Timestamp,
    /// Who appended it. A queue whose log has an entry of another one has lost it and stops.
    #[n(1)]
    pub writer: WriterId,
    /// Tells this entry from every other one of the writer's, for an append whose outcome is unknown.
    #[n(2)]
    pub nonce: u64,
    /// The changes, in order.
    #[n(3)]
    pub events: Vec<Event>,
    /// The id of the first mail that it accepts. Ids do not depend on entries before: one that is
    /// lost with a damaged disk takes no others with it.
    #[n(4)]
    pub first: MailId,
}

/// One run of a queue by one process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct WriterId(#[cbor(n(0), with = "minicbor::bytes")] pub [u8; 16]);

impl WriterId {
    /// A new one.
    pub fn random(random: &dyn Random) -> Self {
        let mut id = WriterId([0; 16]);
        random.fill(&mut id.0);
        id
    }
}

impl fmt::Display for WriterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for WriterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WriterId({self})")
    }
}

/// One change of a queue.
#[derive(Clone, Encode, Decode)]
pub enum Event {
    /// The queue is responsible for this mail now; replay gives it the next [`MailId`].
    #[n(0)]
    Accepted(#[n(0)] Box<Mail>),
    /// A server is about to get the end of this mail. After a crash it may have the mail or not.
    #[n(1)]
    Sending(#[n(0)] MailId),
    /// The outcomes of an attempt.
    #[n(2)]
    Attempted(#[n(0)] Attempted),
    /// The delay was reported to the sender, or need not be.
    #[n(3)]
    DelayReported(#[n(0)] MailId),
    /// The operator holds a mail.
    #[n(4)]
    Held(#[n(0)] Held),
    /// The operator released a mail. It is due, and expires as if it had been accepted now.
    #[n(5)]
    Released(#[n(0)] MailId),
    /// The operator made a mail due.
    #[n(6)]
    Retried(#[n(0)] MailId),
    /// The operator removed a mail without a report.
    #[n(7)]
    Removed(#[n(0)] MailId),
    /// A standing rule.
    #[n(8)]
    RuleAdded(#[n(0)] Rule),
    /// The rule of that number is withdrawn; mail that it held is released.
    #[n(9)]
    RuleRemoved(#[n(0)] u32),
    /// Mail was carried into a segment: its entries may be trimmed.
    #[n(10)]
    Carried(#[n(0)] Carried),
    /// The writer of this entry runs the queue from now on.
    #[n(11)]
    Adopted(#[n(0)] Adoption),
    /// The queue sends nothing until `AllReleased`, for that reason.
    #[n(12)]
    AllHeld(#[n(0)] String),
    /// The queue sends again.
    #[n(13)]
    AllReleased,
    /// The request of this name was handled.
    #[n(14)]
    Handled(#[n(0)] String),
    /// The writer runs and has nothing else to record.
    #[n(15)]
    Alive,
    /// The server that took the mail for the recipients that the next event names as delivered.
    #[n(16)]
    Taken(#[n(0)] Taken),
    /// The sender cancels the mail. No effect if a server has it, or can get it by an attempt that was
    /// begun.
    #[n(17)]
    Canceled(#[n(0)] MailId),
    /// Accounts know what became of these submissions, up to that position of this log.
    #[n(18)]
    Told(#[n(0)] Told),
}

/// What accounts know of their submissions.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Told {
    /// The mails.
    #[n(0)]
    pub mails: Vec<MailId>,
    /// Up to where.
    #[n(1)]
    pub upto: Position,
}

/// A server took a mail.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Taken {
    /// The mail.
    #[n(0)]
    pub mail: MailId,
    /// The server.
    #[n(1)]
    pub host: String,
    /// Its reply to the end of the message.
    #[n(2)]
    pub reply: String,
}

impl Taken {
    /// The event, with the reply cut to its limit.
    pub fn new(mail: MailId, host: &str, reply: &str) -> Self {
        Taken { mail, host: printable(host, 255), reply: printable(reply, limits::QUEUE_REASON_BYTES) }
    }
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} replied: {}", self.host, self.reply)
    }
}

/// The outcomes of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Attempted {
    /// The mail.
    #[n(0)]
    pub mail: MailId,
    /// Recipients, by their place in [`Mail::recipients`], and the outcome of each.
    #[n(1)]
    pub outcomes: Vec<(u16, Outcome)>,
    /// How many attempts were made at the mail, this one included.
    #[n(2)]
    pub attempts: u8,
    /// When the next one is due, if recipients are left.
    #[n(3)]
    pub next: Timestamp,
}

/// The outcome for a recipient.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Outcome {
    /// The next server is responsible.
    #[n(0)]
    Delivered,
    /// The same, and it does not report (RFC 3461 §5.2.2).
    #[n(1)]
    Relayed,
    /// The queue tries again.
    #[n(2)]
    Deferred(#[n(0)] Failure),
    /// Failed: the queue tries no more.
    #[n(3)]
    Failed(#[n(0)] Failure),
    /// It is in a mailbox of this server.
    #[n(4)]
    DeliveredHere,
    /// An alias of this server has sent it on to several addresses (RFC 3461 §5.2.7.3).
    #[n(5)]
    Expanded,
}

impl Outcome {
    /// Whether the queue has nothing more to do for the recipient.
    pub fn is_final(&self) -> bool {
        !matches!(self, Outcome::Deferred(_))
    }
}

/// Why a recipient did not get the mail. All text is bounded and printable.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Failure {
    /// The status (RFC 3463).
    #[n(0)]
    pub status: Status,
    /// The server or name in question; empty if there is none.
    #[n(1)]
    pub host: String,
    /// The reply of that server, or else a description.
    #[n(2)]
    pub text: String,
    /// Whether `text` is a reply of `host`.
    #[n(3)]
    pub is_reply: bool,
}

/// A status code (RFC 3463).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
pub struct Status {
    /// 2, 4 or 5.
    #[n(0)]
    pub class: u8,
    /// The subject.
    #[n(1)]
    pub subject: u16,
    /// The detail.
    #[n(2)]
    pub detail: u16,
}

impl Status {
    /// `class.subject.detail`.
    pub const fn new(class: u8, subject: u16, detail: u16) -> Self {
        Status { class, subject, detail }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.class, self.subject, self.detail)
    }
}

impl Failure {
    /// A failure on this node.
    pub fn local(status: Status, text: impl AsRef<str>) -> Self {
        Failure {
            status,
            host: String::new(),
            text: printable(text.as_ref(), limits::QUEUE_REPLY_BYTES),
            is_reply: false,
        }
    }

    /// A failure with `host`: its reply, or a description.
    pub fn at(host: &str, status: Status, text: &str, is_reply: bool) -> Self {
        let (host, text) = (printable(host, 255), printable(text, limits::QUEUE_REPLY_BYTES));
        Failure { status, host, text, is_reply }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.host.is_empty(), self.is_reply) {
            (true, _) => f.write_str(&self.text),
            (false, true) => write!(f, "{} replied: {}", self.host, self.text),
            (false, false) => write!(f, "{}: {}", self.host, self.text),
        }
    }
}

/// `text` in one line without control characters, at most `limit` bytes of it.
pub(crate) fn printable(text: &str, limit: usize) -> String {
    let mut kept = String::with_capacity(text.len().min(limit));
    for c in text.chars() {
        let c = if c.is_control() { ' ' } else { c };
        if kept.len() + c.len_utf8() > limit {
            break;
        }
        kept.push(c);
    }
    kept
}

/// A mail that an operator holds.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Held {
    /// The mail.
    #[n(0)]
    pub mail: MailId,
    /// When the hold ends; [`crate::retry::MAX_HOLD`] from now at most.
    #[n(1)]
    pub until: Timestamp,
    /// The rule that holds it; 0 if the operator named the mail.
    #[n(2)]
    pub rule: u32,
}

/// A hold that an operator put on queued and future mail.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Rule {
    /// Its number, from 1; replay gives it when it is 0.
    #[n(0)]
    pub number: u32,
    /// The mail that it holds.
    #[n(1)]
    pub selector: Selector,
    /// When the rule ends.
    #[n(2)]
    pub until: Timestamp,
    /// Why, in the operator's words.
    #[n(3)]
    pub note: String,
}

/// Selects mail. All fields that are present must match; without any, it matches no mail.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Selector {
    /// The reverse-path, lower case; `<>` is the null one; `@example.org` is every address of a domain.
    #[n(0)]
    pub sender: Option<String>,
    /// The domain of a recipient, lower case.
    #[n(1)]
    pub domain: Option<String>,
    /// The site that mail goes to: one of its servers' names.
    #[n(2)]
    pub site: Option<String>,
    /// Mails by their ids; not in a rule.
    #[n(3)]
    pub mails: Option<Vec<MailId>>,
    /// All mail; not in a rule.
    #[n(4)]
    pub all: Option<bool>,
}

impl Selector {
    /// Whether mail from `from` to a recipient of `domain` matches these two fields. The scheduler
    /// matches sites.
    pub fn matches(&self, from: &str, domain: &str) -> bool {
        let sender = self.sender.as_deref().is_none_or(|wanted| {
            let from = from.to_lowercase();
            match wanted {
                "<>" => from.is_empty(),
                wanted if wanted.starts_with('@') => from.ends_with(wanted),
                wanted => from == wanted,
            }
        });
        sender && self.domain.as_deref().is_none_or(|wanted| wanted == domain)
    }

    /// Whether any field is present.
    pub fn is_given(&self) -> bool {
        self.sender.is_some()
            || self.domain.is_some()
            || self.site.is_some()
            || self.mails.as_ref().is_some_and(|mails| !mails.is_empty())
            || self.all == Some(true)
    }
}

/// Mail that its writer carried into a segment.
#[derive(Clone, Encode, Decode)]
#[cbor(map)]
pub struct Carried {
    /// The segment's object.
    #[n(0)]
    pub object: ObjectId,
    /// Its key.
    #[n(1)]
    pub key: MessageKey,
    /// The sizes of its parts.
    #[n(2)]
    pub layout: Layout,
    /// Each mail with its offset and length in the segment.
    #[n(3)]
    pub mails: Vec<(MailId, u32, u32)>,
}

/// A process takes a queue over.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Adoption {
    /// The node that it runs on, for the operator.
    #[n(0)]
    pub node: String,
}

impl Batch {
    /// The plaintext of an entry.
    pub fn encode(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("a vector takes everything")
    }

    /// The batch of an entry's plaintext.
    ///
    /// # Errors
    /// `Corrupt` if the bytes are no batch, `Retry` if it has an event that this version does not know.
    pub fn decode(plain: &[u8]) -> Result<Self> {
        minicbor::decode(plain).map_err(|e| Error::undecodable("an entry of a queue", e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_servers_is_bounded_and_printable() {
        let text = format!("550 no\r\nsuch\0user {}", "é".repeat(5000));
        let failure = Failure::at("mx.example", Status::new(5, 1, 1), &text, true);
        assert!(failure.text.len() <= limits::QUEUE_REPLY_BYTES);
        assert!(failure.to_string().starts_with("mx.example replied: 550 no  such user é"));
    }

    #[test]
    fn selectors_match_senders_and_domains() {
        let by = |sender: &str, domain: &str| Selector {
            sender: (!sender.is_empty()).then(|| sender.to_owned()),
            domain: (!domain.is_empty()).then(|| domain.to_owned()),
            ..Selector::default()
        };
        assert!(by("a@x.example", "").matches("A@X.example", "y.example"));
        assert!(by("@x.example", "y.example").matches("b@x.example", "y.example"));
        assert!(!by("@x.example", "y.example").matches("b@x.example", "z.example"));
        assert!(by("<>", "").matches("", "y.example") && !by("<>", "").matches("a@x", "y.example"));
        assert!(!Selector::default().is_given());
    }
}
