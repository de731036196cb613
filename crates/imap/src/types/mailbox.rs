//! [`Mailbox`]: a mailbox name, decoded.

use std::fmt;

use sealpost_base::limits;

/// What separates the levels of a mailbox name.
pub const HIERARCHY_DELIMITER: char = '/';

/// A mailbox name in UTF-8 (not modified UTF-7): no control characters, at most
/// [`limits::MAILBOX_NAME_BYTES`] bytes. A first level that is INBOX in any case is written `INBOX`
/// (RFC 3501 §5.1), so that two names are the same mailbox exactly if they are equal. May be empty and may end in
/// the delimiter, as CREATE's may (RFC 3501 §6.3.3): such names parse, and name no existing mailbox.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mailbox(Box<str>);

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
            return Ok(Mailbox(format!("{}{}", Self::INBOX, &name[first.len()..]).into()));
        }
        Ok(Mailbox(name.into()))
    }

    /// INBOX.
    pub fn inbox() -> Self {
        Mailbox(Self::INBOX.into())
    }

    /// Whether this is INBOX itself.
    pub fn is_inbox(&self) -> bool {
        &*self.0 == Self::INBOX
    }

    /// The name in UTF-8.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
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
