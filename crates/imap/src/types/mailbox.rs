//! [`Mailbox`]: a mailbox name, decoded.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use sealpost_base::limits;

/// Separates the levels of a mailbox name.
pub const HIERARCHY_DELIMITER: char = '/';

/// A mailbox name in UTF-8 (not modified UTF-7): no control characters, at most
/// [`limits::MAILBOX_NAME_BYTES`] bytes. A first level that is INBOX in any case is written `INBOX`
/// (RFC 3501 §5.1), so that two names are the same mailbox exactly if they are equal. May be empty
/// and may end in the delimiter, as CREATE's may (RFC 3501 §6.3.3): such names parse, and name no
/// existing mailbox.
#[derive(Clone)]
pub struct Mailbox {
    name: Box<str>,
    /// How it was written, if that was another way.
    given: Option<Box<str>>,
}

/// Why a name cannot be a mailbox name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidMailbox {
    /// A control character.
    Control,
    /// Longer than [`limits::MAILBOX_NAME_BYTES`] bytes.
    TooLong,
    /// Neither modified UTF-7 (RFC 3501 §5.1.3) nor UTF-8.
    Encoding,
}

impl Mailbox {
    /// INBOX.
    pub const INBOX: &'static str = "INBOX";

    /// A name from its UTF-8 form.
    pub fn new(name: &str) -> Result<Self, InvalidMailbox> {
        if name.len() > limits::MAILBOX_NAME_BYTES {
            return Err(InvalidMailbox::TooLong);
        }
        if name.chars().any(char::is_control) {
            return Err(InvalidMailbox::Control);
        }
        let first = name.split(HIERARCHY_DELIMITER).next().unwrap_or(name);
        if first.eq_ignore_ascii_case(Self::INBOX) && first != Self::INBOX {
            let inbox = format!("{}{}", Self::INBOX, &name[first.len()..]).into();
            return Ok(Mailbox { name: inbox, given: Some(name.into()) });
        }
        Ok(Mailbox { name: name.into(), given: None })
    }

    /// INBOX.
    pub fn inbox() -> Self {
        Mailbox { name: Self::INBOX.into(), given: None }
    }

    /// Whether this is INBOX itself.
    pub fn is_inbox(&self) -> bool {
        &*self.name == Self::INBOX
    }

    /// The name in UTF-8.
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// The name as it was written: `inbox`. A server reports a name that it changed (RFC 9051
    /// §6.3.9.7); two names that differ in nothing else are equal.
    pub fn given(&self) -> &str {
        self.given.as_deref().unwrap_or(&self.name)
    }
}

impl PartialEq for Mailbox {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Mailbox {}

impl PartialOrd for Mailbox {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Mailbox {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name.cmp(&other.name)
    }
}

impl Hash for Mailbox {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl fmt::Display for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.name, f)
    }
}

impl fmt::Display for InvalidMailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InvalidMailbox::Control => "control character in a mailbox name",
            InvalidMailbox::TooLong => "mailbox name is too long",
            InvalidMailbox::Encoding => "mailbox name is not valid modified UTF-7",
        })
    }
}

impl std::error::Error for InvalidMailbox {}
