//! Reasons of failures, in words for operators and in codes for reports.

use std::fmt;

use minicbor::{Decode, Encode};
use sealpost_smtp::types::Enhanced;

use super::Scope;

/// A step of a delivery that waits for a remote server.
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

/// The reason of a failure, in words that an operator can act on.
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
    /// The peer does not speak SMTP, or sends a reply beyond its limit.
    #[n(10)]
    ProtocolViolation(#[n(0)] Step),
    /// The server refused this client at the greeting or EHLO.
    #[n(11)]
    GreetingRefused,
    /// The server refused MAIL.
    #[n(12)]
    SenderRefused,
    /// The server refused RCPT.
    #[n(13)]
    RecipientRefused,
    /// The server refused DATA or the message.
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
    /// The connection does not meet the demands of this message; another connection may.
    #[n(25)]
    WrongConnection,
    /// The whole attempt took longer than its bound.
    #[n(26)]
    TooSlow,
    /// Mail cannot be sent to the address of the destination.
    #[n(27)]
    BadDestination,
    /// The sender demands REQUIRETLS, and neither DNSSEC nor MTA-STS proves which servers the
    /// domain has (RFC 8689 §4.2.1).
    #[n(28)]
    MxNotAuthenticated,
    /// DNS leads to an address that is not on the internet.
    #[n(29)]
    PrivateAddress,
}

impl Reason {
    /// Scope and permanence, unless the reply of a server says otherwise.
    pub(super) fn rule(self) -> (Scope, bool) {
        match self {
            // RFC 5321 §5.1, RFC 7505 §3: permanent by DNS.
            Reason::NoSuchDomain | Reason::NullMx | Reason::MailLoop | Reason::BadDestination => {
                (Scope::Site, true)
            }
            // RFC 5321 §5.1: "no records ... MUST be treated as permanent" holds for the domain
            // without MX and address.
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
            Reason::TooLarge
            | Reason::RequireTlsLacking
            | Reason::MxNotAuthenticated
            | Reason::SmtpUtf8Lacking => (Scope::Message, true),
            Reason::PrivateAddress => (Scope::Site, true),
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
            Reason::NoAddress | Reason::PrivateAddress => (4, 4),
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
            Reason::RequireTlsLacking | Reason::MxNotAuthenticated => (7, 30),
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
            Reason::MxNotAuthenticated => {
                "the sender requires TLS, and nothing proves which servers the domain has"
            }
            Reason::PrivateAddress => "DNS names an address that is not on the internet",
            Reason::BadDestination => "mail cannot be sent to this kind of address",
        })
    }
}
