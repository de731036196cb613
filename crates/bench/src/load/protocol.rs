//! The protocols of clients.

/// A protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// RFC 3501, RFC 9051.
    Imap,
    /// RFC 5321.
    Smtp,
    /// RFC 2033.
    Lmtp,
    /// RFC 6409.
    Submission,
    /// RFC 8620, RFC 8621.
    Jmap,
}

impl Protocol {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Imap => "imap",
            Protocol::Smtp => "smtp",
            Protocol::Lmtp => "lmtp",
            Protocol::Submission => "submission",
            Protocol::Jmap => "jmap",
        }
    }
}
