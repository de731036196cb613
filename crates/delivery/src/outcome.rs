//! What came of an attempt: for each recipient the status and the reason, and facts about the connection.
//!
//! Everything that a server wrote is bounded and printable. Types that the queue stores have numbered CBOR fields;
//! numbers are never reused.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use minicbor::{Decode, Encode};
use sealpost_smtp::types::{Enhanced, Reply};

/// Characters of a server's reply that are kept.
pub const REPLY_TEXT_CHARS: usize = 400;

/// One attempt to send one envelope over one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// One outcome for each recipient of the envelope, in its order.
    pub recipients: Vec<Outcome>,
    /// The server spoken to; `None` if none could be reached.
    pub server: Option<ServerSeen>,
    /// How the connection was secured.
    pub tls: TlsUse,
    /// What the server lacks that this mail could have used.
    pub lacking: Lacking,
    /// Where the time went.
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

/// What became of one recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The server has taken responsibility.
    Delivered(Delivered),
    /// Not now; to be tried again.
    Deferred(Failure),
    /// Refused for good.
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

/// A delivery and what it means for reports.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Delivered {
    /// The server's reply to the end of the message.
    #[n(0)]
    pub reply: PeerReply,
    /// Who reports success.
    #[n(1)]
    pub reports: SuccessReports,
}

/// Which server reports success to a sender who asked for it (RFC 3461 §5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum SuccessReports {
    /// The next server: it offers DSN and got the parameters (RFC 3461 §5.2.1).
    #[n(0)]
    NextServer,
    /// This one, with the action `relayed`, if NOTIFY has SUCCESS: the next server has no DSN (RFC 3461 §5.2.2).
    #[n(1)]
    Relayed,
}

/// Why a recipient has not got the mail.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Failure {
    /// What happened.
    #[n(0)]
    pub reason: Reason,
    /// What else is affected.
    #[n(1)]
    pub scope: Scope,
    /// Whether trying again can help.
    #[n(2)]
    pub permanent: bool,
    /// What the server said, if it spoke.
    #[n(3)]
    pub reply: Option<PeerReply>,
    /// The server or the name in question, for the operator; empty if there is none.
    #[n(4)]
    pub host: String,
}

impl Failure {
    /// A failure without a reply, of the scope and permanence that `reason` has as a rule.
    pub fn new(reason: Reason, host: impl Into<String>) -> Self {
        let (scope, permanent) = reason.rule();
        Failure { reason, scope, permanent, reply: None, host: host.into() }
    }

    /// The same failure with what the server said.
    #[must_use]
    pub fn with_reply(mut self, reply: PeerReply) -> Self {
        self.permanent = reply.code / 100 == 5;
        self.reply = Some(reply);
        self
    }

    /// The same failure with another scope.
    #[must_use]
    pub fn with_scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// As the outcome of a recipient.
    pub fn outcome(self) -> Outcome {
        if self.permanent { Outcome::Failed(self) } else { Outcome::Deferred(self) }
    }

    /// The status for reports (RFC 3463): the server's own code, or that of the reason.
    pub fn status(&self) -> Enhanced {
        let reply = self.reply.as_ref().and_then(|reply| reply.enhanced);
        reply.unwrap_or_else(|| self.reason.status(self.permanent))
    }

    /// Whether a route's second choice may succeed where this one failed: the server refuses this node rather than
    /// the recipient or the message.
    pub fn concerns_route(&self) -> bool {
        match self.reason {
            Reason::ConnectionRefused
            | Reason::Unreachable
            | Reason::TimedOut(_)
            | Reason::ConnectionLost(_)
            | Reason::GreetingRefused
            | Reason::AuthenticationFailed => self.scope != Scope::Recipient,
            // RFC 3463 §3.8: security or policy status.
            Reason::SenderRefused | Reason::RecipientRefused | Reason::MessageRefused => {
                self.status().subject == 7
            }
            _ => false,
        }
    }
}

impl fmt::Display for Failure {
    /// One line for an operator: the reason, the server, what it said.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.reason)?;
        if !self.host.is_empty() {
            write!(f, " ({})", self.host)?;
        }
        if let Some(reply) = &self.reply {
            write!(f, ": {reply}")?;
        }
        Ok(())
    }
}

/// How far a failure reaches: what the caller should expect to fail the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum Scope {
    /// This recipient of this message.
    #[n(0)]
    Recipient,
    /// This message, for all recipients at this site; other messages may pass.
    #[n(1)]
    Message,
    /// This connection, which is of no more use; another one may work.
    #[n(2)]
    Connection,
    /// The whole destination: none of its servers can be used now.
    #[n(3)]
    Site,
    /// This node; the destination is not to blame.
    #[n(4)]
    Local,
}

/// A step of a delivery that waits for somebody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum Step {
    /// Looking up names.
    #[n(0)]
    Dns,
    /// Opening the connection.
    #[n(1)]
    Connect,
    /// The server's greeting.
    #[n(2)]
    Greeting,
    /// EHLO or HELO.
    #[n(3)]
    Hello,
    /// STARTTLS and the handshake.
    #[n(4)]
    Tls,
    /// AUTH.
    #[n(5)]
    Auth,
    /// MAIL.
    #[n(6)]
    Mail,
    /// RCPT.
    #[n(7)]
    Rcpt,
    /// DATA, until the server agrees.
    #[n(8)]
    Data,
    /// The message itself.
    #[n(9)]
    Message,
    /// The reply to the end of the message.
    #[n(10)]
    MessageEnd,
    /// RSET between messages.
    #[n(11)]
    Reset,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Step::Dns => "DNS",
            Step::Connect => "connecting",
            Step::Greeting => "the greeting",
            Step::Hello => "EHLO",
            Step::Tls => "the TLS handshake",
            Step::Auth => "AUTH",
            Step::Mail => "MAIL",
            Step::Rcpt => "RCPT",
            Step::Data => "DATA",
            Step::Message => "the message",
            Step::MessageEnd => "the end of the message",
            Step::Reset => "RSET",
        })
    }
}

/// What happened, in words that an operator can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
pub enum Reason {
    /// The domain does not exist.
    #[n(0)]
    NoSuchDomain,
    /// The domain accepts no mail (RFC 7505).
    #[n(1)]
    NullMx,
    /// Its mail servers have no address.
    #[n(2)]
    NoAddress,
    /// Name servers failed or did not answer in time.
    #[n(3)]
    DnsFailed,
    /// An answer was not signed as its zone requires.
    #[n(4)]
    DnsBogus,
    /// The best mail server of the domain is this one (RFC 5321 §5.1).
    #[n(5)]
    MailLoop,
    /// The host refused the connection.
    #[n(6)]
    ConnectionRefused,
    /// No route to the host, or the network is down.
    #[n(7)]
    Unreachable,
    /// The peer did not finish a step in time.
    #[n(8)]
    TimedOut(#[n(0)] Step),
    /// The peer closed the connection.
    #[n(9)]
    ConnectionLost(#[n(0)] Step),
    /// The peer does not speak SMTP, or keeps sending more than a reply may have.
    #[n(10)]
    ProtocolViolation(#[n(0)] Step),
    /// The greeting or EHLO was refused: the server does not want this client.
    #[n(11)]
    GreetingRefused,
    /// MAIL was refused.
    #[n(12)]
    SenderRefused,
    /// RCPT was refused.
    #[n(13)]
    RecipientRefused,
    /// DATA or the message was refused.
    #[n(14)]
    MessageRefused,
    /// The message is larger than the server takes (RFC 1870 §6.1).
    #[n(15)]
    TooLarge,
    /// Policy requires TLS, and the server does not offer it.
    #[n(16)]
    TlsNotOffered,
    /// The TLS handshake failed.
    #[n(17)]
    TlsFailed,
    /// The certificate is not trusted, expired or for another name.
    #[n(18)]
    CertificateInvalid,
    /// The certificate matches none of the TLSA records (RFC 7672).
    #[n(19)]
    DaneMismatch,
    /// No mail server is among those that the MTA-STS policy names (RFC 8461 §5).
    #[n(20)]
    StsMxMismatch,
    /// The sender demands REQUIRETLS and the server does not offer it (RFC 8689 §4.2).
    #[n(21)]
    RequireTlsLacking,
    /// The message needs SMTPUTF8 and the server does not offer it (RFC 6531 §3.1).
    #[n(22)]
    SmtpUtf8Lacking,
    /// The smarthost did not accept the credentials.
    #[n(23)]
    AuthenticationFailed,
    /// This node could not read the message, or stopped.
    #[n(24)]
    LocalFailure,
    /// The connection does not meet what this message demands; another connection may.
    #[n(25)]
    WrongConnection,
    /// The whole attempt took longer than its bound.
    #[n(26)]
    TooSlow,
    /// The address of the destination is not one that mail can be sent to.
    #[n(27)]
    BadDestination,
}

impl Reason {
    /// Scope and permanence without a server's reply that says otherwise.
    fn rule(self) -> (Scope, bool) {
        match self {
            // RFC 5321 §5.1, RFC 7505 §3: permanent by what DNS says.
            Reason::NoSuchDomain | Reason::NullMx | Reason::MailLoop | Reason::BadDestination => {
                (Scope::Site, true)
            }
            // RFC 5321 §5.1: "no records ... MUST be treated as permanent" holds for the domain without MX and address.
            Reason::NoAddress => (Scope::Site, true),
            Reason::DnsFailed | Reason::DnsBogus => (Scope::Site, false),
            Reason::StsMxMismatch => (Scope::Site, false),
            Reason::ConnectionRefused
            | Reason::Unreachable
            | Reason::TimedOut(_)
            | Reason::ConnectionLost(_)
            | Reason::ProtocolViolation(_)
            | Reason::GreetingRefused
            | Reason::TlsNotOffered
            | Reason::TlsFailed
            | Reason::CertificateInvalid
            | Reason::DaneMismatch
            | Reason::AuthenticationFailed
            | Reason::WrongConnection
            | Reason::TooSlow => (Scope::Connection, false),
            Reason::SenderRefused | Reason::MessageRefused => (Scope::Message, false),
            Reason::RecipientRefused => (Scope::Recipient, false),
            // RFC 8689 §4.2.1, RFC 6531 §3.2, RFC 1870 §6.1: the message is returned.
            Reason::TooLarge | Reason::RequireTlsLacking | Reason::SmtpUtf8Lacking => (Scope::Message, true),
            Reason::LocalFailure => (Scope::Local, false),
        }
    }

    /// The status for reports where no server gave one (RFC 3463 and the registry of RFC 5248).
    pub fn status(self, permanent: bool) -> Enhanced {
        let class = if permanent { 5 } else { 4 };
        let (subject, detail) = match self {
            // RFC 3463 §3.2: bad destination system address.
            Reason::NoSuchDomain | Reason::BadDestination => (1, 2),
            // RFC 7505 §4.
            Reason::NullMx => (1, 10),
            // RFC 3463 §3.5: unable to route.
            Reason::NoAddress => (4, 4),
            // RFC 3463 §3.5: directory server failure.
            Reason::DnsFailed | Reason::DnsBogus => (4, 3),
            // RFC 3463 §3.5: routing loop detected.
            Reason::MailLoop => (4, 6),
            // RFC 3463 §3.5: no answer from host.
            Reason::ConnectionRefused | Reason::Unreachable => (4, 1),
            // RFC 3463 §3.5: bad connection; §3.5 4.7 is "delivery time expired", which is the queue's.
            Reason::TimedOut(_) | Reason::ConnectionLost(_) | Reason::TooSlow | Reason::WrongConnection => {
                (4, 2)
            }
            // RFC 3463 §3.6: other or undefined protocol status.
            Reason::ProtocolViolation(_) => (5, 0),
            Reason::GreetingRefused => (3, 2),
            Reason::SenderRefused => (1, 0),
            Reason::RecipientRefused => (1, 0),
            Reason::MessageRefused => (6, 0),
            // RFC 3463 §3.4: message too big for system.
            Reason::TooLarge => (3, 4),
            // RFC 8461 §5, RFC 7672 §2.2, RFC 8689 §4.2.1: security.
            Reason::TlsNotOffered
            | Reason::TlsFailed
            | Reason::CertificateInvalid
            | Reason::DaneMismatch
            | Reason::StsMxMismatch => (7, 5),
            // RFC 8689 §7: "REQUIRETLS support required".
            Reason::RequireTlsLacking => (7, 30),
            // RFC 6531 §3.5: X.6.7, the message or an address needs SMTPUTF8.
            Reason::SmtpUtf8Lacking => (6, 7),
            Reason::AuthenticationFailed => (7, 8),
            Reason::LocalFailure => (3, 0),
        };
        Enhanced::new(class, subject, detail)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::NoSuchDomain => "the domain does not exist",
            Reason::NullMx => "the domain accepts no mail",
            Reason::NoAddress => "the domain has no mail server with an address",
            Reason::DnsFailed => "DNS failed",
            Reason::DnsBogus => "DNSSEC validation failed",
            Reason::MailLoop => "this server is the mail server of the domain, but does not host it",
            Reason::ConnectionRefused => "the server refused the connection",
            Reason::Unreachable => "the server is unreachable",
            Reason::TimedOut(step) => return write!(f, "timeout during {step}"),
            Reason::ConnectionLost(step) => {
                return write!(f, "the server closed the connection during {step}");
            }
            Reason::ProtocolViolation(step) => {
                return write!(f, "the server broke the protocol during {step}");
            }
            Reason::GreetingRefused => "the server refused this client",
            Reason::SenderRefused => "the server refused the sender",
            Reason::RecipientRefused => "the server refused the recipient",
            Reason::MessageRefused => "the server refused the message",
            Reason::TooLarge => "the message is larger than the server accepts",
            Reason::TlsNotOffered => "policy requires TLS, which the server does not offer",
            Reason::TlsFailed => "the TLS handshake failed",
            Reason::CertificateInvalid => {
                "policy requires a valid certificate, which the server does not have"
            }
            Reason::DaneMismatch => "the certificate matches no TLSA record",
            Reason::StsMxMismatch => "no mail server of the domain is in its MTA-STS policy",
            Reason::RequireTlsLacking => "the sender requires TLS, and the server does not offer REQUIRETLS",
            Reason::SmtpUtf8Lacking => "the message needs SMTPUTF8, which the server does not offer",
            Reason::AuthenticationFailed => "the smarthost did not accept the credentials",
            Reason::LocalFailure => "this node could not send the message",
            Reason::WrongConnection => "the connection is not secure enough for this message",
            Reason::TooSlow => "the attempt took longer than allowed",
            Reason::BadDestination => "mail cannot be sent to this kind of address",
        })
    }
}

/// What a server said, bounded and printable.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct PeerReply {
    /// The three-digit code.
    #[n(0)]
    pub code: u16,
    /// The enhanced code, if the server gave one.
    #[n(1)]
    #[cbor(with = "enhanced_code")]
    pub enhanced: Option<Enhanced>,
    /// Its text in one line, at most [`REPLY_TEXT_CHARS`] characters, none of them a control character.
    #[n(2)]
    pub text: String,
}

impl PeerReply {
    /// Keeps the bounded part of `reply`.
    pub fn new(reply: &Reply) -> Self {
        let lines = reply.lines.iter().flat_map(|line| [" ", line]).skip(1);
        let printable = |c: char| if c.is_control() { '?' } else { c };
        let text = lines.flat_map(str::chars).take(REPLY_TEXT_CHARS).map(printable).collect();
        PeerReply { code: reply.code, enhanced: reply.enhanced, text }
    }
}

impl fmt::Display for PeerReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        if let Some(enhanced) = self.enhanced {
            write!(f, " {enhanced}")?;
        }
        if !self.text.is_empty() {
            write!(f, " {}", self.text)?;
        }
        Ok(())
    }
}

/// An enhanced code as an array of three numbers, or null.
mod enhanced_code {
    use minicbor::decode::{Decoder, Error as DecodeError};
    use minicbor::encode::{Encoder, Error as EncodeError, Write};
    use sealpost_smtp::types::Enhanced;

    pub(super) fn encode<C, W: Write>(
        value: &Option<Enhanced>,
        e: &mut Encoder<W>,
        ctx: &mut C,
    ) -> Result<(), EncodeError<W::Error>> {
        let numbers = value.map(|code| (code.class, code.subject, code.detail));
        e.encode_with(numbers, ctx)?.ok()
    }

    pub(super) fn decode<C>(d: &mut Decoder<'_>, ctx: &mut C) -> Result<Option<Enhanced>, DecodeError> {
        let numbers: Option<(u8, u16, u16)> = d.decode_with(ctx)?;
        Ok(numbers.map(|(class, subject, detail)| Enhanced::new(class, subject, detail)))
    }
}

/// How a connection was secured.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct TlsUse {
    /// By which policy.
    #[n(0)]
    pub mode: TlsMode,
    /// Whether the server's certificate was verified by that policy, or would have been by the public roots.
    #[n(1)]
    pub verified: bool,
    /// Version and cipher suite, such as `TLSv1.3 TLS13_AES_256_GCM_SHA384`; empty without TLS.
    #[n(2)]
    pub parameters: String,
}

/// The policy that decided on TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Encode, Decode)]
#[cbor(index_only)]
pub enum TlsMode {
    /// The connection is in the clear.
    #[default]
    #[n(0)]
    None,
    /// TLS because the server offers it, with any certificate (RFC 3207).
    #[n(1)]
    Opportunistic,
    /// An MTA-STS policy in mode `enforce` (RFC 8461).
    #[n(2)]
    MtaSts,
    /// TLSA records (RFC 7672).
    #[n(3)]
    Dane,
    /// Required by the sender (RFC 8689) or by the route's configuration.
    #[n(4)]
    Required,
}

impl TlsMode {
    /// The name in metrics and commands.
    pub fn name(self) -> &'static str {
        match self {
            TlsMode::None => "none",
            TlsMode::Opportunistic => "opportunistic",
            TlsMode::MtaSts => "mta-sts",
            TlsMode::Dane => "dane",
            TlsMode::Required => "required",
        }
    }
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

/// Where the time of an attempt went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timing {
    /// Opening the connection, greeting and TLS included; zero for a connection that was open.
    pub connect: Duration,
    /// From MAIL to the reply to the end of the message.
    pub transaction: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_bounded_and_printable() {
        let reply = Reply::status(550, (5, 1, 1), "no\r\nsuch\u{7f}user").with_line("x".repeat(100_000));
        let kept = PeerReply::new(&reply);
        assert_eq!(kept.text.chars().count(), REPLY_TEXT_CHARS);
        assert!(kept.text.starts_with("no??such?user xxx"));
        let failure = Failure::new(Reason::RecipientRefused, "mx.example").with_reply(kept);
        assert!(failure.permanent);
        let line = failure.to_string();
        assert!(
            line.starts_with("the server refused the recipient (mx.example): 550 5.1.1 no??such"),
            "{line}"
        );
    }

    #[test]
    fn failures_survive_storage() {
        let reply = PeerReply::new(&Reply::status(451, (4, 7, 1), "later"));
        for reason in [Reason::NoSuchDomain, Reason::TimedOut(Step::MessageEnd), Reason::BadDestination] {
            for failure in [Failure::new(reason, ""), Failure::new(reason, "h").with_reply(reply.clone())] {
                let bytes = minicbor::to_vec(&failure).unwrap();
                assert_eq!(minicbor::decode::<Failure>(&bytes).unwrap(), failure);
            }
        }
    }

    #[test]
    fn a_second_route_helps_against_policy_only() {
        let refused = |code, enhanced: (u8, u16, u16)| {
            let reply = PeerReply::new(&Reply::status(code, enhanced, "x"));
            Failure::new(Reason::RecipientRefused, "h").with_reply(reply).concerns_route()
        };
        assert!(refused(550, (5, 7, 1)));
        assert!(!refused(550, (5, 1, 1)));
        assert!(Failure::new(Reason::GreetingRefused, "h").concerns_route());
        assert!(!Failure::new(Reason::NullMx, "h").concerns_route());
    }
}
