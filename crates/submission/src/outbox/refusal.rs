//! Why the outbox refuses a message.

use std::fmt;

use sealpost_base::Error;

use super::LimitReached;
use crate::header::Fault;

/// Why a message, its sender or a recipient is refused.
#[derive(Debug)]
pub enum Refusal {
    /// The account may not send as this address.
    Sender(String),
    /// The header cannot be sent.
    Header(Fault),
    /// The message has more bytes than this.
    TooLarge(u64),
    /// It has passed too many servers.
    Loop,
    /// The account has sent too much. Temporary.
    Limit(LimitReached),
    /// There is no memory for so large a header now. Temporary.
    NoMemory,
    /// The message could not be stored, or its sender not be looked up. Temporary.
    Store(Error),
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Refusal::Header(fault)
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Refusal::Store(error)
    }
}

impl From<LimitReached> for Refusal {
    fn from(reached: LimitReached) -> Self {
        Refusal::Limit(reached)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Sender(address) => write!(f, "the account may not send as {address}"),
            Refusal::Header(fault) => f.write_str(match fault {
                Fault::TooLarge => "the header is too large",
                Fault::NoFrom => "the message has no From address",
                Fault::Repeated => "the message has several From or Sender fields",
                Fault::Unreadable => "From or Sender has something that is no address",
            }),
            Refusal::TooLarge(limit) => write!(f, "the message is larger than {limit} bytes"),
            Refusal::Loop => f.write_str("the message has passed too many servers"),
            Refusal::Limit(reached) => reached.fmt(f),
            Refusal::NoMemory => f.write_str("not enough memory for so large a header"),
            Refusal::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Refusal {}
