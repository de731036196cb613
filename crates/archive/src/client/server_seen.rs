//! [`ServerSeen`]: whether a server ever answered.
//!
//! A server that greeted once and is gone comes back, and is worth minutes of waiting. If none ever
//! greeted, the name, the port or the kind of TLS is probably wrong, and the user waits for the
//! answer: a few quick tries, then an error that says what to check and is not retried
//! ([`super::Backoff`]).

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sealpost_base::{Error, Kind};

use super::peer_fault::{PeerFault, peer_fault};

/// Whether a server has greeted since the run began; the same for all clones.
#[derive(Debug, Clone, Default)]
pub struct ServerSeen(Arc<AtomicBool>);

impl ServerSeen {
    /// It has greeted.
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it has.
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Why a server that never greeted was not reached.
#[derive(Debug)]
struct Unreached(Error);

impl fmt::Display for Unreached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for Unreached {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source()
    }
}

/// The error for a server that has never greeted. An error that states its own cause stays as it
/// is.
pub(super) fn unreached(host: &str, port: u16, error: Error) -> Error {
    if error.kind() != Kind::Retry {
        return error;
    }
    let why = if peer_fault(&error) == Some(PeerFault::ProtocolViolation) {
        format!("the server at {host} port {port} does not speak IMAP: check the port and --tls")
    } else {
        format!(
            "cannot reach an IMAP server at {host} port {port}: check the name, the port, --tls, the server \
             and firewalls"
        )
    };
    Error::retry(why).with_source(Unreached(error))
}

/// Whether the error is that a server never greeted: waiting does not help.
pub(super) fn is_unreached(error: &Error) -> bool {
    error.source().is_some_and(|source| source.is::<Unreached>())
}
