//! [`PeerFault`]: what a server does wrong, as far as that says how often, and how soon, to try again ([`super::Backoff`]).

use std::error::Error as StdError;
use std::fmt;

use sealpost_base::Error;

/// What a server did that ended a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PeerFault {
    /// It said what no IMAP server says, or more than anybody can take. It will hardly be better in a minute.
    ProtocolViolation,
    /// It said nothing, or next to nothing, while it owed something. Each attempt costs minutes of waiting.
    Silent,
}

impl fmt::Display for PeerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PeerFault::ProtocolViolation => "this violates the IMAP protocol",
            PeerFault::Silent => "the server may be overloaded, or the network drops its data",
        })
    }
}

impl StdError for PeerFault {}

/// An error about a server that talks as none does.
pub(super) fn protocol_violation(why: impl Into<String>) -> Error {
    Error::retry(why).with_source(PeerFault::ProtocolViolation)
}

/// An error about a server that does not talk.
pub(super) fn silent(why: impl Into<String>) -> Error {
    Error::retry(why).with_source(PeerFault::Silent)
}

/// What the server did, if the error is about that.
pub(super) fn peer_fault(error: &Error) -> Option<PeerFault> {
    StdError::source(error)?.downcast_ref::<PeerFault>().copied()
}
