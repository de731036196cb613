//! Errors in commands, and the reply to each: one table.

use super::{Enhanced, Reply};

/// Why a line is no command. The session continues after each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misuse {
    /// No such command.
    Unrecognized,
    /// A command that exists and is deliberately not offered.
    NotImplemented,
    /// The arguments are wrong; the text says how.
    Arguments(&'static str),
    /// The address in MAIL is invalid.
    Sender,
    /// The address in RCPT is invalid.
    Recipient,
    /// A parameter of MAIL or RCPT that was not offered.
    Parameter,
    /// The line is longer than the limit.
    LineTooLong,
    /// The line holds a bare CR or LF, which do not end a line (RFC 5321 §2.3.8).
    LineEnd,
    /// The line holds other control characters, or is not UTF-8.
    Characters,
}

impl Misuse {
    /// The reply (RFC 5321 §4.2.2, §4.3.2; enhanced codes RFC 3463 §3.6).
    pub fn reply(self) -> Reply {
        let (code, enhanced, text) = match self {
            Misuse::Unrecognized => (500, (5, 5, 1), "Command not recognized"),
            // RFC 5321 §4.2.4: 502 for a command that is recognized and not implemented.
            Misuse::NotImplemented => (502, (5, 5, 1), "Command not implemented"),
            Misuse::Arguments(text) => (501, (5, 5, 4), text),
            Misuse::Sender => (501, (5, 1, 7), "That is not a sender address"),
            Misuse::Recipient => (501, (5, 1, 3), "That is not a recipient address"),
            // RFC 5321 §4.1.1.11
            Misuse::Parameter => (555, (5, 5, 4), "Parameter not recognized"),
            // RFC 5321 §4.5.3.1.9
            Misuse::LineTooLong => (500, (5, 5, 6), "Line too long"),
            Misuse::LineEnd => (500, (5, 5, 2), "Lines end with CRLF, and hold no other CR or LF"),
            Misuse::Characters => (500, (5, 5, 2), "Line holds characters that no command can"),
        };
        Reply::new(code, text).with_enhanced(Enhanced::new(enhanced.0, enhanced.1, enhanced.2))
    }
}
