//! Authorized URLs: the commands of RFC 4467 §7. [`crate::url`] parses the URLs.

use super::mailbox::Mailbox;
use super::string::{AString, Atom};

/// A client's command about authorized URLs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UrlCommand {
    /// `GENURLAUTH`: URLs that end in an access identifier, each with the mechanism that is to
    /// vouch for it; 1 to `limits::IMAP_URLS`.
    Generate(Vec<(AString, Atom)>),
    /// `URLFETCH`: 1 to `limits::IMAP_URLS` URLs.
    Fetch(Vec<AString>),
    /// `RESETKEY`: a mailbox and the mechanisms that it is to have a new key for; `None`: no
    /// mailbox has a key any more.
    ResetKey(Option<(Mailbox, Vec<Atom>)>),
}

impl UrlCommand {
    /// The command's name.
    pub fn name(&self) -> &'static str {
        match self {
            UrlCommand::Generate(_) => "GENURLAUTH",
            UrlCommand::Fetch(_) => "URLFETCH",
            UrlCommand::ResetKey(_) => "RESETKEY",
        }
    }
}
