//! Commands (RFC 5321 §4.1.1 and the extensions named in the crate's root).

use std::fmt;

use zeroize::Zeroizing;

use super::{ForwardPath, Host, ReversePath};

/// One command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// EHLO, HELO or LHLO.
    Hello(Hello),
    /// MAIL FROM: a transaction begins.
    Mail(Mail),
    /// RCPT TO: one more recipient.
    Rcpt(Rcpt),
    /// DATA: the message follows once the server agreed.
    Data,
    /// BDAT: a chunk of the message follows at once (RFC 3030 §2).
    Bdat(Chunk),
    /// BURL: a chunk of the message is at a URL (RFC 4468).
    Burl(Burl),
    /// RSET: the transaction ends without a message.
    Rset,
    /// NOOP, its argument dropped.
    Noop,
    /// QUIT.
    Quit,
    /// VRFY with the string to verify.
    Vrfy(String),
    /// EXPN with the string to expand.
    Expn(String),
    /// HELP, perhaps with a topic.
    Help(Option<String>),
    /// STARTTLS (RFC 3207).
    StartTls,
    /// AUTH (RFC 4954).
    Auth(Auth),
}

impl Command {
    /// The command's name.
    pub fn name(&self) -> &'static str {
        match self {
            Command::Hello(Hello { verb: Verb::Helo, .. }) => "HELO",
            Command::Hello(Hello { verb: Verb::Ehlo, .. }) => "EHLO",
            Command::Hello(Hello { verb: Verb::Lhlo, .. }) => "LHLO",
            Command::Mail(_) => "MAIL",
            Command::Rcpt(_) => "RCPT",
            Command::Data => "DATA",
            Command::Bdat(_) => "BDAT",
            Command::Burl(_) => "BURL",
            Command::Rset => "RSET",
            Command::Noop => "NOOP",
            Command::Quit => "QUIT",
            Command::Vrfy(_) => "VRFY",
            Command::Expn(_) => "EXPN",
            Command::Help(_) => "HELP",
            Command::StartTls => "STARTTLS",
            Command::Auth(_) => "AUTH",
        }
    }
}

/// The first command of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The command.
    pub verb: Verb,
    /// The name that the client gives itself.
    pub name: ClientName,
}

/// The three ways to open a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// SMTP without extensions.
    Helo,
    /// SMTP with extensions.
    Ehlo,
    /// LMTP (RFC 2033 §4.1).
    Lhlo,
}

/// The name that a client gives itself. It proves nothing: it only goes into the log and the trace field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientName {
    /// A domain or an address literal, as it should be.
    Host(Host),
    /// Something else without spaces or control characters, such as `my_laptop`: common enough that refusing
    /// it would refuse mail (RFC 5321 §4.1.4 forbids to refuse a name for not matching the address).
    Odd(OddName),
}

/// A client name that is no host name: 1 to 255 graphic ASCII characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OddName(String);

impl ClientName {
    /// The name from a command's argument; `None` if it is empty, too long, or not graphic ASCII
    /// (RFC 6531 §3.7.1: names given here are ASCII).
    pub fn new(text: &str) -> Option<Self> {
        if text.is_empty() || text.len() > 255 || !text.bytes().all(|b| b.is_ascii_graphic()) {
            return None;
        }
        let literal = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let host = match literal {
            Some(inner) => Host::literal(inner),
            None => Host::domain(text),
        };
        Some(host.map_or_else(|| ClientName::Odd(OddName(text.to_owned())), ClientName::Host))
    }
}

impl fmt::Display for ClientName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientName::Host(host) => host.fmt(f),
            ClientName::Odd(name) => f.write_str(&name.0),
        }
    }
}

/// MAIL FROM with its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    /// The address for reports of failures.
    pub from: ReversePath,
    /// SIZE: the bytes the client expects to send (RFC 1870 §6); larger than `u64` becomes `u64::MAX`.
    pub size: Option<u64>,
    /// BODY (RFC 6152, RFC 3030).
    pub body: Option<Body>,
    /// SMTPUTF8 (RFC 6531 §3.4).
    pub utf8: bool,
    /// RET (RFC 3461 §4.3).
    pub ret: Option<Return>,
    /// ENVID, decoded (RFC 3461 §4.4).
    pub envid: Option<String>,
    /// AUTH, decoded; empty stands for `<>` (RFC 4954 §5). It proves nothing.
    pub auth: Option<String>,
    /// REQUIRETLS (RFC 8689 §3).
    pub require_tls: bool,
    /// HOLDFOR or HOLDUNTIL (RFC 4865 §5).
    pub hold: Option<Hold>,
}

impl Mail {
    /// `MAIL FROM:<from>` without parameters.
    pub fn new(from: ReversePath) -> Self {
        Mail {
            from,
            size: None,
            body: None,
            utf8: false,
            ret: None,
            envid: None,
            auth: None,
            require_tls: false,
            hold: None,
        }
    }
}

/// When a message may leave at the earliest (RFC 4865 §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// HOLDFOR: so many seconds after it was accepted, at most [`HOLD_SECONDS`].
    For(u32),
    /// HOLDUNTIL: that moment, in seconds since 1970 (UTC).
    Until(i64),
}

/// The longest HOLDFOR that the grammar allows: nine digits.
pub const HOLD_SECONDS: u32 = 999_999_999;

/// The kind of bytes in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// `7BIT`
    SevenBit,
    /// `8BITMIME`
    EightBitMime,
    /// `BINARYMIME`: any bytes, by BDAT only (RFC 3030 §3).
    BinaryMime,
}

/// How much of the message a failure report should hold (RFC 3461 §4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Return {
    /// The whole message.
    Full,
    /// Its header only.
    Headers,
}

/// RCPT TO with its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rcpt {
    /// The address of the recipient.
    pub to: ForwardPath,
    /// NOTIFY (RFC 3461 §4.1).
    pub notify: Option<Notify>,
    /// ORCPT (RFC 3461 §4.2).
    pub orcpt: Option<OriginalRecipient>,
}

impl Rcpt {
    /// `RCPT TO:<to>` without parameters.
    pub fn new(to: ForwardPath) -> Self {
        Rcpt { to, notify: None, orcpt: None }
    }
}

/// When to report on a recipient (RFC 3461 §4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notify {
    /// Never; stands alone.
    Never,
    /// In the named cases, at least one of which is set.
    On {
        /// Delivered.
        success: bool,
        /// Failed.
        failure: bool,
        /// Delayed.
        delay: bool,
    },
}

/// The address the sender wrote first (RFC 3461 §4.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginalRecipient {
    /// `addr-type`, such as `rfc822`.
    pub kind: String,
    /// The address, decoded from xtext.
    pub address: String,
}

/// BDAT's arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// Bytes that follow the command line.
    pub size: u64,
    /// Whether it is the last of the message.
    pub last: bool,
}

/// BURL's arguments (RFC 4468 §3.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Burl {
    /// The URL of the chunk, as the client wrote it: graphic ASCII.
    pub url: String,
    /// Whether it is the last of the message.
    pub last: bool,
}

/// AUTH's arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Auth {
    /// The SASL mechanism, upper case.
    pub mechanism: String,
    /// The initial response, still in base64; `=` stands for an empty one (RFC 4954 §4).
    pub initial: Option<Secret>,
}

/// A secret from the wire: overwritten when dropped, never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// A secret with that text.
    pub fn new(text: &str) -> Self {
        Secret(Zeroizing::new(text.to_owned()))
    }

    /// The secret itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}
