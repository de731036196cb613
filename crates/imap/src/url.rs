//! IMAP URLs of messages and their parts (RFC 5092), relative and absolute, with the authorization
//! of RFC 4467.
//!
//! URLs of servers, mailboxes and searches are refused: no command here takes them. Strict, as a
//! signed URL must have one meaning: characters that have to be percent-encoded are, parameters
//! stand in their order, once.

mod message;
mod path;
mod server;
#[cfg(test)]
mod tests;

use std::num::NonZeroU32;

use sealpost_base::{Timestamp, limits};

use crate::types::{Mailbox, Partial, Section};

/// A URL of a message or of a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImapUrl {
    /// The server; `None`: the URL is relative, and begins with `/`.
    pub server: Option<UrlServer>,
    /// The mailbox.
    pub mailbox: Mailbox,
    /// The required UIDVALIDITY.
    pub uid_validity: Option<NonZeroU32>,
    /// The message.
    pub uid: NonZeroU32,
    /// The part of it; all of it by default.
    pub section: Section,
    /// The bytes of that. One without a length means up to the end.
    pub partial: Option<Partial>,
    /// The authorization of the URL, and its expiry.
    pub auth: Option<UrlAuth>,
}

/// `iserver` (RFC 5092 §11).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlServer {
    /// The user in whose naming scope the mailbox is (RFC 5092 §3.1).
    pub user: Option<String>,
    /// The host, lower case.
    pub host: String,
    /// The port, if there is one.
    pub port: Option<u16>,
}

/// `iurlauth`, or `iurlauth-rump` without a token (RFC 4467 §3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlAuth {
    /// The last moment at which the URL is good.
    pub expire: Option<Timestamp>,
    /// The users who may use it.
    pub access: Access,
    /// How many bytes of the URL the token is made for: up to, not including, `:mechanism:token`
    /// (RFC 4467 §6).
    pub rump: usize,
    /// Mechanism and token.
    pub token: Option<UrlToken>,
}

/// The token that authorizes a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlToken {
    /// The mechanism, upper case.
    pub mechanism: String,
    /// The token: at least 16 bytes.
    pub token: Vec<u8>,
}

/// The access identifier (RFC 4467 §3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// `anonymous`: every client.
    Anonymous,
    /// `authuser`: every user who has logged in.
    AuthUser,
    /// `user+`: that user.
    User(String),
    /// `submit+`: a message submission entity, on behalf of that user.
    Submit(String),
}

/// Why something is no URL of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidUrl(pub &'static str);

impl ImapUrl {
    /// The URL that `text` is.
    ///
    /// # Errors
    /// If it is none, names no message, is longer than [`limits::IMAP_URL_BYTES`], or is a relative
    /// path that does not begin with `/` (RFC 5092 §7.2).
    pub fn parse(text: &[u8]) -> Result<Self, InvalidUrl> {
        if text.len() > limits::IMAP_URL_BYTES {
            return Err(InvalidUrl("the URL is too long"));
        }
        let text = std::str::from_utf8(text).map_err(|_| InvalidUrl("the URL is not ASCII"))?;
        if text.bytes().any(|byte| !is_url_byte(byte)) {
            return Err(InvalidUrl("the URL has characters that must be encoded"));
        }
        let (server, path) = server::split(text)?;
        let mut url = message::parse(path)?;
        if let Some(auth) = &mut url.auth {
            auth.rump += text.len() - path.len();
        }
        url.server = server;
        Ok(url)
    }
}

/// Everything that may stand in a message's URL: `bchar`, `;`, and the brackets of an IPv6 host.
fn is_url_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$'()*+,&=:@/%;[]".contains(&byte)
}

/// Undoes percent-encoding; the result must be UTF-8 without NUL.
fn decoded(text: &str) -> Result<String, InvalidUrl> {
    let wrong = InvalidUrl("a percent sign must be followed by two digits");
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        let (Some(high), Some(low)) = (digit(), digit()) else { return Err(wrong) };
        out.push((high << 4 | low) as u8);
    }
    if out.contains(&0) {
        return Err(InvalidUrl("NUL in a URL"));
    }
    String::from_utf8(out).map_err(|_| InvalidUrl("the URL is not UTF-8"))
}
