//! [`Server`]: where a server is, how to talk to it, and as whom.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use sealpost_base::Result;
use sealpost_imap::types::Secret;

use super::ServerSeen;
use crate::backup::Source;

/// When TLS begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Security {
    /// Never. Every host on the network path can read mail and password.
    None,
    /// After STARTTLS (RFC 3501 §6.2.1); servers without it are refused.
    StartTls,
    /// From the first byte (RFC 8314 §3).
    Implicit,
}

/// Whether to compress (RFC 4978).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compress {
    /// Where the server is not in the same network: there the network is slower than the
    /// processors.
    #[default]
    Auto,
    /// If the server can.
    Always,
    /// Not at all.
    Never,
}

/// A secret that authenticates the user.
#[derive(Debug, Clone)]
pub enum Credential {
    /// A password: PLAIN (RFC 4616) or LOGIN.
    Password(Secret),
    /// An OAuth 2.0 access token: OAUTHBEARER (RFC 7628) or XOAUTH2.
    Token(Secret),
}

/// Where credentials come from. Asked again for every connection: tokens expire.
pub trait Credentials: Send + Sync {
    /// A credential that is good now.
    ///
    /// The error of its source.
    /// As the source of it says.
    fn credential(&self) -> Pin<Box<dyn Future<Output = Result<Credential>> + Send + '_>>;
}

/// A credential that does not change.
impl Credentials for Credential {
    fn credential(&self) -> Pin<Box<dyn Future<Output = Result<Credential>> + Send + '_>> {
        Box::pin(std::future::ready(Ok(self.clone())))
    }
}

/// How long to wait for a server, and before a retry.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// For TCP before the server has greeted for the first time, all tries together; for TLS and
    /// the greeting then, twice that.
    pub first: Duration,
    /// For a connection, its TLS included.
    pub connect: Duration,
    /// For the greeting, and for answers until the login.
    pub greeting: Duration,
    /// For the next byte while the server owes an answer.
    pub answer: Duration,
    /// For the next byte of an answer that has begun, and for the next
    /// [`sealpost_base::limits::ARCHIVE_PACE_BYTES`] of it.
    pub within: Duration,
    /// Before the second attempt; before later ones longer ([`super::Backoff`]).
    pub retry: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        // Servers have been seen to take minutes for the SELECT of a large mailbox.
        Timeouts {
            first: Duration::from_secs(5),
            connect: Duration::from_secs(30),
            greeting: Duration::from_secs(60),
            answer: Duration::from_secs(300),
            within: Duration::from_secs(120),
            retry: Duration::from_secs(1),
        }
    }
}

/// A server and the account there.
#[derive(Clone)]
pub struct Server {
    /// Its name or address; certificates are checked against it.
    pub host: String,
    /// The TCP port.
    pub port: u16,
    /// When TLS begins.
    pub security: Security,
    /// Which certificates are trusted.
    pub tls: Arc<ClientConfig>,
    /// The account's name.
    pub user: String,
    /// The credentials of the account.
    pub credentials: Arc<dyn Credentials>,
    /// Whether to compress.
    pub compress: Compress,
    /// How long to wait for a server, and before a retry.
    pub timeouts: Timeouts,
    /// Whether it has greeted in this run.
    pub reached: ServerSeen,
}

impl Server {
    /// The account, as backups record it.
    pub fn source(&self) -> Source {
        Source { host: self.host.to_ascii_lowercase(), user: self.user.clone() }
    }
}

impl std::fmt::Display for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {} port {}", self.user, self.host, self.port)
    }
}
