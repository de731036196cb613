//! [`PeerFault`]: the fault of a server, which decides how often and how soon to retry
//! ([`super::Backoff`]).

use std::error::Error as StdError;
use std::fmt;

use sealpost_base::Error;

/// What a server did that ended a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PeerFault {
    /// It sent what no IMAP server sends, or too much. It will hardly be better in a minute.
    ProtocolViolation,
    /// It sent nothing, or next to nothing, while it owed an answer. Each attempt costs minutes of
    /// waiting.
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

/// An error about a server that violates the protocol.
pub(super) fn protocol_violation(why: impl Into<String>) -> Error {
    Error::retry(why).with_source(PeerFault::ProtocolViolation)
}

/// An error about a silent server.
pub(super) fn silent(why: impl Into<String>) -> Error {
    Error::retry(why).with_source(PeerFault::Silent)
}

/// The server's fault, if the error is about one.
pub(super) fn peer_fault(error: &Error) -> Option<PeerFault> {
    StdError::source(error)?.downcast_ref::<PeerFault>().copied()
}
