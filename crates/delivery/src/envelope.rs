//! The mail to send: the envelope, facts about the message, and the source of its bytes.
//!
//! The bytes are read only when a server is ready to take them, at most once for each attempt, and
//! are never held whole. A message that needs 8BITMIME has two forms, because its signatures cover
//! the bytes sent: see [`BodyForm`].

use async_trait::async_trait;
use bytes::Bytes;
use sealpost_base::{Result, SubmissionId};
use sealpost_smtp::types::{Mailbox, Notify, OriginalRecipient, Return, ReversePath};

/// One mail for one destination: recipients of one site, and facts about the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// The address that gets reports of failures.
    pub sender: ReversePath,
    /// Recipients, all of which one server accepts mail for; at least one.
    /// [`crate::outcome::Attempt::recipients`] has their order.
    pub recipients: Vec<Recipient>,
    /// RET (RFC 3461 §4.3), sent on to a server that offers DSN.
    pub ret: Option<Return>,
    /// ENVID (RFC 3461 §4.4), sent on to a server that offers DSN.
    pub envid: Option<String>,
    /// Facts about the message.
    pub facts: MessageFacts,
    /// The sender's demand on TLS.
    pub tls: TlsDemand,
    /// Of a report: the account whose submission it is about, and which. Not sent to servers.
    pub report_on: Option<(String, SubmissionId)>,
}

/// One recipient with the sender's options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipient {
    /// The address.
    pub to: Mailbox,
    /// NOTIFY (RFC 3461 §4.1).
    pub notify: Option<Notify>,
    /// ORCPT (RFC 3461 §4.2).
    pub orcpt: Option<OriginalRecipient>,
}

impl Recipient {
    /// A recipient without options.
    pub fn new(to: Mailbox) -> Self {
        Recipient { to, notify: None, orcpt: None }
    }
}

/// Facts about a message that decide how it can be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MessageFacts {
    /// Whether its body has bytes above 127.
    pub eight_bit: bool,
    /// Whether its header has bytes above 127, so that it needs SMTPUTF8 (RFC 6531 §3.4) whatever
    /// the addresses are.
    pub utf8_header: bool,
}

/// The sender's demand on TLS (RFC 8689).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsDemand {
    /// The policies of the destination decide.
    #[default]
    Policy,
    /// REQUIRETLS (RFC 8689 §2): verified TLS, and only to a server that promises the same.
    Require,
    /// `TLS-Required: No` (RFC 8689 §5): delivery matters more than any policy.
    Waive,
}

/// A form in which a server takes the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BodyForm {
    /// As it was accepted.
    AsIs,
    /// With 8-bit parts in quoted-printable (RFC 6152 §3), for servers without 8BITMIME. Signatures
    /// must be made for this form, which `sealpost_mime::seven_bit` produces while it streams.
    SevenBit,
}

/// The source of the bytes of a message.
#[async_trait]
pub trait MessageSource: Send + Sync {
    /// Bytes of the message in `form`, trace and signature fields included, before any
    /// dot-stuffing. An estimate will do (RFC 1870 §6.1), unless it is too small.
    fn size(&self, form: BodyForm) -> u64;

    /// Opens the message in `form` at its beginning.
    ///
    /// # Errors
    /// If it cannot be read now; the mail is deferred with [`crate::outcome::Reason::LocalFailure`].
    async fn open(&self, form: BodyForm) -> Result<Box<dyn MessageReader>>;
}

/// The bytes of an opened message, in order.
#[async_trait]
pub trait MessageReader: Send {
    /// The next piece, never empty and at most 64 KiB as a rule; `None` at the end. Lines end in
    /// CRLF; a bare CR or LF would be sent as CRLF.
    ///
    /// # Errors
    /// If the rest cannot be read. The connection closes without the end of the message, so that the
    /// server does not take a part for the whole.
    async fn next(&mut self) -> Result<Option<Bytes>>;
}

/// A message in memory, in one form only.
#[derive(Debug, Clone)]
pub struct MessageInMemory(pub Bytes);

#[async_trait]
impl MessageSource for MessageInMemory {
    fn size(&self, _form: BodyForm) -> u64 {
        self.0.len() as u64
    }

    async fn open(&self, _form: BodyForm) -> Result<Box<dyn MessageReader>> {
        Ok(Box::new(OnePiece(Some(self.0.clone()))))
    }
}

/// Returns its bytes once.
#[derive(Debug)]
struct OnePiece(Option<Bytes>);

#[async_trait]
impl MessageReader for OnePiece {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        Ok(self.0.take().filter(|bytes| !bytes.is_empty()))
    }
}
