//! [`Transport`]: how a connection reached the server.

use std::net::IpAddr;

/// How a connection reached the server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transport {
    /// The peer's address; `None` on a Unix socket.
    pub(crate) peer: Option<IpAddr>,
    pub(crate) is_tls: bool,
}
